"""One scene: the actor that knows who may speak, and has everybody hear it.

An NPC is looked up by its name each time: they come and go with a reload. An utterance
is handed to its session when it has the floor, and no sooner: so a session's own queue
is empty, and a recording has what was said in the order in which it was answered.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final

import attrs

import trio

from glyphoxa_trio.actors import Inbox
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.npc.hearsay import Overheard
from glyphoxa_trio.npc.npc import Npc
from glyphoxa_trio.npc.utterance import Say

from .addressing import Addressed, Names, NobodyAddressed, NpcMuted, Why, addressed
from .floor import Floor
from .messages import (
    Bind,
    LetHear,
    Look,
    Mute,
    NotHere,
    Partial,
    SceneSettings,
    SceneStatistics,
    Tell,
    TurnTo,
    Whom,
)
from .place import Enter, Place

# An NPC takes an utterance at once or says why not. Seconds.
_PATIENCE: Final = 5.0
# Whoever plays an answer says so a little after it is over. Seconds.
_PLAYING: Final = 1.0
_PLAYERS: Final = 1000  # of whom it is remembered to whom they spoke last


@attrs.define(eq=False)
class SceneActor:
    """The actor's state; `run` is its body.

    Args:
      find: an NPC by its name, or its beginning; raises a `GlyphoxaError`.
      settings: as they are now.
    """

    find: Callable[[str], Npc]
    settings: Callable[[], SceneSettings]
    _names: Names = attrs.field(factory=lambda: Names(()), init=False)
    _floor: Floor[Place] = attrs.field(factory=lambda: Floor(1), init=False)
    _muted: set[str] = attrs.field(factory=set, init=False)
    _puppet: str | None = attrs.field(default=None, init=False)
    _last: OrderedDict[str, str] = attrs.field(factory=OrderedDict, init=False)
    _spoke: str | None = attrs.field(default=None, init=False)
    _context: tuple[str, ...] | None = attrs.field(default=None, init=False)
    _told: set[str] = attrs.field(factory=set, init=False)
    _said: int = attrs.field(default=0, init=False)
    _cut: int = attrs.field(default=0, init=False)
    _unheard: int = attrs.field(default=0, init=False)
    _nursery: trio.Nursery = attrs.field(init=False)

    async def run(self, inbox: Inbox[Any]) -> None:
        """Read the mailbox until stopped; then let what was said be answered."""
        async with trio.open_nursery() as self._nursery:
            async for call in inbox:
                with call.answering():
                    self._look_around()
                    match call.request:
                        case Enter(place):
                            self._enter(place)
                            call.reply(None)
                        case Mute(npc, muted):
                            call.reply(self._mute(self._here(npc), muted=muted))
                        case Bind(npc):
                            self._puppet = None if npc is None else self._here(npc)
                            call.reply(self._puppet)
                        case TurnTo(npc, speaker):
                            name = self._here(npc)
                            self._remember(name, speaker)
                            call.reply(name)
                        case Whom(text, speaker):
                            call.reply(self._whom(text, speaker))
                        case Partial(text, speaker):
                            await self._hear_ahead(text, speaker)
                            call.reply(None)
                        case Tell(context):
                            self._context, self._told = context, set()
                            for name in self._names.npcs:
                                await self._situate(name)
                            call.reply(None)
                        case LetHear(speaker, text, to):
                            await self._let_hear([Overheard(speaker, text, to)])
                            call.reply(None)
                        case Look():
                            call.reply(self._statistics())

    # Who is here, and who is meant.

    def _look_around(self) -> None:
        settings = self.settings()
        self._floor.most = settings.players
        npcs = tuple(settings.npcs)
        if npcs != self._names.npcs:
            self._names = Names(npcs)
            self._told.intersection_update(npcs)

    def _here(self, name: str) -> str:
        found = self.find(name).name
        if found not in self._names.npcs:
            raise NotHere(f"{found} is not in this scene")
        return found

    def _npc(self, name: str) -> Npc:
        """The one of exactly that name, who may be gone by now."""
        npc = self.find(name)
        if npc.name != name:
            raise NotHere(f"{name} is gone")
        return npc

    def _whom(self, text: str, speaker: str) -> Addressed:
        return addressed(
            text,
            self._names,
            muted=self._muted,
            puppet=self._puppet,
            last=(self._last.get(speaker), self._spoke),
        )

    def _meant(self, place: Place) -> Addressed:
        if place.to is None:
            return self._whom(place.utterance.text, place.speaker)
        name = self._here(place.to)
        # Whoever directs the scene can speak as one that says nothing of its own.
        if name in self._muted and place.own:
            raise NpcMuted(f"{name} is muted")
        return Addressed(name, Why.CHOSEN)

    def _remember(self, npc: str, speaker: str) -> None:
        self._last[speaker] = npc
        self._last.move_to_end(speaker)
        if len(self._last) > _PLAYERS:
            self._last.popitem(last=False)

    # Who speaks.

    def _enter(self, place: Place) -> None:
        place.npc = self._meant(place).npc
        interrupts = self._floor.interrupts(place)
        for earlier in self._floor.come(place):
            self._end(earlier, "the speaker went on")
        now = self._floor.speaking
        if now is None or now is place:
            place.given.set()
        else:
            if interrupts:
                self._end(now, "the speaker went on")
            elif now.own and not place.own and now.npc == place.npc:
                self._end(now, f"somebody speaks as {now.npc}")
            place.queue(self._floor.waiting.index(place) + 1)
        if place.own:
            self._remember(place.npc, place.speaker)
        self._nursery.start_soon(self._carry, place)

    def _mute(self, npc: str, *, muted: bool) -> str:
        if not muted:
            self._muted.discard(npc)
            return npc
        self._muted.add(npc)
        for place in (self._floor.speaking, *self._floor.waiting):
            if place is not None and place.npc == npc and place.own:
                self._end(place, f"{npc} is muted")
        return npc

    def _end(self, place: Place, why: str) -> None:
        """Interrupt it, or have it not begin."""
        if place.cut:
            return
        place.cut = why
        self._cut += 1
        place.scope.cancel(why)
        place.over.set()  # what is left of it is not to be played
        if place.begun:
            self._nursery.start_soon(self._interrupt, place)

    async def _interrupt(self, place: Place) -> None:
        with suppress(GlyphoxaError):  # it is gone, and says nothing more
            await self._npc(place.npc).interrupt(speaker=place.speaker)

    async def _carry(self, place: Place) -> None:
        """One utterance, until it was heard and somebody else may speak."""
        try:
            with place.scope:
                await place.given.wait()
            try:
                if not place.scope.cancel_called:
                    await self._have_it_said(place)
            except GlyphoxaError as error:
                place.end(str(error), failed=True)
            place.end(place.cut or "its listener left")
            await self._share(place)
        finally:
            place.end("the scene has ended")
            place.gone.set()
            following = self._floor.go(place)
            if following is not None:
                following.given.set()

    async def _have_it_said(self, place: Place) -> None:
        """Hand it over, and wait until it has been heard."""
        utterance = place.utterance
        utterance.waiting = self._floor.asking
        await self._situate(place.npc)
        session = self._npc(place.npc)._session
        await session.ask(Say(utterance), within=_PATIENCE)
        place.hand_over()
        self._spoke, self._said = place.npc, self._said + 1
        if place.cut:
            await self._interrupt(place)
        elif place.scope.cancel_called:  # its listener left in this moment
            utterance.interrupt("the listener left")
            utterance.stream.leave()
        await utterance.ended.wait()
        with trio.move_on_after(self.settings().listener):
            await place.told.wait()
        if place.told.is_set():
            with trio.move_on_after(utterance.exchange.unplayed + _PLAYING):
                await place.over.wait()

    # Who hears it.

    async def _share(self, place: Place) -> None:
        """Let all others know what was said, and what was heard of the answer."""
        lines: list[Overheard] = []
        to = place.speaker if place.own else ""
        if not place.utterance.scripted:
            lines.append(Overheard(to, place.utterance.text, place.npc))
        if heard := place.utterance.exchange.heard:
            lines.append(Overheard(place.npc, heard, to))
        # Whoever was meant has it in their own memory, if it came to that.
        await self._let_hear(lines, but=place.npc if place.begun else None)

    async def _let_hear(
        self, lines: Iterable[Overheard], *, but: str | None = None
    ) -> None:
        async def tell(name: str) -> None:
            for line in lines:
                try:
                    await self._npc(name).overhear(line.speaker, line.text, to=line.to)
                except GlyphoxaError:
                    self._unheard += 1

        async with trio.open_nursery() as nursery:
            for name in self._names.npcs:
                if name != but:
                    nursery.start_soon(tell, name)

    async def _situate(self, name: str) -> None:
        """Tell it what holds in the scene, unless it knows."""
        if self._context is None or name in self._told:
            return
        try:
            await self._npc(name).situate(*self._context)
        except GlyphoxaError:
            return  # it is gone; another one of that name is told before it speaks
        self._told.add(name)

    async def _hear_ahead(self, text: str, speaker: str) -> None:
        if self._floor.speaking is not None:
            return
        with suppress(NobodyAddressed):  # they have perhaps not finished
            npc = self._npc(self._whom(text, speaker).npc)
            await npc.hearing(text, speaker=speaker)

    def _statistics(self) -> SceneStatistics:
        speaking = self._floor.speaking
        return SceneStatistics(
            npcs=self._names.npcs,
            speaking=None if speaking is None else speaking.npc,
            waiting=tuple((x.speaker, x.npc) for x in self._floor.waiting),
            muted=frozenset(self._muted),
            puppet=self._puppet,
            context=self._context,
            said=self._said,
            cut=self._cut,
            unheard=self._unheard,
        )
