"""``glyphoxa cluster worker`` and ``say``, and the connection of all of them."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from glyphoxa_trio.cluster import (
    ClusterError,
    ClusterWorker,
    RemoteRuntime,
    connect,
    serve,
)
from glyphoxa_trio.config import Config
from glyphoxa_trio.mcp import ServerWarning
from glyphoxa_trio.nats import NatsLink, open_nats
from glyphoxa_trio.nats.servers import NatsCredentials, ServerList
from glyphoxa_trio.npc import Sentence, TurnDone
from glyphoxa_trio.npc.event_json import event_json
from glyphoxa_trio.npc.events import TurnEnd
from glyphoxa_trio.runtime import open_runtime

from .common import Model, memory_of, run, run_orderly
from .console import say, wide_console
from .leaving import Leaving, two_signals
from .serving import note

if TYPE_CHECKING:
    from glyphoxa_trio.cluster.media_service import MediaOptions
    from glyphoxa_trio.servers.http.options import HttpOptions


def serve_sessions(
    path: Path,
    model: Model,
    nats: str,
    *,
    deployment: str,
    most: int,
    within: float,
    probes: HttpOptions | None = None,
    media: MediaOptions | None = None,
) -> int:
    """Serve until a signal or an operator says that it is to stop; return the exit
    status."""

    async def main(config: Config) -> int:
        async with (
            two_signals() as leaving,
            connected(nats) as bus,
            open_runtime(
                config,
                memory=memory_of(config, path),
                collector="settle",
                on_warning=_warn,
            ) as runtime,
            serve(runtime, bus, deployment=deployment, most=most) as worker,
            AsyncExitStack() as stack,
        ):
            watched = audio = ""
            if probes is not None:
                from glyphoxa_trio.cluster.monitoring import open_worker_probes

                opening = open_worker_probes(runtime, worker, probes)
                watched = await stack.enter_async_context(opening)
            if media is not None:
                from glyphoxa_trio.cluster.media_service import open_media

                audio = await stack.enter_async_context(open_media(worker, media))
            npcs = len(config.npcs)
            note(
                f"the worker {worker.name} serves {npcs} NPC{'s'[: npcs != 1]} of"
                f" the deployment {deployment}"
            )
            if watched:
                note(f"health and metrics at {watched}")
            if audio:
                note(f"audio of its NPCs is at {audio}")
            seconds = await _told(worker, leaving, within)
            held = worker.sessions
            note(f"giving back {held} session{'s'[: held != 1]}")
            await worker.drained(seconds)
        return leaving.status

    return run(main, path, model, traced=True)


async def _told(worker: ClusterWorker, leaving: Leaving, within: float) -> float:
    """Return the seconds for turns that run, once it is to stop."""

    async def by_an_operator() -> None:
        nonlocal within
        within = await worker.told()
        nursery.cancel_scope.cancel("an operator")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(by_an_operator)
        await leaving.told.wait()
        nursery.cancel_scope.cancel("a signal")
    return within


def say_once(
    nats: str,
    said: tuple[str, str, str],
    *,
    deployment: str,
    tenant: str,
    within: float,
    as_json: bool,
) -> int:
    """Print an answer while it comes."""
    session, npc, text = said

    async def main() -> int:
        console = wide_console()
        async with remote(nats, deployment, tenant) as runtime:
            if not runtime.workers:
                note(f"there is no worker yet; one has {within:g} s to come")
            turn = runtime.session(session).npc(npc).say(text, within=within)
            async with turn:
                async for event in turn:
                    if as_json:
                        sys.stdout.write(f"{event_json(event)}\n")
                        sys.stdout.flush()
                    elif isinstance(event, Sentence):
                        say(console, event.text)
        done = turn.done
        if done is not None and done.end is TurnEnd.COMPLETED:
            return 0
        _explain(done)
        return 1

    return run_orderly(main)


def _explain(done: TurnDone | None) -> None:
    if done is not None:
        why = f": {done.error}" if done.error else ""
        note(f"the turn is {done.end}{why}")


@asynccontextmanager
async def remote(
    nats: str, deployment: str, tenant: str = ""
) -> AsyncGenerator[RemoteRuntime]:
    """Speak with the workers of a deployment, until the block is left."""
    async with (
        connected(nats) as bus,
        connect(bus, deployment=deployment, tenant=tenant) as runtime,
    ):
        yield runtime


@asynccontextmanager
async def connected(nats: str) -> AsyncGenerator[NatsLink]:
    """Connect to the server of ``--nats``, until the block is left."""
    try:
        ServerList.of([nats], NatsCredentials())
    except ValueError as error:
        raise ClusterError(f"--nats: {error}") from None
    async with open_nats(nats) as bus:
        yield bus


def _warn(warning: ServerWarning) -> None:
    note(f"warning: {warning.server}: {warning.text}")
