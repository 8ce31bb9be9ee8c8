"""Workers that are killed: processes that are forked from one which has imported all.

    python -m tests.cluster.chaos.workers LEDGER LOG

reads lines: ``start NUMBER NATS DATABASE`` forks a worker, ``signal NUMBER SIGNAL``
sends it a signal, and the end of the input kills and buries all of them. It writes
``ready NUMBER NAME`` when a worker serves, and ``ended NUMBER STATUS``. Only this
process waits for its children, so that no signal goes to a stranger.
"""

from __future__ import annotations

import ctypes
import os
import random
import re
import select
import signal
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import trio

from glyphoxa_trio import open_runtime
from glyphoxa_trio.cluster import serve
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.memory.postgres import open_postgres
from glyphoxa_trio.nats import open_nats
from glyphoxa_trio.providers.llm import LLMRequest

from ...npc.support import ScriptedLLM, call
from ...runtime.test_snapshots import with_room
from ...runtime.test_turn_keeper import silent
from ..worker_process import ledger_of

NOT_BEGUN: Final = 75
"""The status of a worker that found no NATS, or no database, at its start."""

IDLE: Final = 3.0  # seconds, until a quiet session is given back
_AGAIN: Final = 0.2  # seconds, until the next attempt may begin
_DIE_WITH_PARENT: Final = 1  # PR_SET_PDEATHSIG


def think(request: LLMRequest) -> list[Any]:
    """Answer with the numbers of all utterances that the model was shown."""
    users = [str(x.content) for x in request.messages if x.role == "user"]
    heard = " ".join(re.findall(r"#(\d+)", " ".join(users)))
    last = request.messages[-1]
    if last.role == "tool":
        return ["Paid. " if "paid" in str(last.content) else "Refused. ", f"{heard}."]
    said = str(last.content)
    if "story" in said:
        told = [x for n in "abcdefgh" for x in (f"Sentence {n}. ", 0.12)]
        return [*told, f"Heard {heard}."]
    if "pay" in said:
        whom = said.rpartition(" ")[2]
        return [call("pay", f'{{"whom": "{whom}"}}')]
    return [f"Heard {heard}."]


async def work(
    tell: int, number: int, nats_url: str, database: str, ledger: str
) -> int:
    """Be a worker until SIGTERM; return the status of the process."""
    ready = False
    try:
        async with (
            open_postgres(database) as store,
            open_runtime(
                silent(with_room(1000)),
                llm=ScriptedLLM(think),
                tools=[ledger_of(Path(ledger))],
                memory=store,
            ) as runtime,
            open_nats(nats_url) as nats,
            serve(runtime, nats, idle=IDLE) as worker,
        ):
            with trio.open_signal_receiver(signal.SIGTERM) as signals:
                ready = True
                os.write(tell, f"ready {number} {worker.name}\n".encode())
                async for _ in signals:
                    await worker.drained(within=5.0)
                    break
    except GlyphoxaError:
        if ready:
            raise
        await trio.sleep(_AGAIN)
        return NOT_BEGUN
    return 0


def _child(number: int, nats_url: str, database: str, ledger: str) -> int:
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    random.seed()
    try:
        return trio.run(work, 1, number, nats_url, database, ledger)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        return 70


def _bury(children: dict[int, int], *, wait: bool = False) -> None:
    """Tell of the children that have ended; wait for all of them, if asked to."""
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, 0 if wait else os.WNOHANG)
            if not pid:
                return
            number = next(n for n, x in children.items() if x == pid)
            del children[number]
            ended = f"ended {number} {os.waitstatus_to_exitcode(status)}\n"
            os.write(1, ended.encode())


def _obey(line: str, children: dict[int, int], ledger: str) -> None:
    what, given, *rest = line.split()
    number = int(given)
    if what == "start":
        nats_url, database = rest
        pid = os.fork()
        if not pid:
            os._exit(_child(number, nats_url, database, ledger))
        children[number] = pid
    elif number in children:
        os.kill(children[number], int(rest[0]))


def main(ledger: str, log: str) -> None:
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), 2)
    hears, wakes = os.pipe2(os.O_NONBLOCK)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    children: dict[int, int] = {}
    rest = b""
    while True:
        ready, _, _ = select.select([0, hears], [], [])
        if hears in ready:
            os.read(hears, 4096)
        _bury(children)
        if 0 in ready:
            data = os.read(0, 1 << 16)
            if not data:
                break
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                _obey(line.decode(), children, ledger)
    for pid in children.values():
        os.kill(pid, signal.SIGKILL)
    _bury(children, wait=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
