"""`Session` for asyncio: one game table, or one phone call."""

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
from glyphoxa_trio.runtime import SessionHold, SessionSnapshot, find_npc

from .bridge import LoopBridge
from .npc import Npc
from .scene import Scene

R = TypeVar("R")


@attrs.define(eq=False)
class LazySession:
    """A session on trio's side that begins when it is first used. Called on trio's
    side."""

    runtime: NativeRuntime
    key: SessionKey
    variables: Mapping[str, object] | None
    restore: SessionSnapshot | bytes | None = None
    campaign: str | None = None
    players: Mapping[str, str] | None = None
    _session: NativeSession | None = attrs.field(default=None, init=False)

    def __call__(self) -> NativeSession:
        if self._session is None:
            self._session = self.runtime.session(
                self.key.id,
                tenant=self.key.tenant,
                campaign=self.campaign,
                players=self.players,
                variables=self.variables,
                restore=self.restore,
            )
            self.restore = None  # it may need much memory
        return self._session

    def npc(self, name: str) -> NativeNpc:
        return self().npc(name)

    def scene(self, *npcs: str) -> NativeScene:
        return self().scene(*npcs)


@attrs.frozen(eq=False)
class Session:
    """One conversation of its own with the NPCs of a runtime. Made by
    `Runtime.session`.

        async with runtime.session("table-42", tenant="guild") as session:
            async with session.npc("Bartok").say("An ale!", speaker="Aria") as turn:
                ...

    It begins when its block is entered or it is first used. Leaving the block ends it.
    """

    _bridge: LoopBridge
    _lazy: LazySession

    @property
    def id(self) -> str:
        return self._lazy.key.id

    @property
    def tenant(self) -> str:
        """The owner of the session; "" if none was given."""
        return self._lazy.key.tenant

    def npc(self, name: str) -> Npc:
        """Return this session's NPC of that name, or of that unique beginning of a
        name.

        Its methods raise `SessionEnded` once the session has ended.

        Raises:
          UnknownNpc: with the nearest names.
        """
        config = find_npc(self._lazy.runtime.config, name)
        find = partial(self._lazy.npc, config.name)
        return Npc(config, self._bridge, find, self._lazy.key)

    def scene(self, *npcs: str) -> Scene:
        """Return a scene of several NPCs of this session: the named ones, or all.

        The same names mean the same scene each time.

        Raises:
          UnknownNpc: with the nearest names.
        """
        names = frozenset(self.npc(name).name for name in npcs)
        find = partial(self._lazy.scene, *npcs)
        return Scene(self._bridge, names, find, self._lazy.key)

    async def variables(self) -> Mapping[str, str | None]:
        """Return the values of template variables, for prompts and greetings."""
        return await self._do(lambda session: session.variables)

    async def cost(self) -> Spent:
        """Return the tokens and costs of models in this session since it began."""
        return await self._do(lambda session: session.cost)

    async def ended(self) -> bool:
        """Return True if the session has ended."""
        return await self._do(lambda session: session.ended)

    async def set_variables(self, values: Mapping[str, object]) -> None:
        """Set template variables for all NPCs of this session, as `Npc.set_variables`
        does.

        NPCs that are first spoken to later know them, too.
        """
        await self._ask(lambda session: session.set_variables(values))

    introduce = renamed_method("introduce", "set_variables")

    async def snapshot(self) -> SessionSnapshot:
        """Return the session as it is now, to continue elsewhere or later
        (`Runtime.session`)."""
        return await self._ask(lambda session: session.snapshot())

    async def claim(
        self,
        *,
        steal_from: int | None = None,
        on_lost: Callable[[], None] | None = None,
    ) -> SessionHold:
        """Claim the session in the store of memory and load it, before its first use.

        Arguments and errors are those of `glyphoxa_trio.Session.claim`; ``on_lost`` is
        called on the loop.
        """
        lost = self._bridge.errands.telling(on_lost)
        return await self._ask(
            lambda session: session.claim(steal_from=steal_from, on_lost=lost)
        )

    async def release(self, *, write: bool = True) -> None:
        """End the session here, so that another process can continue it.

        ``write=False`` writes nothing more, since another process has it already.
        """
        await self._ask(lambda session: session.release(write=write))

    async def interrupt(self, *, speaker: str | None = None) -> bool:
        """End all answers that run in the session; return False if none did.

        Args:
          speaker: end only answers to this speaker.
        """
        return await self._ask(lambda session: session.interrupt(speaker=speaker))

    async def end(self) -> None:
        """End the session: interrupt whatever runs or waits in it.

        A tool call that only reads is cancelled. One that has side effects runs to its
        end, and its result is dropped.
        """
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
            return do(self._lazy())

        return await self._bridge.ask(done)

    async def _ask(self, ask: Callable[[NativeSession], Awaitable[R]]) -> R:
        async def asked() -> R:
            return await ask(self._lazy())

        return await self._bridge.ask(asked)
