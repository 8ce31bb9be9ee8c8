"""What a user has agreed to start is known by place, name and content."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from glyphoxa_trio.config import ServerSpec, SharedServer
from glyphoxa_trio.config.seen import Seen


def entry(source: Path, name: str = "files", digest: str = "one") -> SharedServer:
    spec = ServerSpec(name=name, command=("x",))
    return SharedServer(spec=spec, source=source, digest=digest, target="x")


def test_only_this_content_at_this_place_was_agreed_to(tmp_path: Path) -> None:  # D14a
    here, there = tmp_path / ".mcp.json", tmp_path / "there" / ".mcp.json"
    Seen().add([entry(here), entry(here, "git", "two")])
    seen = Seen()  # as the next run has it
    assert entry(here) in seen
    assert entry(here, "git", "two") in seen
    assert entry(here, digest="two") not in seen
    assert entry(here, "git", "one") not in seen
    assert entry(here, "other") not in seen
    assert entry(there) not in seen
    seen.add([entry(here, digest="two")])
    assert entry(here) not in seen
    assert entry(here, "git", "two") in seen


def test_a_link_is_the_place_that_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    Seen().add([entry(tmp_path / "link" / ".mcp.json")])
    assert entry(tmp_path / "real" / ".mcp.json") in Seen()


def test_a_file_that_is_only_a_link_was_not_agreed_to_where_it_is(
    tmp_path: Path,
) -> None:  # its ./run.sh is another one, and so is its folder
    for name in ("good", "evil"):
        (tmp_path / name).mkdir()
    good, evil = (tmp_path / name / ".mcp.json" for name in ("good", "evil"))
    good.write_text("{}")
    evil.symlink_to("../good/.mcp.json")
    Seen().add([entry(good)])
    assert entry(evil) not in Seen()
    Seen().add([entry(evil)])
    assert entry(good) in Seen()
    assert entry(evil) in Seen()


def test_it_is_kept_in_the_users_own_state_folder_and_for_the_user_alone(
    tmp_path: Path, state_folder: Path
) -> None:
    Seen().add([entry(tmp_path / ".mcp.json")])
    (kept,) = (state_folder / "glyphoxa" / "seen").iterdir()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("text", ["", "[]", "{", '{"entries": []}', "[" * 100_000])
def test_what_cannot_be_understood_was_not_agreed_to(tmp_path: Path, text: str) -> None:
    seen, one = Seen(tmp_path / "seen"), entry(tmp_path / ".mcp.json")
    seen.add([one])
    (kept,) = (tmp_path / "seen").iterdir()
    kept.write_text(text)
    assert one not in seen
    seen.add([one])
    assert one in seen


def test_what_cannot_be_kept_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "seen").write_text("a file in its way")
    with pytest.raises(OSError, match="exists"):
        Seen(tmp_path / "seen").add([entry(tmp_path / ".mcp.json")])
    assert os.listdir(tmp_path) == ["seen"]
