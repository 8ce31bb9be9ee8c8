"""The format of a recording: lines of JSON, checked line by line (docs/recording.md).

Every line is an object with a ``kind`` and, in seconds on the clock of the run, an
``at``. `KINDS` says which other keys it has. An error names its line.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from glyphoxa_trio.config import Config, ConfigError, parse
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.mcp import ServerState
from glyphoxa_trio.observability.recording.handlers import FAILURES
from glyphoxa_trio.observability.recording.kinds import KINDS, NUMBER, ONE_OF
from glyphoxa_trio.observability.recording.speech import (
    capabilities_of,
    closed_of,
    event_of,
)
from glyphoxa_trio.observability.recording.tools import definition_of
from glyphoxa_trio.providers.llm import (
    ErrorKind,
    FinishReason,
    Switched,
    Usage,
    Verbatim,
    Waiting,
)
from glyphoxa_trio.tools.tier import Tier
from glyphoxa_trio.tools.window import SampleKind

# 2 added when a call was sent to its server, tools on trial, and servers that start;
# 3 models that hear and speak.
FORMAT: Final = 3
_LONGEST_LINE: Final = 64 * 1024 * 1024

Line = dict[str, Any]


class BadRecording(GlyphoxaError):
    """A file that is no recording, is damaged, or is newer; says where and why."""


@attrs.frozen(eq=False)
class Recorded:
    """A recording that was read. ``notes`` say what it lacks, for people.

    ``lines`` are in the order of their times; the first one is the header. ``over`` is
    the last moment of which everything is known, None if that is all.
    """

    name: str
    config: Config
    lines: tuple[Line, ...]
    over: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def header(self) -> Line:
        return self.lines[0]

    @property
    def began(self) -> float:
        return float(self.header["at"])

    @property
    def tolerance(self) -> float:
        """The most by which times of a replay may differ, seconds; 0 is exact."""
        if self.of("inexact"):
            return max(0.05, float(self.header.get("tolerance") or 0.0))
        return float(self.header.get("tolerance") or 0.0)

    def of(self, *kinds: str) -> list[Line]:
        return [line for line in self.lines if line["kind"] in kinds]


def read_recording(path: Path) -> Recorded:
    """Blocks on the disk.

    Raises:
      BadRecording: naming the file, the line and the reason.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        part = path.with_name(path.name + ".part")
        hint = f"; {part} is of a run that did not end" if part.exists() else ""
        raise BadRecording(f"{path}: {error.strerror or error}{hint}") from None
    return recorded(data, name=str(path))


def recorded(data: bytes, *, name: str = "recording") -> Recorded:
    """The recording in these bytes. Raises `BadRecording`."""
    lines: list[Line] = []
    notes: list[str] = []
    rows = data.split(b"\n")
    whole = rows.pop() == b""
    if not whole:
        # A process that was killed while it wrote has not finished the last line.
        notes.append(f"line {len(rows) + 1} is cut off, so it is left out")
    for number, row in enumerate(rows, 1):
        where = f"{name}: line {number}"
        line = _line(row, where)
        if (line["kind"] == "recording") is not (number == 1):
            raise BadRecording(
                f"{where}: a recording begins with its header, and has only one"
            )
        if number == 1:
            _check_version(line, where)
        _check(line, where)
        if lines and line["at"] < lines[0]["at"]:
            raise BadRecording(f"{where}: at is before the recording began")
        lines.append(line)
    if not lines:
        raise BadRecording(f"{name}: it is empty, or nothing of its header is left")
    _check_numbers(lines, name)
    end = lines[-1] if lines[-1]["kind"] == "end" else None
    over = None
    if end is None:
        notes.append("it has no end: whatever wrote it was killed")
    elif end["why"] != "closed":
        notes.append(f"it ended early: {end['why']}")
    if end is None or end["why"] != "closed":
        over = max(float(line["at"]) for line in lines)
    notes += [
        f"exactness was lost at {line['at']:.3f} s: {line['why']}"
        for line in lines
        if line["kind"] == "inexact"
    ]
    notes += [
        f"{line['what']} was said to an NPC, which cannot be replayed"
        for line in lines
        if line["kind"] == "unrecorded"
    ]
    # A line may have waited for the next one; those of one moment stay in order.
    ordered = tuple(sorted(lines, key=lambda line: float(line["at"])))
    config = config_of(lines[0]["config"], f"{name}: line 1")
    return Recorded(name, config, ordered, over, tuple(notes))


def config_of(data: Mapping[str, Any], where: str) -> Config:
    """Raises `BadRecording`."""
    try:
        return parse(dict(data), source=Path("config"), env={})
    except ConfigError as error:
        raise BadRecording(f"{where}: {error}") from None


def _line(row: bytes, where: str) -> Line:
    try:
        line = json.loads(row)
    except (ValueError, RecursionError) as error:
        raise BadRecording(f"{where}: is not JSON: {error}") from None
    if not isinstance(line, dict) or not isinstance(line.get("kind"), str):
        raise BadRecording(f"{where}: is not an object with a kind")
    return line


def _check_version(line: Line, where: str) -> None:
    version = line.get("format")
    if type(version) is not int or version < 1:
        raise BadRecording(f"{where}: no format that there is: {version!r}")
    if version > FORMAT:
        raise BadRecording(
            f"{where}: format {version} is of a newer version than this, which reads"
            f" up to {FORMAT}"
        )


def _check(line: Line, where: str) -> None:
    kind = line["kind"]
    keys = KINDS.get(kind)
    if keys is None:
        raise BadRecording(f"{where}: no kind of line is called {kind!r}")
    for name, key in {"at": NUMBER, **keys}.items():
        value = line.get(name)
        right = isinstance(value, key.types) and (
            not isinstance(value, bool) or bool in key.types
        )
        if name not in line and key.needed:
            raise BadRecording(f"{where}: {kind} lacks {name!r}")
        if name in line and not right:
            wanted = " or ".join(x.__name__ for x in key.types)
            raise BadRecording(f"{where}: {name!r} of {kind} must be {wanted}")
    if kind != "event" and (unknown := set(line) - set(keys) - {"kind", "at"}):
        raise BadRecording(f"{where}: {kind} has no {min(unknown)!r}")
    if one_of := ONE_OF.get(kind):
        given = [name for name in one_of if line.get(name) is not None]
        if len(given) != 1:
            raise BadRecording(f"{where}: {kind} has one of {', '.join(one_of)}")
    try:
        _check_words(line)
    except (ValueError, TypeError, KeyError) as error:
        raise BadRecording(f"{where}: {kind}: {error}") from None


def _check_words(line: Line) -> None:
    """Raises for words that mean nothing, and for tools that cannot be."""
    for name in ("at", "ready_at"):
        if not abs(float(line.get(name) or 0)) < float("inf"):
            raise ValueError(f"{name} must be finite")
    if line["kind"] in ("say", "elevate") and line.get("tier"):
        Tier.parse(line["tier"])
    if line["kind"] == "server":
        ServerState(line["state"])
    for data in line.get("tools") or ():
        definition_of(data)
    if line["kind"] == "measured":
        sample = line["sample"]
        SampleKind(sample["kind"])
        float(sample["seconds"]), float(sample["at"])
    if line["kind"] == "model" and line.get("finished"):
        end = line["finished"]
        FinishReason(end.get("reason", "stop"))
        Usage(**end.get("usage") or {})
        Verbatim(**end.get("verbatim") or {"model": "", "content": ""})
    if line["kind"] == "model" and line.get("switched"):
        Switched(**line["switched"])
    if line["kind"] == "model" and line.get("waiting"):
        Waiting(**line["waiting"])
    if line["kind"] == "model" and line.get("failed") and "kind" in line["failed"]:
        ErrorKind(line["failed"]["kind"])
    if line["kind"] == "socket":
        capabilities_of(line["capabilities"])
    if line["kind"] == "speech":
        _check_speech(line)
    error = line.get("error") if line["kind"] == "answer" else None
    if error and error.get("kind") not in (*FAILURES, "crashed"):
        raise ValueError(f"an error is one of {', '.join(FAILURES)}, crashed")
    if line["kind"] == "model" and line.get("call"):
        {key: line["call"][key] for key in ("id", "name")}


def _check_speech(line: Line) -> None:
    if line.get("closed") is not None:
        closed_of(line["closed"])
    elif line.get("hung_up") is None:
        try:
            event_of(line)
        except KeyError as error:
            raise ValueError(f"{line.get('event') or 'text'} lacks {error}") from None
        except Exception as error:  # whatever its fields are made of
            raise ValueError(f"{line.get('event')}: {error}") from None


def _check_numbers(lines: Iterable[Line], name: str) -> None:
    """Check the numbers by which lines refer to each other."""
    known: dict[str, set[int]] = {
        "say": set(),
        "request": set(),
        "call": set(),
        "socket": set(),
    }
    of = {
        "heard": "say",
        "left": "say",
        "cancelled": "say",
        "played": "say",
        "speech": "socket",
        "told": "socket",
        "model": "request",
        "sent": "call",
        "answer": "call",
    }
    for number, line in enumerate(lines, 1):
        kind = line["kind"]
        if kind in known:
            if line[kind] in known[kind]:
                raise BadRecording(
                    f"{name}: line {number}: {kind} {line[kind]} is there twice"
                )
            known[kind].add(line[kind])
        elif kind in of and line[of[kind]] not in known[of[kind]]:
            raise BadRecording(
                f"{name}: line {number}: {kind} of {of[kind]} {line[of[kind]]}, which"
                " is not there"
            )
