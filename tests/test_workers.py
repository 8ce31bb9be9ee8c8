"""Worker processes: real ones, and real clocks."""

# ruff: noqa: ASYNC110, ASYNC220, ASYNC240  # other processes set no events of ours

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import trio

from glyphoxa_trio.worker import LENGTH, RETURNED
from glyphoxa_trio.workers import WorkerDied, Workers, WorkersBusy, WorkFailed

pytestmark = pytest.mark.border


@asynccontextmanager
async def workers(name: str, **options: Any) -> AsyncGenerator[Workers]:
    pool = Workers(f"tests.at_work:{name}", **options)
    with trio.fail_after(30):
        try:
            yield pool
        finally:
            await pool.aclose()


async def until_said(where: Path) -> int:
    while not where.exists() or not where.read_text():
        await trio.sleep(0.01)
    return int(where.read_text())


def lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_a_task_goes_there_and_comes_back_whatever_its_size() -> None:
    async with workers("echo") as pool:
        for task in (b"", b"x", os.urandom(100_000), bytes(10 * 2**20)):
            assert await pool.run(task) == task
        assert pool.running == 1


async def test_a_process_is_used_again_and_tasks_wait_for_it() -> None:
    async with workers("whose") as pool:
        pids: list[bytes] = []

        async def one() -> None:
            pids.append(await pool.run(b""))

        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(one)
        assert len(pids) == 5
        assert len(set(pids)) == 1


async def test_what_is_printed_is_no_answer() -> None:
    async with workers("chatty") as pool:
        assert await pool.run(b"first") == b"first"
        assert await pool.run(b"second") == b"second"


async def test_a_worker_knows_nothing_of_our_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MY_API_KEY", "hidden")
    async with workers("seen") as pool:
        names = (await pool.run(b"")).decode().split("\n")
    assert "MY_API_KEY" not in names
    assert "PATH" in names


@pytest.mark.parametrize(
    ("how", "error", "text"),
    [
        (b"raise", WorkFailed, "ValueError: no such thing"),
        (b"mute", WorkFailed, "_Mute"),
        (b"leave", WorkFailed, "SystemExit: 3"),
        (b"memory", WorkFailed, "MemoryError"),
        (b"exit", WorkerDied, "exited with status 3"),
        (b"crash", WorkerDied, "ended by SIGSEGV"),
        (b"large", WorkerDied, "more than 1048576 bytes"),
    ],
)
async def test_what_goes_wrong_costs_one_task(
    how: bytes, error: type[Exception], text: str
) -> None:
    async with workers("fall", largest=2**20) as pool:
        before = int(await pool.run(b""))
        with pytest.raises(error, match=text):
            await pool.run(how)
        assert not lives(before)
        assert int(await pool.run(b"")) != before


async def test_a_function_that_is_not_there_is_said() -> None:
    async with workers("nowhere") as pool:
        with pytest.raises(WorkFailed, match="AttributeError"):
            await pool.run(b"")


async def test_who_leaves_kills_what_holds_the_interpreter(tmp_path: Path) -> None:
    where = tmp_path / "pid"
    async with workers("hold") as pool:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pool.run, str(where).encode())
            pid = await until_said(where)
            nursery.cancel_scope.cancel()
        assert not lives(pid)
        assert pool.running <= 1
        where.unlink()
        async with trio.open_nursery() as nursery:  # and the next has its own
            nursery.start_soon(pool.run, str(where).encode())
            assert await until_said(where) != pid
            nursery.cancel_scope.cancel()


async def test_who_would_wait_too_long_is_told(tmp_path: Path) -> None:
    async with workers("hold", waiting=1) as pool:
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(pool.run, str(tmp_path / "pid").encode())
            await until_said(tmp_path / "pid")
            with pytest.raises(WorkersBusy):
                await pool.run(b"")
            nursery.cancel_scope.cancel()


async def test_an_idle_process_ends_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glyphoxa_trio.workers._GRACE", 0.1)
    async with workers("whose", idle=0.2) as pool:
        pid = int(await pool.run(b""))
        while pool.running:
            await trio.sleep(0.05)
        assert not lives(pid)
        assert int(await pool.run(b"")) != pid


def test_the_end_of_a_run_is_the_end_of_its_workers(tmp_path: Path) -> None:
    where = tmp_path / "pid"

    async def main() -> None:
        pool = Workers("tests.at_work:hold")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pool.run, str(where).encode())
            await until_said(where)
            nursery.cancel_scope.cancel()
        idle = Workers("tests.at_work:whose")
        pids.append(int(await idle.run(b"")))

    pids: list[int] = []
    trio.run(main)
    assert not lives(int(where.read_text()))
    assert not lives(pids[0])


async def test_a_task_that_comes_while_another_runs_ends_nothing(
    tmp_path: Path,
) -> None:
    """The kernel may report input so late that its task runs already."""
    theirs, ours = os.pipe()
    worker = subprocess.Popen(
        [
            *(sys.executable, "-P", "-m", "glyphoxa_trio.worker"),
            *("tests.at_work:await_end", str(2**30), "60", str(theirs)),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=(theirs,),
        env={"PYTHONPATH": os.pathsep.join(sys.path), "FOLDER": str(tmp_path)},
    )
    os.close(theirs)
    with worker, trio.fail_after(30):
        try:
            assert worker.stdin is not None
            assert worker.stdout is not None
            os.write(worker.stdin.fileno(), (5).to_bytes(LENGTH) + b"first")
            while not (tmp_path / "runs").exists():
                await trio.sleep(0.01)
            os.write(worker.stdin.fileno(), (4).to_bytes(LENGTH) + b"then")
            (tmp_path / "ends").touch()
            for said in (b"first", b"then"):
                answer = RETURNED + len(said).to_bytes(LENGTH) + said
                assert worker.stdout.read(len(answer)) == answer
            os.close(ours)  # its holder is gone
            assert worker.wait(30) == -signal.SIGIO
        finally:
            worker.kill()


async def test_a_worker_does_not_outlive_us_even_if_it_is_busy(tmp_path: Path) -> None:
    where = tmp_path / "pid"
    program = textwrap.dedent(
        f"""
        import trio
        from glyphoxa_trio.workers import Workers
        trio.run(Workers("tests.at_work:hold").run, {str(where).encode()!r})
        """
    )
    ours = subprocess.Popen([sys.executable, "-c", program])
    try:
        with trio.fail_after(30):
            pid = await until_said(where)
            ours.send_signal(signal.SIGKILL)
            ours.wait()
            while lives(pid):
                await trio.sleep(0.01)
    finally:
        ours.kill()
        ours.wait()
