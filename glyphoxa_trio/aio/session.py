"""A session as an asyncio program holds it: one table, or one phone call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from types import TracebackType
from typing import Self, TypeVar

import attrs

from glyphoxa_trio.npc import Npc as NativeNpc
from glyphoxa_trio.npc import Scene as NativeScene
from glyphoxa_trio.npc.cost import Spent
from glyphoxa_trio.npc.identity import SessionKey
from glyphoxa_trio.renamed import renamed_method
from glyphoxa_trio.runtime import Runtime as NativeRuntime
from glyphoxa_trio.runtime import Session as NativeSession
from glyphoxa_trio.runtime import SessionSnapshot, find_npc

from .bridge import LoopBridge
from .npc import Npc
from .scene import Scene

R = TypeVar("R")


@attrs.define(eq=False)
class LazySession:
    """The session on trio's side, which begins with the first thing that is done in it.
    Called there."""

    runtime: NativeRuntime
    key: SessionKey
    variables: Mapping[str, object] | None
    restore: SessionSnapshot | bytes | None = None
    _session: NativeSession | None = attrs.field(default=None, init=False)

    def __call__(self) -> NativeSession:
        if self._session is None:
            self._session = self.runtime.session(
                self.key.id,
                tenant=self.key.tenant,
                variables=self.variables,
                restore=self.restore,
            )
            self.restore = None  # it may be long
        return self._session

    def npc(self, name: str) -> NativeNpc:
        return self().npc(name)

    def scene(self, *npcs: str) -> NativeScene:
        return self().scene(*npcs)


@attrs.frozen(eq=False)
class Session:
    """Made by `Runtime.session`. It begins with the first thing that is done in it, or
    when its block is entered; leaving the block ends it."""

    _bridge: LoopBridge
    _table: LazySession

    @property
    def id(self) -> str:
        return self._table.key.id

    @property
    def tenant(self) -> str:
        """Whose it is; "" if nobody said."""
        return self._table.key.tenant

    def npc(self, name: str) -> Npc:
        """The NPC of that name in this session; the beginning of a name is enough if it
        is unique. What is done with it raises `SessionEnded` when the session has.

        Raises:
          UnknownNpc: with the nearest names.
        """
        config = find_npc(self._table.runtime.config, name)
        find = partial(self._table.npc, config.name)
        return Npc(config, self._bridge, find, self._table.key)

    def scene(self, *npcs: str) -> Scene:
        """Several NPCs of this session in one place: all, or the named ones. The same
        scene each time.

        Raises:
          UnknownNpc: with the nearest names.
        """
        names = frozenset(self.npc(name).name for name in npcs)
        find = partial(self._table.scene, *npcs)
        return Scene(self._bridge, names, find, self._table.key)

    async def variables(self) -> Mapping[str, str | None]:
        """What it knows of its players, for prompts and greetings."""
        return await self._do(lambda session: session.variables)

    async def cost(self) -> Spent:
        """What models have taken in it, since it began."""
        return await self._do(lambda session: session.cost)

    async def ended(self) -> bool:
        return await self._do(lambda session: session.ended)

    async def set_variables(self, values: Mapping[str, object]) -> None:
        """Give values to template variables, for all of its NPCs, as `Npc.set_variables`;
        also for those who are spoken to later."""
        await self._ask(lambda session: session.set_variables(values))

    introduce = renamed_method("introduce", "set_variables")

    async def snapshot(self) -> SessionSnapshot:
        """What it is now, to go on from elsewhere or later (`Runtime.session`)."""
        return await self._ask(lambda session: session.snapshot())

    async def end(self) -> None:
        """End it: what runs or waits is interrupted. A call that only reads is
        cancelled; one that has side effects goes on, and nobody hears of it."""
        await self._ask(lambda session: session.end())

    async def __aenter__(self) -> Self:
        await self._do(lambda session: None)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.end()

    async def _do(self, do: Callable[[NativeSession], R]) -> R:
        async def done() -> R:
            return do(self._table())

        return await self._bridge.ask(done)

    async def _ask(self, ask: Callable[[NativeSession], Awaitable[R]]) -> R:
        async def asked() -> R:
            return await ask(self._table())

        return await self._bridge.ask(asked)
