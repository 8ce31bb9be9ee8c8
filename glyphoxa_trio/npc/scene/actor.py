"""The actor of one scene: it decides who may speak, and tells the others what was said.

An utterance is handed to its NPC's session only when it is its turn. So the session's
own queue stays empty, and a recording contains the utterances in the order of their
answers. A model that hears a microphone itself has begun earlier; what it says waits
for its turn.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final

import attrs

import trio

from glyphoxa_trio.actors import Handover, Inbox
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.npc.overheard import Overheard
from glyphoxa_trio.npc.session.messages import Say
from glyphoxa_trio.npc.turn_queue import TurnQueue

from .addressing import NobodyAddressed, NpcMuted
from .addressing_state import AddressingState
from .members import SceneMembers
from .messages import (
    Bind,
    Enter,
    Follow,
    LetHear,
    Look,
    Mute,
    PartialUtterance,
    SceneFull,
    SceneMessages,
    SceneSettings,
    SceneStatistics,
    Silence,
    Tell,
    TurnTo,
    Whom,
)
from .queued_utterance import QueuedUtterance

# An NPC accepts an utterance at once or refuses it. Seconds.
_PATIENCE: Final = 5.0
# A listener that plays an answer reports its end a little after it. Seconds.
_PLAYING: Final = 1.0
# A transcript may come later than the answer. Seconds.
_UNDERSTANDING: Final = 1.0


@attrs.define(eq=False)
class SceneActor:
    """The actor's state; `run` is its body.

    Args:
      company: the NPCs of the scene.
      settings: returns the current settings.
      attention: which NPCs are muted, played by the DM, or spoken to.
      handover: passes listeners and utterances to the actor.
      changed: called when something changed that a restart of the program must not
        lose: who is muted, who was spoken to, the facts of the scene.
    """

    company: SceneMembers
    settings: Callable[[], SceneSettings]
    _attention: AddressingState
    _handover: Handover
    _changed: Callable[[], None] = lambda: None
    _queue: TurnQueue[QueuedUtterance] = attrs.field(
        factory=lambda: TurnQueue(1, SceneFull.of), init=False
    )
    _said: int = attrs.field(default=0, init=False)
    _cut: int = attrs.field(default=0, init=False)
    _nursery: trio.Nursery = attrs.field(init=False)

    async def run(self, inbox: Inbox[SceneMessages]) -> None:
        """Read the mailbox until it is closed; then finish the accepted utterances."""
        company, attention = self.company, self._attention
        async with trio.open_nursery() as self._nursery:
            attention.lives(lambda: not self._nursery.child_tasks)
            async for call in inbox:
                settings = self.settings()
                self._queue.allow(settings.players)
                company.become(settings.npcs)
                if isinstance(call.request, Follow):  # answered when there is a change
                    attention.follow(call, call.request)
                    attention.tell(company.names)
                    continue
                with call.answering():
                    match call.request:
                        case Enter(place=name):
                            if place := self._handover.take(name, QueuedUtterance):
                                self._enter(place)
                            call.reply(None)
                        case Mute(npc, muted):
                            call.reply(self._mute(company.here(npc), muted=muted))
                            self._changed()
                        case Bind(npc):
                            bound = None if npc is None else company.here(npc)
                            attention.puppet = bound
                            self._changed()
                            call.reply(bound)
                        case TurnTo(npc, speaker):
                            name = company.here(npc)
                            attention.remember(name, speaker)
                            self._changed()
                            call.reply(name)
                        case Whom(text, speaker):
                            call.reply(attention.whom(text, speaker, company.names))
                        case PartialUtterance(text, speaker):
                            await self._hear_ahead(text, speaker)
                            call.reply(None)
                        case Silence(speaker):
                            call.reply(self._silence(speaker))
                        case Tell(context):
                            await company.tell(context)
                            self._changed()
                            call.reply(None)
                        case LetHear(speaker, text, to):
                            line = Overheard(speaker, text, to)
                            await company.let_hear([line], logged=False)
                            call.reply(None)
                        case Look():
                            call.reply(self._statistics())
                attention.tell(company.names)

    # The order of utterances.

    def _enter(self, place: QueuedUtterance) -> None:
        place.id = self.settings().session.npc(self._meant(place))
        if not place.said.whisper:
            place.listener.present = self.company.names.npcs
        interrupts = self._queue.interrupts(place)
        for earlier in self._queue.come(place):
            self._end(earlier, "the speaker went on")
        now = self._queue.running
        if now is None or now is place:
            place.given.set()
        else:
            if interrupts:
                # A model that has heard its player interrupt has stopped by itself.
                by_itself = place.said.spoken and now.npc == place.npc
                self._end(now, "the speaker went on", told=by_itself)
            elif now.own and not place.own and now.npc == place.npc:
                self._end(now, f"the DM speaks as {now.npc}")
            place.queue(self._queue.waiting.index(place) + 1)
        if place.own:
            self._attention.remember(place.npc, place.speaker)
            self._changed()
        self._nursery.start_soon(self._carry, place)

    def _meant(self, place: QueuedUtterance) -> str:
        if place.said.to is None:
            text, names = place.said.text, self.company.names
            return self._attention.whom(text, place.speaker, names).npc
        name = self.company.here(place.said.to)
        # The DM can speak as a muted NPC.
        if name in self._attention.muted and place.own:
            raise NpcMuted(f"{name} is muted")
        return name

    def _mute(self, npc: str, *, muted: bool) -> str:
        if not muted:
            self._attention.muted.discard(npc)
            return npc
        self._attention.muted.add(npc)
        for place in (self._queue.running, *self._queue.waiting):
            if place is not None and place.npc == npc and place.own:
                self._end(place, f"{npc} is muted")
        return npc

    def _silence(self, speaker: str | None) -> bool:
        now = self._queue.running
        if now is None or (speaker is not None and speaker != now.speaker):
            return False
        if speaker is not None and not now.own:
            return False  # these are the DM's words, and no answer
        self._end(now, "interrupted")
        return True

    def _end(self, place: QueuedUtterance, why: str, *, told: bool = False) -> None:
        """Interrupt an utterance or prevent its turn. ``told``: its NPC knows."""
        if not place.end_because(why):
            return
        self._cut += 1
        if not told:  # even if the NPC has left the scene: it must end its turn
            place.listener.stream.cancel(why)

    async def _carry(self, place: QueuedUtterance) -> None:
        """Run one utterance until it was heard and the next one may begin."""
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
            following = self._queue.go(place)
            if following is not None:
                following.given.set()

    async def _have_it_said(self, place: QueuedUtterance) -> None:
        """Hand the utterance over, and wait until the answer has been heard."""
        listener = place.listener
        if not place.said.spoken:
            await self._say(place)
        place.hand_over()
        self._said += 1
        self._attention.spoke = place.npc
        self._changed()
        self._attention.tell(self.company.names)
        if place.scope.cancel_called and not place.cut:  # its listener has just left
            listener.stream.leave()
        await listener.ended.wait()
        with trio.move_on_after(self.settings().listener):
            await place.told.wait()
        if place.told.is_set():
            with trio.move_on_after(listener.unplayed + _PLAYING):
                await place.over.wait()

    async def _say(self, place: QueuedUtterance) -> None:
        said, asking = place.said, self._queue.asking
        await self.company.set_scene(place.npc)
        session = self.company.npc(place.npc)._door
        with self._handover.offered(place.listener) as name:
            request = Say(
                said.text,
                said.speaker,
                said.tier,
                script=said.script,
                greets=said.greets,
                waiting=asking,
                listener=name,
                id=said.id,
            )
            await session.ask(request, within=_PATIENCE)

    # What the others hear.

    async def _share(self, place: QueuedUtterance) -> None:
        """Tell all others what was said, and what was heard of the answer."""
        said, listener = place.said, place.listener
        if said.whisper:
            return
        heard = listener.interaction
        if said.spoken and heard is not None and not heard.understood:
            with trio.move_on_after(_UNDERSTANDING):
                await heard.wait_understood()
        lines: list[Overheard] = []
        to = place.speaker if place.own else ""
        if (text := listener.text or said.text) and place.own and not said.greets:
            lines.append(Overheard(to, text, place.npc))
        if words := listener.heard:
            lines.append(Overheard(place.npc, words, to))
        # The addressed NPC has it in its own memory, if its turn began.
        but = place.npc if place.begun or said.spoken else None
        await self.company.let_hear(lines, but=but)

    async def _hear_ahead(self, text: str, speaker: str) -> None:
        if self._queue.running is not None:
            return
        with suppress(NobodyAddressed):  # the player has perhaps not finished
            meant = self._attention.whom(text, speaker, self.company.names)
            await self.company.npc(meant.npc).hearing(text, speaker=speaker)

    def _statistics(self) -> SceneStatistics:
        speaking = self._queue.running
        return SceneStatistics(
            npcs=self.company.names.npcs,
            speaking=None if speaking is None else speaking.npc,
            waiting=tuple((x.speaker, x.npc) for x in self._queue.waiting),
            muted=frozenset(self._attention.muted),
            puppet=self._attention.puppet,
            context=self.company.context,
            said=self._said,
            cut=self._cut,
            unheard=self.company.unheard,
        )
