"""A session that a worker holds, with its NPCs and scenes, as a client has them.

The methods are those of `Session`, `Npc` and `Scene`, and `asked` says which there are.
Turns are those of trio, or of asyncio (`cluster.aio`).
"""

from __future__ import annotations

from collections.abc import Mapping
from secrets import token_hex
from typing import Any, Final, Generic, Literal, Protocol, TypeAlias, TypeVar

import attrs
from msgspec import Struct, ValidationError, convert

from glyphoxa_trio.npc import Addressed, SceneStatistics
from glyphoxa_trio.npc.arguments import (
    check_names,
    check_seconds,
    check_text,
    check_tier,
    check_values,
)
from glyphoxa_trio.npc.identity import SessionKey
from glyphoxa_trio.runtime import SessionSnapshot
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.tools.tier import Tier
from glyphoxa_trio.units import seconds as seconds_of

from .media import MediaAddress
from .messages import AskMessage, SayMessage
from .wire import InvalidMessage, pack, read

WITHIN: Final = 30.0
"""Seconds for a turn, unless its speaker says otherwise."""

PATIENCE: Final = 10.0
"""Seconds for any other request."""

_CREDIT: Final = 256  # events: a whole answer, also for who reads it aloud

EventChoice: TypeAlias = Literal["spoken", "all"]
T = TypeVar("T")
TurnT = TypeVar("TurnT")
TurnT_co = TypeVar("TurnT_co", covariant=True)


class RequestLink(Protocol[TurnT_co]):
    """The way to the workers, from trio or from asyncio."""

    async def ask(self, ask: AskMessage) -> Any:
        """Ask the owner of a session, and return the result; see `ClusterClient`."""
        ...

    def turn(self, say: SayMessage) -> TurnT_co:
        """Return the turn that an utterance begins."""
        ...


@attrs.frozen(eq=False, repr=False)
class _Addressee(Generic[TurnT]):
    """The addressee of a session's requests: itself, an NPC, or a scene."""

    _link: RequestLink[TurnT]
    _key: SessionKey
    _npc: str | None = None
    _scene: tuple[str, ...] | None = None

    async def _ask(
        self, what: str, kind: type[T], within: float = PATIENCE, **fields: Any
    ) -> T:
        """Ask the worker for something, and return the result as this kind."""
        ask = AskMessage(
            id=token_hex(12),
            session=self._key.id,
            tenant=self._key.tenant,
            npc=self._npc,
            scene=None if self._scene is None else list(self._scene),
            what=what,
            fields=fields,
            remaining_ms=within * 1000,
        )
        read(pack(ask))  # what no worker would read is refused here
        result = await self._link.ask(ask)
        try:
            return convert(result, kind)
        except ValidationError as error:
            raise InvalidMessage(f"the answer to {what}: {error}"[:300]) from None

    def _turn(
        self,
        how: Literal["say", "speak_as", "greet"],
        within: float,
        events: EventChoice,
        **fields: Any,
    ) -> TurnT:
        check_seconds(within)
        say = SayMessage(
            id=token_hex(12),
            session=self._key.id,
            tenant=self._key.tenant,
            scene=None if self._scene is None else list(self._scene),
            how=how,
            remaining_ms=within * 1000,
            credit=_CREDIT,
            events=events,
            **fields,
        )
        read(pack(say))
        return self._link.turn(say)

    async def interrupt(self, *, speaker: str | None = None) -> bool:
        """End the answers that run; return False if there are none."""
        check_text(speaker=speaker or "")
        return await self._ask("interrupt", bool, speaker=speaker)


@attrs.frozen(eq=False, repr=False)
class _Hearer(_Addressee[TurnT]):
    """An NPC or a scene, which hear words that are not for them to answer."""

    async def hearing(self, text: str, *, speaker: str = "player") -> None:
        """Tell what a speaker is saying, before it is all said, as `Npc.hearing`."""
        check_text(text=text, speaker=speaker)
        await self._ask("hearing", type(None), text=text, speaker=speaker)

    async def overhear(self, speaker: str, text: str, *, to: str = "") -> None:
        """Let it be heard what somebody says that is not for them. Nobody answers."""
        check_text(speaker=speaker, text=text, to=to)
        await self._ask("overhear", type(None), speaker=speaker, text=text, to=to)


@attrs.frozen(eq=False, repr=False)
class RemoteSession(_Addressee[TurnT]):
    """A session that a worker holds, or will hold once it is used."""

    @property
    def id(self) -> str:
        """The session's name."""
        return self._key.id

    @property
    def tenant(self) -> str:
        """The owner of the session; "" if there is none."""
        return self._key.tenant

    def npc(self, name: str) -> RemoteNpc[TurnT]:
        """Return the session's NPC of that name; the worker knows if there is one."""
        check_text(name=name)
        return RemoteNpc(self._link, self._key, name)

    def scene(self, *npcs: str) -> RemoteScene[TurnT]:
        """Return a scene of several NPCs of this session: the named ones, or all."""
        for name in npcs:
            check_text(npc=name)
        return RemoteScene(self._link, self._key, None, tuple(sorted({*npcs})))

    async def join(
        self,
        *,
        campaign: str | None = None,
        players: Mapping[str, str] | None = None,
        variables: Mapping[str, object] | None = None,
    ) -> None:
        """Have the session begin with these, as `Runtime.session`; it may exist.

        Raises:
          ClusterRefused: as `Runtime.session` raises, with its text.
        """
        check_names(campaign=campaign, players=players)
        check_values(variables or {})
        known = {x: None if y is None else str(y) for x, y in (variables or {}).items()}
        named = None if players is None else dict(players)
        await self._ask(
            "join", bool, campaign=campaign, players=named, variables=known or None
        )

    async def npcs(self) -> dict[str, Tier]:
        """Return the NPCs that there are, by name, with the tier of each."""
        rows = await self._ask("npcs", list[dict[str, str]])
        return {x["name"]: Tier.parse(x["tier"]) for x in rows}

    async def set_variables(self, values: Mapping[str, object]) -> None:
        """Set template variables for all NPCs of the session."""
        await self._ask("set_variables", type(None), values=_texts(values))

    async def snapshot(self) -> SessionSnapshot:
        """Return the session as it is now; see `Session.snapshot`."""
        return SessionSnapshot.from_data(await self._ask("snapshot", dict[str, Any]))

    async def end(self) -> None:
        """End the session: interrupt whatever runs or waits in it."""
        await self._ask("end", type(None), within=WITHIN)


class _MediaAnswer(Struct):
    url: str
    token: str
    within_ms: float


@attrs.frozen(eq=False, repr=False)
class RemoteNpc(_Hearer[TurnT]):
    """An NPC of a session that a worker holds."""

    @property
    def name(self) -> str:
        return self._npc or ""

    def say(
        self,
        text: str,
        *,
        speaker: str = "player",
        tier: Tier | None = None,
        within: float = WITHIN,
        events: EventChoice = "spoken",
    ) -> TurnT:
        """Say something to the NPC; enter the turn to hear the answer.

        As `Npc.say`. A turn whose worker is lost ends with a `TurnDone` whose end is
        ``lost``, unless nothing of it was given out and no side effect had begun: then
        another worker runs it, and nobody notices. Audio is at `media`. Entering the
        turn raises `ClusterRefused` if no worker takes it.

        Args:
          within: seconds for the turn, with all that is done to find its worker.
          events: "all" has the deltas of the text, too, with the tools that were shown
            and the lines of context.

        Raises:
          InvalidMessage: it cannot be sent; the text names the field.
        """
        check_text(text=text, speaker=speaker)
        fields = {"npc": self.name, "text": text, "speaker": speaker}
        return self._turn("say", within, events, **fields, tier=_name_of(tier))

    def speak_as(
        self,
        text: str,
        *,
        speaker: str = "DM",
        within: float = WITHIN,
        events: EventChoice = "spoken",
    ) -> TurnT:
        """Say ``text`` as the NPC: these words literally, without model and tools."""
        check_text(text=text, speaker=speaker)
        fields = {"npc": self.name, "text": text, "speaker": speaker}
        return self._turn("speak_as", within, events, **fields)

    def greet(
        self,
        *,
        speaker: str = "player",
        within: float = WITHIN,
        events: EventChoice = "spoken",
    ) -> TurnT:
        """Have the NPC say its greeting, if it has one and no turn came before."""
        check_text(speaker=speaker)
        return self._turn("greet", within, events, npc=self.name, speaker=speaker)

    async def set_scene(self, *context: str) -> None:
        """Tell the NPC the facts of its scene, in place of earlier ones."""
        await self._ask("set_scene", type(None), context=_lines(context))

    async def set_variables(self, values: Mapping[str, object]) -> None:
        """Set template variables of prompt and greeting, as `Npc.set_variables`."""
        await self._ask("set_variables", type(None), values=_texts(values))

    async def media(self, *, speaker: str | None = None) -> MediaAddress:
        """Return where the NPC is spoken with by voice: at the worker that has the
        session, since audio does not cross the bus.

        Args:
          speaker: the only name under which whoever connects may speak; None for any.

        Once the session has moved, the worker closes the connection with code 4004, or
        refuses the token: ask again then.

        Raises:
          ClusterRefused: the NPC cannot hear, or its worker serves no audio.
        """
        bound: dict[str, Any] = {} if speaker is None else {"speaker": speaker}
        told = await self._ask("media", _MediaAnswer, **bound)
        return MediaAddress(
            url=told.url, token=Secret(told.token), within=seconds_of(told.within_ms)
        )

    async def approve(self, question: str, yes: bool) -> bool:
        """Answer an `ApprovalNeeded`; return False if it is not open any more."""
        check_text(question=question)
        return await self._ask("approve", bool, question=question, yes=bool(yes))

    async def elevate(self, tier: Tier, *, seconds: float) -> None:
        """Let the NPC use a slower tier for a while, as `Npc.elevate`."""
        check_tier(tier, optional=False)
        check_seconds(seconds)
        await self._ask("elevate", type(None), tier=str(tier), seconds=seconds)

    async def tier_for(self, text: str) -> Tier:
        """Return the tier that this text would be answered in. Changes nothing."""
        check_text(text=text)
        return Tier.parse(await self._ask("tier_for", str, text=text))


@attrs.frozen(eq=False, repr=False)
class RemoteScene(_Hearer[TurnT]):
    """Several NPCs and players in one place, at a worker."""

    def say(
        self,
        text: str,
        *,
        speaker: str = "player",
        to: str | None = None,
        tier: Tier | None = None,
        dm: bool = False,
        whisper: bool = False,
        within: float = WITHIN,
        events: EventChoice = "spoken",
    ) -> TurnT:
        """Say something to the addressed NPC, as `Scene.say` and `RemoteNpc.say`."""
        check_text(text=text, speaker=speaker, to=to or "")
        fields = {"npc": to or "", "text": text, "speaker": speaker, "dm": dm}
        return self._turn(
            "say", within, events, **fields, whisper=whisper, tier=_name_of(tier)
        )

    def speak_as(
        self,
        npc: str,
        text: str,
        *,
        speaker: str = "DM",
        within: float = WITHIN,
        events: EventChoice = "spoken",
    ) -> TurnT:
        """Have the NPC say ``text`` literally, before the players who wait."""
        check_text(npc=npc, text=text, speaker=speaker)
        fields = {"npc": npc, "text": text, "speaker": speaker}
        return self._turn("speak_as", within, events, **fields)

    def greet(
        self,
        npc: str,
        *,
        speaker: str = "player",
        within: float = WITHIN,
        events: EventChoice = "spoken",
    ) -> TurnT:
        """Have the NPC say its greeting."""
        check_text(npc=npc, speaker=speaker)
        return self._turn("greet", within, events, npc=npc, speaker=speaker)

    async def addressed(self, text: str, *, speaker: str = "player") -> Addressed:
        """Return the NPC that ``text`` would address, and the rule. Changes nothing."""
        check_text(text=text, speaker=speaker)
        return await self._ask("addressed", Addressed, text=text, speaker=speaker)

    async def turn_to(self, npc: str, *, speaker: str = "player") -> str:
        """Address what this player says next to this NPC; return its full name."""
        check_text(npc=npc, speaker=speaker)
        return await self._ask("turn_to", str, npc=npc, speaker=speaker)

    async def mute(self, npc: str) -> str:
        """Mute the NPC, and return its full name."""
        check_text(npc=npc)
        return await self._ask("mute", str, npc=npc)

    async def unmute(self, npc: str) -> str:
        """Let the NPC speak again. Return its full name."""
        check_text(npc=npc)
        return await self._ask("unmute", str, npc=npc)

    async def puppet(self, npc: str | None) -> str | None:
        """Address everything that follows to this NPC; None ends that."""
        check_text(npc=npc or "")
        name: object = await self._ask("puppet", object, npc=npc)
        return None if name is None else str(name)

    async def tell(self, *context: str) -> None:
        """Tell all NPCs the facts of the scene, in place of earlier ones."""
        await self._ask("tell", type(None), context=_lines(context))

    async def look(self) -> SceneStatistics:
        """Return the state of the scene: NPCs, speaker, queue and counters."""
        return await self._ask("look", SceneStatistics)


def _name_of(tier: Tier | None) -> str | None:
    check_tier(tier)
    return None if tier is None else str(tier)


def _texts(values: Mapping[str, object]) -> dict[str, str | None]:
    check_values(values)
    return {x: None if y is None else str(y) for x, y in values.items()}


def _lines(context: tuple[str, ...]) -> list[str]:
    for line in context:
        check_text(context=line)
    return list(context)
