"""``glyphoxa replay``: a recorded session again, and whether it is the same."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import attrs
from rich.console import Console

from glyphoxa_trio.config import Config, ConfigError, admitted, load_config
from glyphoxa_trio.control.tools_view import ms_or_none
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.observability.recording.format import (
    Line,
    Recorded,
    config_of,
    read_recording,
)
from glyphoxa_trio.simulation.replay.again import Replayed, replay
from glyphoxa_trio.units import in_ms, many, milliseconds

from .common import complain, keep_existing
from .console import say, say_json, wide_console
from .grids import FAILED, GOOD, HELD, Cell, Column, Grid
from .grids import show as show_grid
from .render import cut

_COLUMNS: Final = (
    Column("at"),
    Column("NPC"),
    Column("said", whole=False),
    Column("tier", spare=2),
    Column("shown", spare=3),
    Column("calls", whole=False),
    Column("first sentence", whole=False, right=True, spare=1),
    Column("end", whole=False, right=True),
)


def run_replay(
    path: Path,
    *,
    config: Path | None,
    settings: Sequence[str],
    events: Path | None,
    force: bool,
    in_json: bool,
) -> int:
    """0 if it came to the same events, 1 if not, 2 for what cannot be replayed."""
    try:
        keep_existing(events, force)
        recorded = read_recording(path)
        chosen = _config(recorded, config, settings)
        replayed = replay(recorded, chosen)
        if events is not None:
            events.write_bytes(replayed.as_bytes())
    except GlyphoxaError as error:
        return complain(error)
    except OSError as error:
        why = error.strerror or type(error).__name__
        return complain(GlyphoxaError(f"cannot write {events}: {why}"))
    if in_json:
        say_json(as_json(replayed, what_if=chosen is not None))
    else:
        show(replayed, wide_console(), what_if=chosen is not None)
    return 0 if replayed.same else 1


def _config(
    recorded: Recorded, path: Path | None, settings: Sequence[str]
) -> Config | None:
    """Return the configuration to play it under; None is the recorded one.

    Raises:
      ConfigError: for a setting that is none.
    """
    if path is not None:
        if settings:
            raise ConfigError("--config and --set: give one of them")
        return admitted(load_config(path), True, remedy="")[0]  # nothing is started
    if not settings:
        return None
    data = json.loads(json.dumps(recorded.header["config"]))
    for setting in settings:
        name, mark, text = setting.partition("=")
        if not mark or not name:
            raise ConfigError(f"--set {setting}: write it as KEY.KEY=VALUE")
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        _put(data, name.split("."), value, setting)
    return config_of(data, "--set")


def _put(data: Any, keys: Sequence[str], value: Any, setting: str) -> None:
    for at, key in enumerate(keys):
        last = at == len(keys) - 1
        if isinstance(data, list):
            found = _place(data, key)
            if found is None:
                raise ConfigError(f"--set {setting}: there is no {key!r}")
            if last:
                data[found] = value
            else:
                data = data[found]
        elif isinstance(data, dict):
            if last:
                data[key] = value
            else:
                data = data.setdefault(key, {})
        else:
            raise ConfigError(f"--set {setting}: {keys[at - 1]!r} has no {key!r}")


def _place(entries: list[Any], key: str) -> int | None:
    """An entry of a list, by its number or the beginning of its name."""
    if key.isdigit() and int(key) < len(entries):
        return int(key)
    names = [
        str(x.get("name", "")).casefold() if isinstance(x, dict) else ""
        for x in entries
    ]
    found = [at for at, name in enumerate(names) if name.startswith(key.casefold())]
    return found[0] if key and len(found) == 1 else None


def show(replayed: Replayed, console: Console, *, what_if: bool) -> None:
    """Print the turns as they were played, and each difference from the recording."""
    show_grid(console, _turns(replayed.events))
    for note in (*replayed.recorded.notes, *replayed.notes):
        say(console, f"! {note}", HELD)
    tolerance = replayed.recorded.tolerance
    about = f" (times within {in_ms(tolerance)})" if tolerance else ""
    if replayed.same:
        under = " under another configuration" if what_if else ""
        say(console, f"same{under}, {many(len(replayed.events), 'event')}{about}", GOOD)
        return
    for line in replayed.difference:
        say(console, line, {"+": GOOD, "-": FAILED}.get(line[:1], "dim"))
    say(console, "not the same" + about, FAILED)


def as_json(replayed: Replayed, *, what_if: bool) -> dict[str, Any]:
    """Return the object that `glyphoxa replay --json` writes."""
    return {
        "same": replayed.same,
        "what_if": what_if,
        "events": len(replayed.events),
        "tolerance_ms": milliseconds(replayed.recorded.tolerance or 0.0),
        "turns": [turn.as_json() for turn in _played(replayed.events)],
        "notes": [*replayed.recorded.notes, *replayed.notes],
        "difference": [*replayed.difference],
    }


@attrs.define
class _Turn:
    """A turn as it was played. Times in seconds, ``began`` since the start."""

    npc: str
    began: float
    said: str = ""
    tier: str | None = None
    shown: int | None = None
    calls: list[dict[str, Any]] = attrs.field(factory=list)
    first_sentence: float | None = None
    end: str | None = None
    took: float | None = None

    def cells(self) -> list[Cell]:
        """Return the cells of its row."""
        calls = [
            f"{x['tool']} {x['status']}{x['limit'] and ' (' + x['limit'] + ')'}"
            f" {in_ms(x['took'])}"
            for x in self.calls
        ]
        sentence, took = self.first_sentence, self.took
        end = "-" if took is None else f"{self.end} {in_ms(took)}"
        return [
            f"{self.began:.3f}",
            self.npc,
            cut(self.said),
            self.tier or "-",
            "-" if self.shown is None else str(self.shown),
            "\n".join(calls) or "-",
            "-" if sentence is None else in_ms(sentence),
            (end, "" if self.end in (None, "completed") else HELD),
        ]

    def as_json(self) -> dict[str, Any]:
        return {
            "at_ms": milliseconds(self.began),
            "npc": self.npc,
            "said": self.said,
            "tier": self.tier,
            "shown": self.shown,
            "calls": [
                {
                    "tool": x["tool"],
                    "status": x["status"],
                    "limit": x["limit"] or None,
                    "elapsed_ms": ms_or_none(x["took"]),
                }
                for x in self.calls
            ],
            "first_sentence_ms": ms_or_none(self.first_sentence),
            "end": self.end,
            "total_ms": ms_or_none(self.took),
        }


def _turns(events: Sequence[Line]) -> Grid:
    rows = [turn.cells() for turn in _played(events)]
    return Grid(columns=_COLUMNS, rows=rows)


def _played(events: Sequence[Line]) -> list[_Turn]:
    turns: dict[tuple[str, int], list[Line]] = {}
    for event in events:
        turns.setdefault((event["npc"], event["turn"]), []).append(event)
    # Events that belong to no turn have no row.
    return [_turn(npc, turn) for (npc, number), turn in turns.items() if number]


def _turn(npc: str, events: Sequence[Line]) -> _Turn:
    turn = _Turn(npc, float(events[0]["at"]))
    for event in events:
        after = float(event["at"]) - turn.began
        match event["event"]:
            case "TierSelected":
                turn.began = float(event["at"])
                turn.tier, turn.said = event["tier"], event["text"]
            case "Shed":
                turn.said = event["text"]
            case "Scripted":
                turn.said = f"({event['speaker']} gives it the words)"
            case "ToolsShown":
                turn.shown = len(event["shown"])
            case "ToolFinished" | "LateResult":
                outcome = event["outcome"]
                turn.calls.append(
                    {
                        "tool": outcome.get("tool") or outcome["call"]["name"],
                        "status": outcome["status"],
                        "limit": outcome.get("limit") or "",
                        "took": float(outcome["elapsed"]),
                    }
                )
            case "Sentence" if turn.first_sentence is None:
                turn.first_sentence = after
            case "TurnDone":
                turn.end, turn.took = event["end"], after
    return turn
