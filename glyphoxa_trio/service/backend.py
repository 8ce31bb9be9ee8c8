"""The NPCs that a service speaks with, wherever they are.

`RuntimeBackend` is a runtime of this process. `cluster.gateway` has one whose NPCs are
with the workers of a cluster.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    nullcontext,
)
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

import attrs

import trio

from glyphoxa_trio.memory.importing import Drafts
from glyphoxa_trio.memory.importing.files import read_text
from glyphoxa_trio.memory.importing.putting import put
from glyphoxa_trio.npc import Addressed, Npc, Scene, SceneStatistics, Turn, Voice
from glyphoxa_trio.runtime import Runtime, Session
from glyphoxa_trio.tools.tier import Tier

from . import protocol as p
from .refusal import Refused
from .rights import ServiceClient

Utterance: TypeAlias = "p.SayRequest | p.GreetRequest | p.SpeakAsRequest"

_LEARNT: Final = Path("data.json")  # what errors call it; there is no file


class HearsRequests(Protocol):
    """An NPC or a scene, as far as both are asked for the same."""

    async def hearing(self, text: str, *, speaker: str = "player") -> None: ...

    async def interrupt(self, *, speaker: str | None = None) -> bool: ...

    async def overhear(self, speaker: str, text: str, *, to: str = "") -> None: ...


class ServedNpc(HearsRequests, Protocol):
    """An NPC that a client of the service is spoken for."""

    async def set_scene(self, *context: str) -> None: ...

    async def approve(self, question: str, yes: bool) -> bool: ...

    async def elevate(self, tier: Tier, *, seconds: float) -> None: ...


class ServedScene(HearsRequests, Protocol):
    """A scene that a client of the service speaks in."""

    async def addressed(self, text: str, *, speaker: str = "player") -> Addressed: ...

    async def turn_to(self, npc: str, *, speaker: str = "player") -> str: ...

    async def mute(self, npc: str) -> str: ...

    async def unmute(self, npc: str) -> str: ...

    async def puppet(self, npc: str | None) -> str | None: ...

    async def tell(self, *context: str) -> None: ...

    async def look(self) -> SceneStatistics: ...


class ServedSession(Protocol):
    """A session that clients of the service use."""

    def npc(self, name: str) -> ServedNpc: ...

    def scene(self, *npcs: str) -> ServedScene: ...

    async def interrupt(self, *, speaker: str | None = None) -> bool: ...

    async def end(self) -> None: ...


class NpcBackend(Protocol):
    """The NPCs of a service, wherever they are. Methods raise what a runtime does."""

    def serving(
        self, client: ServiceClient, leave: Callable[[str], None]
    ) -> AbstractContextManager[NpcBackend]:
        """Return the NPCs as this client may use them, while its connection is open.

        Args:
          leave: closes the connection, with a reason, when they are here no more.
        """
        ...

    def session(self, name: str) -> ServedSession:
        """Return the session of that name; it begins when it is used."""
        ...

    async def join(self, request: p.JoinRequest) -> list[p.NpcInfo]:
        """Have a session begin as a client wants it, and return the NPCs."""
        ...

    def turn(self, request: Utterance) -> Turn:
        """Return the turn that an utterance begins."""
        ...

    def voice(self, request: p.ListenRequest) -> AbstractAsyncContextManager[Voice]:
        """Open a player's microphone.

        Raises:
          Refused: there are no voices here.
        """
        ...

    async def media(
        self, request: p.MediaRequest, speaker: str | None
    ) -> dict[str, Any]:
        """Return where the audio of an NPC is served: ``url``, ``token``, and the
        ``within_ms`` for which the token may be shown.

        Args:
          speaker: the only name under which the client may speak there; None for any.

        Raises:
          Refused: it is served here.
        """
        ...

    async def learn(self, request: p.LearnRequest) -> dict[str, Any]:
        """Put world data into the memory of a session's campaign; return the numbers.

        Raises:
          Refused: there is no memory here.
          ImportRefused: the data is of no known kind.
        """
        ...


@attrs.frozen(eq=False)
class RuntimeBackend:
    """The NPCs of a runtime in this process."""

    _runtime: Runtime

    def serving(
        self, client: ServiceClient, leave: Callable[[str], None]
    ) -> AbstractContextManager[NpcBackend]:
        return nullcontext(self)

    def session(self, name: str) -> Session:
        return self._runtime.session(name)

    async def join(self, request: p.JoinRequest) -> list[p.NpcInfo]:
        self._runtime.session(
            request.session,
            campaign=request.campaign,
            players=request.players or None,
            variables=request.variables or None,
        )
        return [
            p.NpcInfo(name=x.name, tier=tier_name(x.budget_tier))
            for x in self._runtime.npcs
        ]

    def turn(self, request: Utterance) -> Turn:
        if isinstance(request, p.SayRequest):
            to = self._to(request)
            if isinstance(to, Scene):
                tier = None if request.tier is None else Tier.parse(request.tier)
                return to.say(
                    request.text, speaker=request.speaker, tier=tier, to=request.to
                )
            return turn_of(to, request)
        return turn_of(self.session(request.session).npc(request.npc), request)

    def voice(self, request: p.ListenRequest) -> AbstractAsyncContextManager[Voice]:
        return self._to(request).voice(speaker=request.speaker, rate=request.rate)

    async def media(
        self, request: p.MediaRequest, speaker: str | None
    ) -> dict[str, Any]:
        raise Refused("refused", "audio is on this very connection: send listen")

    async def learn(self, request: p.LearnRequest) -> dict[str, Any]:
        memory = self._runtime.memory
        if memory is None:
            raise Refused("refused", "this service keeps no memory")
        drafts = Drafts()
        drafts.begin(request.name)
        text = json.dumps(request.data)
        read = partial(read_text, text, _LEARNT, drafts, kind=None)
        await trio.to_thread.run_sync(read, abandon_on_cancel=True)
        report = await put(
            memory,
            self._runtime.campaign_of(request.session),
            drafts,
            npcs=[x.name for x in self._runtime.npcs],
        )
        return {**report.counts, "skipped": len(report.skipped)}

    def _to(self, request: p.AddressedRequest) -> Npc | Scene:
        session = self.session(request.session)
        if request.npc is not None:
            return session.npc(request.npc)
        return session.scene(*request.scene)


def turn_of(npc: Npc, request: Utterance) -> Turn:
    """Return the turn that an utterance begins, which is for this NPC alone."""
    match request:
        case p.SayRequest(text=text, speaker=speaker):
            tier = None if request.tier is None else Tier.parse(request.tier)
            return npc.say(text, speaker=speaker, tier=tier)
        case p.GreetRequest(speaker=speaker):
            return npc.greet(speaker=speaker)
    return npc.speak_as(request.text, speaker=request.speaker)


def tier_name(tier: Tier) -> p.TierName:
    """Return the name of a tier, as messages have it."""
    match tier:
        case Tier.FAST:
            return "fast"
        case Tier.STANDARD:
            return "standard"
        case Tier.DEEP:
            return "deep"
