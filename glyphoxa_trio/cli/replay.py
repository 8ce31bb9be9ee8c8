"""``glyphoxa replay``: a recorded session again, and whether it is the same."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from glyphoxa_trio.config import Config, ConfigError, admitted, load_config
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.observability.recording.format import (
    Line,
    Recorded,
    config_of,
    read_recording,
)
from glyphoxa_trio.simulation.replay.again import Replayed, replay
from glyphoxa_trio.units import in_ms

from .common import complain
from .render import cut, on_screen
from .tools import wide_console


def run_replay(
    path: Path,
    *,
    config: Path | None,
    settings: Sequence[str],
    events: Path | None,
) -> int:
    """0 if it came to the same events, 1 if not, 2 for what cannot be replayed."""
    try:
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
    console = wide_console()
    show(replayed, console, what_if=chosen is not None)
    return 0 if replayed.same else 1


def _config(
    recorded: Recorded, path: Path | None, settings: Sequence[str]
) -> Config | None:
    """What to play it under; None is what it was recorded under.

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
    """The turns as they were played, and what is not as it was recorded."""

    def say(text: str, style: str = "") -> None:
        console.print(on_screen(text), style=style, markup=False, soft_wrap=True)

    console.print(_turns(replayed.events))
    for note in replayed.recorded.notes:
        say(f"! {note}", "yellow")
    for note in replayed.notes:
        say(f"! {note}", "yellow")
    tolerance = replayed.recorded.tolerance
    about = f" (times within {in_ms(tolerance)})" if tolerance else ""
    if replayed.same:
        under = " under another configuration" if what_if else ""
        say(f"same{under}, {len(replayed.events)} events{about}")
        return
    for line in replayed.difference:
        say(line, {"+": "green", "-": "red"}.get(line[:1], "dim"))
    say("not the same" + about)


def _turns(events: Sequence[Line]) -> Table:
    table = Table(box=SIMPLE_HEAD)
    for heading in ("at", "NPC", "said", "tier", "shown", "calls"):
        table.add_column(heading)
    table.add_column("first sentence", justify="right")
    table.add_column("end", justify="right")
    turns: dict[tuple[str, int], list[Line]] = {}
    for event in events:
        turns.setdefault((event["npc"], event["turn"]), []).append(event)
    for (npc, number), turn in turns.items():
        if number:  # what belongs to no turn has no row
            table.add_row(*map(on_screen, _row(npc, turn)))
    return table


def _row(npc: str, turn: Sequence[Line]) -> list[str]:
    began = float(turn[0]["at"])
    tier, said, shown, sentence, end = "-", "", "-", "-", "-"
    calls: list[str] = []
    for event in turn:
        after = in_ms(float(event["at"]) - began)
        match event["event"]:
            case "TierSelected":
                began, tier, said = float(event["at"]), event["tier"], event["text"]
            case "Shed":
                said = event["text"]
            case "Scripted":
                said = f"({event['speaker']} gives it the words)"
            case "ToolsShown":
                shown = str(len(event["shown"]))
            case "ToolFinished" | "LateResult":
                outcome = event["outcome"]
                name = outcome.get("tool") or outcome["call"]["name"]
                limit = f" ({outcome['limit']})" if outcome.get("limit") else ""
                took = in_ms(float(outcome["elapsed"]))
                calls.append(f"{name} {outcome['status']}{limit} {took}")
            case "Sentence" if sentence == "-":
                sentence = after
            case "TurnDone":
                end = f"{event['end']} {after}"
    return [
        f"{began:.3f}",
        npc,
        cut(said),
        tier,
        shown,
        "\n".join(calls) or "-",
        sentence,
        end,
    ]
