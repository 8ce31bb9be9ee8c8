"""The end of a turn at which somebody listens, and how it reaches the session."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trio

from glyphoxa_trio.actors import Handover, Stream
from glyphoxa_trio.npc.conversation import Exchange
from glyphoxa_trio.npc.events import Sentence, TurnEvent
from glyphoxa_trio.npc.spoken_audio import SpokenAudio
from glyphoxa_trio.npc.turn.listener import Listener
from glyphoxa_trio.npc.turn.utterance import Utterance


def said_aloud() -> Exchange:
    exchange = Exchange("Ann", "Well?")
    round_ = exchange.begin_round()
    aloud = SpokenAudio()
    for place, text in enumerate(("One is here.", "Two are there.")):
        round_.sentences.append(text)
        aloud.begin(0, place, text)
        aloud.give(0, place, 1.0)
        aloud.end(0, place)
    exchange.aloud = aloud
    return exchange


def test_what_was_played_before_the_turn_was_accepted_counts() -> None:
    listener, exchange = Listener(), said_aloud()
    listener.played(1.0)
    assert (listener.heard, listener.text, listener.unplayed) == ("", "", 0.0)
    listener.hears(exchange, 3, None)
    assert (listener.heard, listener.text, listener.number) == (
        "One is here.",
        "Well?",
        3,
    )
    assert listener.unplayed == 1.0
    listener.played(2.0)
    assert listener.heard == "One is here. Two are there."


def test_the_words_that_another_program_has_spoken_count() -> None:
    listener, utterance = Listener(), Exchange("Ann", "Well?")
    listener.heard_words("", over=False)  # before the turn was accepted
    listener.hears(utterance, 3, None)
    round_ = utterance.begin_round()
    round_.sentences += ["One is here.", "Two are there."]
    utterance.delivered(0)
    assert listener.heard == ""
    assert listener.unplayed == len("One is here. Two are there.") / 15
    listener.heard_words("One  is here. Two", over=False)
    assert listener.heard == "One is here. Two"
    assert listener.unplayed == len("are there.") / 15 + 1 / 15
    utterance.begin_round().sentences.append("Three.")
    listener.heard_words("one is here two are", over=True)
    assert (listener.heard, listener.unplayed) == ("One is here. Two are", 0.0)
    listener.heard_words("One is here. Two are there. Three. And more.", over=True)
    assert listener.heard == utterance.written


def test_reported_words_count_where_there_is_audio_as_well() -> None:
    listener, exchange = Listener(), said_aloud()
    listener.hears(exchange, 3, None)
    listener.played(2.0)
    listener.heard_words("One", over=True)
    assert (listener.heard, listener.unplayed) == ("One", 0.0)


@given(
    st.lists(
        st.sampled_from(["accept", "cancel a", "cancel b", "swap", "leave", "discard"]),
        max_size=6,
    )
)
def test_a_turn_is_cancelled_by_whoever_is_first_whenever_that_is(
    steps: list[str],
) -> None:
    async def main() -> None:
        listener = Listener()
        utterance = Utterance("Well?", "Ann", listener=listener)
        first: str | None = None
        accepted = False
        for step in steps:
            match step.split():
                case ["accept"] if not accepted:
                    utterance.accepted(1)
                    accepted = True
                case ["cancel", reason]:
                    listener.stream.cancel(reason)
                    first = first or reason
                case ["swap"] if not accepted:  # a recording listens, too
                    listener.listen_through(Stream())
                case ["leave"]:
                    listener.stream.leave()
                    first = first or "the listener left"
                case ["discard"]:
                    listener.stream.discard()
            assert utterance.scope.cancel_called == (accepted and first is not None)
            if accepted:
                assert utterance.reason == (first or "the session ended")

    trio.run(main)


async def test_a_turn_that_was_cancelled_before_a_recording_heard_of_it_is() -> None:
    listener = Listener()
    listener.stream.cancel("it was for somebody else")
    listener.listen_through(Stream())
    utterance = Utterance("Well?", "Ann", listener=listener)
    utterance.accepted(1)
    assert utterance.scope.cancel_called
    assert utterance.reason == "it was for somebody else"


async def test_nobody_reads_and_the_turn_goes_on() -> None:
    listener = Listener()
    utterance = Utterance("Well?", "Ann", listener=listener)
    utterance.accepted(1)
    listener.stream.discard()
    round_ = utterance.exchange.begin_round()
    round_.sentences.append("So.")
    event: TurnEvent = Sentence(npc="Bo", turn=1, text="So.", round=0)
    for _ in range(200):  # more than there is room for
        assert await listener.stream.send(event, within=0.0)
    assert not utterance.scope.cancel_called
    assert listener.heard == ""


def test_what_is_handed_over_is_taken_once_by_whoever_knows_its_name() -> None:
    handover, thing = Handover(), Listener()
    name = handover.put(thing)
    assert handover.take("", Listener) is None
    assert handover.take(name, Exchange) is None  # it is something else
    assert handover.look(name, Listener) is thing
    assert handover.take(name, Listener) is thing
    assert handover.take(name, Listener) is None
    assert len(handover) == 0


def test_what_nobody_takes_is_gone_with_the_block() -> None:
    handover = Handover()
    with pytest.raises(KeyError), handover.offered(Listener()) as name:
        assert len(handover) == 1
        raise KeyError(name)
    assert len(handover) == 0
    with handover.offered(Listener()) as name, handover.offered(Listener()) as other:
        assert name != other
        assert handover.take(name, Listener) is not None
    assert len(handover) == 0


async def test_a_listener_that_is_gone_before_its_message_is_read_is_not_answered() -> (
    None
):
    stream: Stream[int] = Stream()
    stream.leave()
    told: list[str] = []
    stream.produced_by(lambda _: None, told.append)
    stream.cancel("again")
    assert (told, stream.cancelled) == (["the listener left"], "the listener left")
    with trio.fail_after(60):
        assert [x async for x in stream] == []
