"""The ring between two threads, against a list, and between two threads."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from glyphoxa_trio.devices import RingBuffer

SIZE = 7


class RingAgainstAList(RuleBasedStateMachine):
    """Any order of calls; the model is a list of what waits, and one that is void."""

    def __init__(self) -> None:
        super().__init__()
        self.ring = RingBuffer(SIZE)
        self.waits = list[int]()
        self.void = 0  # so many of those at the front
        self.given = 0

    @rule(data=st.binary(max_size=SIZE + 2))
    def write(self, data: bytes) -> None:
        room = SIZE - len(self.waits)
        assert self.ring.write(data) == min(room, len(data))
        self.waits += data[:room]
        self.given += len(data[:room])

    @rule()
    def drop(self) -> None:
        self.ring.drop()
        self.void = len(self.waits)

    @rule(size=st.integers(0, SIZE + 2))
    def read(self, size: int) -> None:
        out = bytearray(b"\xee" * size)
        count = self.ring.read_into(memoryview(out))
        del self.waits[: self.void]
        self.void = 0
        assert list(out[:count]) == self.waits[:size]
        assert out[count:] == b"\xee" * (size - count)  # the rest is not touched
        del self.waits[:size]

    @invariant()
    def counts(self) -> None:
        assert self.ring.room == SIZE - len(self.waits)
        assert self.ring.written == self.given
        assert self.ring.read == self.given - len(self.waits)


TestRingAgainstAList = RingAgainstAList.TestCase


def test_what_one_thread_writes_the_other_reads_in_order() -> None:
    ring, total = RingBuffer(1000), 20_000
    sent = bytes(range(251)) * (total // 251 + 1)
    got = bytearray()

    def read() -> None:
        out = memoryview(bytearray(77))
        while len(got) < total:
            got.extend(out[: ring.read_into(out)])

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    at = 0
    while at < total:
        at += ring.write(sent[at : min(total, at + 130)])
    reader.join(30)
    assert got == sent[:total]


@given(st.integers(max_value=0))
def test_a_ring_has_room(size: int) -> None:
    with pytest.raises(ValueError, match="size"):
        RingBuffer(size)
