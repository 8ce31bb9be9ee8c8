"""Addresses of pages: what all programs read the same way, and nothing else."""

from __future__ import annotations

from contextlib import suppress
from urllib.parse import urlsplit

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.builtin.web.refusals import BadAddress
from glyphoxa_trio.builtin.web.urls import MAX_LENGTH, PageUrl, parse

# G14


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("http://example.org", "http://example.org/"),
        (" https://EXAMPLE.org:443/a?b#c ", "https://example.org/a?b"),
        ("HTTP://example.org:8080", "http://example.org:8080/"),
        ("http://example.org.:80/", "http://example.org/"),
        ("http://example.org:/x", "http://example.org/x"),
        ("http://example.org/a/../b/./c/..", "http://example.org/b/"),
        ("http://example.org/a/%2e%2E/b", "http://example.org/b"),
        ("http://example.org/../../x", "http://example.org/x"),
        ("http://example.org//a//b", "http://example.org//a//b"),
        ("http://example.org/ä b".replace(" ", ""), "http://example.org/%C3%A4b"),
        (
            "http://example.org/50%?q=100%&r=ä",
            "http://example.org/50%25?q=100%25&r=%C3%A4",
        ),
        ("http://example.org?", "http://example.org/?"),
        ("http://bücher.example/", "http://xn--bcher-kva.example/"),
        ("http://faß.example/", "http://xn--fa-hia.example/"),
        ("http://example。org/", "http://example.org/"),
        ("http://\uff18.\uff18.\uff18.\uff18/", "http://8.8.8.8/"),
        ("http://[2606:4700:0::1111]/", "http://[2606:4700::1111]/"),
        ("http://[::ffff:8.8.8.8]:81/", "http://[::ffff:808:808]:81/"),
        ("http://a_b.example/", "http://a_b.example/"),
    ],
)
def test_an_address_is_written_one_way(written: str, read: str) -> None:
    url = parse(written)
    assert str(url) == read
    assert parse(read) == url


@pytest.mark.parametrize(
    "written",
    [
        "",
        "example.org",
        "//example.org/",
        "ftp://example.org/",
        "file:///etc/passwd",
        "gopher://example.org/",
        "javascript:alert(1)",
        "http:/example.org",
        "http:example.org",
        "http:///example.org",
        "http://",
        "http://user@example.org/",
        "http://user:pass@example.org/",
        "http://example.org@127.0.0.1/",
        "http://127.0.0.1\\@example.org/",
        "http://example.org\\.evil/",
        "http://example.org/a\\b",
        "http://exa mple.org/",
        "http://exam\tple.org/",
        "http://example.org/a\nb",
        "http://example.org/\u2028",
        "http://example.org/\0",
        "http://example.org:0/",
        "http://example.org:65536/",
        "http://example.org:port/",
        "http://example.org:80:80/",
        "http://[::1/",
        "http://::1/",
        "http://[fe80::1%25eth0]/",
        "http://[fe80::1%eth0]/",
        "http://[example.org]/",
        "http://example%2eorg/",
        "http://exa!mple.org/",
        "http://.example.org/",
        "http://example..org/",
        "http://example.org../",
        "http://" + "a" * 64 + ".org/",
        "http://" + "a." * 130 + "org/",
        # The one address of this machine, as others read it.
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0x7f.1/",
        "http://017700000001/",
        "http://0177.0.0.1/",
        "http://127.1/",
        "http://127.0.1/",
        "http://127.0.0.1.5/",
        "http://127.0.0.256/",
        "http://127.0.0.01/",
        "http://1.2.3.0x/",
        "http://x.0x7f/",
        "http://\ud800.example/",
        "http://a\u200db.example/",
        "http://example.org/" + "a" * MAX_LENGTH,
    ],
)
def test_what_can_be_read_in_two_ways_is_refused(written: str) -> None:
    with pytest.raises(BadAddress) as caught:
        parse(written)
    said = str(caught.value)
    assert said.endswith(".")
    assert "pass" not in said.replace("password", "")


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("example.org", "must begin with http"),
        ("http://user:pass@example.org/", "a user or a password"),
        ("http://0x7f.1/", "not written as four numbers"),
        ("http://example.org:99999/", "no such port"),
        ("http://[::1%eth0]/", "not an IPv6 address"),
        ("http://exa%6dple.org/", "its host is not a valid name"),
    ],
)
def test_what_is_wrong_with_an_address_is_said(written: str, said: str) -> None:
    with pytest.raises(BadAddress, match=said):
        parse(written)


PIECES = st.sampled_from(
    [
        *("http://", "https://", "//", "/", "\\", ":", "@", "#", "?", "%", "[", "]"),
        *("127.0.0.1", "0x7f.1", "2130706433", "localhost", "example.org", "::1"),
        *(".", "..", "%2e", "%00", "\t", "\n", " ", "。", "\uff11", "ß", "xn--", ":80"),
        *("user", "pass", "a", "\u200b", "\ud800", "/../", "?q="),
    ]
)
WRITTEN = st.one_of(
    st.lists(PIECES, max_size=8).map("".join),
    st.lists(PIECES, max_size=6).map(lambda parts: "http://" + "".join(parts)),
    st.text(max_size=30).map(lambda text: "http://" + text),
    st.text(max_size=30),
)


@given(WRITTEN)
def test_what_is_taken_is_read_the_same_by_other_programs(written: str) -> None:
    try:
        url = parse(written)
    except BadAddress:
        return
    assert parse(str(url)) == url
    assert str(url).isascii()
    for text in (str(url), written.strip()):
        parts = urlsplit(text)
        assert parts.username is None
        if text.isascii():  # names in other letters are ours to translate
            host = (parts.hostname or "").removesuffix(".")
            assert (host == url.host.name) or url.host.address is not None
            assert (parts.port or {"http": 80, "https": 443}[url.scheme]) == url.port
    with suppress(httpx2.InvalidURL):
        other = httpx2.URL(str(url))
        assert other.raw_host.decode().strip("[]") == url.host.name
        assert other.scheme == url.scheme


@given(WRITTEN, st.sampled_from(["", "/", "../", "//", "?", "#", "http:", "\\\\"]))
def test_where_a_link_leads_is_checked_like_any_address(text: str, before: str) -> None:
    base = parse("https://example.org/dir/page?q")
    with suppress(BadAddress):
        led = base.joined(before + text)
        assert isinstance(led, PageUrl)
        assert parse(str(led)) == led


@pytest.mark.parametrize(
    ("reference", "led"),
    [
        ("other", "https://example.org/dir/other"),
        ("../other", "https://example.org/other"),
        ("//example.com", "https://example.com/"),
        ("?z", "https://example.org/dir/page?z"),
        ("http://example.org/", "http://example.org/"),
        ("#top", "https://example.org/dir/page?q"),
    ],
)
def test_a_link_leads_from_its_page(reference: str, led: str) -> None:
    assert str(parse("https://example.org/dir/page?q").joined(reference)) == led
