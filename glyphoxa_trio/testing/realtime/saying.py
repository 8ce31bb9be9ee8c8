"""Playing the steps of a reply in one response of the fake Realtime model."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import trio

from ..voice.speech import BYTES_PER_MS, messages, words_of
from ..voice.steps import (
    EndResponse,
    FailResponse,
    HangResponse,
    PauseResponse,
    ResponseStep,
    Speak,
    SpokenCallTools,
    TurnComplete,
)
from .items import FakeItem, ModelCall
from .response import FakeResponse
from .telephone import law_of, to_telephone


async def play(response: FakeResponse, steps: Sequence[ResponseStep]) -> None:
    """Do the steps and end the response, unless it is ended from outside before."""
    with response.scope:
        for step in steps:
            await _do(response, step)
            if response.ended is not None:
                return
        response.end()


async def _do(response: FakeResponse, step: ResponseStep) -> None:
    match step:
        case Speak():
            await _speak(response, step)
        case SpokenCallTools():
            await _call(response, step)
        case PauseResponse(seconds):
            await trio.sleep(seconds)
        case HangResponse():
            await trio.sleep_forever()
        case EndResponse(status, reason):
            response.end(status, reason)
        case FailResponse(code, message, kind):
            response.fail({"type": kind, "code": code, "message": message})
        case TurnComplete():
            pass  # this protocol has no such thing
        case _:
            response.session.wire.on_event(step)
    await response.session.wire.drained()


async def _speak(response: FakeResponse, step: Speak) -> None:
    """Send one message of the model, as audio or as text, as the response is set."""
    aloud = response.settings["output_modalities"] == ["audio"]
    wire = {"type": "message", "role": "assistant", "content": []}
    item, at = response.open_item(wire)
    part = {"type": "audio", "transcript": ""} if aloud else {"type": "text"}
    if not aloud:
        part["text"] = ""
    response.tell("response.content_part.added", **at, part=part)
    if aloud:
        await _aloud(response, step, item, at)
    else:
        content = {"type": "output_text", "text": ""}
        item.wire["content"] = [content]
        for word in words_of(step.text):
            content["text"] += word
            response.tell("response.output_text.delta", **at, delta=word)
            await response.session.wire.drained()
    if step.upto_ms is None:
        response.close("completed")


async def _aloud(
    response: FakeResponse, step: Speak, item: FakeItem, at: dict[str, Any]
) -> None:
    response.session.settings.speak()
    content = {"type": "output_audio", "transcript": ""}
    item.wire["content"] = [content]
    began = trio.current_time()
    for words, pcm in messages(step):
        if response.ended is not None:
            return
        if words:
            if "transcript" in content:  # a truncated message has no transcript
                content["transcript"] += words
            response.tell("response.output_audio_transcript.delta", **at, delta=words)
        if pcm:
            item.say(pcm)
            law = law_of(response.settings["audio"]["output"]["format"])
            data = pcm if law is None else to_telephone(pcm, law)
            delta = b64encode(data).decode()
            response.tell("response.output_audio.delta", **at, delta=delta)
        if step.paced:
            await trio.sleep_until(began + len(item.audio) / BYTES_PER_MS / 1000)
        await response.session.wire.drained()


async def _call(response: FakeResponse, step: SpokenCallTools) -> None:
    if not response.tools and not step.undeclared:
        return  # a model that was given no tools cannot call any
    for slot, (name, arguments) in enumerate(step.calls):
        if name not in response.tools and not step.undeclared:
            raise ValueError(f"the script calls {name!r}; it has {response.tools}")
        whole = arguments if isinstance(arguments, str) else json.dumps(arguments)
        call_id = step.ids[slot] if step.ids else response.session.new_id("call")
        item, at = response.open_item(
            {
                "type": "function_call",
                "call_id": call_id,
                "name": name,
                "arguments": "",
            }
        )
        if not response.aside:  # a response aside is outside the conversation
            made = ModelCall(item, response.id)
            response.session.conversation.calls[call_id] = made
        del at["content_index"]
        stops = step.open and slot == len(step.calls) - 1
        pieces = _pieces(whole, max(step.fragments, 2 if stops else 1))
        for piece in pieces[:-1] if stops else pieces:
            item.wire["arguments"] += piece
            response.tell(
                "response.function_call_arguments.delta",
                **at,
                call_id=call_id,
                delta=piece,
            )
            await response.session.wire.drained()
        if not stops:
            response.close("completed")


def _pieces(text: str, count: int) -> list[str]:
    edges = [len(text) * i // count for i in range(count + 1)]
    return [text[a:b] for a, b in pairwise(edges)]
