"""What somebody said, of pieces that come late and do not say which is the last."""

from __future__ import annotations

from glyphoxa_trio.providers.gemini_live.hearing import GRACE, LATE, MAX_LATE, MAX_WORDS
from glyphoxa_trio.providers.s2s import (
    Event,
    Heard,
    Interrupted,
    Line,
    ResponseEnd,
    ResponseEnded,
    SendText,
)

from .support import INTERRUPTED, TURN_COMPLETE, Talk, called, content, spoken, talk


def heard(text: str, *, finished: bool | None = None) -> dict[str, object]:
    fields: dict[str, object] = {"text": text}
    if finished is not None:
        fields["finished"] = finished
    return content(inputTranscription=fields)


def words(events: list[Event]) -> list[Heard]:
    return [event for event in events if isinstance(event, Heard)]


def listening() -> Talk:
    return talk("gemini-2.5-flash-native-audio")


def test_words_come_in_pieces_and_are_whole_once_the_answer_has_begun() -> None:
    found = listening()
    assert found.hear(heard(" Roll"), heard(" a d20.")) == [
        Heard("Roll", False),
        Heard("Roll a d20.", False),
    ]
    assert words(found.hear(spoken())) == []
    assert found.wait(GRACE / 2) == []
    assert found.hear(heard(" Please.")) == [Heard("Roll a d20. Please.", False)]
    assert found.wait(GRACE) == [Heard("Roll a d20. Please.", True)]
    assert words(found.hear(spoken(), TURN_COMPLETE)) == []


def test_a_call_needs_the_words_at_once() -> None:
    found = listening()
    found.hear(heard("Roll!"))
    events = found.hear(called("fc-1"))
    assert events[1] == Heard("Roll!", True)
    assert found.wait(60) == []


def test_where_the_server_says_which_is_the_last_it_is() -> None:
    found = listening()
    assert found.hear(heard("Roll!", finished=True)) == [
        Heard("Roll!", False),
        Heard("Roll!", True),
    ]
    assert found.hear(heard("And again", finished=False)) == [Heard("And again", False)]
    assert found.hear(heard("", finished=True)) == [Heard("And again", True)]
    assert found.hear(heard("", finished=True)) == []


def test_a_turn_ends_what_was_said_before_it() -> None:
    found = listening()
    found.hear(heard("Hm"))
    assert words(found.hear(TURN_COMPLETE)) == [Heard("Hm", True)]
    assert found.hear(heard("Roll")) == [Heard("Roll", False)]


def test_a_transcript_may_come_when_the_answer_runs() -> None:
    found = listening()
    found.hear(spoken())
    assert found.hear(heard("Roll")) == [Heard("Roll", False)]
    assert found.wait(GRACE) == [Heard("Roll", True)]


def test_a_transcript_may_come_when_it_is_too_late() -> None:
    found = listening()
    found.hear(heard("Roll"), spoken())
    found.wait(GRACE)
    assert found.hear(heard(" a d20.")) == []
    assert words(found.hear(TURN_COMPLETE)) == []
    assert found.wire.unknown == {"inputTranscription, too late": 1}
    assert found.hear(heard("Again")) == [Heard("Again", False)]


def test_what_comes_before_an_interruption_is_of_whoever_barges_in() -> None:
    found = listening()
    found.hear(heard("Roll"), spoken())
    found.wait(GRACE)
    assert found.hear(heard("No,")) == []
    first = ResponseEnded(response="t.1", end=ResponseEnd.CANCELLED)
    assert found.hear(INTERRUPTED) == [Heard("No,", False), Interrupted(), first]
    assert words(found.hear(heard(" wait!"), TURN_COMPLETE)) == [
        Heard("No, wait!", False)
    ]
    events = found.hear(spoken()) + found.wait(GRACE)
    assert words(events) == [Heard("No, wait!", True)]


def test_who_barges_into_an_answer_to_text_is_not_cut_short() -> None:
    found = listening()
    found.send(SendText(Line("user", "Roll!")))
    found.hear(spoken(), heard("No,"))
    assert words(found.hear(INTERRUPTED, TURN_COMPLETE)) == []
    assert found.wait(60) == []
    events = found.hear(heard(" wait!"), spoken()) + found.wait(GRACE)
    assert words(events) == [Heard("No, wait!", False), Heard("No, wait!", True)]


def test_a_late_piece_of_the_words_that_called_a_tool_is_nobodys() -> None:
    found = listening()
    found.hear(heard("Roll"), called("fc-1"))
    assert found.hear(heard(" a d20.")) == []


def test_who_speaks_while_a_tool_runs_is_heard() -> None:
    found = listening()
    found.hear(heard("Roll"), called("fc-1"))
    found.wait(LATE)
    assert found.hear(heard("Well?")) == [Heard("Well?", False)]
    assert found.wait(GRACE) == [Heard("Well?", True)]


def test_an_endless_utterance_has_an_end() -> None:
    found = listening()
    piece = "x" * 1000
    events = found.hear(*[heard(piece) for _ in range(MAX_WORDS // 1000 + 1)])
    assert events[-1] == Heard(piece * (MAX_WORDS // 1000 + 1), True)
    found.hear(spoken(), *[heard("late") for _ in range(MAX_LATE + 5)], TURN_COMPLETE)
    assert found.wire.unknown == {"inputTranscription, too late": MAX_LATE + 5}
