"""``glyphoxa play``: a conversation in the terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack, ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from glyphoxa_trio.actors.interrupts import interrupts
from glyphoxa_trio.config import Config
from glyphoxa_trio.config.mcp_json import home_of_mcp_json
from glyphoxa_trio.config.state import state_folder
from glyphoxa_trio.control import ControlError, open_control
from glyphoxa_trio.control.status import plain
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.memory.entries import SessionRow
from glyphoxa_trio.npc.identity import DEFAULT
from glyphoxa_trio.runtime import Runtime, open_runtime

from .answering import answer_question
from .approving import settle_approvals
from .common import INTERRUPTED, Model, memory_of, run
from .consent import load_again
from .console import wide_console
from .kept import KeptSession
from .logs import open_logs
from .recorded import clock_for, open_record
from .screen import Screen
from .stand_in import StandIn, open_stand_in
from .status import changes
from .table import PlayTable
from .terminal import can_edit

if TYPE_CHECKING:
    from glyphoxa_trio.builtin.music import MusicEvent

    from .editing import EditedLines

_ANSWERING: Final = 120.0  # seconds for an answer to a question of a server
_PIPED_WAIT: Final = 30.0  # a script wants all its tools; a person wants to begin


def play(
    path: Path,
    model: Model,
    *,
    log: Path | None = None,
    watch: bool = False,
    metrics: int | None = None,
    record: Path | None = None,
    session: Path | None = None,
    stand_in: bool = False,
    history: bool = True,
) -> int:
    """Talk until the input ends or the player leaves.

    Args:
      history: keep the lines that are typed for the next run.
    """
    files = [path.absolute(), home_of_mcp_json(path.absolute().parent)]

    async def main(config: Config) -> int:
        interactive = sys.stdin.isatty()
        screen = Screen(wide_console(), interactive)
        if not config.npcs:
            screen.refuse("this configuration has no NPCs to talk to")
            return 1
        ask = partial(answer_question, screen)
        kept = await KeptSession.read(session, config)
        table = PlayTable(screen, partial(kept.keep, screen.refuse))
        screen.edit(_edited(config, table, history=history))
        given = [config]

        def source() -> Config:
            # What was loaded first; from then on the file as it is, in a thread.
            return (
                given.pop() if given else model.applied_to(load_again(path, warn=tell))
            )

        def tell(text: str) -> None:
            trio.from_thread.run_sync(screen.aside, f"! {text}")

        mind = StandIn()
        async with interrupts(table.talk.interrupt):
            with table.talk.scope, ExitStack() as opening:
                opening.enter_context(screen.opening())
                async with (
                    open_stand_in(config if stand_in else None, mind) as s2s,
                    open_logs(log, config, screen.warn) as logs,
                    open_record(record, screen.refuse) as world,
                    open_runtime(
                        source,
                        wait_for_servers=0.0 if interactive else _PIPED_WAIT,
                        watch=files if watch else False,
                        on_reload=lambda done: screen.aside(changes(plain(done))),
                        collector="settle",
                        answers=ask if interactive else None,
                        approval_timeout=_ANSWERING,
                        memory=memory_of(config, path, session),
                        environment=world,
                        s2s=s2s,
                        **logs.options,
                    ) as runtime,
                ):
                    mind.look_at(runtime)
                    logs.follow(runtime)
                    if not interactive:  # nor with tools that are only remembered
                        await runtime.wait_ready(within=_PIPED_WAIT)
                    async with AsyncExitStack() as stack:
                        heard = runtime.music.tap(lambda x: screen.aside(_music(x)))
                        stack.enter_context(heard)
                        if metrics is not None:
                            from glyphoxa_trio.observability import open_metrics

                            opened = open_metrics(runtime, port=metrics)
                            shown = await stack.enter_async_context(opened)
                            screen.quiet(f"metrics at {shown.url}")
                        if config.telemetry.enabled:
                            from glyphoxa_trio.observability import open_telemetry

                            telling = open_telemetry(runtime, warn=screen.warn)
                            await stack.enter_async_context(telling)
                        try:
                            await stack.enter_async_context(open_control(runtime))
                        except ControlError as error:
                            screen.quiet(str(error))  # and no `glyphoxa status`
                        if told := await _goes_on(runtime, path):
                            screen.quiet(told)
                        await settle_approvals(runtime, screen)
                        opening.close()
                        await table.sit(runtime, kept.begin(runtime), path)
        return INTERRUPTED if table.talk.left_by_signal else 0

    return run(main, path, model, clock=clock_for(record), traced=True)


def _edited(config: Config, table: PlayTable, *, history: bool) -> EditedLines | None:
    """Return what edits lines, where the terminal allows it."""
    if not can_edit():
        return None
    from .editing import EditedLines  # loads prompt_toolkit
    from .history import FileHistory, InMemoryHistory

    folder = state_folder(config) if history and config.mcp.remember else None
    return EditedLines(
        InMemoryHistory() if folder is None else FileHistory(folder / "history"),
        table.vocabulary,
    )


async def _goes_on(runtime: Runtime, path: Path) -> str:
    """Return a line about the conversation that goes on; "" if none does."""
    if runtime.memory is None:
        return ""
    kept: Sequence[SessionRow] = ()
    with suppress(GlyphoxaError):  # a turn will say so
        kept = await runtime.memory.journal.sessions("")
    last = [x.last_at for x in kept if x.session == DEFAULT and not x.ended and x.lines]
    if not last:
        return ""
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(last[0]))
    return (
        f"the conversation of {when} goes on; to begin another one:"
        f" glyphoxa sessions end {path} {DEFAULT}"
    )


def _music(event: MusicEvent) -> str:
    """Return the line about music where no program plays it."""
    from glyphoxa_trio.builtin.music import PlayMusic

    if isinstance(event, PlayMusic):
        return f"(music: {event.path.name}, for {event.mood})"
    return "(the music fades out)"
