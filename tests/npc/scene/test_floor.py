"""Whose turn it is in a scene, against the dumbest model of it."""

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

from glyphoxa_trio.npc.scene.floor import Floor, SceneFull


@attrs.frozen(eq=False)
class Who:
    speaker: str
    own: bool = True
    dm: bool = False


def test_players_come_in_the_order_in_which_they_came() -> None:
    floor: Floor[Who] = Floor(8)
    a, b, c = map(Who, "abc")
    assert [floor.come(x) for x in (a, b, c)] == [(), (), ()]
    assert (floor.speaking, floor.waiting, floor.asking) == (a, (b, c), 2)
    assert floor.go(a) is b
    assert floor.go(c) is None
    assert floor.go(b) is None
    assert floor.speaking is None


def test_the_dm_is_next_and_whoever_interrupts_after_them() -> None:
    floor: Floor[Who] = Floor(8)
    first, other, again, dm = Who("a"), Who("b"), Who("a"), Who("DM", dm=True)
    floor.come(first)
    floor.come(other)
    assert floor.interrupts(again)
    floor.come(again)
    floor.come(dm)
    assert floor.waiting == (dm, again, other)


def test_what_a_player_says_replaces_what_they_have_said_and_keeps_its_place() -> None:
    floor: Floor[Who] = Floor(8)
    for speaker in "abc":
        floor.come(Who(speaker))
    (old, _), new = floor.waiting, Who("b")
    assert floor.come(new) == (old,)
    assert [x.speaker for x in floor.waiting] == ["b", "c"]
    assert floor.waiting[0] is new


def test_words_that_are_given_out_replace_and_interrupt_nothing() -> None:
    floor: Floor[Who] = Floor(8)
    words = [Who("DM", own=False, dm=True) for _ in range(3)]
    for who in words:
        assert not floor.interrupts(who)
        assert floor.come(who) == ()
    assert floor.waiting == tuple(words[1:])
    assert floor.asking == 0
    assert not floor.interrupts(Who("DM"))


def test_who_is_too_many_changes_nothing() -> None:
    floor: Floor[Who] = Floor(1)
    for speaker in "ab":
        floor.come(Who(speaker))
    with pytest.raises(SceneFull, match="1 wait"):
        floor.come(Who("c"))
    floor.come(Who("b"))  # instead of theirs
    floor.come(Who("a"))  # who is being answered gets through
    with pytest.raises(SceneFull):
        floor.come(Who("DM", dm=True))
    assert [x.speaker for x in floor.waiting] == ["a", "b"]


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
        self.floor: Floor[Who] = Floor(3)
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
            with pytest.raises(SceneFull):
                self.floor.come(who)
            return
        assert set(self.floor.come(who)) == {x.who for x in same}
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
        following = self.floor.go(self.speaking)
        self.speaking = next(iter(self.in_order()), None)
        assert following is self.speaking
        self.waits = [x for x in self.waits if x.who is not self.speaking]

    @precondition(lambda self: bool(self.waits))
    @rule(at=st.integers(0, 10))
    def waiting_one_goes(self, at: int) -> None:
        gone = self.waits.pop(at % len(self.waits))
        assert self.floor.go(gone.who) is None

    @invariant()
    def one_speaks_and_the_others_wait_in_their_order(self) -> None:
        assert self.floor.speaking is self.speaking
        assert list(self.floor.waiting) == self.in_order()
        assert self.speaking is not None or not self.waits
        assert self.floor.asking == sum(x.who.own for x in self.waits)

    @invariant()
    def the_queue_is_bounded_and_a_player_waits_once(self) -> None:
        assert len(self.floor.waiting) <= 6
        own = [x.speaker for x in self.floor.waiting if x.own]
        assert len(own) == len(set(own))


TestFloor = Machine.TestCase
