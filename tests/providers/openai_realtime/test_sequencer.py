"""One active response at a time: each way in which two could meet."""

from __future__ import annotations

from typing import Any

import pytest

from glyphoxa_trio.providers.openai_realtime.sequencer import (
    UTTERANCE,
    WATCHDOG,
    Sequencer,
    SequencerState,
)
from glyphoxa_trio.providers.s2s import Cancel, Complaint, Respond

from .support import BY_HAND, Talk, text

ACTIVE = "conversation_already_has_active_response"


def speech_starts(talk: Talk) -> None:
    talk.hear(
        "input_audio_buffer.speech_started", audio_start_ms=0, item_id="item_user"
    )


def speech_stops(talk: Talk) -> None:
    talk.hear(
        "input_audio_buffer.speech_stopped", audio_end_ms=900, item_id="item_user"
    )


def state(talk: Talk) -> str:
    return talk.wire.sequencer.state


def kinds(frames: list[dict[str, Any]]) -> list[str]:
    return [frame["type"] for frame in frames]


def test_a_response_is_asked_for_at_once_if_nothing_runs() -> None:
    talk = Talk.ready()
    assert kinds(talk.do(text("Hello"), Respond())) == [
        "conversation.item.create",
        "response.create",
    ]
    assert state(talk) == SequencerState.CREATING
    talk.starts()
    assert state(talk) == SequencerState.ACTIVE
    talk.ends()
    assert state(talk) == SequencerState.IDLE
    assert talk.sent() == []


def test_wants_that_wait_together_are_one() -> None:  # field problem 1
    talk = Talk.ready()
    talk.do(Respond())
    assert talk.do(Respond(instructions="a"), Respond()) == []
    talk.starts()
    assert talk.do(Respond(instructions="b"), Respond(tools_forbidden=True)) == []
    talk.ends()
    [create] = talk.sent()
    assert create["response"]["instructions"].endswith("b")
    assert create["response"]["tool_choice"] == "none"
    talk.starts("resp_2")
    talk.ends("resp_2")
    assert talk.sent() == []


def test_nothing_is_asked_for_before_the_session_is_set_up() -> None:
    talk = Talk()
    assert talk.do(Respond()) == []
    talk.hear("session.created", session={"type": "realtime"})
    assert kinds(talk.sent()) == ["session.update"]
    assert talk.wire.alarm is None
    talk.hear("session.updated", session={"type": "realtime"})
    assert kinds(talk.sent()) == ["response.create"]


def test_a_refusal_waits_for_the_end_and_asks_once_more() -> None:  # field problem 1
    talk = Talk.ready()
    [create] = talk.do(Respond(instructions="a"))
    talk.starts("resp_of_the_server")  # it crossed ours
    assert talk.refuses(ACTIVE, create["event_id"]) == []
    assert talk.sent() == []
    talk.ends("resp_of_the_server")
    [again] = talk.sent()
    assert again["response"] == create["response"]
    assert again["event_id"] != create["event_id"]
    [complaint] = talk.refuses(ACTIVE, again["event_id"])
    assert isinstance(complaint, Complaint)
    assert complaint.code == ACTIVE
    assert talk.wake() != []  # whatever runs there, we never saw it begin
    assert talk.sent() == []
    assert kinds(talk.do(Respond())) == ["response.create"]


@pytest.mark.parametrize("named", [True, False])
def test_a_refusal_by_a_response_that_nobody_saw_waits_for_any_end(
    named: bool,
) -> None:
    talk = Talk.ready()
    [create] = talk.do(Respond())
    assert talk.refuses(ACTIVE, create["event_id"] if named else None) == []
    assert state(talk) == SequencerState.ACTIVE
    talk.ends("resp_unseen")
    assert kinds(talk.sent()) == ["response.create"]


def test_a_refusal_of_what_is_not_wanted_any_more_is_the_end_of_it() -> None:
    talk = Talk.ready()
    [create] = talk.do(Respond())
    assert talk.do(Cancel()) == []
    talk.starts("resp_of_the_server")
    assert kinds(talk.sent()) == ["response.cancel"]
    assert talk.refuses(ACTIVE, create["event_id"]) == []
    talk.ends("resp_of_the_server", "cancelled")
    assert talk.sent() == []


def test_a_refused_and_unwanted_one_stops_whatever_runs_instead() -> None:
    talk = Talk.ready()
    [create] = talk.do(Respond())
    talk.do(Cancel())
    assert talk.refuses(ACTIVE, create["event_id"]) == []
    [cancel] = talk.sent()
    assert cancel["type"] == "response.cancel"
    assert "response_id" not in cancel
    talk.ends("resp_unseen", "cancelled")
    assert talk.sent() == []


def test_a_create_that_is_wrong_is_given_up_at_once() -> None:
    talk = Talk.ready()
    [create] = talk.do(Respond())
    [complaint] = talk.refuses("invalid_value", create["event_id"])
    assert isinstance(complaint, Complaint)
    assert talk.wire.alarm is None
    assert kinds(talk.do(Respond())) == ["response.create"]


def test_an_error_about_something_else_changes_nothing() -> None:
    talk = Talk.ready()
    [said] = talk.do(text("Hello"))
    talk.do(Respond())
    talk.refuses("invalid_value", said["event_id"])
    assert state(talk) == SequencerState.CREATING
    talk.refuses(ACTIVE, "somebody-elses")
    assert state(talk) == SequencerState.CREATING


def test_cancelling_names_the_response_and_is_said_once() -> None:
    talk = Talk.ready()
    assert talk.do(Cancel()) == []
    talk.starts()
    [cancel] = talk.do(Cancel(), Cancel())
    assert cancel["response_id"] == "resp_1"
    talk.ends(status="cancelled")
    assert talk.do(Cancel()) == []


def test_cancelling_what_is_being_created_waits_for_its_name() -> None:
    talk = Talk.ready()
    talk.do(Respond())
    assert talk.do(Cancel()) == []
    talk.starts()
    [cancel] = talk.sent()
    assert (cancel["type"], cancel["response_id"]) == ("response.cancel", "resp_1")


def test_cancelling_withdraws_what_was_wanted_but_not_what_is_wanted_after() -> None:
    talk = Talk.ready()
    talk.starts()
    talk.do(Respond(tools_forbidden=True))
    assert kinds(talk.do(Cancel(), Respond(instructions="new"))) == ["response.cancel"]
    talk.ends(status="cancelled")
    [create] = talk.sent()
    assert create["response"] == {"instructions": "You are Greymantle.\n\nnew"}


def test_the_end_of_another_response_is_not_the_end_of_this_one() -> None:
    sequencer = Sequencer()
    sequencer.started("resp_1", 0)
    sequencer.ended("resp_0", 0)
    assert sequencer.state is SequencerState.ACTIVE


@pytest.mark.parametrize("named", [True, False])
def test_a_cancel_that_crossed_the_end_is_harmless(named: bool) -> None:
    talk = Talk.ready()
    talk.starts()
    [cancel] = talk.do(Cancel())
    talk.ends()
    about = cancel["event_id"] if named else None
    complaints = talk.refuses("response_cancel_not_active", about)
    assert bool(complaints) != named  # whose it is cannot be told without its name
    assert state(talk) == SequencerState.IDLE


def test_a_cancel_of_what_had_ended_unseen_frees_the_way() -> None:
    talk = Talk.ready()
    talk.starts()
    [cancel] = talk.do(Cancel())
    talk.do(Respond())
    assert talk.refuses("response_cancel_not_active", cancel["event_id"]) == []
    assert kinds(talk.sent()) == ["response.create"]


def test_an_interrupted_response_is_not_cancelled_as_well() -> None:
    talk = Talk.ready()  # field problem 11
    talk.starts()
    speech_starts(talk)
    assert talk.do(Cancel()) == []
    details = {"type": "cancelled", "reason": "turn_detected"}
    talk.ends(status="cancelled", status_details=details)
    assert talk.sent() == []


def test_nothing_is_asked_for_while_somebody_speaks_or_is_about_to_be_answered() -> (
    None
):
    talk = Talk.ready()
    speech_starts(talk)
    assert talk.do(Respond()) == []
    speech_stops(talk)
    assert talk.do(Respond()) == []
    talk.starts("resp_of_the_server")
    assert talk.sent() == []
    talk.ends("resp_of_the_server")
    assert kinds(talk.sent()) == ["response.create"]


def test_a_response_that_the_server_owes_is_not_waited_for_without_end() -> None:
    talk = Talk.ready()
    speech_starts(talk)
    speech_stops(talk)
    talk.do(Respond())
    assert talk.wake() == []
    assert talk.now == WATCHDOG
    assert kinds(talk.sent()) == ["response.create"]


def test_nor_is_somebody_who_never_stops() -> None:
    talk = Talk.ready()
    speech_starts(talk)
    talk.do(Respond())
    assert talk.wake() == []
    assert talk.now == UTTERANCE
    assert kinds(talk.sent()) == ["response.create"]


def test_speech_that_is_thrown_away_is_not_waited_for() -> None:
    talk = Talk.ready()
    speech_starts(talk)
    talk.do(Respond())
    talk.hear("input_audio_buffer.cleared")
    assert kinds(talk.sent()) == ["response.create"]


def test_a_response_that_began_before_somebody_spoke_does_not_hide_them() -> None:
    talk = Talk.ready()
    talk.do(Respond())
    speech_starts(talk)
    talk.starts()
    talk.do(Respond())
    talk.ends()
    assert talk.sent() == []  # they still speak
    speech_stops(talk)
    talk.starts("resp_2")
    talk.ends("resp_2")
    assert kinds(talk.sent()) == ["response.create"]


def test_a_response_to_speech_is_not_taken_for_ours_that_is_not_wanted() -> None:
    talk = Talk.ready()
    talk.do(Respond())
    speech_starts(talk)
    talk.do(Cancel())
    speech_stops(talk)
    talk.starts("resp_theirs")
    assert talk.sent() == []  # theirs goes on


def test_a_session_by_hand_is_not_interrupted_by_what_it_hears() -> None:
    talk = Talk.ready(BY_HAND)
    talk.starts()
    speech_starts(talk)
    assert kinds(talk.do(Cancel())) == ["response.cancel"]


def test_a_response_that_comes_after_all_is_the_active_one() -> None:
    talk = Talk.ready()
    talk.do(Respond())
    talk.wake()
    talk.starts("resp_late")
    assert talk.do(Respond()) == []
    talk.ends("resp_late")
    assert kinds(talk.sent()) == ["response.create"]
