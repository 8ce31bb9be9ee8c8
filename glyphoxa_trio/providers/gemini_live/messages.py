"""Build the messages of a Gemini Live client: no I/O, one function per message.

Every message has one of the keys ``setup``, ``clientContent``, ``realtimeInput``,
``toolResponse`` and ``contextUpdate``, in camel case.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, Final

from glyphoxa_trio.providers.s2s import (
    Calling,
    S2STool,
    Schedule,
    SendResult,
    Setup,
    TranscriptLine,
)
from glyphoxa_trio.providers.schemas.gemini import reduced
from glyphoxa_trio.tools.outcome import ToolCall

from .options import SessionOptions
from .profiles import INPUT_RATE, HistoryStyle, Profile

Message = dict[str, Any]

_GOES_ON: Final = TranscriptLine("user", "(The conversation goes on.)")
_AUDIO: Final = f"audio/pcm;rate={INPUT_RATE}"


def setup_message(
    setup: Setup, model: str, profile: Profile, options: SessionOptions
) -> Message:
    """Return the first message."""
    # Today's models only speak; callers that want text read the transcript.
    config: Message = {"responseModalities": ["AUDIO"], **options.generated()}
    if setup.voice:
        voice = {"prebuiltVoiceConfig": {"voiceName": setup.voice}}
        speech = {**config.get("speechConfig", {}), "voiceConfig": voice}
        config["speechConfig"] = speech
    fields: Message = {
        "model": model if "/" in model else f"models/{model}",
        "generationConfig": config,
        # Without a handle the key is left out, because null is refused.
        "sessionResumption": {"handle": setup.handle} if setup.handle else {},
        # Without it an audio session ends after a quarter of an hour.
        "contextWindowCompression": {"slidingWindow": {}},
        "inputAudioTranscription": {},
        "outputAudioTranscription": {},
    }
    if options.transcription_languages:
        languages = {"languageCodes": list(options.transcription_languages)}
        fields["inputAudioTranscription"] = languages
    if instructions := _instructions(setup, profile):
        fields["systemInstruction"] = {"parts": [{"text": instructions}]}
    if tools := tools_of(setup.tools, profile):
        fields["tools"] = tools
    if heard := options.realtime_input(automatic=setup.automatic):
        fields["realtimeInputConfig"] = heard
    if options.proactive is not None:
        fields["proactivity"] = {"proactiveAudio": options.proactive}
    if history_message(setup, profile) and profile.history is HistoryStyle.CONFIG:
        fields["historyConfig"] = {"initialHistoryInClientContent": True}
    return {"setup": fields}


def history_message(setup: Setup, profile: Profile) -> Message | None:
    """Return the message after the setup, which tells the model what was said before.

    Returns None if there is nothing to tell, or the instructions tell it.
    """
    lines = [line for line in setup.history if line.text]
    if setup.handle or not lines or profile.history is HistoryStyle.INSTRUCTIONS:
        return None
    if profile.history is HistoryStyle.CONFIG:
        return turns(lines, complete=True)
    return silent_turns(lines, profile)


def tools_of(tools: Sequence[S2STool], profile: Profile) -> list[Message]:
    """Return the ``tools`` of a setup: one entry with all functions, or none."""
    declared = tools[: profile.capabilities.max_tools]
    functions = [_function(tool, profile) for tool in declared]
    return [{"functionDeclarations": functions}] if functions else []


def calling_of(tool: S2STool, profile: Profile) -> Calling:
    """Return how a tool is called: as it wants, if the model supports that."""
    return tool.calling if tool.calling in profile.calling else profile.calling[0]


def new_tools(tools: Sequence[S2STool], profile: Profile) -> Message:
    """Return a message that replaces the tools."""
    # Wrapped once more, because an empty list would count as missing.
    return {"contextUpdate": {"tools": {"tools": tools_of(tools, profile)}}}


def new_instructions(text: str) -> Message:
    """Return a message that replaces the instructions."""
    return {"contextUpdate": {"systemInstruction": {"parts": [{"text": text}]}}}


def turns(lines: Iterable[TranscriptLine], *, complete: bool) -> Message:
    """Return lines as turns. If ``complete``, the model answers them."""
    contents = [
        {"role": role, "parts": [{"text": _as_turn(line)} for line in group]}
        for role, group in groupby(lines, key=_role)
    ]
    return {"clientContent": {"turns": contents, "turnComplete": complete}}


def silent_turns(lines: Sequence[TranscriptLine], profile: Profile) -> Message:
    """Return lines as turns that request no answer."""
    if profile.history is HistoryStyle.TURNS and lines[-1].role == "assistant":
        lines = [*lines, _GOES_ON]  # the model does not continue after its own words
    return turns(lines, complete=False)


def stop() -> Message:
    """Return an empty turn, which interrupts the model and requests nothing."""
    return {"clientContent": {"turnComplete": False}}


def realtime(**field: Any) -> Message:
    """Return real-time input with one field."""
    return {"realtimeInput": field}


def audio(pcm: bytes) -> Message:
    """Return audio as real-time input."""
    data = base64.b64encode(pcm).decode("ascii")
    return realtime(audio={"mimeType": _AUDIO, "data": data})


def text_of(lines: Iterable[TranscriptLine]) -> str:
    """Return lines as one utterance of the user."""
    return "\n".join(_as_said(line) for line in lines)


def result_message(
    result: SendResult, call_id: str | None, schedule: Schedule | None
) -> Message:
    """Return the answer to one call. If ``schedule`` is None, the model decides."""
    response: Message = {"name": result.name}
    if call_id is not None:
        response["id"] = call_id
    key = "error" if result.is_error else "output"
    response["response"] = {key: _value(result.output)}
    if schedule is not None:
        response["scheduling"] = schedule.value.upper()
    return {"toolResponse": {"functionResponses": [response]}}


def refusal(call: ToolCall) -> SendResult:
    """Return the answer to a call that is not wanted, which the model is to ignore."""
    return SendResult(
        call_id=call.id,
        name=call.name,
        output='{"status": "cancelled", "message": "It is not wanted any more."}',
        is_error=True,
        schedule=Schedule.SILENT,
    )


def _instructions(setup: Setup, profile: Profile) -> str:
    """Return the instructions, with the history if the model takes it there."""
    lines = [line for line in setup.history if line.text]
    if setup.handle or not lines or profile.history is not HistoryStyle.INSTRUCTIONS:
        return setup.instructions
    said = {"user": "They said", "assistant": "You said", "system": "Note"}
    before = "\n".join(f"{said[line.role]}: {line.text}" for line in lines)
    return f"{setup.instructions}\n\nWhat was said before:\n{before}".strip()


def _function(tool: S2STool, profile: Profile) -> Message:
    """Return the declaration of one tool."""
    function: Message = {
        "name": tool.spec.name,
        "description": tool.spec.description or tool.spec.name,
    }
    if (parameters := reduced(tool.spec.parameters)) is not None:
        function["parameters"] = parameters
    if len(profile.calling) > 1:
        function["behavior"] = calling_of(tool, profile).value.upper()
    return function


def _role(line: TranscriptLine) -> str:
    return "model" if line.role == "assistant" else "user"


def _as_turn(line: TranscriptLine) -> str:
    """Return a line as a turn. Turns have only two roles."""
    return f"Note: {line.text}" if line.role == "system" else line.text


def _as_said(line: TranscriptLine) -> str:
    """Return a line as the user's words. Real-time input is always the user's."""
    if line.role == "assistant":
        return f"Note: you said: {line.text}"
    return _as_turn(line)


def _value(output: str) -> Any:
    """Return a result as data; as text, if it is not JSON that can be sent."""
    try:
        return json.loads(output, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return output


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
