"""What reads a server's words is told nonsense. The seed is printed, and starts it
again: ``FUZZ_SEED=7 pytest tests/fuzz``. ``make fuzz`` has ten times as much."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.mcp.bounds import MOST_BYTES
from glyphoxa_trio.mcp.framing import Framing, correlate, decode, misspelt_answer

from .clients import Told, over_a_wire, over_http
from .messages import RECORDED, Mill

MESSAGES = int(os.environ.get("FUZZ_MESSAGES", "20000"))
SECONDS = float(os.environ.get("FUZZ_SECONDS", "15"))
# Of processor time for one step of a task. Only `make fuzz` asks for a limit: how long
# a step takes is of the machine as well.
STALL = float(os.environ.get("FUZZ_STALL_MS", "inf"))
# It must have come to something: on any machine a hundredth of it is done.
FEWEST = MESSAGES // 100

Client = Callable[..., Awaitable[None]]


@pytest.mark.long
# The SDK's and HTTPX's, of streams that are left in the middle; trio closes them.
@pytest.mark.filterwarnings("ignore:.*Async generator:ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("client", [over_a_wire, over_http])
async def test_nonsense_ends_in_errors_that_are_said(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    seed = int(os.environ.get("FUZZ_SEED") or secrets.randbelow(10**9))
    mill = Mill(seed)
    told = Told()
    try:
        await client(mill, told, messages=MESSAGES, seconds=SECONDS)
    except BaseException as error:
        error.add_note(f"FUZZ_SEED={seed}, message {mill.ground}")
        raise
    finally:
        with capsys.disabled():
            stall = f"{told.stalls.longest:.1f} ms in {told.stalls.whose}"
            told_ = f"{mill.ground} messages, {told.sessions} sessions, {told.ends}"
            print(f"\n{client.__name__} FUZZ_SEED={seed}: {told_}, {stall}")
    assert mill.ground >= FEWEST
    assert told.ends.get("answer", 0) > 0
    assert told.stalls.longest < STALL, told.stalls.whose


def test_the_same_seed_makes_the_same_messages() -> None:
    first, second = Mill(5), Mill(5)
    assert [first.message(n) for n in range(500)] == [
        second.message(n) for n in range(500)
    ]


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=20,
)
_lines = st.one_of(
    st.binary(max_size=300),
    st.text(max_size=300).map(lambda text: text.encode(errors="surrogatepass")),
    st.builds(lambda seed: Mill(seed).message(1), st.integers(0, 10**6)),
)


@given(line=_lines)
def test_a_line_is_a_message_or_none_and_never_an_error(line: bytes) -> None:
    message = decode(line)
    assert message is None or message["jsonrpc"] == "2.0"
    misspelt_answer(line)


@given(
    lines=st.lists(_lines, max_size=5), cuts=st.lists(st.integers(1, 40), max_size=40)
)
def test_however_lines_are_cut_the_same_come_out(
    lines: list[bytes], cuts: list[int]
) -> None:
    whole = b"\n".join([*lines, b""])
    at_once = [*Framing().feed(whole)]
    framing, pieces, at = Framing(), [], 0
    for cut in [*cuts, len(whole)]:
        pieces += framing.feed(whole[at : at + cut])
        at += cut
    assert len(whole) < MOST_BYTES
    assert pieces == at_once


@given(ident=_values)
def test_an_id_is_a_number_a_text_or_none(ident: Any) -> None:
    assert isinstance(correlate(ident), int | str | None)


def test_what_was_recorded_is_read() -> None:

    for message in RECORDED:
        line = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert decode(line) == {"jsonrpc": "2.0", **message}
