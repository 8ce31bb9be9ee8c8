"""What a server of Gemini Live says, read field by field: pure, and never surprised.

A message is a bag: several keys, and several parts, may be in one. Whatever is not of
the kind that the protocol says is as if it were not there.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from glyphoxa_trio.providers.failures import excerpt, kind_of_status
from glyphoxa_trio.providers.llm import ErrorKind, Usage
from glyphoxa_trio.providers.payloads import well_formed
from glyphoxa_trio.providers.s2s import Complaint
from glyphoxa_trio.secret import Secret

from .encoding import is_number, listed, mapping
from .profiles import OUTPUT_RATE

MAX_UNKNOWN: Final = 32  # names that are counted one by one

KNOWN: Final[Mapping[str, frozenset[str]]] = {
    "": frozenset(
        {
            "setupComplete",
            "serverContent",
            "toolCall",
            "toolCallCancellation",
            "goAway",
            "sessionResumptionUpdate",
            "usageMetadata",
            "voiceActivity",
            "voiceActivityDetectionSignal",
            "error",
        }
    ),
    "serverContent": frozenset(
        {
            "modelTurn",
            "turnComplete",
            "turnCompleteReason",
            "interrupted",
            "generationComplete",  # the turn's end is what counts
            "interactionStatus",
            "inputTranscription",
            "interimInputTranscription",  # guesses; what is heard comes all the same
            "outputTranscription",
            "waitingForInput",
            "groundingMetadata",
            "urlContextMetadata",
        }
    ),
}
"""The keys that mean something, or nothing to us, by where they are."""


def parsed(message: str | bytes) -> dict[str, Any]:
    """A message as an object. Text or binary, it is JSON.

    Raises:
      ValueError: it is not.
    """
    try:
        found = json.loads(message)
    except RecursionError:
        raise ValueError("JSON of too many levels") from None
    if not isinstance(found, dict):
        raise ValueError("JSON, but not an object")
    return found


def count_unknown(message: Mapping[str, Any], names: Counter[str]) -> None:
    """Count the keys that are not known, where new ones are to be expected."""
    for place, known in KNOWN.items():
        inside = mapping(message.get(place)) if place else message
        for key in inside:
            if key not in known:
                count(f"{place}.{key}".lstrip("."), names)


def count(name: str, names: Counter[str]) -> None:
    """Count what is not known, each by its name as long as those are few."""
    name = name[:64]
    names[name if name in names or len(names) < MAX_UNKNOWN else "others"] += 1


def text(value: Any) -> str:
    return well_formed(value) if isinstance(value, str) else ""


def audio_of(part: Mapping[str, Any]) -> bytes | None:
    """The PCM16 of a part at `OUTPUT_RATE`; None if it holds none.

    Raises:
      ValueError: it holds something else, or is not base64.
    """
    blob = mapping(part.get("inlineData"))
    if not blob:
        return None
    kind = text(blob.get("mimeType"))
    if kind.replace(" ", "") not in ("audio/pcm", f"audio/pcm;rate={OUTPUT_RATE}"):
        raise ValueError(f"output of the kind {kind[:64]!r}")
    try:
        # Proto JSON has two alphabets.
        data = text(blob.get("data")).replace("-", "+").replace("_", "/")
        pcm = base64.b64decode(data + "=" * (-len(data) % 4), validate=True)
    except binascii.Error:
        raise ValueError("audio that is not base64") from None
    return pcm[: len(pcm) // 2 * 2]


def call_of(value: Any) -> tuple[str | None, str, str]:
    """Id, name and arguments of a call; the arguments as JSON text."""
    fields = mapping(value)
    given = fields.get("id")
    arguments = fields.get("args")
    return (
        given if isinstance(given, str) and given else None,
        text(fields.get("name")),
        json.dumps({} if arguments is None else arguments),
    )


def seconds(value: Any) -> float:
    """A duration as proto JSON has it, such as ``9.5s``; 0 if it is none."""
    found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)s", text(value))
    return float(found[1]) if found else 0.0


def usage_of(value: Any) -> Usage | None:
    """Tokens, with those of thoughts as output; None if none are told."""
    if not value:
        return None
    counts = {k: int(n) for k, n in mapping(value).items() if is_number(n) and n >= 0}
    output = counts.get("responseTokenCount", 0) + counts.get("thoughtsTokenCount", 0)
    if "promptTokenCount" in counts:
        prompt = counts["promptTokenCount"] + counts.get("toolUsePromptTokenCount", 0)
    else:
        prompt = max(0, counts.get("totalTokenCount", 0) - output)
    if not (prompt or output):
        return None
    fields = mapping(value)
    return Usage(
        input_tokens=prompt,
        output_tokens=output,
        cached_tokens=counts.get("cachedContentTokenCount", 0),
        audio_input_tokens=_audio_tokens(fields.get("promptTokensDetails"))
        + _audio_tokens(fields.get("toolUsePromptTokensDetails")),
        audio_output_tokens=_audio_tokens(fields.get("responseTokensDetails")),
        audio_cached_tokens=_audio_tokens(fields.get("cacheTokensDetails")),
    )


def _audio_tokens(details: Any) -> int:
    """Those of the modality audio."""
    found = (mapping(one) for one in listed(details))
    counts: list[Any] = [
        one.get("tokenCount") for one in found if one.get("modality") == "AUDIO"
    ]
    return sum(int(n) for n in counts if is_number(n) and n > 0)


def handle_of(update: Any) -> str | None:
    """The handle with which the session can be resumed, if it can be now."""
    fields = mapping(update)
    resumable = fields.get("resumable") is not False
    return text(fields.get("newHandle")) or None if resumable else None


def complaint_of(error: object, secret: Secret | None) -> Complaint:
    """What a server in front of the model says in words, not with a close code."""
    fields = mapping(error)
    code = fields.get("code")
    kind = ErrorKind.BAD_REQUEST
    if isinstance(code, int) and 400 <= code < 600:
        kind = kind_of_status(code)
    status = text(fields.get("status")) or str(code)
    detail = excerpt(text(fields.get("message")) or "no explanation", secret)
    return Complaint(kind=kind, code=status[:64], detail=detail)


def complaint(code: str, detail: str) -> Complaint:
    return Complaint(kind=ErrorKind.BAD_REQUEST, code=code, detail=detail)


def malformed(detail: str) -> Complaint:
    return Complaint(kind=ErrorKind.MALFORMED, code="malformed", detail=excerpt(detail))
