"""What tests of importing share."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from glyphoxa_trio.memory.importing import Drafts, Imported, ImportKind
from glyphoxa_trio.memory.importing.files import files_in, read_file, read_text
from glyphoxa_trio.memory.knowledge import Entity


def read(
    data: Any,
    name: str = "world.json",
    *,
    kind: ImportKind | None = None,
    existing: Sequence[Entity] = (),
    public: bool = False,
    npcs: Sequence[str] = (),
    same: Mapping[str, str] | None = None,
) -> Imported:
    """Import a text, or data as JSON."""
    text = data if isinstance(data, str) else json.dumps(data)
    drafts = Drafts(open=public, same=same or {})
    drafts.begin(name)
    read_text(text, Path(name), drafts, kind=kind)
    return drafts.imported(existing, npcs)


def read_paths(*paths: Path) -> Imported:
    drafts = Drafts()
    for path in files_in(paths):
        read_file(path, drafts, kind=None, documents=lambda _: ())
    return drafts.imported()


def entity(imported: Imported, id_: str) -> Entity:
    (found,) = [x for x in imported.entities if x.id == id_]
    return found


def facts_about(imported: Imported, id_: str) -> list[str]:
    return [x.text for x in imported.facts if id_ in x.about]


def skipped(imported: Imported) -> dict[str, str]:
    return {x.where: x.why for x in imported.skipped}


def edges(imported: Imported) -> set[tuple[str, str, str]]:
    return {(x.source, x.type, x.target) for x in imported.relationships}
