"""What somebody said, of pieces that come late and do not say whose they are."""

from __future__ import annotations

from glyphoxa_trio.providers.gemini_live.hearing import (
    GRACE,
    LATE,
    MAX_LATE,
    MAX_WORDS,
    PATIENCE,
)
from glyphoxa_trio.providers.s2s import (
    Committed,
    Event,
    Heard,
    Interrupted,
    ResponseEnd,
    ResponseEnded,
    ResponseStarted,
    SendAudio,
    SendText,
    SpeechBegins,
    SpeechEnds,
    SpeechStarted,
    SpeechStopped,
    TranscriptLine,
)

from .support import (
    INTERRUPTED,
    LIVE_3_8,
    TURN_COMPLETE,
    Talk,
    called,
    content,
    spoken,
    talk,
)

ONE, TWO, THREE = "t.said-1", "t.said-2", "t.said-3"


def heard(text: str, *, finished: bool | None = None) -> dict[str, object]:
    fields: dict[str, object] = {"text": text}
    if finished is not None:
        fields["finished"] = finished
    return content(inputTranscription=fields)


def activity(kind: str) -> dict[str, object]:
    return {"voiceActivity": {"voiceActivityType": f"ACTIVITY_{kind}"}}


def words(events: list[Event]) -> list[Heard]:
    return [event for event in events if isinstance(event, Heard)]


def answered(events: list[Event]) -> list[str | None]:
    """What the responses that begin are said to answer."""
    return [e.heard for e in events if isinstance(e, ResponseStarted)]


def listening() -> Talk:
    return talk("gemini-2.5-flash-native-audio")


def test_words_come_in_pieces_and_are_whole_once_the_answer_has_begun() -> None:
    found = listening()
    assert found.hear(heard(" Roll"), heard(" a d20.")) == [
        Heard("Roll", False, ONE),
        Heard("Roll a d20.", False, ONE),
    ]
    events = found.hear(spoken())
    assert (words(events), answered(events)) == ([], [ONE])
    assert found.wait(GRACE / 2) == []
    assert found.hear(heard(" Please.")) == [Heard("Roll a d20. Please.", False, ONE)]
    assert found.wait(GRACE) == [Heard("Roll a d20. Please.", True, ONE)]
    assert words(found.hear(spoken(), TURN_COMPLETE)) == []


def test_words_make_no_answer_of_what_has_none() -> None:
    found = listening()
    assert found.hear(heard("Hm")) == [Heard("Hm", False, ONE)]
    assert found.wait(60) == []


def test_where_the_server_says_which_is_the_last_it_is() -> None:
    found = listening()
    assert found.hear(heard("Roll!", finished=True)) == [Heard("Roll!", True, ONE)]
    assert found.hear(heard("Roll!", finished=True)) == []  # said twice
    assert answered(found.hear(spoken(), TURN_COMPLETE)) == [ONE]
    found.wait(LATE)
    again = found.hear(heard("And again", finished=False))
    assert again == [Heard("And again", False, TWO)]
    assert found.hear(heard("", finished=True)) == [Heard("And again", True, TWO)]
    assert found.hear(heard("", finished=True)) == []


def test_an_answer_that_says_nothing_is_one_as_well() -> None:
    found = listening()
    found.hear(heard("Hm"))
    assert answered(found.hear(TURN_COMPLETE)) == [ONE]
    found.wait(LATE)
    found.hear(heard("Hm"))
    found.wait(PATIENCE)
    assert answered(found.hear(TURN_COMPLETE)) == []  # of something else


def test_a_transcript_may_come_when_the_answer_runs() -> None:
    found = listening()
    assert answered(found.hear(spoken())) == [ONE]  # nothing else is known of it
    assert found.hear(heard("Roll")) == [Heard("Roll", False, ONE)]
    assert found.wait(GRACE) == [Heard("Roll", True, ONE)]


def test_a_transcript_may_come_after_the_answer() -> None:
    found = listening()
    found.hear(activity("START"), activity("END"), spoken(), TURN_COMPLETE)
    assert found.hear(heard("Roll")) == [Heard("Roll", False, ONE)]
    assert found.wait(GRACE) == [Heard("Roll", True, ONE)]


def test_the_last_piece_may_come_when_the_others_were_called_all() -> None:
    found = listening()
    found.hear(heard("Roll"), spoken())
    found.wait(GRACE)
    assert found.hear(heard(" a")) == []
    assert words(found.hear(TURN_COMPLETE, heard(" d20."))) == []
    assert found.wait(LATE) == [Heard("Roll a d20.", True, ONE)]
    assert found.hear(heard("Again")) == [Heard("Again", False, TWO)]


def test_what_comes_right_after_an_answer_may_be_the_next_question() -> None:
    found = listening()
    found.hear(heard("Roll"), spoken(), TURN_COMPLETE)
    assert found.hear(heard("And again")) == []
    events = found.hear(spoken())
    assert (words(events), answered(events)) == (
        [Heard("And again", False, TWO)],
        [TWO],
    )


def test_what_comes_before_an_interruption_is_of_whoever_barges_in() -> None:
    found = listening()
    found.hear(heard("Roll"), spoken())
    found.wait(GRACE)
    assert found.hear(heard("No,")) == []
    first = ResponseEnded(response="t.1", end=ResponseEnd.CANCELLED)
    no = Heard("No,", False, TWO)
    assert found.hear(INTERRUPTED) == [no, Interrupted(), first]
    assert words(found.hear(heard(" wait!"), TURN_COMPLETE)) == [
        Heard("No, wait!", False, TWO)
    ]
    events = found.hear(spoken()) + found.wait(GRACE)
    assert words(events) == [Heard("No, wait!", True, TWO)]
    assert answered(events) == [TWO]


def test_who_barges_into_an_answer_to_text_is_heard() -> None:
    found = listening()
    found.send(SendText(TranscriptLine("user", "Roll!")))
    events = found.hear(spoken(), heard("No,"))
    assert (words(events), answered(events)) == ([], [None])
    events = found.hear(INTERRUPTED, TURN_COMPLETE)
    assert words(events) == [Heard("No,", False, ONE)]
    assert found.wait(60) == []
    events = found.hear(heard(" wait!"), spoken()) + found.wait(GRACE)
    assert words(events) == [
        Heard("No, wait!", False, ONE),
        Heard("No, wait!", True, ONE),
    ]
    assert answered(events) == [ONE]


def test_an_interruption_by_text_is_nobody_who_speaks() -> None:
    found = talk(LIVE_3_8)
    found.hear(heard("Roll"), spoken())
    found.send(SendText(TranscriptLine("user", "No!")))
    assert answered(found.hear(INTERRUPTED, TURN_COMPLETE, spoken())) == [None]


def test_a_voice_that_the_server_announces_is_an_utterance() -> None:
    found = listening()
    assert found.hear(activity("START")) == [SpeechStarted()]
    assert found.hear(activity("END")) == [SpeechStopped(ONE)]
    # It goes on after a pause, before anybody has answered.
    assert found.hear(activity("START")) == [SpeechStarted()]
    assert found.hear(activity("END")) == [SpeechStopped(TWO)]
    assert answered(found.hear(spoken())) == [TWO]
    assert found.hear(activity("START"), INTERRUPTED)[0] == SpeechStarted()
    assert answered(found.hear(activity("END"), TURN_COMPLETE, spoken())) == [THREE]


def test_a_voice_that_the_client_announces_is_an_utterance() -> None:
    found = talk("gemini-2.5-flash-native-audio", automatic=False)
    found.send(SpeechBegins(), SendAudio(b"12"), SpeechEnds())
    assert found.wait(0) == [Committed(ONE)]
    assert answered(found.hear(spoken())) == [ONE]


def test_words_and_activity_are_of_one_utterance() -> None:
    found = listening()
    assert found.hear(heard("Roll")) == [Heard("Roll", False, ONE)]
    assert found.hear(activity("START"), activity("END"))[1] == SpeechStopped(ONE)


def test_a_late_piece_of_the_words_that_called_a_tool_is_theirs() -> None:
    found = listening()
    found.hear(heard("Roll"), called("fc-1"))
    assert found.hear(heard(" a d20.")) == []
    assert found.hear(spoken(), TURN_COMPLETE)
    assert found.wait(LATE) == [Heard("Roll a d20.", True, ONE)]


def test_an_endless_utterance_has_an_end() -> None:
    found = listening()
    piece = "x" * 1000
    events = found.hear(*[heard(piece) for _ in range(MAX_WORDS // 1000 + 9)])
    assert events[-1] == Heard(piece * (MAX_WORDS // 1000 + 1), False, ONE)
    assert found.wire.unknown == {"inputTranscription, too much": 8}
    found.hear(spoken(), TURN_COMPLETE)
    found.hear(*[heard("late") for _ in range(MAX_LATE + 5)])
    assert found.wire.unknown == {"inputTranscription, too much": 13}
