"""Parse the messages of a Gemini Live server, field by field. No I/O.

A message is a bag: it may have several keys, and several parts. A field that does not
have the type of the protocol counts as missing, so no message raises.
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
from glyphoxa_trio.providers.schemas.values import is_number, listed, mapping
from glyphoxa_trio.secret import Secret

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
            "generationComplete",  # only the end of the turn counts
            "interactionStatus",
            "inputTranscription",
            "interimInputTranscription",  # guesses; the final transcript follows
            "outputTranscription",
            "waitingForInput",
            "groundingMetadata",
            "urlContextMetadata",
        }
    ),
}
"""The known keys, used here or not, by the object that has them."""


def parsed(message: str | bytes) -> dict[str, Any]:
    """Parse a message, text or binary, as a JSON object.

    Raises:
      ValueError: if it is not one.
    """
    try:
        found = json.loads(message)
    except RecursionError:
        raise ValueError("JSON of too many levels") from None
    if not isinstance(found, dict):
        raise ValueError("JSON, but not an object")
    return found


def count_unknown(message: Mapping[str, Any], names: Counter[str]) -> None:
    """Count unknown keys, in the places where the vendor adds new ones."""
    for place, known in KNOWN.items():
        inside = mapping(message.get(place)) if place else message
        for key in inside:
            if key not in known:
                count(f"{place}.{key}".lstrip("."), names)


def count(name: str, names: Counter[str]) -> None:
    """Count something unknown, by its name as long as there are few names."""
    name = name[:64]
    names[name if name in names or len(names) < MAX_UNKNOWN else "others"] += 1


def text(value: Any) -> str:
    """Return ``value`` as well-formed text; empty if it is no text."""
    return well_formed(value) if isinstance(value, str) else ""


def audio_of(part: Mapping[str, Any]) -> bytes | None:
    """Return the PCM16 of a part at `OUTPUT_RATE`; None if it has no audio.

    Raises:
      ValueError: if it holds another kind of data, or is not base64.
    """
    blob = mapping(part.get("inlineData"))
    if not blob:
        return None
    kind = text(blob.get("mimeType"))
    if kind.replace(" ", "") not in ("audio/pcm", f"audio/pcm;rate={OUTPUT_RATE}"):
        raise ValueError(f"output of the kind {kind[:64]!r}")
    try:
        # Proto JSON allows two alphabets.
        data = text(blob.get("data")).replace("-", "+").replace("_", "/")
        pcm = base64.b64decode(data + "=" * (-len(data) % 4), validate=True)
    except binascii.Error:
        raise ValueError("audio that is not base64") from None
    return pcm[: len(pcm) // 2 * 2]


def call_of(value: Any) -> tuple[str | None, str, str]:
    """Return id, name and arguments of a call; the arguments as JSON text."""
    fields = mapping(value)
    given = fields.get("id")
    arguments = fields.get("args")
    return (
        given if isinstance(given, str) and given else None,
        text(fields.get("name")),
        json.dumps({} if arguments is None else arguments),
    )


def seconds(value: Any) -> float:
    """Return a duration of proto JSON, such as ``9.5s``; 0 if it is none."""
    found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)s", text(value))
    return float(found[1]) if found else 0.0


def usage_of(value: Any) -> Usage | None:
    """Return the usage in tokens, with thoughts as output; None if it is empty."""
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
    """Return the number of audio tokens."""
    found = (mapping(one) for one in listed(details))
    counts: list[Any] = [
        one.get("tokenCount") for one in found if one.get("modality") == "AUDIO"
    ]
    return sum(int(n) for n in counts if is_number(n) and n > 0)


def handle_of(update: Any) -> str | None:
    """Return the handle to resume the session; None if that is not possible now."""
    fields = mapping(update)
    resumable = fields.get("resumable") is not False
    return text(fields.get("newHandle")) or None if resumable else None


def complaint_of(error: object, secret: Secret | None) -> Complaint:
    """Convert an error that a gateway sends as a message, not as a close code."""
    fields = mapping(error)
    code = fields.get("code")
    kind = ErrorKind.BAD_REQUEST
    if isinstance(code, int) and 400 <= code < 600:
        kind = kind_of_status(code)
    status = text(fields.get("status")) or str(code)
    detail = excerpt(text(fields.get("message")) or "no explanation", secret)
    return Complaint(kind=kind, code=status[:64], detail=detail)


def complaint(code: str, detail: str) -> Complaint:
    """Return a complaint about the client's request."""
    return Complaint(kind=ErrorKind.BAD_REQUEST, code=code, detail=detail)


def malformed(detail: str) -> Complaint:
    """Return a complaint about a message of the server."""
    return Complaint(kind=ErrorKind.MALFORMED, code="malformed", detail=excerpt(detail))
