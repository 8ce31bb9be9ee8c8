"""``glyphoxa status`` and ``reload``: ask the running runtimes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from glyphoxa_trio.control import ControlError, ask, running
from glyphoxa_trio.control.admin_socket import RELOAD
from glyphoxa_trio.units import many

from .common import run_orderly
from .console import say, say_json, wide_console
from .grids import FAILED, GOOD, HELD
from .render import server_lines

_STATES: Final = {"ready": GOOD, "failed": FAILED}


def status(*, pid: int | None, as_json: bool) -> int:
    """Print how each running runtime is; 1 if there is none."""

    async def main() -> int:
        console, errors = wide_console(), wide_console(stderr=True)
        answered = 0
        for address in _addresses(pid):
            try:
                said = (await ask(address, {"do": "status"}))["status"]
            except (ControlError, KeyError) as error:
                say(errors, f"{address.name}: {error}", HELD)
                continue
            answered += 1
            if as_json:
                say_json(said)
            else:
                for text, style in _lines(said):
                    say(console, text, style)
        if not answered:
            say(errors, _nobody(pid), HELD)
        return 0 if answered else 1

    return run_orderly(main)


def the_one(pid: int | None) -> Path:
    """The runtime that is meant.

    Raises:
      ControlError: if there is none, or more than one.
    """
    addresses = _addresses(pid)
    if not addresses:
        raise ControlError(_nobody(pid))
    if len(addresses) > 1:
        pids = ", ".join(str(found) for found in running().values())
        raise ControlError(f"several are running, give --pid: {pids}")
    return addresses[0]


def reload(*, pid: int | None, as_json: bool) -> int:
    """Have a runtime read its configuration again; 1 if none does."""

    async def main() -> int:
        within = RELOAD + 5.0  # it says so itself when it takes too long
        said = await ask(the_one(pid), {"do": "reload"}, within=within)
        changed = said.get("reload") or {}
        if as_json:
            say_json(changed)
        else:
            say(wide_console(), changes(changed))
        return 0

    return run_orderly(main)


def _addresses(pid: int | None) -> list[Path]:
    return [address for address, found in running().items() if pid in (None, found)]


def _nobody(pid: int | None) -> str:
    which = "nothing of this user's" if pid is None else f"no runtime {pid}"
    return f"{which} is running that can be asked"


def changes(said: Mapping[str, Any]) -> str:
    """Return the changes of a reload, in a line."""
    parts = [
        f"{key.replace('_', ' ')}: {', '.join(value)}"
        for key, value in said.items()
        if isinstance(value, list) and value
    ]
    return f"reloaded; {'; '.join(parts) or 'nothing has changed'}"


def _lines(said: Mapping[str, Any]) -> list[tuple[str, str]]:
    """A status as lines with their styles."""
    calls = said["calls"]
    lines = [
        (f"process {said['pid']}: {many(said['tools'], 'tool')}", "bold"),
        (_sessions(said["sessions"]), ""),
        (f"  turns: {said['turns_running']} running", ""),
        (
            f"  calls: {calls['running']} running, {calls['lingering']} lingering"
            + "".join(f", {count} {end}" for end, count in calls["outcomes"].items()),
            "",
        ),
    ]
    hedging = said.get("hedging", {})  # an older runtime says nothing of it
    if hedging.get("started") or hedging.get("over_budget"):
        text = (
            f"  second attempts: {hedging['started']}, {hedging['won']} faster,"
            f" {hedging['wasted_ms']} ms in vain, {hedging['over_budget']} over budget"
        )
        lines.append((text, ""))
    lines += [_model(row) for row in said.get("models") or ()]
    lines += _cost(said.get("cost") or {})
    for npc in said["npcs"]:
        granted = ", ".join(npc["tools"]) or "no tools"
        lines.append((f"  {npc['name']} ({npc['tier']}): {granted}", ""))
    for row in said["servers"]:
        lines += [
            (f"  {text}", _STATES.get(row["state"], HELD)) for text in server_lines(row)
        ]
    lines += [
        (f"  warning: {warning['server']}: {warning['text']}", HELD)
        for warning in said["warnings"]
    ]
    return lines


def _model(row: Mapping[str, Any]) -> tuple[str, str]:
    """One of several models, with what it failed with."""
    failed = "".join(f", {count} {kind}" for kind, count in row["failed"].items())
    over = f", passed over {row['passed_over']}" if row["passed_over"] else ""
    well = row["breaker"] == "closed"
    text = f"  {row['label']}: {row['answered']} answered{failed}{over}"
    return (text, "") if well else (f"{text} (not asked now)", HELD)


def _cost(said: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the cost of models, if there is any: in all, and by NPC, the dearest
    first."""
    total = said.get("total") or {}
    if not (total.get("input_tokens") or total.get("output_tokens")):
        return []
    npcs = sorted(said["npcs"].items(), key=lambda of: -of[1]["cost"])
    lines = [(f"  models: {_spent(total)}", "")]
    lines += [(f"    {npc}: {_spent(of)}", "") for npc, of in npcs]
    if away := said.get("turned_away"):
        lines.append((f"    turns turned away for it: {away}", HELD))
    return lines


def _spent(of: Mapping[str, Any]) -> str:
    cost = f", cost {of['cost']:.4g}" if of["cost"] else ""
    return f"{many(of['input_tokens'], 'token')} in, {of['output_tokens']} out{cost}"


def _sessions(said: Mapping[str, Any]) -> str:
    latest = f": {', '.join(said['latest'])}" if said["latest"] else ""
    return f"  sessions: {said['open']} open, {said['set_aside']} set aside{latest}"
