"""A client of the workers: sessions that are somewhere else, as if they were here.

    async with open_nats("nats://127.0.0.1") as nats, connect(nats) as runtime:
        async with runtime.session("table-42").npc("Bartok").say("An ale!") as turn:
            async for event in turn:
                ...

The turn and its events are those of a runtime in this process.
"""

from __future__ import annotations

from collections.abc import (
    AsyncGenerator,
    Callable,
    Collection,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from secrets import token_hex
from typing import Final

import attrs

import trio

from glyphoxa_trio.actors import lone_errors
from glyphoxa_trio.nats import NatsLink
from glyphoxa_trio.npc import Turn
from glyphoxa_trio.npc.arguments import check_seconds, check_session
from glyphoxa_trio.npc.identity import DEFAULT, SessionKey

from .client import ClusterClient
from .messages import (
    BeatMessage,
    DrainMessage,
    LeaveMessage,
    ListedMessage,
    ListMessage,
    LookMessage,
    SeenMessage,
    ShownMessage,
    WatchMessage,
)
from .remote_session import RemoteNpc, RemoteScene, RemoteSession
from .wire import Subjects, pack, read

_SUBSCRIBING: Final = 5.0
_LISTING: Final = 1.0  # seconds for the workers to answer
_WATCHING: Final = 3.0  # for which a worker shows turns without being asked again
_LOOKING: Final = 0.02  # between two looks for new workers


@asynccontextmanager
async def connect(
    nats: NatsLink,
    *,
    deployment: str = "default",
    tenant: str = "",
    wait_for_workers: float = 2.0,
) -> AsyncGenerator[RemoteRuntime]:
    """Speak with the workers of a deployment, until the block is left.

    Leaving it interrupts the turns that are open.

    Args:
      deployment: the name that its workers were given.
      tenant: the owner of all sessions of this client.
      wait_for_workers: seconds to wait for the first beat of one.

    Raises:
      InvalidMessage: the deployment's name cannot be used.
      NatsError: the server does not answer, or refuses a subscription.
    """
    subjects, inbox = Subjects(deployment), f"_INBOX.{token_hex(11)}"
    async with (
        nats.subscribe(f"{inbox}.*", capacity=65_536) as answers,
        nats.subscribe(subjects.beat, capacity=4096) as beats,
    ):
        await nats.flush(within=_SUBSCRIBING)
        with lone_errors():
            async with trio.open_nursery() as nursery:
                client = ClusterClient(nats, subjects, inbox)
                nursery.start_soon(client.hear, answers)
                nursery.start_soon(client.hear_beats, beats)
                nursery.start_soon(client.live)
                with trio.move_on_after(wait_for_workers):
                    await client.seen.wait()
                try:
                    yield RemoteRuntime(client, tenant)
                finally:
                    client.leave()
                    nursery.cancel_scope.cancel("the client leaves")


@attrs.frozen(eq=False, repr=False)
class RemoteRuntime:
    """The sessions of a deployment. Made by `connect`; usable from any task."""

    _client: ClusterClient
    tenant: str = ""

    def session(self, id: str = DEFAULT) -> RemoteSession[Turn]:  # noqa: A002
        """Return the session of that id, wherever it is. It begins when it is used."""
        check_session(id, self.tenant)
        return RemoteSession(self._client, SessionKey(id, self.tenant))

    def npc(self, name: str) -> RemoteNpc[Turn]:
        """Return an NPC of the session ``default``."""
        return self.session().npc(name)

    def scene(self, *npcs: str) -> RemoteScene[Turn]:
        """Return a scene of the session ``default``."""
        return self.session().scene(*npcs)

    async def sessions(
        self,
        id: str | None = None,  # noqa: A002
        *,
        tenant: str | None = None,
        most: int = 250,
    ) -> tuple[ListedMessage, ...]:
        """Ask all workers which sessions they have, and return their answers.

        A worker that has not answered after a second is left out.

        Args:
          id: only the session of this name.
          tenant: only those of this owner; None is any.
          most: the number that each worker names, 250 at most.
        """
        asked = ListMessage(id=token_hex(12), tenant=tenant, session=id, most=most)
        names = [x.worker for x in self.workers]
        answers = await self._client.gathered(asked, names, _LISTING)
        return tuple(x for x in answers if isinstance(x, ListedMessage))

    async def looks(
        self,
        page: str,
        *,
        path: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
        workers: Sequence[str] | None = None,
    ) -> tuple[ShownMessage, ...]:
        """Ask workers for a page of `glyphoxa run`, of the sessions of this tenant.

        A worker that has not answered after a second is left out.

        Args:
          page: the path of an endpoint that changes nothing, as `LookMessage` has it.
          path: the values of its parameters.
          workers: those that are asked; None for all.
        """
        asked = LookMessage(
            id=token_hex(12),
            page=page,
            path=dict(path or {}),
            query=dict(query or {}),
            tenant=self.tenant,
        )
        read(pack(asked))  # what no worker would read is refused here
        names = [x.worker for x in self.workers] if workers is None else workers
        answers = await self._client.gathered(asked, names, _LISTING)
        return tuple(x for x in answers if isinstance(x, ShownMessage))

    async def watch(
        self,
        seen: Callable[[SeenMessage], None],
        started: Callable[[Collection[str]], None],
        *,
        session: str | None = None,
        deltas: bool = False,
        directs: bool = False,
    ) -> None:
        """Watch the turns of this tenant at all workers, until cancelled.

        Args:
          seen: called with what workers send; it must not raise.
          started: called once, with the workers that have answered: all, or those that
            did within a second.
          session, deltas, directs: as `WatchMessage` has them.
        """
        watch = WatchMessage(
            id=token_hex(12),
            for_ms=_WATCHING * 1000,
            tenant=self.tenant,
            session=session,
            deltas=deltas,
            directs=directs,
        )
        read(pack(watch))
        answered: set[str] = set()

        def note(message: SeenMessage) -> None:
            answered.add(message.worker)
            seen(message)

        asked: dict[str, float] = {}
        began, told = trio.current_time(), False
        with self._client.watching(watch.id, note):
            try:
                while True:
                    now = trio.current_time()
                    names = [x.worker for x in self.workers]
                    for name in names:
                        if now - asked.get(name, -_WATCHING) >= _WATCHING / 3:
                            asked[name] = now
                            self._client.order(name, watch)
                    if not told and (
                        answered.issuperset(names) or now - began >= _LISTING
                    ):
                        told = True
                        started(answered)
                    await trio.sleep(_LOOKING)
            finally:
                for name in asked:
                    self._client.order(name, LeaveMessage(id=watch.id))

    async def drain(self, worker: str, within: float = 30.0) -> bool:
        """Have a worker give its sessions to the others, and end.

        Return False if it has not said that it does, within a second.

        Args:
          within: seconds for turns that run there; then they are interrupted.
        """
        check_seconds(within)
        self._client.order(worker, DrainMessage(within_ms=within * 1000))
        with trio.move_on_after(_LISTING):
            while True:
                beats = {x.worker: x for x in self.workers}
                if worker in beats and beats[worker].draining:
                    return True
                await trio.sleep(0.02)
        return False

    @property
    def workers(self) -> tuple[BeatMessage, ...]:
        """The last beats of the workers that live, by name."""
        now = trio.current_time()
        beats = self._client.placement.workers(now)
        return tuple(sorted(beats, key=lambda x: x.worker))

    @property
    def connected(self) -> bool:
        """True while the bus answers."""
        return self._client.connected

    @property
    def counts(self) -> Mapping[str, int]:
        """Counts of what went wrong: refusals by reason, owners that were silent, gaps,
        and messages that could not be read or sent."""
        return {**self._client.counts, **self._client.placement.counts}

    def owner(self, session: str = DEFAULT) -> tuple[str, int] | None:
        """Return the worker that has a session, and its epoch, as far as this client
        has learnt that."""
        return self._client.placement.route(SessionKey(session, self.tenant))
