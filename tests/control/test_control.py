"""The control socket of a running runtime: access, and answers.

Real sockets in a folder of the test's own; the one clock that is virtual makes
idling exact.
"""

# ruff: noqa: ASYNC240  (nothing else runs while a test looks at its own folder)
from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

import trio
from trio.testing import MockClock

from glyphoxa_trio import Config, ConfigError, Runtime, open_runtime
from glyphoxa_trio.config import McpConfig, NpcConfig, ServerSpec
from glyphoxa_trio.control import (
    ControlError,
    ask,
    control_folders,
    open_control,
    running,
    status_of,
)
from glyphoxa_trio.control import admin_socket as desk_module
from glyphoxa_trio.control.admin_socket import IDLE, LONGEST_REQUEST, MOST_CLIENTS
from glyphoxa_trio.mcp import ServerState, ServerStatus, ServerWarning
from glyphoxa_trio.secret import Secret

from ..cli.support import LIMIT, SEER

BO = NpcConfig(name="Bo", tools=("dice",))
STATUS = {"do": "status"}


@pytest.fixture
def folder() -> Generator[Path]:
    # Not tmp_path: the path of a socket has at most about a hundred characters.
    with tempfile.TemporaryDirectory() as made:
        yield Path(made, "own")


def config(*servers: ServerSpec) -> Config:
    return Config(npcs=(BO,), mcp=McpConfig(servers=servers, remember=False))


async def send(address: Path, *lines: bytes) -> list[Any]:
    """What comes back for raw bytes, until the other side hangs up."""
    stream = await trio.open_unix_socket(address)
    async with stream:
        answer = b""
        try:
            for line in lines:
                await stream.send_all(line)
            async for piece in stream:
                answer += piece
        except trio.BrokenResourceError:  # it hung up on what it did not read
            pass
    return [json.loads(line) for line in answer.splitlines()]


@pytest.mark.border
async def test_status_says_how_servers_and_npcs_are(folder: Path) -> None:
    spec = ServerSpec(
        name="seer",
        command=("python", str(SEER), "-"),
        env={"SEER_KEY": Secret("s3cret-value")},
    )
    with trio.fail_after(LIMIT):
        async with open_runtime(config(spec)) as runtime:
            runtime.warnings.append(ServerWarning(server="seer", text="odd"))
            async with open_control(runtime, folder=folder) as address:
                said = (await ask(address, STATUS))["status"]
    (server,) = said["servers"]
    assert server.pop("state_ms") >= 0
    assert server.pop("pid") not in (None, os.getpid())
    assert server == {
        "name": "seer",
        "transport": "stdio",
        "state": "ready",
        "tools": ["whisper", "ponder", "vanish", "daydream"],
        "prompts": [],
        "ready_in_ms": None,
        "restarts": 0,
        "last_error": None,
        "held_back": [],
    }
    assert said["pid"] == os.getpid()
    assert said["npcs"] == [{"name": "Bo", "tier": "fast", "tools": ["dice"]}]
    assert said["calls"].keys() == {"running", "lingering", "outcomes", "refusals"}
    assert said["warnings"] == [{"server": "seer", "text": "odd"}]
    assert "s3cret" not in json.dumps(said)


async def test_times_are_of_the_runtimes_clock_and_in_milliseconds(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = trio.current_time()
    row = ServerStatus(
        name="world",
        transport="streamable-http",
        state=ServerState.FAILED,
        tools=(),
        restarts=5,
        since=began,
        last_error="refused",
        pid=None,
        ready_at=began + 0.75,
    )
    monkeypatch.setattr(Runtime, "servers", lambda _: (row,))
    async with open_runtime(config()) as runtime:
        runtime.host.approvals.held = frozenset(["world.b", "world.a", "worlds.c"])
        await trio.sleep(0.25)
        (said,) = status_of(runtime)["servers"]
    assert (said["state_ms"], said["ready_in_ms"]) == (250, 500)
    assert (said["state"], said["restarts"]) == ("failed", 5)
    assert said["held_back"] == ["a", "b"]


async def test_only_its_user_may_ask(folder: Path) -> None:
    async with open_runtime(config()) as runtime:
        async with open_control(runtime, folder=folder) as address:
            assert address.parent == folder
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
            assert stat.S_IMODE(address.stat().st_mode) == 0o600
            assert running((folder,)) == {address: os.getpid()}
        assert os.listdir(folder) == []  # and it leaves nothing behind


@pytest.mark.parametrize("fault", ["open to others", "a link", "somebody else's"])
async def test_a_folder_that_others_may_write_to_is_not_used(
    folder: Path, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if fault == "a link":
        folder.symlink_to(folder.parent)
        folder.parent.chmod(0o700)
    else:
        folder.mkdir(mode=0o755 if fault == "open to others" else 0o700)
    if fault == "somebody else's":
        uid = os.geteuid() + 4242
        monkeypatch.setattr("glyphoxa_trio.control.sockets.os.geteuid", lambda: uid)
    (folder / f"{os.getpid()}-0.sock").touch()  # what they might have put there
    async with open_runtime(config()) as runtime:
        with pytest.raises(ControlError, match="is not this user's alone"):
            async with open_control(runtime, folder=folder):
                raise AssertionError("it opened")
    assert running((folder,)) == {}


async def test_a_path_that_is_too_long_is_told(folder: Path) -> None:
    async with open_runtime(config()) as runtime:
        with pytest.raises(ControlError, match="no control socket: "):
            async with open_control(runtime, folder=folder / ("x" * 120)):
                raise AssertionError("it opened")


async def test_two_runtimes_of_one_process_have_a_socket_each(folder: Path) -> None:
    async with open_runtime(config()) as one, open_runtime(Config()) as two:
        async with (
            open_control(one, folder=folder) as first,
            open_control(two, folder=folder) as second,
        ):
            assert running((folder,)) == dict.fromkeys((first, second), os.getpid())
            assert len((await ask(first, STATUS))["status"]["npcs"]) == 1
            assert len((await ask(second, STATUS))["status"]["npcs"]) == 0


def _left_behind(folder: Path) -> Path:
    """The socket of a process that was killed."""
    code = (
        "import os, socket, sys\n"
        "name = f'{sys.argv[1]}/{os.getpid()}-0.sock'\n"
        "socket.socket(socket.AF_UNIX).bind(name)\n"
        "print(name)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, str(folder)],
        capture_output=True,
        text=True,
        check=True,
        timeout=LIMIT,
    )
    return Path(ran.stdout.strip())


@pytest.mark.border
async def test_sockets_of_the_dead_are_swept_and_others_stay(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    dead = _left_behind(folder)
    foreign = folder / "notes.txt"
    foreign.touch()
    # Its process cannot be seen from here, and it answers: another namespace.
    unseen = _left_behind(folder)
    unseen.unlink()
    # Its process is there, and it does not listen (yet).
    early = folder / f"{os.getpid()}-7.sock"
    with socket.socket(socket.AF_UNIX) as alive, socket.socket(socket.AF_UNIX) as bound:
        alive.bind(str(unseen))
        alive.listen()
        bound.bind(str(early))
        assert dead.exists()
        async with open_runtime(config()) as runtime:
            async with open_control(runtime, folder=folder) as address:
                assert not dead.exists()
                assert set(folder.iterdir()) == {foreign, unseen, early, address}
                again = _left_behind(folder)
                assert set(running((folder,))) == {unseen, early, address}
                assert not again.exists()


async def test_a_reload_is_carried_out_or_refused(folder: Path) -> None:
    configs = [config()]
    changed = Config(npcs=(BO, NpcConfig(name="Ysolde")), mcp=McpConfig(remember=False))

    def source() -> Config:
        if not configs:
            raise ConfigError("expected a mapping @ table.json")
        return configs.pop()

    async with open_runtime(source) as runtime:
        async with open_control(runtime, folder=folder) as address:
            configs.append(changed)
            said = await ask(address, {"do": "reload"})
            assert said["reload"]["generation"] >= 1
            assert [npc.name for npc in runtime.npcs] == ["Bo", "Ysolde"]
            with pytest.raises(ControlError, match=r"expected a mapping @ table\.json"):
                await ask(address, {"do": "reload"})
            assert [npc.name for npc in runtime.npcs] == ["Bo", "Ysolde"]


NONSENSE = {
    b"\n": "a request is a line of JSON",
    b"{\n": "a request is a line of JSON",
    b"\xff\n": "a request is a line of JSON",
    b"[" * 2000 + b"\n": "a request is a line of JSON",
    b"[]\n": "do is one of status, tool, approve, reload",
    b'{"do": ["status"]}\n': "do is one of status, tool, approve, reload",
    b'{"do": "quit"}\n': "do is one of status, tool, approve, reload",
    b"x" * (LONGEST_REQUEST + 9): f"a request has at most {LONGEST_REQUEST} bytes",
}


@pytest.mark.parametrize("line", NONSENSE, ids=lambda line: repr(line[:12]))
async def test_nonsense_is_answered_and_ends_nothing(
    folder: Path, line: bytes, autojump_clock: MockClock
) -> None:
    async with open_runtime(config()) as runtime:
        async with open_control(runtime, folder=folder) as address:
            (said,) = await send(address, line)
            assert said == {"error": NONSENSE[line]}
            assert "status" in await ask(address, STATUS)


async def test_several_requests_may_come_over_one_connection(
    folder: Path, autojump_clock: MockClock
) -> None:
    async with open_runtime(config()) as runtime:
        async with open_control(runtime, folder=folder) as address:
            line = json.dumps(STATUS).encode() + b"\n"
            said = await send(address, line[:5], line[5:] + line + b"{}\n")
    assert [list(answer) for answer in said] == [["status"], ["status"], ["error"]]


async def test_who_says_nothing_is_left_after_a_while(
    folder: Path, autojump_clock: MockClock
) -> None:
    async with open_runtime(config()) as runtime:
        async with open_control(runtime, folder=folder) as address:
            began = trio.current_time()
            assert await send(address, b'{"do": ') == []
            assert trio.current_time() - began == pytest.approx(IDLE)


async def test_too_many_at_once_are_told_so(folder: Path) -> None:
    with trio.fail_after(LIMIT):
        async with open_runtime(config()) as runtime:
            async with open_control(runtime, folder=folder) as address:
                line = json.dumps(STATUS).encode() + b"\n"
                there = []
                for _ in range(MOST_CLIENTS):
                    stream = await trio.open_unix_socket(address)
                    await stream.send_all(line)
                    assert b"status" in await stream.receive_some()
                    there.append(stream)
                assert await send(address) == [{"error": "too many clients"}]
                with pytest.raises(ControlError, match="too many clients"):
                    await ask(address, STATUS)
                for stream in there:
                    await stream.aclose()
                while True:  # once they are seen to have left
                    try:
                        assert "status" in await ask(address, STATUS)
                        break
                    except ControlError:
                        await trio.lowlevel.checkpoint()


async def test_a_client_that_does_not_read_is_left(
    folder: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def huge(_: Runtime) -> dict[str, Any]:
        return {"x": "x" * 10_000_000}  # more than any socket takes

    monkeypatch.setattr(desk_module, "status_of", huge)
    async with open_runtime(config()) as runtime:
        async with open_control(runtime, folder=folder) as address:
            async with await trio.open_unix_socket(address) as stream:
                await stream.send_all(b'{"do": "status"}\n')
                await trio.sleep(IDLE + 1)
                read = 0
                async for piece in stream:
                    read += len(piece)
    assert 0 < read < 10_000_000


async def test_a_bug_in_an_answer_ends_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: Runtime) -> dict[str, Any]:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(desk_module, "status_of", broken)
    async with open_runtime(config()) as runtime:
        async with open_control(runtime, folder=folder) as address:
            with pytest.raises(ControlError, match="ZeroDivisionError: a bug"):
                await ask(address, STATUS)
            assert runtime.npc("Bo").name == "Bo"


async def test_nobody_and_nonsense_at_the_other_end_are_told(
    folder: Path, autojump_clock: MockClock
) -> None:
    folder.mkdir(mode=0o700)
    address = folder / "1-0.sock"
    with pytest.raises(ControlError, match="no answer at "):
        await ask(address, STATUS)
    with socket.socket(socket.AF_UNIX) as mute:
        mute.bind(str(address))
        mute.listen()
        began = trio.current_time()
        with pytest.raises(ControlError, match=r"no answer at .* within 2 s"):
            await ask(address, STATUS, within=2.0)
        assert trio.current_time() - began == 2.0


async def test_an_error_in_the_block_comes_out_as_it_is(folder: Path) -> None:
    async with open_runtime(config()) as runtime:
        with pytest.raises(KeyError, match="mine"):
            async with open_control(runtime, folder=folder):
                raise KeyError("mine")
        assert os.listdir(folder) == []


def test_runtimes_are_looked_for_wherever_one_may_have_put_its_socket(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fallback = Path(tempfile.gettempdir(), f"glyphoxa-{os.geteuid()}")
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    assert control_folders() == (fallback,)
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/7")
    assert control_folders() == (Path("/run/user/7/glyphoxa"), fallback)


async def test_a_tool_is_looked_at_and_approved_by_its_key(folder: Path) -> None:
    async with open_runtime(config()) as runtime:
        async with open_control(runtime, folder=folder) as address:
            seen = (await ask(address, {"do": "tool", "tool": "dice.roll"}))["tool"]
            assert (seen["tool"], seen["held"]) == ("dice.roll", False)
            assert seen["parameters"]["type"] == "object"
            said = await ask(address, {"do": "approve", "tool": "dice.roll"})
            assert said["approve"] == {"tool": "dice.roll", "was_held": False}
            for what in ("approve", "tool"):
                wrong = {"do": what, "tool": "dice.rol"}
                with pytest.raises(ControlError, match=r"no tool 'dice\.rol', did you"):
                    await ask(address, wrong)
                with pytest.raises(ControlError, match=f"{what} needs tool, a text"):
                    await ask(address, {"do": what})
