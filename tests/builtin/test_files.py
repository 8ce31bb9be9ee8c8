"""The sandbox: what is written is read, and nothing outside is ever touched."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import stat
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from glyphoxa_trio.builtin.files import MAX_BYTES, tools
from glyphoxa_trio.builtin.guard import ToolResourceExhausted
from glyphoxa_trio.tools.definition import CallContext, Tool, ToolError
from glyphoxa_trio.tools.outcome import ToolResult


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return tmp_path / "base"


def run(tool: Tool, **arguments: Any) -> Any:
    """Through the handler, as the host does in a worker thread."""
    result = tool.handler(arguments, CallContext())
    assert isinstance(result, ToolResult)
    return result.structured


def contents(folder: Path) -> dict[str, bytes | str | None]:
    """Everything below ``folder``: a file's bytes, a link's target, or None."""
    seen: dict[str, bytes | str | None] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            seen[name] = str(path.readlink())
        else:
            seen[name] = path.read_bytes() if path.is_file() else None
    return seen


# -- G10 ----------------------------------------------------------------------------


@pytest.mark.parametrize("content", ["", "Ale.\r\n", "Mäuse \N{SNOWMAN}\0"])
def test_what_is_written_is_read(base: Path, content: str) -> None:
    write, read = tools(base)
    size = len(content.encode())
    assert run(write, path="notes.txt", content=content) == {
        "path": "notes.txt",
        "bytes": size,
    }
    assert run(read, path="notes.txt") == {
        "path": "notes.txt",
        "content": content,
        "bytes": size,
    }


def test_parents_are_created_and_the_path_is_shown_in_its_shortest_form(
    base: Path,
) -> None:
    write, read = tools(base)
    assert write("./a//b/./c.txt", "x")["path"] == "a/b/c.txt"
    assert (base / "a" / "b" / "c.txt").read_text() == "x"
    assert read("a/b/c.txt")["content"] == "x"


def test_reading_creates_nothing(base: Path) -> None:
    _, read = tools(base)
    with pytest.raises(ToolError, match="'a/b': there is no such file"):
        read("a/b")
    assert contents(base) == {}


def test_the_base_is_made_and_may_be_a_link_resolved_once(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    link = tmp_path / "base"
    link.symlink_to("one")
    write, _ = tools(link)
    link.unlink()
    link.symlink_to("two")
    write("x", "1")
    assert contents(tmp_path / "one") == {"x": b"1"}
    assert contents(tmp_path / "two") == {}
    tools(tmp_path / "deep" / "new")
    assert (tmp_path / "deep" / "new").is_dir()


def test_a_base_that_is_a_file_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "base").write_text("")
    with pytest.raises(FileExistsError):
        tools(tmp_path / "base")


def test_a_base_that_is_gone_is_no_fault_of_the_caller(base: Path) -> None:
    write, read = tools(base)
    base.rmdir()
    with pytest.raises(FileNotFoundError):
        read("x")
    base.symlink_to(base.parent)  # nor is a link taken for it
    with pytest.raises(NotADirectoryError):
        write("x", "1")


# -- paths: D23 ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("", "the path is empty"),
        ("/etc/passwd", "relative to the sandbox"),
        ("//etc/passwd", "relative to the sandbox"),
        ("..", "'..' is not allowed"),
        ("../secret", "'..' is not allowed"),
        ("a/../../secret", "'..' is not allowed"),
        ("a/../b", "'..' is not allowed"),
        ("a\0b", "holds no NUL"),
        (".", "names a directory"),
        ("a/", "names a directory"),
        ("a/.", "names a directory"),
        ("x" * 256, "a name in it is too long"),
        ("x/" * 512 + "x", "longer than 1024 bytes"),
        ("\ud800", "not valid Unicode"),
    ],
)
def test_a_path_that_leads_elsewhere_is_refused(
    base: Path, path: str, problem: str
) -> None:
    write, read = tools(base)
    before = contents(base.parent)
    with pytest.raises(ToolError, match=problem):
        run(write, path=path, content="x")
    with pytest.raises(ToolError, match=problem):
        run(read, path=path)
    assert contents(base.parent) == before


def test_dots_in_a_name_are_just_letters(base: Path) -> None:
    write, _ = tools(base)
    write("a../b..d/e", "x")
    assert (base / "a.." / "b..d" / "e").read_text() == "x"


def test_links_are_not_followed_wherever_they_stand(base: Path) -> None:
    write, read = tools(base)
    outside = base.parent / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    (base / "file").write_text("inside")
    (base / "out").symlink_to(outside)
    (base / "secret").symlink_to(outside / "secret")
    (base / "within").symlink_to("file")
    (base / "dangling").symlink_to(outside / "new")
    (base / "loop").symlink_to("loop")
    before = contents(base.parent)
    for path in ("secret", "within", "dangling", "loop"):
        with pytest.raises(ToolError, match="it is a link"):
            write(path, "x")
        with pytest.raises(ToolError, match="it is a link"):
            read(path)
    for path in ("out/secret", "out/new", "out/a/new", "loop/x"):
        with pytest.raises(ToolError, match="not a directory"):
            write(path, "x")
        with pytest.raises(ToolError, match="not a directory"):
            read(path)
    assert contents(base.parent) == before


# -- sizes and kinds ----------------------------------------------------------------


def test_content_is_capped_in_bytes_not_characters(base: Path) -> None:
    write, read = tools(base)
    assert write("full", "x" * MAX_BYTES)["bytes"] == MAX_BYTES == 1024 * 1024
    assert len(read("full")["content"]) == MAX_BYTES
    for content in ("x" * (MAX_BYTES + 1), "ä" * (MAX_BYTES // 2 + 1)):
        with pytest.raises(ToolError, match="more than 1048576 bytes"):
            run(write, path="new", content=content)
    with pytest.raises(ToolError, match="content is not valid Unicode"):
        run(write, path="new", content="\udfff")
    assert list(contents(base)) == ["full"]


def test_a_file_above_the_cap_is_not_read(base: Path) -> None:  # G10
    _, read = tools(base)
    (base / "big").write_bytes(b"x" * (MAX_BYTES + 1))
    with pytest.raises(ToolError, match="'big' has more than 1048576 bytes"):
        run(read, path="big")


def test_a_size_that_lies_does_not_help(base: Path) -> None:
    # Files below /proc say that they are empty; a file may also grow.
    _, read = tools(base)
    (base / "growing").write_bytes(b"x" * 10)
    real = os.fstat

    def small(descriptor: int) -> os.stat_result:
        result = real(descriptor)
        with open(base / "growing", "ab") as file:
            file.write(b"x" * MAX_BYTES)
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fstat", small)
        with pytest.raises(ToolError, match="more than 1048576 bytes"):
            read("growing")


def test_what_is_not_utf8_is_refused(base: Path) -> None:
    _, read = tools(base)
    (base / "raw").write_bytes(b"\xff\xfe")
    with pytest.raises(ToolError, match="'raw' is not UTF-8 text"):
        run(read, path="raw")


def test_only_regular_files_are_read_and_replaced(base: Path) -> None:
    write, read = tools(base)
    (base / "folder").mkdir()
    os.mkfifo(base / "fifo")
    here = os.open(".", os.O_RDONLY)
    try:
        os.chdir(base)  # a socket's path is short
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind("socket")
    finally:
        os.fchdir(here)
        os.close(here)
    for path, problem in (
        ("folder", "it is a directory"),
        ("fifo", "it is not a regular file"),
        ("socket", "it is not a regular file"),
    ):
        with pytest.raises(ToolError, match=problem):
            write(path, "x")
        with pytest.raises(ToolError, match=problem):
            read(path)
    (base / "file").write_text("x")
    for path in ("file/below", "fifo/below"):
        with pytest.raises(ToolError, match="not a directory"):
            write(path, "x")
        with pytest.raises(ToolError, match="not a directory"):
            read(path)
    assert stat.S_ISFIFO((base / "fifo").stat().st_mode)
    assert sorted(path.name for path in base.iterdir()) == [
        "fifo",
        "file",
        "folder",
        "socket",
    ]


# -- writing is all or nothing: D23 -------------------------------------------------


@pytest.mark.parametrize("step", ["replace", "fsync", "fchmod"])
def test_a_failed_write_leaves_the_old_text_and_nothing_else(
    base: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    write, read = tools(base)
    write("notes", "old")

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(os, step, full)
    with pytest.raises(ToolResourceExhausted, match="no room on the disk"):
        write("notes", "new")
    assert read("notes")["content"] == "old"
    assert list(contents(base)) == ["notes"]


def test_the_text_is_whole_and_safe_before_it_takes_its_place(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, read = tools(base)
    write("notes", "old")
    seen: list[str] = []
    replace, fsync = os.replace, os.fsync

    def watched_fsync(descriptor: int) -> None:
        assert os.fstat(descriptor).st_size == len("new text")
        seen.append(read("notes")["content"])
        fsync(descriptor)

    def watched_replace(*args: Any, **kwargs: Any) -> None:
        seen.append(read("notes")["content"])
        replace(*args, **kwargs)
        seen.append(read("notes")["content"])

    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(os, "replace", watched_replace)
    write("notes", "new text")
    assert seen == ["old", "old", "new text"]


def test_a_name_as_long_as_can_be_is_written(base: Path) -> None:
    write, _ = tools(base)
    write("x" * 255, "1")
    assert list(contents(base)) == ["x" * 255]


def test_permissions_stay_when_a_file_is_replaced(base: Path) -> None:
    write, _ = tools(base)
    write("notes", "old")
    (base / "notes").chmod(0o640)
    write("notes", "new")
    assert stat.S_IMODE((base / "notes").stat().st_mode) == 0o640


def test_a_hard_link_elsewhere_keeps_its_text(base: Path) -> None:
    write, _ = tools(base)
    (base.parent / "outside").write_text("old")
    os.link(base.parent / "outside", base / "inside")
    write("inside", "new")
    assert (base.parent / "outside").read_text() == "old"


def test_writers_at_once_leave_one_whole_text(base: Path) -> None:
    write, read = tools(base)
    texts = [letter * 20_000 for letter in "abcd"]
    threads = [
        threading.Thread(target=write, args=("a/b/notes", text)) for text in texts
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read("a/b/notes")["content"] in texts
    assert list(contents(base)) == ["a", "a/b", "a/b/notes"]


def test_no_descriptor_stays_open(base: Path) -> None:
    write, read = tools(base)
    (base / "folder").mkdir()
    os.mkfifo(base / "fifo")
    before = len(os.listdir("/dev/fd"))
    for path in ("a/b/c", "folder", "fifo", "folder/x/y", "a/b/c/d", "../x", "none"):
        for tool, more in ((write, ("x",)), (read, ())):
            try:
                tool(path, *more)
            except ToolError:
                continue
    assert len(os.listdir("/dev/fd")) == before


# -- any path at all ----------------------------------------------------------------

NAMES = ("..", ".", "", "out", "secret", "link", "up", "self", "sub", "file", "new")
paths = st.one_of(
    st.lists(st.sampled_from(NAMES), max_size=6).map("/".join),
    st.lists(st.one_of(st.sampled_from(NAMES), st.text(max_size=4))).map("/".join),
)


@given(path=paths)
def test_no_path_reads_or_writes_outside_the_base(path: str) -> None:
    room = Path(tempfile.mkdtemp())
    try:
        outside, base = room / "outside", room / "base"
        (base / "sub").mkdir(parents=True)
        outside.mkdir()
        (outside / "secret").write_text("secret")
        (outside / "file").write_text("secret")
        (base / "sub" / "file").write_text("inside")
        (base / "file").write_text("inside")
        (base / "out").symlink_to(outside)
        (base / "link").symlink_to(outside / "secret")
        (base / "up").symlink_to("..")
        (base / "self").symlink_to(".")
        (base / "sub" / "up").symlink_to("../../outside")
        (base / "sub" / "link").symlink_to("file")
        write, read = tools(base)

        before = contents(room)
        with suppress(ToolError):
            assert read(path)["content"] == "inside"
        assert contents(room) == before

        try:
            wrote = write(path, "written")["path"]
        except ToolError:
            wrote = None
        after = contents(room)
        changed = {name for name, text in after.items() if before.get(name, "") != text}
        assert before.keys() <= after.keys()
        if wrote is not None:
            # As it stands, name by name, and no link on the way.
            target = base / wrote
            assert target.resolve() == target.absolute()
            assert after[f"base/{wrote}"] == b"written"
            assert target == Path(os.path.normpath(base / path))
            changed.remove(f"base/{wrote}")
        assert all(name.startswith("base/") and after[name] is None for name in changed)
    finally:
        shutil.rmtree(room)


class SandboxMachine(RuleBasedStateMachine):
    """Against a dict from path to text."""

    names = st.lists(st.sampled_from("ab"), min_size=1, max_size=3).map("/".join)

    def __init__(self) -> None:
        super().__init__()
        self.base = Path(tempfile.mkdtemp())
        self.write_file, self.read_file = tools(self.base)
        self.model: dict[str, str] = {}

    @rule(path=names, content=st.text(max_size=5))
    def write(self, path: str, content: str) -> None:
        under_a_file = any(path.startswith(f"{file}/") for file in self.model)
        is_a_folder = any(file.startswith(f"{path}/") for file in self.model)
        if under_a_file or is_a_folder:
            with pytest.raises(ToolError):
                self.write_file(path, content)
        else:
            self.write_file(path, content)
            self.model[path] = content

    @rule(path=names)
    def read(self, path: str) -> None:
        if path in self.model:
            assert self.read_file(path)["content"] == self.model[path]
        else:
            with pytest.raises(ToolError):
                self.read_file(path)

    def teardown(self) -> None:
        found = {name: text for name, text in contents(self.base).items() if text}
        shutil.rmtree(self.base)
        assert found == {k: v.encode() for k, v in self.model.items() if v}


TestSandbox = SandboxMachine.TestCase


# -- the tools: G10, G29 ------------------------------------------------------------


def test_the_definitions_say_what_the_seeds_say(base: Path) -> None:
    write, read = tools(base)
    assert [write.key, read.key] == ["files.write_file", "files.read_file"]
    assert write.blocking
    assert read.blocking
    for definition in (write.definition, read.definition):
        assert definition.estimated_duration == 0.02
        assert definition.max_duration == 0.1
        assert definition.idempotent
        assert definition.cacheable == 0
    assert read.definition.read_only
    assert write.definition.side_effects
    assert write.definition.parameters["required"] == ["path", "content"]
    assert read.definition.parameters["required"] == ["path"]


def test_a_probe_writes_nothing(base: Path) -> None:  # D9
    write, _ = tools(base)
    with pytest.raises(ToolError, match="the path is empty"):
        run(write, **write.definition.examples[0])
    assert contents(base) == {}


# -- what is no note: code and settings, and how much there is room for -------------


@pytest.mark.parametrize(
    "path",
    [
        *(".env", ".mcp.json", ".git/hooks/pre-commit", ".vscode/settings.json"),
        *("notes/.bashrc", ".Claude/settings.json", ".CURSOR/mcp.json"),
        *("evil.py", "EVIL.PY", "evil.py.", "evil.py ", "sub/conftest.py"),
        *("Makefile", "MAKEFILE", "pyproject.toml", "package.json", "run.sh"),
        *("node_modules/a/index", "x/__pycache__/y", "requirements.txt"),
        *("\N{FULLWIDTH FULL STOP}env", "evil.p\N{FULLWIDTH LATIN SMALL LETTER Y}"),
        *("\N{ZERO WIDTH JOINER}.git/config", ".g\N{ZERO WIDTH NON-JOINER}it/config"),
    ],
)
def test_nothing_that_programs_read_is_written_or_read(base: Path, path: str) -> None:
    write, read = tools(base)
    with pytest.raises(ToolError):
        write(path, "import os")
    assert contents(base) == {}
    there = base / path
    there.parent.mkdir(parents=True, exist_ok=True)
    there.write_text("secret")
    with pytest.raises(ToolError) as refused:
        read(path)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("path", ["a.b.txt", "Ä/öl.md", "notes", "state.json", "c. d"])
def test_notes_are_no_code(base: Path, path: str) -> None:
    write, read = tools(base)
    write(path, "Ale.")
    assert read(path)["content"] == "Ale."


def test_what_has_another_name_elsewhere_is_not_read(base: Path) -> None:
    write, read = tools(base)
    (base.parent / "table.json").write_text("secret")
    os.link(base.parent / "table.json", base / "notes")
    with pytest.raises(ToolError):
        read("notes")
    write("notes", "mine")  # in its place, and not through it
    assert (base.parent / "table.json").read_text() == "secret"


def test_bytes_have_a_quota_and_what_is_there_counts(base: Path) -> None:
    write, _ = tools(base, quota=100)
    (base / "old").write_bytes(b"x" * 40)
    write("a/b", "y" * 60)
    with pytest.raises(ToolResourceExhausted, match=r"100 bytes.*\(files\.quota_mb\)"):
        write("c", "z")
    write("a/b", "y" * 59)  # what takes the place of something counts the rest only
    write("c", "z")
    with pytest.raises(ToolResourceExhausted):
        write("a/b", "y" * 60)
    assert (base / "a" / "b").stat().st_size == 59


def test_files_and_folders_are_counted(base: Path) -> None:
    write, _ = tools(base, max_files=4)
    write("a/b/c", "1")
    with pytest.raises(ToolResourceExhausted, match=r"4 files .*\(files\.max_files\)"):
        write("d/e", "2")
    write("d", "2")
    with pytest.raises(ToolResourceExhausted):
        write("f", "3")
    write("d", "4")  # it is there already


def test_writers_at_once_share_one_quota(base: Path) -> None:
    write, _ = tools(base, quota=1000)

    def many(name: str) -> None:
        for number in range(10):
            with suppress(ToolResourceExhausted):
                write(f"{name}{number}", "x" * 90)

    threads = [threading.Thread(target=many, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(path.stat().st_size for path in base.iterdir()) == 990
