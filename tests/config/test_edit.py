"""Editing ``.mcp.json``: only the entry changes, and the file is always whole."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from glyphoxa_trio.config import ConfigError
from glyphoxa_trio.config.edit import (
    add_server,
    remove_server,
    with_server,
    without_server,
)

DISK = "glyphoxa_trio.config.disk"
ENTRY: dict[str, Any] = {"command": "npx", "args": ["-y", "x"]}


def problem(work: Callable[[], object]) -> str:
    with pytest.raises(ConfigError) as caught:
        work()
    return str(caught.value)


# ----------------------------------------------------------------------- text


def test_a_file_in_the_spelling_of_vs_code_keeps_it() -> None:  # D14
    text = '{"servers": {"a": {"command": "x"}}, "inputs": []}'
    added = with_server(text, "b", ENTRY)
    assert list(json.loads(added)) == ["servers", "inputs"]
    assert list(json.loads(added)["servers"]) == ["a", "b"]
    assert without_server(added, "b") == text
    both = '{"mcpServers": {"a": {}}, "servers": {"b": {"url": "x"}}}'
    gone = json.loads(without_server(both, "b"))
    assert gone == {"mcpServers": {"a": {}}, "servers": {}}
    new = json.loads(with_server(both, "b", ENTRY, replace=True))
    assert new == {"mcpServers": {"a": {}}, "servers": {"b": ENTRY}}
    # What is no mapping there is somebody else's.
    odd = json.loads(with_server('{"servers": [1]}', "b", ENTRY))
    assert odd == {"servers": [1], "mcpServers": {"b": ENTRY}}


def test_the_first_server_makes_the_file() -> None:  # N10, N14
    text = with_server(None, "files", ENTRY)
    assert text == (
        "{\n"
        '  "mcpServers": {\n'
        '    "files": {\n'
        '      "command": "npx",\n'
        '      "args": [\n'
        '        "-y",\n'
        '        "x"\n'
        "      ]\n"
        "    }\n"
        "  }\n"
        "}\n"
    )
    assert without_server(text, "files") == '{\n  "mcpServers": {}\n}\n'


def test_a_new_entry_looks_like_the_ones_before_it() -> None:  # N14
    before = '{\n\t"x": 1.0,\r\n\t"mcpServers": {\r\n\t\t"a": {"url": "u"}\r\n\t}\r\n}'
    after = with_server(before, "b", {"url": "v"})
    assert after == before.replace(
        '{"url": "u"}', '{"url": "u"},\r\n\t\t"b": {\r\n\t\t\t"url": "v"\r\n\t\t}'
    )
    one_line = '{"mcpServers":{"a":{"url":"u"}}}'
    assert with_server(one_line, "b", {"url": "v"}) == (
        '{"mcpServers":{"a":{"url":"u"}, "b": {"url": "v"}}}'
    )


def test_what_is_written_otherwise_elsewhere_stays_so() -> None:  # N14
    before = (
        '{"b" : 1e400,  "a":\t"\\u00e9\\ud800",'
        ' "mcpServers": { "x" : {"k":[1 , 2]}  ,\n'
        '  "y":{} }, "z": 1.10}'
    )
    after = with_server(before, "new", ENTRY)
    assert without_server(after, "new") == before
    assert without_server(before, "x") == before.replace(
        '"x" : {"k":[1 , 2]}  ,\n  ', ""
    )
    assert without_server(before, "y") == before.replace('  ,\n  "y":{}', "")


def test_an_entry_that_is_there_is_replaced_only_when_asked() -> None:
    before = with_server(None, "a", {"url": "u", "headers": {"K": "old"}})
    assert problem(lambda: with_server(before, "a", ENTRY)) == (
        "there is a server 'a' already @ .mcp.json"
    )
    kept = before.replace('"url"', '"autoApprove": ["t"],\n      "url"')
    after = json.loads(with_server(kept, "a", ENTRY, replace=True))
    # How it is reached is new, all of it; what others keep there is not ours.
    assert after == {"mcpServers": {"a": {**ENTRY, "autoApprove": ["t"]}}}
    assert list(after["mcpServers"]["a"]) == ["command", "args", "autoApprove"]


def test_an_unknown_name_is_told_the_nearest() -> None:  # N13
    text = with_server(with_server(None, "files", ENTRY), "world", ENTRY)
    assert problem(lambda: without_server(text, "file")) == (
        "no server 'file', there is files @ .mcp.json"
    )
    assert problem(lambda: without_server(text, "zzz")) == (
        "no server 'zzz', there is files, world @ .mcp.json"
    )
    for empty in (None, "{}", '{"mcpServers": {}}'):
        said = problem(partial(without_server, empty, "a"))
        assert said == "no server 'a' @ .mcp.json"


BROKEN = {
    "": "the file is empty @ .mcp.json",
    "{": "is not JSON: ",
    '{"mcpServers": {}} // a comment': "is not JSON: ",
    "[]": "expected a mapping, got a list @ .mcp.json",
    '{"mcpServers": []}': "expected a mapping, got a list @ .mcp.json.mcpServers",
    '{"mcpServers": null}': "expected a mapping, got nothing @ .mcp.json.mcpServers",
    '{"x": {"a": 1, "a": 2}}': "key 'a' is there twice @ .mcp.json",
    "[" * 100_000: "is nested too deeply @ .mcp.json",
}


@pytest.mark.parametrize("text", BROKEN, ids=lambda text: text[:20])
def test_a_file_that_is_broken_is_never_touched(tmp_path: Path, text: str) -> None:
    path = tmp_path / ".mcp.json"  # N14
    path.write_text(text)
    before = path.stat()
    for work in (
        lambda: add_server(path, "new", ENTRY),
        lambda: add_server(path, "new", ENTRY, replace=True),
        lambda: remove_server(path, "a"),
    ):
        assert problem(work).startswith(BROKEN[text])
    assert path.read_text() == text
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (
        before.st_ino,
        before.st_mtime_ns,
    )
    assert os.listdir(tmp_path) == [".mcp.json"]


# Any document, laid out in any way.
_LEAF = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6)
)
_VALUE = st.recursive(
    _LEAF,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=8,
)
_NAME = st.sampled_from(["a", "b", "c", "mcpServers", "\N{SNOWMAN}", ""])
_SERVERS = st.dictionaries(_NAME, _VALUE, max_size=4)
_DOCUMENT = st.tuples(
    st.dictionaries(st.text(max_size=6), _VALUE, max_size=3),
    st.none() | _SERVERS,
    st.dictionaries(st.sampled_from(["y", "z"]), _VALUE),
).map(
    lambda parts: {
        **parts[0],
        **({} if parts[1] is None else {"mcpServers": parts[1]}),
        **parts[2],
    }
)


@st.composite
def _texts(draw: st.DrawFn) -> str:
    document = draw(_DOCUMENT)
    if not isinstance(document.get("mcpServers", {}), dict):
        del document["mcpServers"]
    text = json.dumps(
        document,
        indent=draw(st.sampled_from([None, 0, 1, 2, 4, "\t"])),
        separators=draw(st.sampled_from([(",", ":"), (", ", ": "), (" , ", " :  ")])),
        ensure_ascii=draw(st.booleans()),
    )
    space = draw(st.sampled_from(["", "\n", " \t\n"]))
    if draw(st.booleans()):
        text = text.replace("\n", "\r\n")
    return space + text + space


@given(_texts(), st.sampled_from(["new", '\N{SNOWMAN} \\ "']), _VALUE)
def test_what_was_added_and_removed_again_leaves_no_trace(
    text: str, name: str, value: Any
) -> None:
    added = with_server(text, name, {"x": value})
    before, after = json.loads(text), json.loads(added)
    servers = before.get("mcpServers", {})
    # There, last, and nothing else is different, not even the order.
    assert list(after["mcpServers"].items()) == [*servers.items(), (name, {"x": value})]
    assert list(after) == list(before | {"mcpServers": 0})
    assert {k: v for k, v in after.items() if k != "mcpServers"} == {
        k: v for k, v in before.items() if k != "mcpServers"
    }
    again = without_server(added, name)
    if servers:
        assert again == text  # byte for byte
    else:
        assert json.loads(again) == before | {"mcpServers": {}}


class Editing(RuleBasedStateMachine):
    """Any edits of any file do what they do to a plain dict."""

    def __init__(self) -> None:
        super().__init__()
        self.text: str | None = None
        self.model: dict[str, Any] = {}

    @precondition(lambda self: self.text is None)
    @rule(text=_texts())
    def find(self, text: str) -> None:
        self.text, self.model = text, json.loads(text)

    @rule(name=_NAME, value=_VALUE, replace=st.booleans())
    def add(self, name: str, value: Any, replace: bool) -> None:
        servers = self.model.get("mcpServers", {})
        if name in servers and not replace:
            problem(lambda: with_server(self.text, name, {"url": value}))
            return
        old = servers.get(name)
        kept = old if isinstance(old, dict) else {}
        self.text = with_server(self.text, name, {"url": value}, replace=replace)
        entry = {"url": value, **{k: v for k, v in kept.items() if k != "url"}}
        self.model.setdefault("mcpServers", {})[name] = entry

    @rule(name=_NAME)
    def remove(self, name: str) -> None:
        if name not in self.model.get("mcpServers", {}):
            problem(lambda: without_server(self.text, name))
            return
        self.text = without_server(self.text, name)
        del self.model["mcpServers"][name]

    @invariant()
    def same(self) -> None:
        if self.text is not None:
            found = json.loads(self.text)
            assert found == self.model
            assert list(found) == list(self.model)
            assert list(found.get("mcpServers", {})) == list(
                self.model.get("mcpServers", {})
            )


TestEditing = Editing.TestCase


# ----------------------------------------------------------------------- disk


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / ".mcp.json"
    found.write_text('{"keep": 1}\n')
    return found


def test_permissions_stay(path: Path) -> None:
    path.chmod(0o640)
    add_server(path, "a", ENTRY)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert json.loads(path.read_text()) == {"keep": 1, "mcpServers": {"a": ENTRY}}
    assert os.listdir(path.parent) == [".mcp.json"]


def test_a_new_file_is_as_the_umask_wants_it(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        add_server(tmp_path / ".mcp.json", "a", ENTRY)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / ".mcp.json").stat().st_mode) == 0o640


def test_a_link_stays_a_link(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "project" / ".mcp.json"
    link.parent.mkdir()
    link.symlink_to("../.mcp.json")
    add_server(link, "a", ENTRY)
    assert link.is_symlink()
    assert set(json.loads(path.read_text())) == {"keep", "mcpServers"}
    link.unlink()
    link.symlink_to("elsewhere.json")  # one that leads nowhere yet
    add_server(link, "a", ENTRY)
    assert link.is_symlink()
    assert (link.parent / "elsewhere.json").is_file()


def test_a_byte_order_mark_stays(path: Path) -> None:
    path.write_bytes(b"\xef\xbb\xbf{}")
    add_server(path, "a", ENTRY)
    assert path.read_bytes().startswith(b"\xef\xbb\xbf{\n")
    path.write_bytes(b"\xff{}")
    assert problem(lambda: add_server(path, "a", ENTRY)) == (
        "is not UTF-8 text @ .mcp.json"
    )
    assert path.read_bytes() == b"\xff{}"


def test_a_word_that_is_no_text_is_refused(path: Path) -> None:
    assert problem(lambda: add_server(path, "a", {"command": "\udcff"})) == (
        "a word of the entry is not UTF-8 @ .mcp.json"
    )
    assert path.read_text() == '{"keep": 1}\n'


def test_links_in_a_circle_and_missing_folders_are_told(tmp_path: Path) -> None:
    (tmp_path / ".mcp.json").symlink_to(".mcp.json")
    said = problem(lambda: add_server(tmp_path / ".mcp.json", "a", ENTRY))
    assert said.startswith("cannot be written: ")
    said = problem(lambda: add_server(tmp_path / "no" / ".mcp.json", "a", ENTRY))
    assert said == "cannot be written: No such file or directory @ .mcp.json"


def test_a_file_that_is_read_only_is_left_alone(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{DISK}.os.access", lambda *_: False)  # even for root
    assert problem(lambda: add_server(path, "a", ENTRY)) == (
        "cannot be written: Permission denied @ .mcp.json"
    )
    assert path.read_text() == '{"keep": 1}\n'


@pytest.mark.parametrize("step", ["fchmod", "fsync", "replace"])
def test_a_disk_that_fails_leaves_the_old_file_and_nothing_else(
    path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def fails(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(f"{DISK}.os.{step}", fails)
    assert problem(lambda: add_server(path, "a", ENTRY)) == (
        "cannot be written: No space left on device @ .mcp.json"
    )
    assert path.read_text() == '{"keep": 1}\n'
    assert os.listdir(path.parent) == [".mcp.json"]


def test_what_somebody_else_wrote_meanwhile_is_not_lost(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.fsync

    def meanwhile(file: int) -> None:
        path.write_text('{"theirs": 1}')
        real(file)

    monkeypatch.setattr(f"{DISK}.os.fsync", meanwhile)
    assert problem(lambda: add_server(path, "a", ENTRY)) == (
        "has changed meanwhile, try again @ .mcp.json"
    )
    assert path.read_text() == '{"theirs": 1}'
    assert os.listdir(path.parent) == [".mcp.json"]


def test_an_edit_waits_for_another_one_and_not_for_ever(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = os.open(path.parent, os.O_RDONLY)
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == released_after:
            fcntl.flock(held, fcntl.LOCK_UN)

    monkeypatch.setattr(f"{DISK}.time.sleep", pause)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        released_after = 3
        add_server(path, "a", ENTRY)
        assert len(pauses) == 3
        fcntl.flock(held, fcntl.LOCK_EX)
        pauses.clear()
        released_after = -1
        assert problem(lambda: add_server(path, "b", ENTRY)) == (
            "another program is editing it @ .mcp.json"
        )
        assert sum(pauses) == pytest.approx(5.0)
    finally:
        os.close(held)
    assert list(json.loads(path.read_text())["mcpServers"]) == ["a"]


_ADDER = """
import sys
from pathlib import Path
from glyphoxa_trio.config.edit import add_server
print("ready", flush=True)
sys.stdin.readline()
for number in range(int(sys.argv[3])):
    add_server(Path(sys.argv[1]), f"{sys.argv[2]}{number}", {"command": "x" * 1000})
"""


def _adder(path: Path, name: str, times: int) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", _ADDER, str(path), name, str(times)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def _go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


@pytest.mark.border
def test_edits_at_the_same_time_all_arrive(path: Path) -> None:
    adders = [_adder(path, name, 10) for name in "abc"]
    for adder in adders:
        _go(adder)
    for adder in adders:
        adder.communicate(timeout=60)
        assert adder.returncode == 0
    servers = json.loads(path.read_text())["mcpServers"]
    assert sorted(servers) == sorted(f"{x}{n}" for x in "abc" for n in range(10))


@pytest.mark.border
def test_an_edit_that_is_killed_leaves_a_whole_file(path: Path) -> None:
    # Wherever SIGKILL hits: the file is one of those before and after an edit.
    for round_ in range(5):
        adder = _adder(path, f"r{round_}n", 10_000)
        _go(adder)
        seen = len(json.loads(path.read_text()).get("mcpServers", {}))
        while len(json.loads(path.read_text()).get("mcpServers", {})) < seen + 2:
            assert adder.poll() is None
        adder.send_signal(signal.SIGKILL)
        adder.communicate(timeout=60)
        found = json.loads(path.read_text())
        assert found["keep"] == 1
        mine = [x for x in found["mcpServers"] if x.startswith(f"r{round_}n")]
        assert mine == [f"r{round_}n{n}" for n in range(len(mine))]
        assert all(x == {"command": "x" * 1000} for x in found["mcpServers"].values())
    add_server(path, "last", ENTRY)  # no lock was left behind
