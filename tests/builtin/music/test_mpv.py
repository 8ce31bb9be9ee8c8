"""Real mpv, with an output that nobody hears: it plays, dies, hangs, and is gone."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import trio

from glyphoxa_trio.builtin.music.mpv import Mpv, open_mpv, wire
from glyphoxa_trio.tools.definition import ToolError, ToolUnavailable

from .tones import tone

pytestmark = pytest.mark.border

LIMIT = 30.0  # seconds; what is expected takes a tenth of one


def children() -> dict[int, str]:
    """Our own mpv processes that are not over, and their state."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            number, _, rest = stat.read_text().partition(" (")
        except OSError:
            continue
        name, _, fields = rest.rpartition(") ")
        state, parent, *_ = fields.split()
        if name == "mpv" and int(parent) == os.getpid() and state != "Z":
            found[int(number)] = state
    return found


@asynccontextmanager
async def playing() -> AsyncIterator[Mpv]:
    with trio.fail_after(LIMIT):
        async with open_mpv() as mpv:
            yield mpv
    assert not children()


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - nothing tells us of a process
        await trio.sleep(0.01)


async def test_a_track_is_heard_and_its_process_is_gone_with_its_block(
    mpv: None, tmp_path: Path
) -> None:  # G12
    path = tone(tmp_path / "-a b.wav")
    async with playing() as music:
        assert not children()
        async with music.open_track(path, 50.0) as track:
            await until(lambda: len(children()) == 2)  # one waits for the next track
            await track.set_volume(10.0)
            async with music.open_track(path, 0.0):
                await until(lambda: len(children()) == 3)
        await until(lambda: len(children()) == 1)


async def test_what_is_no_sound_is_refused_by_name_and_the_next_one_plays(
    mpv: None, tmp_path: Path
) -> None:
    good = tone(tmp_path / "good.wav")
    bad = tmp_path / "bad.wav"
    bad.write_bytes(b"RIFF, so it says")
    empty = tone(tmp_path / "empty.wav", 0.0)
    async with playing() as music:
        for path in (bad, empty, tmp_path / "gone.wav"):
            with pytest.raises(ToolError, match="it cannot be played: "):
                async with music.open_track(path, 0.0):
                    pytest.fail("it plays")
        async with music.open_track(good, 0.0):
            pass


async def test_one_that_dies_is_over_and_the_next_track_has_another(
    mpv: None, tmp_path: Path
) -> None:
    path = tone(tmp_path / "a.wav")
    async with playing() as music:
        async with music.open_track(path, 0.0) as track:
            number = min(children())
            os.kill(number, signal.SIGKILL)
            assert await track.over() == "mpv has ended"
            with pytest.raises(ToolUnavailable, match="mpv has ended"):
                await track.set_volume(5.0)
        async with music.open_track(path, 0.0):
            assert number not in children()


def has_stopped(process: int) -> bool:
    threads = Path(f"/proc/{process}/task").glob("*/stat")
    return all(x.read_text().rpartition(")")[2].split()[0] == "T" for x in threads)


async def test_one_that_hangs_is_noticed_at_the_next_order_and_killed(
    mpv: None, tmp_path: Path
) -> None:
    path = tone(tmp_path / "a.wav")
    async with playing() as music:
        async with music.open_track(path, 0.0) as track:
            number = min(children())
            os.kill(number, signal.SIGSTOP)
            await until(lambda: has_stopped(number))  # until then it answers
            with pytest.raises(ToolUnavailable, match="does not answer"):
                await track.set_volume(5.0)
            async with music.open_track(path, 0.0):
                await until(lambda: number not in children())


async def test_one_that_hangs_is_killed_where_everything_ends(
    mpv: None, tmp_path: Path
) -> None:
    path = tone(tmp_path / "a.wav")
    async with playing() as music:
        async with music.open_track(path, 0.0):
            number = min(children())
            os.kill(number, signal.SIGSTOP)
    assert number not in children()


async def test_without_the_program_it_is_said_what_to_install(tmp_path: Path) -> None:
    async with open_mpv("no-such-mpv") as music:
        with pytest.raises(ToolUnavailable, match="apt install mpv"):
            async with music.open_track(tmp_path / "a.wav", 0.0):
                pytest.fail("it plays")


async def test_one_that_starts_too_late_plays_the_next_track(
    tmp_path: Path,
) -> None:
    # A stand-in that answers when it is allowed to, and notes that it was started.
    program = tmp_path / "slow"
    program.write_text(
        f"#!{sys.executable}\n"
        "import json, os, socket, sys, time\n"
        f"folder = {str(tmp_path)!r}\n"
        "open(os.path.join(folder, f'started.{os.getpid()}'), 'w').close()\n"
        "way = sys.argv[1].rpartition('/')[2]\n"
        "line = socket.socket(fileno=int(way))\n"
        "while not os.path.exists(os.path.join(folder, 'go')): time.sleep(0.01)\n"
        "for said in line.makefile():\n"
        "    asked = json.loads(said)\n"
        "    line.sendall(json.dumps({'request_id': asked['request_id'],"
        " 'error': 'success'}).encode() + b'\\n')\n"
        "    if asked['command'][0] == 'loadfile':\n"
        "        open(os.path.join(folder, f'played.{os.getpid()}'), 'w').close()\n"
        '        line.sendall(b\'{"event":"property-change","id":1,'
        '"data":0.1}\\n\')\n'
    )
    program.chmod(0o755)

    def names() -> list[str]:
        return [name for name in os.listdir(tmp_path) if name.startswith("started")]

    with trio.fail_after(LIMIT):
        async with open_mpv(str(program)) as music:
            with trio.CancelScope() as impatient:
                async with trio.open_nursery() as nursery:

                    async def leave() -> None:
                        await until(lambda: len(names()) == 1)
                        impatient.cancel()

                    nursery.start_soon(leave)
                    async with music.open_track(tmp_path / "a.wav", 0.0):
                        pytest.fail("it plays")
            (slow,) = names()
            (tmp_path / "go").touch()
            async with music.open_track(tmp_path / "a.wav", 0.0):
                assert slow.replace("started", "played") in os.listdir(tmp_path)


def test_killed_as_we_may_be_nothing_goes_on_playing(mpv: None, tmp_path: Path) -> None:
    path = tone(tmp_path / "a.wav")
    program = (
        "import sys, trio\n"
        "from pathlib import Path\n"
        "from glyphoxa_trio.builtin.music.mpv import open_mpv\n"
        "async def main():\n"
        "    async with open_mpv() as music:\n"
        "        async with music.open_track(Path(sys.argv[1]), 0.0):\n"
        "            children = Path('/proc/self/task').glob('*/children')\n"
        "            print(*(x.read_text() for x in children), flush=True)\n"
        "            await trio.sleep_forever()\n"
        "trio.run(main)\n"
    )
    ours = subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert ours.stdout is not None
    with ours:
        numbers = ours.stdout.readline().split()
        ours.kill()
    assert numbers
    for number in map(int, numbers):
        try:
            watched = os.pidfd_open(number)
        except ProcessLookupError:
            continue  # it is gone already
        try:
            assert select.select([watched], [], [], LIMIT)[0], "it still plays"
        finally:
            os.close(watched)


POSITION = '{"event":"property-change","id":1,"name":"time-pos"'
FAILED = '{"event":"end-file","reason":"error","file_error":'


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('{"request_id":3,"error":"success"}', wire.MpvReply(3, "")),
        ('{"request_id":3,"error":"no"}', wire.MpvReply(3, "no")),
        (POSITION + ',"data":0.02}', wire.TrackStarted()),
        (POSITION + ',"data":0.0}', None),
        (POSITION + "}", None),
        ('{"event":"end-file","reason":"stop"}', None),
        ('{"event":"end-file","reason":"eof"}', wire.TrackEnded("eof")),
        (FAILED + '"loading failed"}', wire.TrackEnded("loading failed")),
        (
            FAILED + '"audio output initialization failed"}',
            wire.TrackEnded("audio output initialization failed", no_sound=True),
        ),
        ('{"event":"idle"}', None),
    ],
)
def test_what_it_says(line: str, expected: wire.Said | None) -> None:
    assert wire.said(line.encode()) == expected


@pytest.mark.parametrize("line", [b"", b"[]", b"{", b"7", b"[" * 200_000])
def test_nonsense_is_said_to_be_nonsense(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"object|Expecting|deeply|recursion"):
        wire.said(line)
