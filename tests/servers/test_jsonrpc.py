"""Lines that clients write: what they say, and whom an answer would reach. Pure."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.servers.jsonrpc import (
    LONGEST_BATCH,
    Ignored,
    Malformed,
    Notice,
    NotSendable,
    RpcBatch,
    RpcCall,
    RpcReply,
    read,
    same_id,
    write,
)
from glyphoxa_trio.servers.lines import HEAD, LONGEST_LINE, LineSplitter, Overlong

PARSE, REQUEST, PARAMS = -32700, -32600, -32602


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b'{"jsonrpc":"2.0","id":1,"method":"a"}', RpcCall(1, "a", {})),
        (
            b'{"jsonrpc":"2.0","id":"1","method":"a","params":{"b":[]}}\r',
            RpcCall("1", "a", {"b": []}),
        ),
        (b'{"jsonrpc":"2.0","id":1,"method":"a","params":null}', RpcCall(1, "a", {})),
        (b'{"jsonrpc":"2.0","method":"a"}', Notice("a", {})),
        (b'{"jsonrpc":"2.0","id":1,"result":{"a":1}}', RpcReply(1, {"a": 1}, None)),
        (b'{"jsonrpc":"2.0","id":1,"error":{"code":3}}', RpcReply(1, {}, {"code": 3})),
        (b'{"jsonrpc":"2.0","id":"\xc3\xa9","method":"a"}', RpcCall("é", "a", {})),
    ],
)
def test_a_message_is_what_it_looks_like(line: bytes, said: object) -> None:
    assert read(line) == said


@pytest.mark.parametrize(
    ("line", "ident", "code"),
    [
        (b"", None, PARSE),
        (b"hello", None, PARSE),
        (b"\xff\xfe{}", None, PARSE),
        (b"[" * 200_000, None, PARSE),
        (b'{"a":' * 200_000, None, PARSE),
        (b"[]", None, REQUEST),
        (b"7", None, REQUEST),
        (b"null", None, REQUEST),
        (b"{}", None, REQUEST),
        (b'{"jsonrpc":"2.0","id":3}', 3, REQUEST),
        (b'{"jsonrpc":"1.0","id":3,"method":"a"}', 3, REQUEST),
        (b'{"id":3,"method":"a"}', 3, REQUEST),
        (b'{"jsonrpc":"2.0","id":3,"method":4}', 3, REQUEST),
        (b'{"jsonrpc":"2.0","id":3,"method":null}', 3, REQUEST),
        (b'{"jsonrpc":"2.0","id":3,"method":"a","params":[]}', 3, PARAMS),
        (b'{"jsonrpc":"2.0","id":3,"method":"a","params":"b"}', 3, PARAMS),
        (b'{"jsonrpc":"2.0","id":null,"method":"a"}', None, REQUEST),
        (b'{"jsonrpc":"2.0","id":true,"method":"a"}', None, REQUEST),
        (b'{"jsonrpc":"2.0","id":1.0,"method":"a"}', None, REQUEST),
        (b'{"jsonrpc":"2.0","id":[1],"method":"a"}', None, REQUEST),
        # Almost JSON: whoever wrote it waits, and can be told.
        (b'{"jsonrpc":"2.0","id":3,"method":"a","params":{"b":NaN}}', 3, PARSE),
        (b'{"params":{"b":-Infinity},"id":"x","method":"a"}', "x", PARSE),
        (b'{"params":{"b":1e999},"id":4,"method":"a"}', 4, PARSE),
        (b'{"jsonrpc":"2.0","id":3,"method":"a","params":{"b":"\\ud800"}}', 3, PARSE),
        (b'{"jsonrpc":"2.0","id":3,"method":"a","params":{"b":"\xff"}}', 3, PARSE),
        (b'{"jsonrpc":"2.0","id":3,"method":"tools/ca', 3, PARSE),
        (b'{"method":"a","id":"x","params":{"id":9', "x", PARSE),
        # Whose id it is cannot be told.
        (b'{"method":"a","params":{"id":9', None, PARSE),
        (b'{"jsonrpc":"2.0","id":3', None, PARSE),
        (b'{"jsonrpc":"2.0","id":3,"result":{"b":NaN}}', None, PARSE),
        (b'{"jsonrpc":"2.0","id":"\\ud800","method":"a"}', None, PARSE),
        (b'{"id":' + b"9" * 5000 + b',"method":"a"}', None, PARSE),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_what_is_no_message_is_answered_where_that_can_be(
    line: bytes, ident: object, code: int
) -> None:
    said = read(line)
    assert isinstance(said, Malformed)
    assert (said.id, said.code) == (ident, code)
    assert 0 < len(said.message) < 400


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}',
        b'{"jsonrpc":"2.0","result":{}}',
        b'{"result":{},"id":1}',
        b'{"jsonrpc":"2.0","method":"a","params":[1]}',
    ],
)
def test_what_looks_like_an_answer_is_never_answered(line: bytes) -> None:
    assert read(line) == Ignored()


def test_an_answer_of_the_wrong_kind_still_ends_the_wait_for_it() -> None:
    said = read(b'{"jsonrpc":"2.0","id":1,"result":[]}')
    assert isinstance(said, RpcReply)
    assert said.error is not None


def test_a_batch_is_its_messages_up_to_a_bound() -> None:
    one = {"jsonrpc": "2.0", "method": "a"}
    line = json.dumps([one, 3]).encode()
    assert read(line) == RpcBatch(
        (Notice("a", {}), Malformed(None, REQUEST, "a message is an object"))
    )
    said = read(json.dumps([one] * (LONGEST_BATCH + 1)).encode())
    assert isinstance(said, Malformed)


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
LOOKS_LIKE_ONE = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | ANY_JSON,
        "id": st.integers() | st.text() | ANY_JSON,
        "method": st.text() | ANY_JSON,
        "params": ANY_JSON,
        "result": ANY_JSON,
        "error": ANY_JSON,
    },
)


@given(st.binary() | (LOOKS_LIKE_ONE | ANY_JSON).map(lambda v: json.dumps(v).encode()))
def test_reading_never_raises_and_an_id_is_one(line: bytes) -> None:
    said = read(line)
    if isinstance(said, RpcCall | RpcReply):
        assert type(said.id) in (int, str)
    if isinstance(said, Malformed):
        assert said.id is None or type(said.id) in (int, str)
        write({"id": said.id, "message": said.message})


@given(st.dictionaries(st.text(), ANY_JSON), st.integers() | st.text())
def test_what_is_written_is_read_as_it_was_or_refused(
    params: dict[str, Any], ident: int | str
) -> None:
    call = {"jsonrpc": "2.0", "id": ident, "method": "m", "params": params}
    try:
        line = write(call)
    except NotSendable:
        text = json.dumps(call)
        assert "NaN" in text or "Infinity" in text or "\\ud" in text
        return
    assert line.count(b"\n") == 1
    assert read(line) == RpcCall(ident, "m", params)


@pytest.mark.parametrize("value", [math.nan, math.inf, "\ud800", object(), {1}])
def test_what_is_no_json_is_not_sent(value: object) -> None:
    with pytest.raises(NotSendable):
        write({"a": value})


def test_some_clients_mean_another_id_than_they_write() -> None:
    assert (same_id(7), same_id("7"), same_id("-7")) == ("7", 7, -7)
    assert [same_id(odd) for odd in ("x", "", "\u0667", "9" * 30, None, True)] == [
        None
    ] * 6


@given(st.lists(st.binary(max_size=6) | st.just(b"\n"), max_size=20))
def test_lines_are_the_same_however_they_are_cut(chunks: list[bytes]) -> None:
    whole = b"".join(chunks)
    lines = LineSplitter()
    found = [line for chunk in chunks for line in lines.feed(chunk)] + lines.end()
    assert found == [line for line in whole.split(b"\n") if line.strip(b" \t\r\v\f")]


def test_a_line_without_end_is_not_kept() -> None:
    lines = LineSplitter()
    start = b'{"jsonrpc":"2.0","id":5,"method":"a","params":{"text":"'
    found = lines.feed(start)
    for _ in range(20):
        found += lines.feed(b"x" * 2**20)
        assert lines.held <= LONGEST_LINE
    found += lines.feed(b'"}}\n{"jsonrpc":"2.0","method":"b"}\n')
    head, after = found
    assert isinstance(head, Overlong)
    assert len(head.head) == HEAD
    assert isinstance(after, bytes)
    said = read(head)
    assert isinstance(said, Malformed)
    assert (said.id, said.code) == (5, REQUEST)
    assert read(after) == Notice("b", {})
