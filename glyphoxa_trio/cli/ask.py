"""``glyphoxa ask``: one turn."""

from __future__ import annotations

import sys
from pathlib import Path

from glyphoxa_trio.config import Config
from glyphoxa_trio.mcp import ServerWarning
from glyphoxa_trio.npc import (
    FanOutDone,
    FellBack,
    Filler,
    ModelFailed,
    ModelSwitched,
    TextDelta,
    TurnEnd,
)
from glyphoxa_trio.npc.event_json import event_json
from glyphoxa_trio.runtime import find_npc, open_runtime
from glyphoxa_trio.tools.tier import Tier

from .common import WAIT, Model, memory_of, run, without_calibration
from .console import Flow, wide_console
from .kept import KeptSession
from .logs import open_logs
from .recorded import clock_for, open_record
from .render import fan_out_line, on_screen


def ask(
    path: Path,
    npc: str,
    text: str,
    model: Model,
    *,
    tier: Tier | None,
    as_json: bool,
    log: Path | None = None,
    record: Path | None = None,
    session: Path | None = None,
) -> int:
    """Say ``text`` once; 0 if it was answered, 1 if the turn failed."""

    async def main(config: Config) -> int:
        find_npc(config, npc)  # before any server is waited for
        kept = await KeptSession.read(session, config)
        speaking = False
        console = wide_console()
        flow = Flow(console.width if console.is_terminal else None)
        async with (
            open_logs(log, config, _warn) as logs,
            open_record(record, _note) as world,
            open_runtime(
                without_calibration(config),
                wait_for_servers=WAIT,
                collector="settle",
                memory=memory_of(config, path, session),
                environment=world,
                **logs.options,
            ) as runtime,
        ):
            logs.follow(runtime)
            await runtime.wait_ready(within=WAIT)
            async with kept.begin(runtime).npc(npc).say(text, tier=tier) as turn:
                async for event in turn:
                    if as_json:
                        _out(event_json(event) + "\n")
                        continue
                    match event:
                        case TextDelta(text=piece):
                            _out(flow.add(on_screen(piece)))
                            speaking = True
                        case Filler() | FanOutDone():
                            if speaking:
                                _out(flow.end() + "\n")
                                flow.begin(0)
                                speaking = False
                            _note(
                                f"… {event.text}"
                                if isinstance(event, Filler)
                                else f"· {fan_out_line(event)}"
                            )
                        case ModelFailed(kind=kind, detail=detail):
                            _note(f"the model failed: {kind}: {detail}")
                        case ModelSwitched(model=name, reason=reason):
                            _note(f"· {name} answers: {reason}")
                        case FellBack(reason=reason):
                            _note(f"· fallback: {reason}")
                        case _:
                            pass
            if not as_json:
                _out(flow.end() + "\n")
            await kept.keep(_note)
            done = turn.done
            return 0 if done is not None and done.end is TurnEnd.COMPLETED else 1

    return run(main, path, model, clock=clock_for(record), traced=True)


def _out(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _note(text: str) -> None:
    sys.stderr.write(f"{on_screen(text)}\n")


def _warn(warning: ServerWarning) -> None:
    _note(f"warning: {warning.server}: {warning.text}")
