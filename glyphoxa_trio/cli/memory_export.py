"""``glyphoxa memory export``, ``backup`` and ``forget``."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import Any

import attrs

import trio

from glyphoxa_trio.config import Config
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.memory.contract import Memory
from glyphoxa_trio.memory.importing.archiving import ALL, archived
from glyphoxa_trio.memory.visibility import GAME_MASTER, CampaignKey
from glyphoxa_trio.runtime.forgotten_elsewhere import EVERY
from glyphoxa_trio.runtime.kept_table import id_by_name
from glyphoxa_trio.tools.naming import nearest
from glyphoxa_trio.units import many, singular

from .choosing import somebody_is_there
from .common import keep_existing
from .console import say, say_json, wide_console
from .memory_store import campaigns_of, one_campaign, with_memory
from .terminal import InputLines


def export(
    where: str,
    *,
    campaign: str | None,
    tenant: str | None,
    output: Path | None,
    force: bool,
) -> int:
    """Write everything of a campaign as JSON, to a file or the output."""

    async def main(memory: Memory, config: Config) -> int:
        keep_existing(output, force)
        key = await one_campaign(memory, config, campaign, tenant)
        found = await archived(memory, key)
        await write_json(found.as_json(), output)
        if output is not None:
            told = (
                f"{many(len(found.lines), 'line')},"
                f" {many(len(found.entities), 'entity')},"
                f" {many(len(found.facts), 'fact')}"
            )
            say(wide_console(), f"exported the campaign {key} to {output}: {told}")
        return 0

    return with_memory(where, main)


async def write_json(value: Mapping[str, Any], output: Path | None) -> None:
    """Write JSON, one entry a line, to a file that is new at once or not at all.

    Raises:
      GlyphoxaError: it cannot be written; a file that was there is as it was.
    """
    text = _text(value)
    if output is None:
        sys.stdout.write(text)
        return
    try:
        await trio.to_thread.run_sync(_write, output, text, abandon_on_cancel=True)
    except OSError as error:
        raise GlyphoxaError(f"{output}: {error.strerror or error}") from None


def _text(value: Mapping[str, Any]) -> str:
    parts: list[str] = []
    for name, item in value.items():
        if isinstance(item, list) and item:
            lines = ",\n".join(json.dumps(x, ensure_ascii=False) for x in item)
            parts.append(f"{json.dumps(name)}: [\n{lines}\n]")
        else:
            parts.append(f"{json.dumps(name)}: {json.dumps(item, ensure_ascii=False)}")
    return "{" + ",\n".join(parts) + "}\n"


def _write(path: Path, text: str) -> None:
    beside = path.with_name(f".{path.name}.{token_hex(8)}.tmp")
    file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        # Half a surrogate pair cannot be written; JSON escapes it.
        with os.fdopen(file, "w", encoding="utf-8", errors="backslashreplace") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        os.replace(beside, path)
    except BaseException:
        with suppress(OSError):
            beside.unlink()
        raise


def backup(where: str, to: Path, *, force: bool, as_json: bool) -> int:
    """Write a copy of a memory file, while others use it."""

    async def main(memory: Memory, _: Config) -> int:
        keep_existing(to, force, source=memory.place)
        await memory.backup(to)
        size = (await trio.Path(to).stat()).st_size
        if as_json:
            say_json({"place": memory.place, "backup": str(to), "bytes": size})
        else:
            say(wide_console(), f"copied {memory.place} to {to}: {size} bytes")
        return 0

    return with_memory(where, main)


def forget(
    where: str,
    player: str,
    *,
    tenant: str,
    campaign: str | None,
    everywhere: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Remove everything that a player has said, and say how much it was.

    ``everywhere``: a name in several campaigns is one player's.
    """

    async def main(memory: Memory, _: Config) -> int:
        heard = await _players(memory, tenant)
        places, inside = heard, None
        if campaign is not None:
            key = (await campaigns_of(memory, campaign, tenant))[0]
            places, inside = {key: heard[key]}, key.campaign
        id_, name = player, id_by_name(player)
        if not any(id_ in x for x in places.values()):
            id_ = name if any(name in x for x in places.values()) else player
        several = [
            str(key)
            for key, players in places.items()
            if id_ in players and id_by_name(players[id_]) == id_
        ]
        if len(several) > 1 and not everywhere:
            raise GlyphoxaError(
                f"{id_!r} is a name in the campaigns {', '.join(several)}, perhaps of"
                " several players: choose one with --campaign, or say --everywhere"
            )
        if not yes and not await _agreed(player):
            raise GlyphoxaError(
                "nothing was removed: this cannot be undone; agree with --yes"
            )
        gone = attrs.asdict(await memory.forget(tenant, id_, campaign=inside))
        held = [
            (x.session, x.holder)
            for x in await memory.journal.sessions(tenant)
            if x.holder
        ]
        found = any(gone.values())
        players = {x: y for each in heard.values() for x, y in each.items()}
        if as_json:
            open_ = [x for x, _ in held]
            say_json({"player": id_, "removed": gone, "open_sessions": open_})
            return 0 if found else 1
        console = wide_console()
        if not found:
            said = f"nothing of a player with the id {player!r} is kept"
            near = nearest(player, [*players, *players.values()])
            ids = [x for x, name in players.items() if x in near or name in near]
            if ids:
                known = ", ".join(f"{x} (called {players[x]})" for x in ids)
                said += f"; did you mean {known}?"
            say(console, said)
        else:
            counts = ", ".join(
                many(n, singular(word), word) for word, n in gone.items() if n
            )
            say(console, f"removed for good: {counts}")
        for session, holder in held:
            say(
                console,
                f"the session {session} is open in {holder}: if it has words of the"
                f" player, that process ends it within {EVERY:.0f} seconds, and removes"
                " what was written meanwhile",
            )
        say(console, "backups and exports still have it: remove those yourself", "dim")
        return 0 if found else 1

    return with_memory(where, main)


async def _agreed(player: str) -> bool:
    if not somebody_is_there():
        return False
    sys.stderr.write(
        f"Remove everything that the player {player!r} has said, and all that was made"
        " of it, for good? (yes, no) [no] "
    )
    sys.stderr.flush()
    answer = await InputLines().next()
    return answer is not None and answer.casefold() in ("yes", "y")


async def _players(memory: Memory, tenant: str) -> dict[CampaignKey, dict[str, str]]:
    """Return by campaign the ids of players who said something, with their names."""
    found: dict[CampaignKey, dict[str, str]] = {}
    for campaign in await memory.campaigns(tenant):
        lines = await memory.transcripts.recent(campaign, GAME_MASTER, limit=ALL)
        found[campaign] = {
            x.line.player: x.line.speaker for x in lines if x.line.player
        }
    return found
