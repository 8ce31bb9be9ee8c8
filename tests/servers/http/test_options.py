"""What the command is told about HTTP, and who may come in: rules without I/O."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.secret import Secret
from glyphoxa_trio.servers.http.access import (
    host_allowed,
    origin_allowed,
    principal,
    refusal,
)
from glyphoxa_trio.servers.http.bucket import MOST_BUCKETS, Bucket, Buckets, whose
from glyphoxa_trio.servers.http.limits import Access
from glyphoxa_trio.servers.http.options import (
    HttpOptions,
    add_options,
    http_options,
    is_loopback,
    parse_address,
    refuse_options,
)


def parsed(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_options(parser)
    return parser.parse_args(arguments)


def options(*arguments: str, **environment: str) -> HttpOptions:
    return http_options(parsed(*arguments), environment)


def test_by_default_only_this_machine_is_served() -> None:
    # F4, F6
    told = options()
    assert (told.host, told.port, told.remote) == ("localhost", 8081, False)
    assert told.access.hosts == {"localhost", "127.0.0.1", "[::1]"}
    assert told.access.tokens == ()
    limits = told.limits
    assert (limits.body, limits.sessions, limits.session_idle) == (2**20, 256, 1800)
    assert (limits.rate, limits.drain) == (None, 5.0)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost:8081", ("localhost", 8081)),
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("[::1]:9", ("::1", 9)),
        (":80", ("0.0.0.0", 80)),
    ],
)
def test_an_address_is_a_host_and_a_port(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize(
    "text", ["", "localhost", "8081", "localhost:", "a:b", "::1:80", "a:70000", "a:-1"]
)
def test_what_is_no_address_is_named(text: str) -> None:
    with pytest.raises(ValueError, match=r"^--http-addr"):
        parse_address(text)


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["--http-addr", "0.0.0.0:1"], r"--allow-remote and a token"),
        (["--http-addr", ":1"], r"--allow-remote and a token"),
        (["--http-addr", "192.0.2.7:1"], r"--allow-remote and a token"),
        (["--http-addr", "[::]:1"], r"--allow-remote and a token"),
        (["--http-addr", "0.0.0.0:1", "--allow-remote"], r"needs a token"),
        (["--tls-cert", "a"], r"one needs the other"),
        (["--tls-key", "a"], r"one needs the other"),
        (["--rate-limit", "-1"], r"--rate-limit -1"),
        (["--rate-limit", "nan"], r"--rate-limit nan"),
        (["--max-body", "-1"], r"--max-body -1"),
        (["--max-sessions", "0"], r"--max-sessions 0"),
        (["--session-idle", "inf"], r"--session-idle inf"),
        (["--drain", "-1"], r"--drain -1"),
        (["--allow-host", "a.example:80"], r"--allow-host 'a.example:80'"),
        (["--allow-host", "http://a"], r"--allow-host 'http://a'"),
        (["--allow-origin", "a.example"], r"--allow-origin 'a.example'"),
        (["--allow-origin", "https://a/b"], r"--allow-origin 'https://a/b'"),
        (["--token-file", "/nowhere/at/all"], r"--token-file /nowhere/at/all: No such"),
    ],
)
def test_what_is_wrong_is_named(arguments: list[str], what: str) -> None:
    with pytest.raises(ValueError, match=what):
        options(*arguments)


def test_others_are_served_if_that_is_meant_and_they_show_a_token() -> None:
    told = options(
        *("--http-addr", "0.0.0.0:80", "--allow-remote"),
        *("--allow-host", "Dice.Example", "--allow-origin", "https://Table.example"),
        GLYPHOXA_SERVE_TOKEN=" sesame \n",
    )
    access = told.access
    assert told.remote
    assert access.hosts == {"0.0.0.0", "dice.example"}
    assert access.origins == {"https://table.example"}
    assert [token.reveal() for token in access.tokens] == ["sesame"]
    assert "sesame" not in repr(told)


def test_others_may_call_only_so_often_unless_that_is_meant() -> None:
    remote = ("--http-addr", "0.0.0.0:80", "--allow-remote")
    token = {"GLYPHOXA_SERVE_TOKEN": "t"}
    assert options(*remote, **token).limits.rate == 20
    assert options(*remote, "--rate-limit", "3", **token).limits.rate == 3
    assert options(*remote, "--rate-limit", "0", **token).limits.rate is None
    assert options("--rate-limit", "3").limits.rate == 3


def test_tokens_come_a_line_each(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text("one\n\n  two  \n")
    told = options("--token-file", str(file), GLYPHOXA_SERVE_TOKEN="other")
    assert [token.reveal() for token in told.access.tokens] == ["one", "two"]
    file.write_text("\n")
    with pytest.raises(ValueError, match="there is no token in it"):
        options("--token-file", str(file))
    file.write_text("one\nt w o\n")
    with pytest.raises(ValueError, match=r"^token 2: must be printable ASCII") as bad:
        options("--token-file", str(file))
    assert "t w o" not in str(bad.value)
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="not text"):
        options("--token-file", str(file))


def test_over_stdio_none_of_them_is_passed_over() -> None:
    refuse_options(parsed())
    with pytest.raises(ValueError, match=r"^--http-addr, --drain: only with"):
        refuse_options(parsed("--http-addr", "localhost:1", "--drain", "0"))


def test_loopback_is_told_by_the_text() -> None:
    assert all(map(is_loopback, ["localhost", "127.0.0.1", "127.9.9.9", "::1"]))
    assert not any(map(is_loopback, ["0.0.0.0", "::", "192.0.2.1", "localhost.evil"]))


LOCAL = options().access
REMOTE = options(
    "--http-addr", "0.0.0.0:80", "--allow-remote", "--allow-host", "a.example",
    GLYPHOXA_SERVE_TOKEN="t",
).access  # fmt: skip


@pytest.mark.parametrize(
    ("host", "local", "remote"),
    [
        ("localhost", True, False),
        ("LOCALHOST:1", True, False),
        ("127.0.0.1:8081", True, True),
        ("[::1]:8081", True, True),
        ("a.example", False, True),
        ("a.example:443", False, True),
        ("192.0.2.1", False, True),
        ("a.example.evil", False, False),
        ("evil", False, False),
        ("", False, False),
        ("localhost:x", False, False),
        ("localhost:80:80", False, False),
        ("[::1", False, False),
        ("localhost@evil", False, False),
    ],
)
def test_a_host_is_a_name_of_ours(host: str, local: bool, remote: bool) -> None:
    assert host_allowed(host, LOCAL) == local
    assert host_allowed(host, REMOTE) == remote


@pytest.mark.parametrize(
    ("origin", "allowed"),
    [
        ("http://localhost", True),
        ("http://localhost:5173", True),
        ("https://127.0.0.1", True),
        ("http://[::1]:1", True),
        ("null", False),
        ("", False),
        ("http://evil", False),
        ("http://localhost.evil", False),
        ("file://localhost", False),
        ("localhost", False),
    ],
)
def test_an_origin_is_a_page_of_this_machine(origin: str, allowed: bool) -> None:
    assert origin_allowed(origin, LOCAL) == allowed
    assert not origin_allowed(origin, REMOTE)


def test_an_origin_that_is_allowed_is_exact() -> None:
    access = Access(hosts=frozenset(), origins=frozenset({"https://a.example"}))
    assert origin_allowed("https://A.example", access)
    assert not origin_allowed("https://a.example:444", access)
    assert not origin_allowed("http://a.example", access)


TOKENS = Access(hosts=frozenset({"h"}), tokens=(Secret("one"), Secret("two")))


@pytest.mark.parametrize(
    ("shown", "who"),
    [
        ("Bearer one", "0"),
        ("bearer two ", "1"),
        ("Bearer  two", "1"),
        ("Bearer", None),
        ("Bearer on", None),
        ("Bearer one two", None),
        ("Basic one", None),
        ("one", None),
        ("", None),
        ("Bearer \xff", None),
    ],
)
def test_a_token_says_who_it_is(shown: str, who: str | None) -> None:
    headers = {"host": "h", "authorization": shown}
    assert principal(headers, TOKENS) == who
    refused = refusal(headers, TOKENS)
    assert (refused is None) == (who is not None)
    assert refused is None or refused.status == 401


@given(
    rate=st.floats(0.1, 1000),
    gaps=st.lists(st.floats(0, 3), max_size=60),
)
def test_never_more_than_the_rate_and_one_second_of_it(
    rate: float, gaps: list[float]
) -> None:
    bucket, now, through = Bucket(rate), 0.0, 0
    for gap in gaps:
        now += gap
        wait = bucket.take(now)
        if wait == 0:
            through += 1
        else:
            assert bucket.take(now + wait * 0.98) > 0
            now += wait
            assert bucket.take(now + 1e-6) == 0  # what was said holds
            now += 1e-6
            through += 1
        assert through <= max(1.0, rate) + now * rate + 1e-3


def test_strangers_are_counted_apart_and_the_oldest_forgotten() -> None:
    buckets = Buckets(1.0)
    first: Any = buckets.find("0")
    assert first.take(0.0) == 0
    assert buckets.find("0") is first
    for number in range(1, MOST_BUCKETS + 1):
        assert buckets.find(str(number)) is not first
    assert buckets.find("0") is not first
    assert Buckets(None).find("0") is None


@pytest.mark.parametrize(
    ("address", "client"),
    [
        ("10.0.0.7", "10.0.0.7"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("2001:db8:1:2::1", "2001:db8:1:2::"),
        ("2001:db8:1:2:ffff:ffff:ffff:ffff", "2001:db8:1:2::"),
        ("2001:db8:1:3::1", "2001:db8:1:3::"),
        ("fe80::1%eth0", "fe80::"),
        ("", ""),
        ("a socket", "a socket"),
    ],
)
def test_a_network_of_ipv6_is_one_client(address: str, client: str) -> None:
    assert whose(address) == client
