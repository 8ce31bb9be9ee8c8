"""The messages of the bus: their bytes, and what is refused."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import structs

from glyphoxa_trio.cluster import messages as m
from glyphoxa_trio.cluster.wire import (
    MOST_BYTES,
    InvalidMessage,
    LargeMessage,
    NewerMessage,
    Subjects,
    pack,
    read,
)
from glyphoxa_trio.service import protocol

KINDS = get_args(m.AnyMessage)
IDS = st.text(min_size=1, max_size=64)
NAMES = st.text(min_size=1, max_size=200)
POSITIVE = st.integers(1, 2**53)
TIMES = st.floats(0, 86_400_000)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(max_size=8), PLAIN, max_size=4)
SILENT = st.builds(m.SilentOwner, worker=IDS, epoch=POSITIVE, why=IDS)
TOOLS = st.builds(
    m.ToolName,
    environment=st.text(max_size=2000),
    origin=st.text(max_size=2000),
    key=st.text(max_size=2000),
)
CALLS = st.tuples(st.sampled_from(["ok", "timeout", "censored"]), TIMES)
TOOL_TIMES = st.builds(m.ToolTimes, tool=TOOLS, calls=st.lists(CALLS, max_size=64))
# By the name of the field: fields of one name mean the same in all messages.
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(("id", "worker", "deployment", "version", "end", "what"), IDS),
    **dict.fromkeys(("session", "speaker"), NAMES),
    **dict.fromkeys(("sessions", "turns", "room"), st.integers(0, 2**53)),
    **dict.fromkeys(("draining", "still", "kept"), st.booleans()),
    **dict.fromkeys(("remaining_ms", "late_ms", "late_p99_ms"), TIMES),
    **dict.fromkeys(("claims", "restores", "fenced"), st.integers(0, 2**53)),
    "journal_lag_ms": TIMES,
    "shed": st.floats(0, 1),
    "v": st.just(1),
    "page": NAMES,
    "path": st.dictionaries(st.text(max_size=8), NAMES, max_size=3),
    "query": st.dictionaries(st.text(max_size=8), NAMES, max_size=3),
    "status": st.integers(0, 2**53),
    "body": PLAIN,
    "for_ms": TIMES,
    "deltas": st.booleans(),
    "directs": st.booleans(),
    "tenant": st.text(max_size=200),
    "text": st.text(max_size=16 * 1024),
    "message": st.text(max_size=2000),
    "tier": st.sampled_from(["fast", "standard", "deep", None]),
    "credit": st.integers(1, 4096),
    "silent": st.none() | SILENT,
    "turn": POSITIVE,
    "reason": st.sampled_from([*m.RefusalReason]) | IDS,
    "event": st.none() | OBJECTS,
    "played_ms": st.none() | TIMES,
    "fields": OBJECTS,
    "result": PLAIN,
    "times": st.lists(TOOL_TIMES, max_size=3),
    "failing": st.lists(TOOLS, max_size=3),
    "written": st.lists(st.text(max_size=2000), max_size=3),
}
# Fields whose range is another one in this message.
OWN: dict[tuple[type, str], st.SearchStrategy[Any]] = {
    (m.SayMessage, "events"): st.sampled_from(["spoken", "all"]),
    (m.SayMessage, "npc"): NAMES,
    (m.AskMessage, "npc"): st.none() | NAMES,
    (m.EventsMessage, "events"): st.lists(OBJECTS, min_size=1, max_size=3),
    (m.EventsMessage, "n"): POSITIVE,
    (m.WatchMessage, "session"): st.none() | NAMES,
    (m.SeenMessage, "events"): st.lists(OBJECTS, max_size=3),
    (m.SeenMessage, "n"): POSITIVE,
    (m.BeatMessage, "n"): POSITIVE,
    (m.RefusedMessage, "epoch"): st.integers(0, 2**53),
}


def of(kind: type) -> st.SearchStrategy[Any]:
    def field(name: str) -> st.SearchStrategy[Any]:
        usual = {"n": st.integers(0, 2**53), "epoch": POSITIVE, **FIELDS}
        return OWN.get((kind, name), usual.get(name, st.nothing()))

    fields = [x.name for x in structs.fields(kind)]
    return st.builds(kind, **{name: field(name) for name in fields})


MESSAGES = st.one_of(*map(of, KINDS))


@given(MESSAGES)
def test_what_is_packed_is_read(message: Any) -> None:
    assert read(pack(message)) == message


@given(MESSAGES, st.text(min_size=1), PLAIN)
def test_fields_of_later_minor_versions_are_ignored(
    message: Any, name: str, value: Any
) -> None:
    plain = json.loads(pack(message))
    known = {"type", *(x.name for x in structs.fields(message))}
    if name not in known:
        plain[name] = value
    assert read(json.dumps(plain).encode()) == message


@given(MESSAGES, st.integers(2, 99))
def test_a_newer_major_version_is_refused_by_its_number(
    message: Any, version: int
) -> None:
    plain = {**json.loads(pack(message)), "v": version, "type": "of the future"}
    with pytest.raises(NewerMessage, match=f"version {version}") as told:
        read(json.dumps(plain).encode())
    assert told.value.id == getattr(message, "id", "")


@given(st.binary(max_size=300))
@example(b"[" * 100_000)
@example(b'{"type":"say"}')
@example(b'{"type":"ping","v":"1"}')
@example(b'{"type":"ping","v":0}')
@example(b"\xff\xfe")
def test_other_bytes_are_one_error(data: bytes) -> None:
    said = ""
    try:
        read(data)
    except InvalidMessage as error:
        said = str(error)
    assert said.isascii()
    assert len(said) <= 300


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"npc": None}, "npc"),
        ({"npc": "x" * 201}, "npc"),
        ({"text": 7}, "text"),
        ({"credit": 0}, "credit"),
        ({"credit": 5000}, "credit"),
        ({"remaining_ms": -1}, "remaining_ms"),
        ({"remaining_ms": "1"}, "remaining_ms"),
        ({"tier": "fastest"}, "tier"),
        ({"id": "x" * 65}, "id"),
        ({"silent": {"worker": "w", "epoch": 0, "why": "y"}}, "silent.epoch"),
    ],
    ids=str,
)
def test_a_wrong_field_is_named(change: dict[str, Any], named: str) -> None:
    say = m.SayMessage(id="u1", npc="Bo", text="Hm.", remaining_ms=1000)
    plain = {**json.loads(pack(say)), **change}
    with pytest.raises(InvalidMessage, match=rf"\$\.{named}\b"):
        read(json.dumps(plain).encode())


def test_what_is_too_large_is_neither_sent_nor_read() -> None:
    event = {"event": "Sentence", "text": "x" * MOST_BYTES}
    large = m.EventsMessage(id="u1", epoch=1, turn=1, n=1, events=[event])
    with pytest.raises(LargeMessage, match="EventsMessage has 52"):
        pack(large)
    with pytest.raises(LargeMessage, match="a message has 524289 bytes"):
        read(b" " * (MOST_BYTES + 1))
    fits = {"event": "Sentence", "text": "x" * (MOST_BYTES - 200)}
    read(pack(m.EventsMessage(id="u1", epoch=1, turn=1, n=1, events=[fits])))


def test_half_a_character_cannot_be_sent() -> None:
    with pytest.raises(InvalidMessage, match="SayMessage"):
        pack(m.SayMessage(id="u1", npc="Bo", text="\ud800", remaining_ms=1000))


@given(of(m.AckMessage) | of(m.LeaveMessage))
def test_an_acknowledgement_is_that_of_the_gateway(message: Any) -> None:
    data = pack(message).decode()
    theirs = protocol.read_request(data)
    again = theirs.model_dump_json(exclude_none=True)
    assert json.loads(again) == json.loads(data)
    assert read(again.encode()) == message


def test_subjects_have_no_name_that_means_something_in_them() -> None:
    subjects = Subjects("prod-1")
    assert subjects.beat == "gx.prod-1.beat"
    assert subjects.worker("w_7") == "gx.prod-1.w.w_7"
    assert subjects.knowledge("w_7") == "gx.prod-1.know.w_7"
    assert subjects.all_knowledge == "gx.prod-1.know.*"
    for name in ("", "a.b", "*", ">", "a b", "ä", "x" * 65, "a\n"):
        with pytest.raises(InvalidMessage, match="the worker cannot be named"):
            subjects.worker(name)
        with pytest.raises(InvalidMessage, match="the deployment cannot be named"):
            Subjects(name)
