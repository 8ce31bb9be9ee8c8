"""Whom a client asks, and a whole cluster in a simulation."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from glyphoxa_trio.cluster.messages import (
    AcceptedMessage,
    AnswerMessage,
    AskMessage,
    BeatMessage,
    DoneMessage,
    EventsMessage,
    LeaveMessage,
    MovedMessage,
    OwnerSilence,
    PingMessage,
    PongMessage,
    RefusalReason,
    RefusedMessage,
    SayMessage,
    SilentOwner,
)
from glyphoxa_trio.cluster.placement import (
    AGAIN,
    OVERTIME,
    SILENT,
    ClientAction,
    EndSay,
    GiveEvents,
    Placement,
    ToWorker,
)
from glyphoxa_trio.npc.identity import SessionKey

from .simulated import Client, Heard, Link, Worker, World, silent_in

KEY = SessionKey("table")


def beat(worker: str, n: int = 1, **more: Any) -> BeatMessage:
    more = {"room": 10, **more}
    return BeatMessage(worker=worker, deployment="d", version="1", n=n, **more)


def say(id_: str = "u1", ms: float = 5000.0) -> SayMessage:
    return SayMessage(id=id_, session="table", npc="Bo", text="Hm.", remaining_ms=ms)


def client(*workers: str) -> Placement:
    placement = Placement(Random(1))
    for name in workers:
        placement.beat(beat(name), 0.0)
    return placement


def accepted(worker: str, epoch: int = 1, id_: str = "u1") -> AcceptedMessage:
    return AcceptedMessage(id=id_, worker=worker, epoch=epoch, turn=1)


def events(n: int, epoch: int = 1) -> EventsMessage:
    return EventsMessage(id="u1", epoch=epoch, turn=1, n=n, events=[{"event": "X"}])


def only(actions: list[ClientAction]) -> ToWorker:
    (action,) = actions
    assert isinstance(action, ToWorker)
    return action


def pings(actions: list[ClientAction]) -> list[ClientAction]:
    return [
        x
        for x in actions
        if isinstance(x, ToWorker) and isinstance(x.message, PingMessage)
    ]


def test_what_is_not_answered_is_sent_again_with_what_is_left_of_its_time() -> None:
    one = client("w1")
    first = only(one.say(say(), 0.0))
    again = [x for x in one.tick(AGAIN) if x not in pings(one.tick(AGAIN))]
    told = [
        x.message
        for x in (first, *again)
        if isinstance(x, ToWorker) and isinstance(x.message, SayMessage)
    ]
    assert [(x.id, x.remaining_ms) for x in told] == [("u1", 5000), ("u1", 4900)]


def told_by(actions: list[ClientAction]) -> list[str]:
    """Return the ids of the utterances that are sent."""
    return [
        x.message.id
        for x in actions
        if isinstance(x, ToWorker) and isinstance(x.message, SayMessage)
    ]


def test_pauses_grow_until_another_worker_is_asked() -> None:
    """A worker that has an utterance may wait for its database for many seconds."""
    one, sent = client("w1", "w2"), list[int]()
    worker = only(one.say(say(ms=20_000), 0.0)).worker
    other = {"w1": "w2", "w2": "w1"}[worker]
    for at in range(1, 60):
        one.received(PongMessage(worker=worker), worker, at / 32)
        sent += [at] * len(told_by(one.tick(at / 32)))
    assert sent == [4, 11, 24, 37, 50]  # after 0.1, 0.2, 0.4, 0.4 and 0.4 s
    assert only(one.no_responders(worker, 2.0)).worker == other
    assert told_by(one.tick(2.09)) == []
    assert told_by(one.tick(2.11)) == ["u1"]


def test_what_was_said_to_nobody_is_sent_as_soon_as_somebody_can_hear_it() -> None:
    one = client("w1")
    one.say(say(), 0.0)
    one.say(say("u2"), 0.0)
    one.received(accepted("w1", id_="u2"), "w1", 0.0)
    for at in range(1, 30):
        assert one.tick(at / 20, deaf=True) == []
    assert told_by(one.tick(1.5)) == ["u1"]


def test_an_utterance_is_looked_at_no_more_once_it_is_over() -> None:
    """Its number could be in use again, and what it says need not be kept."""
    one = client("w1")
    for at in range(500):
        now = at / 20
        one.beat(beat("w1", at + 1), now)
        one.say(say(f"u{at}", ms=80_000_000), now)
        one.received(accepted("w1", at + 1, f"u{at}"), "w1", now)
        one.tick(now)
        if at > 40:
            one.leave(f"u{at - 40}", forget=True)
    one.leave("u499", forget=True)
    one.say(say("u499", ms=1000), 25.0)  # 39 others are open
    one.received(accepted("w1", 999, "u499"), "w1", 25.0)
    ends = [x for x in one.tick(25.15) if isinstance(x, EndSay)]
    assert (ends, one.open) == ([], 41)
    assert len(one._due) < 200


def test_an_owner_that_is_gone_may_lose_its_session_to_another_worker() -> None:
    one = client("w1")
    one.say(say(), 0.0)
    one.received(accepted("w1", 7), "w1", 0.01)
    one.beat(beat("w2"), 0.02)
    sent = only(one.no_responders("w1", 0.03))
    assert sent.worker == "w2"
    why = OwnerSilence.NO_RESPONDERS
    assert silent_in(sent.message) == SilentOwner(worker="w1", epoch=7, why=why)
    assert one.received(accepted("w1", 7), "w1", 0.04) == []  # it has lost it
    one.received(accepted("w2", 8), "w2", 0.05)
    assert one.received(events(1, epoch=7), "w1", 0.06) == []
    assert isinstance(one.received(events(1, epoch=8), "w2", 0.07)[0], GiveEvents)
    assert one.route(KEY) == ("w2", 8)


def test_an_owner_that_is_there_again_keeps_its_session() -> None:
    one = client("w1")
    one.say(say(), 0.0)
    one.received(accepted("w1", 7), "w1", 0.01)
    assert one.no_responders("w1", 0.03) == []  # and there is no other worker
    sent = only(one.beat(beat("w1", 2), 0.3))
    assert (sent.worker, silent_in(sent.message)) == ("w1", None)
    one.received(accepted("w1", 7), "w1", 0.31)
    assert isinstance(one.received(events(1, epoch=7), "w1", 0.32)[0], GiveEvents)


def test_whoever_says_who_has_it_is_believed() -> None:
    one = client("w1")
    one.say(say(), 0.0)
    moved = MovedMessage(id="u1", worker="w9", epoch=3)
    sent = only(one.received(moved, "w1", 0.01))
    assert (sent.worker, silent_in(sent.message)) == ("w9", None)


def test_who_has_lost_a_session_and_does_not_know_is_not_believed() -> None:
    """Its conversation lacks what was said to the owners after it."""
    one = client("w1", "w2", "w3")
    first = only(one.say(say(), 0.0)).worker
    one.received(accepted(first, 6), first, 0.01)
    done = DoneMessage(id="u1", epoch=6, turn=1, n=1, end="completed")
    one.received(done, first, 0.02)
    # It has released the session, and the database is away when it claims it again.
    assert only(one.say(say("u2"), 0.1)).worker == first
    away = RefusedMessage(id="u2", worker=first, reason=RefusalReason.UNAVAILABLE)
    one.received(away, first, 0.2)
    assert one.route(KEY) is None
    before = only(one.say(say("u3"), 0.3)).worker
    leaves, again = one.received(accepted(before, 5, "u3"), before, 0.31)
    assert leaves == ToWorker(before, LeaveMessage(id="u3"))
    assert isinstance(again, ToWorker)
    assert again.worker != before
    old = DoneMessage(id="u3", epoch=5, turn=9, n=1, end="completed")
    assert one.received(old, before, 0.32) == []
    assert one.received(structs.replace(old, n=0, end="lost"), before, 0.32) == []
    one.received(accepted(again.worker, 7, "u3"), again.worker, 0.33)
    new = structs.replace(old, epoch=7)
    assert one.received(new, again.worker, 0.4) == [EndSay("u3", again.worker, new)]
    # So it is with any other request.
    one.say(say("u4"), 0.5)
    away = structs.replace(away, id="u4", worker=again.worker)
    one.received(away, again.worker, 0.6)
    sent = only(one.ask(ask(), 0.7)).worker
    answer = AnswerMessage(id="q1", worker=sent, epoch=6, result=1)
    leaves, moved = one.received(answer, sent, 0.71)
    assert isinstance(moved, ToWorker)
    assert moved.worker != sent


def test_who_has_lost_a_session_is_not_believed_when_its_answer_is_late() -> None:
    one = client("w1", "w2")
    owner = only(one.say(say(), 0.0)).worker
    before = {"w1": "w2", "w2": "w1"}[owner]
    one.received(accepted(owner, 6), owner, 0.01)
    done = DoneMessage(id="u1", epoch=6, turn=1, n=1, end="completed")
    one.received(done, owner, 0.02)
    one.say(say("u2"), 0.1)
    # The owner is cut off for a moment, and there again when the other one answers.
    assert only(one.no_responders(owner, 0.2)).worker == before
    one.beat(beat(owner, 2), 0.25)
    actions = one.tick(0.2 + AGAIN)
    assert only([x for x in actions if x not in pings(actions)]).worker == owner
    assert one.received(accepted(before, 5, "u2"), before, 0.31) == []
    given = structs.replace(events(1, epoch=5), id="u2")
    assert one.received(given, before, 0.32) == []
    one.received(accepted(owner, 6, "u2"), owner, 0.33)
    given = structs.replace(given, epoch=6)
    assert isinstance(one.received(given, owner, 0.34)[0], GiveEvents)


@pytest.mark.parametrize("late", [False, True])
def test_the_epoch_is_learnt_from_every_answer(late: bool) -> None:
    one = client("w1", "w2")
    before = only(one.say(say(), 0.0)).worker
    owner = {"w1": "w2", "w2": "w1"}[before]
    one.received(accepted(before, 5), before, 0.01)
    assert only(one.no_responders(before, 0.1)).worker == owner
    done = DoneMessage(id="u1", epoch=6, turn=1, n=0, end="lost")
    if late:
        one.leave("u1", forget=True)
        done = structs.replace(done, n=4, end="completed")
    one.received(done, owner, 0.2)  # that it was accepted was never heard
    one.beat(beat(before, 2), 0.3)
    assert one.route(KEY) == (owner, 6)
    assert only(one.say(say("u2"), 0.4)).worker == owner
    assert one.received(accepted(before, 5, "u2"), before, 0.5) == []


def test_a_silent_owner_is_found_by_its_pongs() -> None:
    one = client("w1", "w2")
    sent = only(one.say(say(), 0.0))
    other = {"w1": "w2", "w2": "w1"}[sent.worker]
    one.received(accepted(sent.worker), sent.worker, 0.0)
    assert pings(one.tick(0.1))
    assert one.tick(0.15) == []
    actions: list[ClientAction] = []
    at = 0.15
    while not (steals := [x for x in actions if x not in pings(actions)]):
        at += 0.05
        actions = one.tick(at)
    assert at <= 0.1 + SILENT + 0.06
    stolen = only(steals)
    assert stolen.worker == other
    silent = silent_in(stolen.message)
    assert silent is not None
    assert silent.why == OwnerSilence.NO_PONG


def test_something_that_was_given_out_is_not_asked_for_again() -> None:
    one = client("w1", "w2")
    sent = only(one.say(say(), 0.0))
    one.received(accepted(sent.worker), sent.worker, 0.0)
    one.received(events(1), sent.worker, 0.1)
    assert one.no_responders(sent.worker, 0.2) == [EndSay("u1", sent.worker)]
    assert one.open == 0


def test_a_gap_ends_a_turn() -> None:
    one = client("w1")
    one.say(say(), 0.0)
    one.received(accepted("w1"), "w1", 0.0)
    one.received(events(1), "w1", 0.1)
    leave = ToWorker("w1", LeaveMessage(id="u1"))
    assert one.received(events(3), "w1", 0.1) == [leave, EndSay("u1", "w1")]


def test_another_worker_of_the_same_epoch_is_not_heard() -> None:
    one = client("w1", "w2")
    sent = only(one.say(say(), 0.0))
    other = "w2" if sent.worker == "w1" else "w1"
    one.received(accepted(sent.worker), sent.worker, 0.0)
    done = DoneMessage(id="u1", epoch=1, turn=1, n=1, end="completed")
    assert one.received(events(1), other, 0.1) == []
    assert one.received(done, other, 0.1) == []
    assert one.received(events(1), sent.worker, 0.1) != []


def test_who_stood_still_blames_nobody() -> None:
    one = client("w1", "w2")
    sent = only(one.say(say(), 0.0))
    one.received(accepted(sent.worker), sent.worker, 0.0)
    one.tick(0.1)
    woken = one.tick(2.0) + one.tick(2.05) + one.tick(2.2)
    assert woken == pings(woken)  # it asks for signs of life, and for nothing else
    assert one.counts == {}
    assert one.tick(2.35)
    assert one.counts == {"no_pong": 1}


def test_who_is_deaf_blames_nobody_but_keeps_the_time() -> None:
    one = client("w1")
    one.say(say(ms=2000), 0.0)
    one.tick(0.1)
    for at in range(2, 20):
        assert one.tick(at / 10, deaf=True) == []
    assert one.counts == {}
    (end,) = one.tick(2.01, deaf=True)
    assert isinstance(end, EndSay)
    one.say(say("u2", ms=60_000), 2.1)
    one.received(accepted("w1", id_="u2"), "w1", 2.1)
    ends = [x for n in range(21, 80) for x in one.tick(n / 10, deaf=True)]
    assert ends == [EndSay("u2", "w1")]


def test_without_workers_it_waits_for_one_and_is_refused_in_the_end() -> None:
    one = Placement(Random(1))
    assert one.say(say(ms=1000), 0.0) == []
    assert only(one.beat(beat("w1"), 0.5)).worker == "w1"
    one.no_responders("w1", 0.6)
    (end,) = [x for x in one.tick(1.01) if isinstance(x, EndSay)]
    assert isinstance(end.ended, RefusedMessage)
    assert end.ended.reason == RefusalReason.UNAVAILABLE


def test_workers_that_drain_or_are_full_are_not_chosen() -> None:
    one = client()
    one.beat(beat("w1", draining=True), 0.0)
    one.beat(beat("w2", room=0), 0.0)
    one.beat(beat("w3"), 0.0)
    assert only(one.say(say(), 0.0)).worker == "w3"
    refused = RefusedMessage(id="u1", worker="w3", reason=RefusalReason.WRONG_TENANT)
    assert one.received(refused, "w3", 0.1) == [EndSay("u1", "w3", refused)]


def ask(id_: str = "q1") -> AskMessage:
    return AskMessage(id=id_, session="table", npc="Bo", what="x", remaining_ms=5000.0)


def test_a_request_is_answered_by_the_owner_or_by_the_next_one() -> None:
    placement = client("w1", "w2")
    first = only(placement.ask(ask(), 0.0))
    other = "w2" if first.worker == "w1" else "w1"
    moved = MovedMessage(id="q1", worker=other, epoch=4)
    assert only(placement.received(moved, first.worker, 0.01)).worker == other
    again = placement.tick(0.01 + AGAIN)[-1]  # it is sent until it is answered
    left = pytest.approx(5000 - 1000 * (0.01 + AGAIN))
    # Whoever has it in an older epoch is told that it has lost it.
    expected = structs.replace(ask(), remaining_ms=left, least=4)
    assert again == ToWorker(other, expected)
    stolen = only(placement.no_responders(other, 0.2))
    assert stolen.worker == first.worker
    assert isinstance(stolen.message, AskMessage)
    assert stolen.message.least == 5
    assert stolen.message.silent == SilentOwner(
        worker=other, epoch=4, why=OwnerSilence.NO_RESPONDERS
    )
    late = AnswerMessage(id="q1", worker=other, epoch=4, result=1)
    assert placement.received(late, other, 0.2) == []  # it has lost the session
    answer = AnswerMessage(id="q1", worker=first.worker, epoch=5, result=2)
    (end,) = placement.received(answer, first.worker, 0.21)
    assert isinstance(end, EndSay)
    assert end.ended == answer
    assert placement.route(KEY) == (first.worker, 5)
    assert placement.received(answer, first.worker, 0.22) == []


def test_an_answer_of_the_wrong_kind_ends_nothing() -> None:
    placement = client("w1")
    placement.ask(ask(), 0.0)
    placement.say(say(), 0.0)
    answer = AnswerMessage(id="u1", worker="w1", epoch=1)
    done = DoneMessage(id="q1", epoch=1, turn=1, n=0, end="lost")
    assert placement.received(answer, "w1", 0.1) == []
    assert placement.received(done, "w1", 0.1) == []
    assert placement.open == 2


def test_a_request_that_nobody_answers_is_over_with_its_time() -> None:
    placement = client("w1")
    placement.ask(ask(), 0.0)
    for at in range(1, 101):
        placement.received(PongMessage(worker="w1"), "w1", at * 0.05)
        ends = [x for x in placement.tick(at * 0.05) if isinstance(x, EndSay)]
        assert bool(ends) == (at == 100)
    assert isinstance(ends[0].ended, RefusedMessage)
    assert ends[0].ended.reason == "unavailable"


def test_an_end_comes_once_and_a_time_that_is_over_is_one() -> None:
    one = client("w1")
    one.say(say(), 0.0)
    one.received(accepted("w1"), "w1", 0.0)
    done = DoneMessage(id="u1", epoch=1, turn=1, n=1, end="completed")
    assert one.received(done, "w1", 0.1) == [EndSay("u1", "w1", done)]
    assert one.received(done, "w1", 0.1) == []
    one.say(say("u2", ms=100), 1.0)
    one.received(accepted("w1", id_="u2"), "w1", 1.0)
    assert not [x for x in one.tick(1.2) if isinstance(x, EndSay)]
    assert EndSay("u2", "w1") in one.tick(1.2 + OVERTIME)
    with pytest.raises(ValueError, match="in use"):
        one.say(say("u3"), 4.0)
        one.say(say("u3"), 4.0)


# ---------------------------------------------------------------- a whole cluster


def troubled(
    seed: int, *, lossy: float, kills: bool, stops: bool, fails: bool = False
) -> tuple[World, list[Heard]]:
    """Play ten seconds of three workers, and then some in which nothing goes wrong.

    Returns:
      The world, and what was heard of each utterance.
    """
    random = Random(seed)
    heard: list[Heard] = []
    world = World(random, over=heard.append)
    people = [Client(world, name) for name in ("c1", "c2")]
    workers = [Worker(world, f"w{n}", Link(server=n % 2)) for n in range(3)]
    world.run(0.6)
    world.lossy = lossy
    said = 0
    while world.now < 10:
        world.run(world.now + random.uniform(0.0, 0.4))
        who, table = random.choice(people), f"table {random.randrange(3)}"
        match random.randrange(10):
            case 0 if kills and sum(not x.dead for x in workers) > 1:
                random.choice(workers).die(noticed=random.choice([0.0, 3.0]))
            case 1 if stops:
                until = world.now + random.uniform(0.05, 3.0)
                random.choice(workers).stopped = until
            case 2 if said:
                who.leave(f"u{random.randrange(said) + 1}")
            case 3 if fails:
                world.lose_server(server := random.randrange(2), [1 - server], 1.0)
            case 4 if fails and not world.journal.is_away(world.now):
                world.fail_over(random.uniform(0.05, 3.0))
            case _:
                said += 1
                who.say(f"u{said}", table, random.choice([0.3, 1.0, 4.0]))
    world.lossy = 0.0
    world.run(20)
    for at in range(3):
        people[0].say(f"last {at}", f"table {at}", 5.0)
    world.run(30)
    return world, heard


def check(world: World, heard: list[Heard]) -> None:
    """Assert what holds whatever happens."""
    assert world.settled() == []
    last = {x.id: x.end for x in heard if x.id.startswith("last")}
    assert last == {f"last {at}": "completed" for at in range(3)}


@given(
    st.integers(0, 2**32),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from([0, 0.05]),
)
def test_a_cluster_keeps_its_promises(
    seed: int, kills: bool, stops: bool, fails: bool, lossy: float
) -> None:
    check(*troubled(seed, lossy=lossy, kills=kills, stops=stops, fails=fails))


def test_without_trouble_nothing_is_lost() -> None:
    for seed in range(20):
        world, heard = troubled(seed, lossy=0, kills=False, stops=False)
        check(world, heard)
        # What was left before it was accepted has no other end.
        assert not [x for x in heard if x.end == "lost" and x.given]
