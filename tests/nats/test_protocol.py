"""The wire by itself: whatever way its bytes are split, the events are the same."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.nats.errors import PayloadTooLarge, ProtocolViolation
from glyphoxa_trio.nats.protocol import (
    MAX_LINE,
    MAX_RECEIVED,
    NatsEvent,
    NatsInfo,
    NatsMessage,
    ServerPing,
    ServerPong,
    ServerTrouble,
    WireReader,
    check_pattern,
    check_subject,
    publish,
    subscribe,
)

TOKENS = st.text(st.characters(codec="utf-8", categories=["L", "N", "S"]), min_size=1)
SUBJECTS = st.lists(
    TOKENS.filter(lambda token: not {">", "*"} & set(token)), min_size=1, max_size=3
).map(".".join)


@st.composite
def message(draw: st.DrawFn) -> tuple[bytes, NatsEvent]:
    subject, reply = draw(SUBJECTS), draw(st.just("") | SUBJECTS)
    sid, payload = draw(st.integers(0, 10**9)), draw(st.binary(max_size=40))
    names = f"{subject} {sid} {reply}".strip().encode()
    if draw(st.booleans()):
        line = b"MSG %b %d" % (names, len(payload))
        head = b""
    else:
        head = b"NATS/1.0\r\nA: 1\r\n\r\n"
        line = b"HMSG %b %d %d" % (names, len(head), len(head) + len(payload))
    data = line + b"\r\n" + head + payload + b"\r\n"
    return data, NatsMessage(subject, sid, reply, payload, head)


EVENTS = st.one_of(
    message(),
    st.just((b"PING\r\n", ServerPing())),
    st.just((b"PONG\r\n", ServerPong())),
    st.just((b"-ERR 'Slow Consumer'\r\n", ServerTrouble("Slow Consumer"))),
    st.just((b'INFO {"max_payload":7}\r\n', NatsInfo(max_payload=7))),
)


def read(data: bytes, cuts: list[int]) -> list[NatsEvent]:
    reader, found, at = WireReader(), [], 0
    for cut in [*sorted(x % (len(data) + 1) for x in cuts), len(data)]:
        found += reader.receive(data[at:cut])
        at = cut
    assert reader.is_between
    return found


@given(st.lists(EVENTS, max_size=6), st.lists(st.integers(0), max_size=8))
def test_bytes_split_anywhere_have_the_same_events(
    sent: list[tuple[bytes, NatsEvent]], cuts: list[int]
) -> None:
    data = b"+OK\r\n".join(one for one, _ in sent)
    expected = [event for _, event in sent]
    assert read(data, cuts) == expected
    assert read(data, [*range(len(data))]) == expected


@given(st.binary(max_size=200) | st.text("MSGHINFOP+-ERR 0123.'{}\r\n").map(str.encode))
def test_nonsense_is_a_violation_or_nothing(data: bytes) -> None:
    whole, bytewise = WireReader(), WireReader()

    def events(reader: WireReader, parts: list[bytes]) -> object:
        found: list[NatsEvent] = []
        try:
            for part in parts:
                found += reader.receive(part)
        except ProtocolViolation as error:
            return str(error)
        return found

    pieces = [data[at : at + 1] for at in range(len(data))]
    assert events(whole, [data]) == events(bytewise, pieces)


def test_a_large_payload_in_single_bytes_takes_linear_time() -> None:
    """Counted, not timed: how often each byte is looked at or moved."""
    looked = 0

    class Counted(bytearray):
        def find(self, *args: object) -> int:
            nonlocal looked
            looked += len(self) - int(str(args[1]))
            return bytearray.find(self, *args)  # type: ignore[arg-type]

        def __delitem__(self, key: object) -> None:
            nonlocal looked
            looked += len(self)
            bytearray.__delitem__(self, key)  # type: ignore[arg-type]

    size = 20_000
    reader = WireReader()
    reader._buffer = Counted()
    data = b"MSG a 1 %d\r\n%b\r\n" % (size, b"\r" * size) + b"-ERR " + b"x" * size
    found: list[NatsEvent] = []
    for at in range(len(data)):
        found += reader.receive(data[at : at + 1])
    assert len(found) == 1
    assert looked < 4 * len(data)


@pytest.mark.parametrize(
    "data",
    [
        b"x" * (MAX_LINE + 2),
        b"PING" + b" " * MAX_LINE + b"\r\n",
        b"MSG a 1 %d\r\n" % (MAX_RECEIVED + 1),
        b"MSG a 1 -1\r\n",
        b"MSG a 1\r\n",
        b"MSG a one 1\r\n",
        b"MSG a b c d 1\r\n",
        b"HMSG a 1 5 4\r\n",
        b"MSG a 1 1\r\nxyz",
        b"INFO []\r\n",
        b"INFO " + b"[" * 60_000 + b"\r\n",
        b"SUB a 1\r\n",
        b"\r\n",
    ],
)
def test_a_violation_is_named_without_what_was_sent(data: bytes) -> None:
    with pytest.raises(ProtocolViolation) as raised:
        WireReader().receive(data)
    assert len(str(raised.value)) < 60


def test_the_server_says_what_it_is() -> None:
    info = {"max_payload": 9, "headers": True, "ldm": True, "connect_urls": ["a:1", 2]}
    (event,) = WireReader().receive(b"INFO %b\r\n" % json.dumps(info).encode())
    assert event == NatsInfo(
        max_payload=9, headers=True, lame_duck=True, connect_urls=("a:1",)
    )
    odd = {"max_payload": True, "headers": 1, "connect_urls": "a:1", "server_name": 4}
    (event,) = WireReader().receive(b"INFO %b\r\n" % json.dumps(odd).encode())
    assert event == NatsInfo()


@pytest.mark.parametrize(
    ("head", "status", "headers"),
    [
        (b"NATS/1.0 503\r\n\r\n", 503, {}),
        (b"NATS/1.0 100 Idle Heartbeat\r\n\r\n", 100, {}),
        (b"NATS/1.0\r\nA: b: c\r\nD:\r\nnone\r\n\r\n", None, {"A": "b: c", "D": ""}),
        (b"NATS/1.0 5030\r\n\r\n", None, {}),
        (b"HTTP/1.1 503\r\nA: b\r\n\r\n", None, {}),
        (b"", None, {}),
    ],
)
def test_headers_are_read_as_far_as_they_are_some(
    head: bytes, status: int | None, headers: dict[str, str]
) -> None:
    found = NatsMessage("a", 1, "", b"", head)
    assert (found.status, found.headers) == (status, headers)


@given(SUBJECTS, SUBJECTS, st.binary(max_size=30))
def test_a_message_comes_back_as_it_was_published(
    subject: str, reply: str, payload: bytes
) -> None:
    headers = {"Name": "of, some: value", "Other": "Grüße"}
    data = publish(subject, payload, reply=reply, headers=headers, most=1000)
    line, _, rest = data.partition(b"\r\n")
    word, to, back, head, size = line.split(b" ")
    again = b"H%b %b 7 %b %b %b\r\n%b" % (b"MSG", to, back, head, size, rest)
    (found,) = WireReader().receive(again)
    assert word == b"HPUB"
    assert isinstance(found, NatsMessage)
    assert (found.subject, found.reply, found.payload) == (subject, reply, payload)
    assert found.headers == headers


def test_what_is_too_large_is_refused_by_name() -> None:
    assert publish("a.b", b"x" * 10, most=10) == b"PUB a.b 10\r\nxxxxxxxxxx\r\n"
    with pytest.raises(PayloadTooLarge, match=r"11 bytes to a\.b: the server takes 10"):
        publish("a.b", b"x" * 11, most=10)
    with pytest.raises(PayloadTooLarge):  # headers count
        publish("a.b", b"x" * 10, headers={"A": "b"}, most=20)


@pytest.mark.parametrize(
    "subject",
    ["", ".", "a.", ".a", "a..b", "a b", "a\r\nPING", "a.*", ">", "a\0", "\t"],
)
def test_a_bad_subject_is_refused(subject: str) -> None:
    with pytest.raises(ValueError, match="no subject"):
        publish(subject, b"", most=10)
    with pytest.raises(ValueError, match="no subject"):
        publish("a", b"", reply=subject or " ", most=10)


def test_patterns_have_wildcards_in_their_places() -> None:
    for pattern in ("a", "*", ">", "a.*.b", "*.>", "a.>"):
        check_pattern(pattern)
    for pattern in ("", "a.>.b", "a*", ">.a", "a>", "a b", "*."):
        with pytest.raises(ValueError, match="no subject"):
            check_pattern(pattern)
    with pytest.raises(ValueError, match="no subject"):
        check_subject("a" * 1025)
    assert subscribe("a.>", 4) == b"SUB a.> 4\r\n"
    assert subscribe("a", 4, queue="q") == b"SUB a q 4\r\n"
    with pytest.raises(ValueError, match="queue"):
        subscribe("a", 4, queue="q\r\nPUB")


@pytest.mark.parametrize("header", [{"a b": ""}, {"a:": ""}, {"": ""}, {"a": "b\r\nc"}])
def test_a_bad_header_is_refused(header: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="header"):
        publish("a", b"", headers=header, most=100)


def test_the_text_of_a_message_shows_no_payload() -> None:
    data = random.Random(1).randbytes(8).hex().encode()
    assert data.decode() not in repr(NatsMessage("a", 1, "", data, data))
