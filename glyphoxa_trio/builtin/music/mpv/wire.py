"""The messages to and from ``mpv``: JSON, an object a line. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import attrs

LONGEST_LINE: Final = 64 * 1024
_POSITION: Final = 1  # our number for the position, which is observed

# The variables by which it finds its sound output and the user's own mpv.conf.
_ENVIRONMENT: Final = (
    ("MPV_", "XDG_", "PULSE_", "PIPEWIRE_", "ALSA_", "JACK_", "DBUS_SESSION_")
)  # fmt: skip


@attrs.frozen
class MpvReply:
    """The reply to the request with that number; ``error`` is empty if it succeeded."""

    number: int
    error: str


@attrs.frozen
class TrackStarted:
    """The track is heard."""


@attrs.frozen
class TrackEnded:
    """The track has ended. ``no_sound``: because of the sound output."""

    why: str
    no_sound: bool = False


Said = MpvReply | TrackStarted | TrackEnded


def options(descriptor: int) -> list[str]:
    """Return the options for a process that plays nothing yet.

    It ends when our end of its socket is closed.
    """
    return [
        f"--input-ipc-client=fd://{descriptor}",
        "--idle=yes",
        "--loop-file=inf",
        "--volume=0",
        "--no-video",
        "--no-terminal",
        "--really-quiet",
        "--no-resume-playback",
        "--load-scripts=no",
        "--ytdl=no",
        "--osc=no",
    ]


def environment(ours: Mapping[str, str]) -> dict[str, str]:
    return {name: x for name, x in ours.items() if name.startswith(_ENVIRONMENT)}


def request(number: int, *command: Any) -> bytes:
    return json.dumps({"command": command, "request_id": number}).encode() + b"\n"


def observe(number: int) -> bytes:
    """Ask for reports of the position: it advances only while something is heard."""
    return request(number, "observe_property", _POSITION, "time-pos")


def ignore(number: int) -> bytes:
    return request(number, "unobserve_property", _POSITION)


def said(line: bytes) -> Said | None:
    """Parse a line; None if it is of no interest.

    Raises:
      ValueError: if it is not in mpv's protocol.
    """
    try:
        message = json.loads(line)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(message, dict):
        raise ValueError("not an object")
    number, event = message.get("request_id"), message.get("event")
    if event is None and isinstance(number, int):
        error = message.get("error")
        return MpvReply(number, "" if error == "success" else str(error)[:200])
    if event == "property-change" and message.get("id") == _POSITION:
        at = message.get("data")
        return TrackStarted() if isinstance(at, int | float) and at > 0 else None
    if event == "end-file" and message.get("reason") != "stop":
        why = str(message.get("file_error") or message.get("reason"))[:200]
        return TrackEnded(why, no_sound="audio output" in why)
    return None
