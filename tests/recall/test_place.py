"""The place of a configuration's memory (G38)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from glyphoxa_trio.config import ConfigError
from glyphoxa_trio.config.load import parse
from glyphoxa_trio.memory.errors import MemoryUnusable
from glyphoxa_trio.memory.opening import open_memory
from glyphoxa_trio.recall.place import place_of


def place(source: Path | None, folder: Path, **memory: Any) -> str | None:
    data = {"npcs": [{"name": "Bo"}], "mcp": {"state_dir": str(folder)}}
    config = parse({**data, "memory": memory}, source=Path("/table/npcs.yaml"), env={})
    return place_of(config, source)


def test_two_configurations_of_one_name_stay_apart(tmp_path: Path) -> None:
    one = place(Path("/a/npcs.yaml"), tmp_path)
    other = place(Path("/b/npcs.yaml"), tmp_path)
    assert one != other
    assert one is not None
    assert Path(one).parent == tmp_path / "memory"
    assert Path(one).name.startswith("npcs-")
    assert len(Path(one).stem) == len("npcs-") + 8
    assert place(Path("/b/../a/npcs.yaml"), tmp_path) == one


def test_a_name_is_shared_by_whoever_has_it(tmp_path: Path) -> None:
    named = str(tmp_path / "memory" / "Nights.db")
    assert place(Path("/a/npcs.yaml"), tmp_path, name="Nights") == named
    assert place(None, tmp_path, name="Nights") == named
    assert place(None, tmp_path) is None


@pytest.mark.parametrize("name", ["../x", "a/b", ".x", "a\0", "x" * 101])
def test_a_name_leads_out_of_no_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=r"@ memory\.name"):
        place(None, tmp_path, name=name)


def test_a_stated_store_is_used_as_it_stands(tmp_path: Path) -> None:
    source = Path("/a/npcs.yaml")
    assert place(source, tmp_path, store="off") is None
    assert place(source, tmp_path, store="kept/m.db") == "/a/kept/m.db"
    assert place(source, tmp_path, store="/m.db") == "/m.db"
    database = "postgresql://me:secret@host/db"
    assert place(source, tmp_path, store=database) == database
    with pytest.raises(ConfigError, match="HOME"):
        place(source, tmp_path, store="~/m.db")


@pytest.mark.parametrize(
    "store", ["host=db dbname=npcs user=me", "dbname = npcs", "mysql://me@host/db"]
)
def test_an_address_in_another_form_is_no_file(tmp_path: Path, store: str) -> None:
    with pytest.raises(ConfigError, match=r"postgresql:// @ memory\.store"):
        place(Path("/a/npcs.yaml"), tmp_path, store=store)
    with pytest.raises(MemoryUnusable, match="postgresql://"):
        open_memory(store)
