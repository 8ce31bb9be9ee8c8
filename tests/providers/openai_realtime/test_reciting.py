"""Words that are said as they stand, beside the conversation: what is sent."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from glyphoxa_trio.providers.llm import Usage
from glyphoxa_trio.providers.s2s import (
    AudioOut,
    RecitalEnded,
    Recite,
    Recited,
    Respond,
    ResponseStarted,
    StopReciting,
)

from .support import Talk

TAKEN = {"input_tokens": 7, "output_tokens": 9, "total_tokens": 16}


def response(id_: str, name: str = "", **more: Any) -> dict[str, Any]:
    metadata = {"recital": name} if name else None
    return {"id": id_, "object": "realtime.response", "metadata": metadata, **more}


def audio(talk: Talk, id_: str, pcm: bytes) -> list[Any]:
    delta = b64encode(pcm).decode()
    where = {"item_id": f"i_{id_}", "output_index": 0, "content_index": 0}
    return talk.hear(
        "response.output_audio.delta", response_id=id_, delta=delta, **where
    )


def test_it_is_no_part_of_the_conversation_and_needs_no_place_in_it() -> None:
    talk = Talk.ready()
    talk.do(Respond())
    started = talk.hear("response.created", response=response("r1"))
    assert started == [ResponseStarted("r1")]
    (asked,) = talk.do(Recite("7", "Mind the gap."))
    assert asked["response"]["conversation"] == "none"
    assert asked["response"]["tool_choice"] == "none"
    (line,) = asked["response"]["input"]
    assert line["content"] == [{"type": "input_text", "text": "Mind the gap."}]
    assert talk.hear("response.created", response=response("r2", "7")) == []
    # Both speak, and each is heard for itself.
    assert audio(talk, "r2", b"\1\2") == [Recited("7", b"\1\2")]
    assert audio(talk, "r1", b"\3\4") == [AudioOut("r1", "i_r1", b"\3\4")]
    where = {"item_id": "i_r2", "output_index": 0, "content_index": 0}
    delta = "response.output_audio_transcript.delta"
    assert talk.hear(delta, response_id="r2", delta="Mind the gap.", **where) == []
    done = response("r2", "7", status="completed", usage=TAKEN)
    (ended,) = talk.hear("response.done", response=done)
    took = Usage(input_tokens=7, output_tokens=9)
    assert ended == RecitalEnded(name="7", text="Mind the gap.", usage=took)
    assert audio(talk, "r2", b"\1\2") == []  # it is over


def test_one_that_nobody_listens_to_is_cancelled_by_its_name() -> None:
    talk = Talk.ready()
    talk.do(Recite("7", "Mind the gap."))
    assert talk.do(StopReciting("7")) == []  # it has no id yet
    assert talk.hear("response.created", response=response("r2", "7")) == []
    (cancelled,) = talk.sent()
    assert (cancelled["type"], cancelled["response_id"]) == ("response.cancel", "r2")
    assert audio(talk, "r2", b"\1\2") == []
    done = response("r2", "7", status="cancelled")
    (ended,) = talk.hear("response.done", response=done)
    assert ended == RecitalEnded(name="7", error="it was cancelled")
    assert talk.do(StopReciting("7")) == []


def test_a_server_that_refuses_it_ends_it_and_nothing_else() -> None:
    talk = Talk.ready()
    (asked,) = talk.do(Recite("7", "Mind the gap."))
    error = {
        "type": "invalid_request_error",
        "code": "conversation_already_has_active_response",
        "message": "no such thing here",
        "event_id": asked["event_id"],
    }
    (ended,) = talk.hear("error", error=error)
    assert ended == RecitalEnded(name="7", error="no such thing here")
