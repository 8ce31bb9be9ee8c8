"""The queue of turns in a scene, against the simplest model of it."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
)

from glyphoxa_trio.npc.turn_queue import QueueFull, TurnQueue


@attrs.frozen(eq=False)
class Who:
    speaker: str
    own: bool = True
    dm: bool = False


def test_players_come_in_the_order_in_which_they_came() -> None:
    queue: TurnQueue[Who] = TurnQueue(8)
    a, b, c = map(Who, "abc")
    assert [queue.come(x) for x in (a, b, c)] == [(), (), ()]
    assert (queue.running, queue.waiting, queue.asking) == (a, (b, c), 2)
    assert queue.go(a) is b
    assert queue.go(c) is None
    assert queue.go(b) is None
    assert queue.running is None


def test_the_dm_is_next_and_whoever_interrupts_after_them() -> None:
    queue: TurnQueue[Who] = TurnQueue(8)
    first, other, again, dm = Who("a"), Who("b"), Who("a"), Who("DM", dm=True)
    queue.come(first)
    queue.come(other)
    assert queue.interrupts(again)
    queue.come(again)
    queue.come(dm)
    assert queue.waiting == (dm, again, other)


def test_what_a_player_says_replaces_what_they_have_said_and_keeps_its_place() -> None:
    queue: TurnQueue[Who] = TurnQueue(8)
    for speaker in "abc":
        queue.come(Who(speaker))
    (old, _), new = queue.waiting, Who("b")
    assert queue.come(new) == (old,)
    assert [x.speaker for x in queue.waiting] == ["b", "c"]
    assert queue.waiting[0] is new


def test_words_that_are_given_out_replace_and_interrupt_nothing() -> None:
    queue: TurnQueue[Who] = TurnQueue(8)
    words = [Who("DM", own=False, dm=True) for _ in range(3)]
    for who in words:
        assert not queue.interrupts(who)
        assert queue.come(who) == ()
    assert queue.waiting == tuple(words[1:])
    assert queue.asking == 0
    assert not queue.interrupts(Who("DM"))


def test_who_is_too_many_changes_nothing() -> None:
    queue: TurnQueue[Who] = TurnQueue(1)
    for speaker in "ab":
        queue.come(Who(speaker))
    with pytest.raises(QueueFull, match="the queue is full: 1 waiting"):
        queue.come(Who("c"))
    queue.come(Who("b"))  # instead of theirs
    queue.come(Who("a"))  # who is being answered gets through
    with pytest.raises(QueueFull):
        queue.come(Who("DM", dm=True))
    assert [x.speaker for x in queue.waiting] == ["a", "b"]


@attrs.define(eq=False)
class Waits:
    """Rank 0 is the DM's, 1 whoever interrupts, 2 everybody; ``came`` counts up."""

    rank: int
    came: int
    who: Who


class Machine(RuleBasedStateMachine):
    """The model is a list of those who wait, looked through each time."""

    def __init__(self) -> None:
        super().__init__()
        self.queue: TurnQueue[Who] = TurnQueue(3)
        self.speaking: Who | None = None
        self.waits: list[Waits] = []
        self.came = 0

    def in_order(self) -> list[Who]:
        return [x.who for x in sorted(self.waits, key=lambda x: (x.rank, x.came))]

    @rule(
        speaker=st.sampled_from("abcdefgh"),
        own=st.booleans(),
        dm=st.booleans(),
    )
    def come(self, speaker: str, own: bool, dm: bool) -> None:
        who, now = Who(speaker, own, dm), self.speaking
        same = [x for x in self.waits if own and x.who.own and x.who.speaker == speaker]
        rank = 0 if dm else 2
        if now is not None and own and now.own and now.speaker == speaker and not dm:
            rank = 1
        for x in same:
            rank = min(rank, x.rank)
        if len(self.waits) - len(same) >= (3 if rank == 2 else 6):
            with pytest.raises(QueueFull):
                self.queue.come(who)
            return
        assert set(self.queue.come(who)) == {x.who for x in same}
        self.came += 1
        if now is None:
            self.speaking = who
            return
        came = same[0].came if same else self.came
        self.waits = [x for x in self.waits if x not in same]
        self.waits.append(Waits(rank, came, who))

    @precondition(lambda self: self.speaking is not None)
    @rule()
    def speaker_goes(self) -> None:
        assert self.speaking is not None
        following = self.queue.go(self.speaking)
        self.speaking = next(iter(self.in_order()), None)
        assert following is self.speaking
        self.waits = [x for x in self.waits if x.who is not self.speaking]

    @precondition(lambda self: bool(self.waits))
    @rule(at=st.integers(0, 10))
    def waiting_one_goes(self, at: int) -> None:
        gone = self.waits.pop(at % len(self.waits))
        assert self.queue.go(gone.who) is None

    @invariant()
    def one_speaks_and_the_others_wait_in_their_order(self) -> None:
        assert self.queue.running is self.speaking
        assert list(self.queue.waiting) == self.in_order()
        assert self.speaking is not None or not self.waits
        assert self.queue.asking == sum(x.who.own for x in self.waits)

    @invariant()
    def the_queue_is_bounded_and_a_player_waits_once(self) -> None:
        assert len(self.queue.waiting) <= 6
        own = [x.speaker for x in self.queue.waiting if x.own]
        assert len(own) == len(set(own))


TestTurnQueue = Machine.TestCase
