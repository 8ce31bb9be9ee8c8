"""Utterances from the messages of sockets, by hand and at random."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.providers.deepgram.kept import FRAME, LEAD, LONGEST, KeptAudio
from glyphoxa_trio.providers.deepgram.turns import FluxTurns
from glyphoxa_trio.providers.deepgram.wire import (
    Connected,
    FluxEvent,
    FluxTurnEvent,
    FluxWire,
    SendSound,
    TurnInfo,
    address,
)
from glyphoxa_trio.providers.live_wire import Lane
from glyphoxa_trio.providers.llm import ErrorKind
from glyphoxa_trio.providers.s2s import LinkClosed
from glyphoxa_trio.providers.speech import (
    Began,
    Final,
    NotUnderstood,
    Partial,
    Recognized,
    Sounding,
)
from glyphoxa_trio.secret import Secret


def info(
    event: str, text: str = "", *, turn: int = 0, ends: float = 1.0, spoken: float = 0.5
) -> TurnInfo:
    kind = FluxTurnEvent(event)
    return TurnInfo(event=kind, index=turn, text=text, ends=ends, spoken=spoken)


def hear(turns: FluxTurns, *infos: TurnInfo) -> list[Recognized]:
    return [event for each in infos for event in turns.hear(each)]


def test_a_turn_is_an_utterance() -> None:
    turns = FluxTurns()
    assert hear(
        turns,
        info("Update"),
        info("StartOfTurn", "How"),
        info("Update", "How"),
        info("Update", "How much"),
        info("EagerEndOfTurn", "How much is it?"),
        info("TurnResumed", "How much is it?"),
        info("EndOfTurn", "How much is it now?"),
        info("Update", turn=1),
    ) == [
        Began(1),
        Partial("How"),
        Partial("How much"),
        Partial("How much is it?"),
        Final("How much is it now?"),
    ]


@pytest.mark.parametrize(
    "lost",
    [
        [info("StartOfTurn", "Yes.", turn=1)],
        [info("Update", turn=1), info("StartOfTurn", "Yes.", turn=1)],
    ],
)
def test_an_end_that_is_lost_comes_with_the_next_turn(lost: list[TurnInfo]) -> None:
    turns = FluxTurns()
    assert hear(turns, info("StartOfTurn", "No."), *lost) == [
        Began(1),
        Partial("No."),
        Final("No."),
        Began(2),
        Partial("Yes."),
    ]


def test_a_start_that_is_lost_and_what_comes_twice_or_late_change_nothing() -> None:
    turns = FluxTurns()
    assert hear(turns, info("Update", "No.")) == [Began(1), Partial("No.")]
    assert hear(turns, info("EndOfTurn", "No."), info("EndOfTurn", "No.")) == [
        Final("No.")
    ]
    assert hear(turns, info("Update", "No. I")) == []
    assert hear(turns, info("EndOfTurn", "Yes.", turn=2)) == [Began(2), Final("Yes.")]
    assert hear(turns, info("EndOfTurn", "Once", turn=1)) == []
    assert hear(turns, info("EndOfTurn", turn=3)) == []  # noise that was no speech


def test_an_utterance_goes_on_with_the_first_turn_of_a_new_socket() -> None:
    turns = FluxTurns()
    hear(turns, info("StartOfTurn", "How much", turn=4))
    turns.restart(2.0)
    assert hear(
        turns,
        info("Update", ends=0.2),
        info("StartOfTurn", "How", ends=0.5),
        info("Update", "How much"),
        info("EndOfTurn", "How much is it?", ends=3.0),
    ) == [Partial("How"), Partial("How much"), Final("How much is it?")]
    assert turns.number == 1


def test_an_utterance_that_is_not_there_any_more_keeps_its_words() -> None:
    turns = FluxTurns()
    hear(turns, info("StartOfTurn", "How much"))
    turns.restart(2.0)
    assert hear(turns, info("Update", ends=2.9)) == []
    assert hear(turns, info("Update", ends=3.0)) == [Final("How much")]
    assert hear(turns, info("StartOfTurn", "Yes.")) == [Began(2), Partial("Yes.")]


def test_what_cannot_be_understood_ends_once() -> None:
    turns = FluxTurns()
    assert turns.fail("away") == []
    hear(turns, info("StartOfTurn"))
    assert turns.fail("away") == [NotUnderstood("away")]
    assert turns.fail("away") == []


def test_the_length_of_speech_is_told_of_the_utterance() -> None:
    turns = FluxTurns()
    quiet, start = info("Update"), info("StartOfTurn", "How", spoken=0.3)
    end = info("EndOfTurn", "How?", spoken=0.7)
    for each, sounding in (
        (quiet, None),
        (start, Sounding(1, 0.3)),
        (end, Sounding(1, 0.7, over=True)),
        (info("Update", turn=1), None),
    ):
        turns.hear(each)
        assert turns.sounding(each) == sounding


EVENTS = st.sampled_from(list(FluxTurnEvent))


@given(
    st.lists(
        st.one_of(
            st.builds(
                TurnInfo,
                event=EVENTS,
                index=st.integers(0, 4),
                text=st.sampled_from(["", "a", "a b"]),
                ends=st.floats(0, 9),
                spoken=st.floats(0, 9),
            ),
            st.floats(0, 3),
            st.none(),
        ),
        max_size=30,
    )
)
def test_every_utterance_ends_once_whatever_comes(
    steps: list[TurnInfo | float | None],
) -> None:
    turns, found = FluxTurns(), list[Recognized]()
    for step in steps:
        if isinstance(step, TurnInfo):
            found += turns.hear(step)
        elif step is None:
            found += turns.fail("away")
        else:
            turns.restart(step)
    found += turns.fail("over")
    number, is_open = 0, False
    for event in found:
        match event:
            case Began(utterance):
                assert not is_open
                number, is_open = number + 1, True
                assert utterance == number
            case Partial():
                assert is_open
            case Final() | NotUnderstood():
                assert is_open
                is_open = False
    assert not is_open


# The audio that is kept.


def frame(number: int) -> bytes:
    return number.to_bytes(2, "little")


def keep(kept: KeptAudio, *numbers: int, sent: bool = True, whole: bool = True) -> None:
    for number in numbers:
        kept.add(frame(number), sent=sent, whole=whole)


def test_what_is_settled_is_not_heard_again() -> None:
    kept = KeptAudio()
    keep(kept, *range(10))
    kept.settle(3.5 * FRAME)
    assert kept.again() == [frame(number) for number in range(3, 10)]
    assert kept.seconds == pytest.approx(7 * FRAME)
    # The next socket counts from what it is sent again.
    kept.settle(2 * FRAME)
    assert kept.again() == [frame(number) for number in range(5, 10)]
    assert kept.dropped == 0


def test_no_more_is_kept_than_an_utterance_may_need() -> None:
    kept = KeptAudio()
    keep(kept, *range(1000))
    assert kept.seconds == pytest.approx(LONGEST, abs=FRAME)
    keep(kept, 1000, whole=False)
    assert kept.seconds == pytest.approx(LEAD, abs=FRAME)
    assert kept.again()[-1] == frame(1000)
    assert kept.dropped == 0


def test_what_no_socket_has_heard_is_counted() -> None:
    kept = KeptAudio()
    keep(kept, *range(100))
    keep(kept, *range(1000), sent=False)
    assert kept.dropped == pytest.approx(1000 * FRAME - LONGEST, abs=FRAME)
    before = kept.dropped
    kept.again()
    kept.clear()
    assert kept.dropped == before
    assert kept.again() == []


# The wire.


def message(**fields: Any) -> dict[str, Any]:
    return {
        "type": "TurnInfo",
        "event": "Update",
        "turn_index": 0,
        "audio_window_start": 0.5,
        "audio_window_end": 2.0,
        "transcript": " How much ",
        "words": [
            {"word": "How", "start": 0.75, "end": 1},
            {"word": "much", "end": 1.5},
        ],
        "end_of_turn_confidence": 0.1,
        **fields,
    }


def receive(wire: FluxWire, *messages: Any) -> list[FluxEvent]:
    return [
        event for each in messages for event in wire.receive(json.dumps(each), now=0.0)
    ]


def test_a_message_says_the_words_and_how_long_they_sounded() -> None:
    (found,) = receive(FluxWire(), message())
    assert found == info("Update", "How much", ends=2.0, spoken=0.75)
    (found,) = receive(FluxWire(), message(words=[]))
    assert found == info("Update", "How much", ends=2.0, spoken=1.5)


def test_a_socket_is_set_up_once_the_server_says_so() -> None:
    wire = FluxWire()
    wire.send(SendSound(b"again", again=True), 0.0)
    wire.send(SendSound(b"new"), 0.0)
    assert not wire.ready
    assert receive(wire, {"type": "Connected", "sequence_id": 0}) == [Connected()]
    assert wire.ready
    assert [(x.data, x.lane) for x in wire.outgoing()] == [
        (b"again", Lane.CONTROL),
        (b"new", Lane.AUDIO),
    ]
    assert wire.outgoing() == []


def test_a_message_that_comes_twice_or_late_is_no_news() -> None:
    wire = FluxWire()
    first, second = message(sequence_id=4), message(sequence_id=5)
    assert len(receive(wire, first, first, second, first)) == 2


@pytest.mark.parametrize(
    "nonsense",
    [
        7,
        [],
        {"type": "Warning", "code": "LOUD"},
        {"kind": "TurnInfo"},
        {"type": ["TurnInfo"]},
        message(turn_index=-1),
        message(turn_index="0"),
        message(transcript=None),
        message(audio_window_end="2"),
        message(audio_window_end=-1),
    ],
    ids=str,
)
def test_nonsense_is_counted_and_nothing_else(nonsense: object) -> None:
    wire = FluxWire()
    assert receive(wire, nonsense) == []
    assert sum(wire.unknown.values()) == 1
    for number in range(100):
        receive(wire, {"type": f"Surprise{number}"})
    assert len(wire.unknown) <= 16


@pytest.mark.parametrize(
    "words", [None, "words", [7], [{"start": "x", "end": 1}], [{"start": 1}]], ids=str
)
def test_words_without_times_are_as_long_as_the_turn(words: object) -> None:
    (found,) = receive(FluxWire(), message(words=words))
    assert isinstance(found, TurnInfo)
    assert found.spoken == 1.5


@pytest.mark.parametrize(
    ("code", "kind", "retryable"),
    [
        ("INTERNAL_SERVER_ERROR", ErrorKind.OVERLOADED, True),
        ("SERVICE_UNAVAILABLE", ErrorKind.OVERLOADED, True),
        ("QUOTA_EXCEEDED", ErrorKind.RATE_LIMITED, True),
        ("INVALID_AUTH", ErrorKind.AUTHENTICATION, False),
        ("INVALID_QUERY", ErrorKind.BAD_REQUEST, False),
    ],
)
def test_an_error_ends_the_socket(code: str, kind: ErrorKind, retryable: bool) -> None:
    error = {"type": "Error", "code": code, "description": "it said sk-secret"}
    with pytest.raises(LinkClosed) as caught:
        receive(FluxWire(Secret("sk-secret")), error)
    assert (caught.value.kind, caught.value.retryable) == (kind, retryable)
    assert "sk-secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("model", "language", "query"),
    [
        (None, None, "model=flux-general-en"),
        (None, "en-GB", "model=flux-general-en"),
        (None, "de-AT", "model=flux-general-multi"),
        ("flux-general-en", "de", "model=flux-general-en"),
    ],
)
def test_the_language_chooses_the_model(
    model: str | None, language: str | None, query: str
) -> None:
    found = address("https://h/x", model, language=language, phrases=(), eager=None)
    hint = "&language_hint=de" if "multi" in query else ""
    expected = f"wss://h/x/v2/listen?{query}&encoding=linear16&sample_rate=16000{hint}"
    assert found == expected


def test_phrases_are_terms_and_an_early_end_is_asked_for() -> None:
    found = address(
        "http://h", None, language=None, phrases=("Sir Vex", "Moira"), eager=0.5
    )
    assert found.startswith("ws://h/")
    assert found.endswith("&eager_eot_threshold=0.5&keyterm=Sir+Vex&keyterm=Moira")
