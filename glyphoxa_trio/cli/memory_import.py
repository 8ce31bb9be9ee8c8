"""``glyphoxa memory import``: world data of files into a campaign's memory."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import attrs

import trio

from glyphoxa_trio.config import Config
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.memory.contract import Memory
from glyphoxa_trio.memory.importing import (
    Drafts,
    ImportKind,
    ImportRefused,
    Skipped,
)
from glyphoxa_trio.memory.importing.archive import Archive, archive_of
from glyphoxa_trio.memory.importing.archiving import restore
from glyphoxa_trio.memory.importing.files import (
    MEMORY_FORMAT,
    content_of,
    files_in,
    read_file,
)
from glyphoxa_trio.memory.importing.putting import put
from glyphoxa_trio.memory.knowledge import Fact
from glyphoxa_trio.memory.visibility import CampaignKey
from glyphoxa_trio.storage.errors import StorageError
from glyphoxa_trio.units import many, singular

from .console import say, say_json, wide_console
from .grids import HELD, Column, Grid
from .grids import show as show_grid
from .memory_store import DEFAULT, unknown, with_memory

MOST_ARCHIVE: Final = 1024 * 1024 * 1024  # bytes of an export of a memory
_HEAD: Final = 200  # bytes in which an export names its format
_MOST_SHOWN: Final = 40  # skipped items
_REMOVED: Final = (
    Column("no longer known", whole=False),
    Column("not in", whole=False),
)
_COLUMNS: Final = (Column("not imported", whole=False), Column("why", whole=False))


@attrs.frozen(kw_only=True)
class _Outcome:
    """The report of an import that was made, or would be."""

    campaign: CampaignKey
    counts: Mapping[str, int]
    skipped: Sequence[Skipped]
    dry: bool
    notes: Sequence[str] = ()
    removed: Sequence[Fact] = ()

    def as_json(self) -> dict[str, Any]:
        return {
            "campaign": self.campaign.campaign,
            "tenant": self.campaign.tenant,
            "dry_run": self.dry,
            **self.counts,
            "skipped": [attrs.asdict(x) for x in self.skipped],
            "notes": [*self.notes],
            "removed": [
                {"id": x.id, "text": x.text, "by": x.provenance.by}
                for x in self.removed
            ],
        }


def import_files(
    where: str,
    files: Sequence[Path],
    *,
    kind: ImportKind | None,
    campaign: str | None,
    tenant: str | None,
    open_: bool,
    same: Sequence[str],
    dry_run: bool,
    as_json: bool,
) -> int:
    """Import files, all of them or none, and report.

    ``same``: "NAME=NPC" of each item that is a configured NPC under another name.
    """

    async def main(memory: Memory, config: Config) -> int:
        npcs = [x.name for x in config.npcs]
        read = partial(_read, files, kind, Drafts(open=open_, same=_pairs(same, npcs)))
        found = await trio.to_thread.run_sync(read, abandon_on_cancel=True)
        stated = campaign or config.memory.campaign or found.campaign or DEFAULT
        key = CampaignKey(stated, tenant or "")
        if isinstance(found, Archive):
            outcome = await _restored(memory, key, found, dry_run)
        else:
            report = await put(memory, key, found, npcs=npcs, dry_run=dry_run)
            outcome = _Outcome(
                campaign=key,
                counts=report.counts,
                skipped=report.skipped,
                notes=report.notes,
                removed=report.removed,
                dry=dry_run,
            )
        if as_json:
            say_json(outcome.as_json())
        else:
            _report(outcome)
            if key.campaign != (config.memory.campaign or DEFAULT):
                say(
                    wide_console(),
                    f"sessions know it with campaign: {key.campaign}, or in CONFIG with"
                    f" memory: {{campaign: {key.campaign}}}",
                    "dim",
                )
        return 0

    return with_memory(where, main, create=True)


def _pairs(same: Sequence[str], npcs: Sequence[str]) -> dict[str, str]:
    """Return names of NPCs by the names in files."""
    pairs = {}
    for each in same:
        name, equals, npc = each.rpartition("=")
        if not equals or not name.strip():
            raise GlyphoxaError(f"--same {each!r}: write NAME=NPC")
        if npc.strip() not in npcs:
            raise unknown("configured NPC", npc.strip(), npcs)
        pairs[name.strip()] = npc.strip()
    return pairs


def _read(files: Sequence[Path], kind: ImportKind | None, drafts: Drafts) -> Any:
    """Return the drafts of all files, or the archive in the only one."""
    if len(files) == 1 and files[0].is_file() and kind in (None, ImportKind.MEMORY):
        with files[0].open("rb") as file:
            is_archive = MEMORY_FORMAT.encode() in file.read(_HEAD)
        if is_archive or kind is ImportKind.MEMORY:
            return _archive(files[0])
    for path in files_in(files):
        read_file(path, drafts, kind=kind, documents=documents_in)
    return drafts


def _archive(path: Path) -> Archive:
    try:
        data = json.loads(content_of(path, MOST_ARCHIVE))
    except RecursionError:
        raise ImportRefused(f"{path}: it is nested too deeply") from None
    except ValueError as error:
        raise ImportRefused(f"{path}: it is not JSON: {error}") from None
    return archive_of(data, path.name)


def documents_in(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the documents of each campaign in a file of the campaign server.

    Raises:
      ImportRefused: it is damaged, of another program or of another version.
    """
    from glyphoxa_trio.campaign.model import Campaign
    from glyphoxa_trio.campaign.schema import SCHEMA
    from glyphoxa_trio.campaign.sqlite import SqliteFile
    from glyphoxa_trio.campaign.transfer import exported
    from glyphoxa_trio.storage.database import open_to_read

    try:
        file = SqliteFile(open_to_read(path, SCHEMA))
        try:
            campaigns = file.read(lambda records: records.page(Campaign, None, 0, 1000))
            for _, one in campaigns:
                cursor: str | None = None
                while True:
                    document = file.read(
                        partial(exported, campaign_id=one.id, cursor=cursor)
                    )
                    yield document
                    if (cursor := document.get("next_cursor")) is None:
                        break
        finally:
            file.close()
    except StorageError as error:
        raise ImportRefused(str(error)) from None


async def _restored(
    memory: Memory, key: CampaignKey, archive: Archive, dry_run: bool
) -> _Outcome:
    if dry_run:
        counts = {
            name: len(getattr(archive, name))
            for name in ("evenings", "lines", "entities", "relationships", "facts")
        }
        return _Outcome(campaign=key, counts=counts, skipped=(), dry=True)
    done = await restore(memory, key, archive)
    return _Outcome(
        campaign=key,
        counts={
            "evenings_new": done.evenings,
            "lines_new": done.lines,
            "entities": done.entities,
            "relationships": done.relationships,
            "facts_new": done.facts,
        },
        skipped=done.skipped,
        dry=False,
    )


def _counted(counts: Mapping[str, int]) -> Iterator[str]:
    """Yield "12 entities (2 new, 1 changed)" of the counts of an outcome."""
    for name, number in counts.items():
        if "_" in name and name.partition("_")[0] in counts:
            continue
        more = {key: n for key, n in counts.items() if key.startswith(f"{name}_")}
        told = ", ".join(f"{n} {key.partition('_')[2]}" for key, n in more.items())
        words = " ".join(reversed(name.split("_")))
        yield f"{many(number, singular(words), words)}{f' ({told})' if told else ''}"


def _show(columns: tuple[Column, ...], rows: Sequence[list[str]]) -> None:
    console = wide_console()
    show_grid(console, Grid(columns=columns, rows=rows[:_MOST_SHOWN]))
    if (more := len(rows) - _MOST_SHOWN) > 0:
        say(console, f"and {more} more: --json lists all", "dim")


def _report(outcome: _Outcome) -> None:
    console = wide_console()
    counts = ", ".join(_counted(outcome.counts))
    verb = "would be imported" if outcome.dry else "imported"
    say(console, f"{verb} into the campaign {outcome.campaign}: {counts}")
    if outcome.removed:
        _show(_REMOVED, [[x.text, x.provenance.by] for x in outcome.removed])
    for note in outcome.notes[:_MOST_SHOWN]:
        say(console, note, HELD)
    if outcome.skipped:
        _show(_COLUMNS, [[x.where, x.why] for x in outcome.skipped])
