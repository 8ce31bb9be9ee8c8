"""The requests of one client of the gateway, carried out with the NPCs.

They are carried out one after the other; utterances and the microphone run beside them,
each with a `Delivery` of its events. Whatever fails is an answer.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from math import inf
from typing import Any, TypeAlias, TypeVar

import attrs
from pydantic import BaseModel

import trio

from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.npc import SceneStatistics, Voice
from glyphoxa_trio.tools.tier import Tier
from glyphoxa_trio.units import seconds

from . import protocol as p
from .approval_desk import TurnWatch
from .backend import NpcBackend, ServedNpc, ServedScene, ServedSession, Utterance
from .delivery import Delivery, as_it_is
from .limits import ServiceLimits
from .outbox import Outbox
from .player_view import for_player
from .refusal import Refused, code_of
from .rights import Right, ServiceClient
from .utterances import Utterances

logger = logging.getLogger(__name__)

Lasting: TypeAlias = "Utterance | p.ListenRequest | p.WatchRequest"


def check_right(client: ServiceClient, request: p.Request) -> None:
    """Refuse a request that this client has no right to.

    Raises:
      Refused: with the right that it lacks.
    """
    session = getattr(request, "session", None)
    if client.may(request.right, session):
        return
    if client.may(request.right):
        raise Refused("forbidden", "this token is for another session")
    raise Refused("forbidden", f"{request.type} needs the right to {request.right}")


Spoken = TypeVar("Spoken", bound=BaseModel)


def spoken_by(client: ServiceClient, request: Spoken) -> Spoken:
    """Return a request with the name under which this client speaks.

    The clients of `clients/` say "player", the default, where no name was given.

    Raises:
      Refused: it has another one.
    """
    field = type(request).model_fields.get("speaker")
    if client.speaker is None or field is None:
        return request
    if request.speaker not in (field.default, client.speaker):  # type: ignore[attr-defined]
        raise Refused("forbidden", f"this token speaks as {client.speaker} alone")
    return request.model_copy(update={"speaker": client.speaker})


@attrs.define(eq=False)
class _Running:
    """An utterance or a microphone of the client, while its events are delivered."""

    delivery: Delivery
    played: Callable[[float], None]
    voice: Voice | None = None
    # None until it is accepted.
    _leave: Callable[[], None] | None = attrs.field(default=None, init=False)
    _left: bool = attrs.field(default=False, init=False)

    def leave(self) -> None:
        """End it, at once or as soon as that is possible."""
        self._left = True
        if self._leave is not None:
            self._leave()

    def leave_by(self, leave: Callable[[], None]) -> None:
        """End it that way, from now on."""
        self._leave = leave
        if self._left:
            leave()


@attrs.define(eq=False)
class ClientRequests:
    """The requests of one client.

    Args:
      watched: what a client may watch; None for nothing.
      nursery: where utterances run.
      overflow: called when more events wait for the client than may.
    """

    _backend: NpcBackend
    _client: ServiceClient
    _outbox: Outbox
    _limits: ServiceLimits
    _utterances: Utterances
    _watched: TurnWatch | None
    _nursery: trio.Nursery
    _overflow: Callable[[], None]
    _running: dict[str, _Running] = attrs.field(factory=dict, init=False)

    async def carry_out(self, request: p.Request) -> None:
        """Carry out a request, and answer it. Raises nothing on purpose."""
        await self._guarded(
            getattr(request, "id", None), partial(self._carry_out, request)
        )

    def hear(self, pcm: bytes) -> None:
        """Take audio for the microphone that is open.

        Raises:
          InvalidRequest: none is.
        """
        for running in self._running.values():
            if running.voice is not None:
                running.voice.hear(pcm[: len(pcm) & ~1])
                return
        raise p.InvalidRequest("audio, but no microphone is open: send listen first")

    async def _carry_out(self, request: p.Request) -> None:
        check_right(self._client, request)
        request = spoken_by(self._client, request)
        match request:
            case p.SayRequest() | p.GreetRequest() | p.SpeakAsRequest():
                self._begin(request, self._answer)
            case p.ListenRequest():
                self._begin(request, self._listen)
            case p.MediaRequest():
                media = await self._backend.media(request, self._client.speaker)
                self._done(request.id, media)
            case p.AckRequest():
                self._acknowledge(request)
            case p.LeaveRequest():
                if (running := self._running.get(request.id)) is not None:
                    running.leave()
            case p.PingRequest():
                self._outbox.put(p.PongReply(id=request.id))
            case p.JoinRequest():
                await self._join(request)
            case p.HearingRequest():
                await self._to(request).hearing(request.text, speaker=request.speaker)
                self._done(request.id)
            case p.TurnToRequest():
                scene = self._session(request.session).scene(*request.scene)
                await scene.turn_to(request.npc, speaker=request.speaker)
                self._done(request.id)
            case p.InterruptRequest():
                self._done(request.id, await self._interrupt(request))
            case p.ApproveRequest():
                npc = self._session(request.session).npc(request.npc)
                open_yet = await npc.approve(request.question, request.yes)
                self._done(request.id, open_yet)
            case p.WatchRequest():
                self._begin(request, self._watch)
            case p.ElevateRequest():
                npc = self._session(request.session).npc(request.npc)
                tier = Tier.parse(request.tier)
                await npc.elevate(tier, seconds=request.seconds)
                self._done(request.id)
            case p.MuteRequest():
                scene = self._session(request.session).scene(*request.scene)
                change = scene.mute if request.muted else scene.unmute
                await change(request.npc)
                self._done(request.id)
            case p.PuppetRequest():
                scene = self._session(request.session).scene(*request.scene)
                await scene.puppet(request.npc)
                self._done(request.id)
            case p.LookRequest():
                scene = self._session(request.session).scene(*request.scene)
                self._done(request.id, _look_of(await scene.look()))
            case p.OverhearRequest():
                to = self._to(request)
                await to.overhear(request.speaker, request.text, to=request.to)
                self._done(request.id)
            case p.SetSceneRequest():
                session = self._session(request.session)
                if request.npc is not None:
                    await session.npc(request.npc).set_scene(*request.context)
                else:
                    await session.scene(*request.scene).tell(*request.context)
                self._done(request.id)
            case p.LearnRequest():
                self._done(request.id, await self._backend.learn(request))
            case p.EndRequest():
                await self._session(request.session).end()
                self._done(request.id)

    def _session(self, name: str) -> ServedSession:
        return self._backend.session(name)

    def _to(self, request: p.AddressedRequest) -> ServedNpc | ServedScene:
        session = self._session(request.session)
        if request.npc is not None:
            return session.npc(request.npc)
        return session.scene(*request.scene)

    async def _interrupt(self, request: p.InterruptRequest) -> bool:
        """End what runs; return False if nothing did."""
        if request.npc is None and not request.scene:  # all that the session has
            return await self._session(request.session).interrupt()
        return await self._to(request).interrupt()

    async def _join(self, request: p.JoinRequest) -> None:
        chosen = request.campaign or request.players or request.variables
        if self._client.session is not None and chosen:
            why = "a player cannot set the campaign, players or variables of a session"
            raise Refused("forbidden", why)
        npcs = await self._backend.join(request)
        joined = p.JoinedReply(id=request.id, session=request.session, npcs=npcs)
        self._outbox.put(joined)

    # -- what runs beside the requests

    def _begin(
        self,
        request: Lasting,
        task: Callable[[Any], Awaitable[None]],
    ) -> None:
        if request.id in self._running:
            raise Refused("bad_message", f"id: {request.id!r} is in use")
        if len(self._running) >= self._limits.turns:
            why = f"{self._limits.turns} utterances of this client run already"
            raise Refused("too_many", why)
        over = self._utterances.begin()
        if isinstance(request, p.ListenRequest | p.WatchRequest):
            over()  # it is no utterance to wait for when the service stops
            over = _nothing
        delivery = Delivery(
            request.id,
            self._outbox,
            overflow=self._overflow,
            voiced=not isinstance(request, p.SayRequest) or request.voiced,
            view=as_it_is if self._client.may(Right.READ) else for_player,
        )
        self._running[request.id] = _Running(delivery, _nothing)
        self._nursery.start_soon(self._run, request, task, over)

    async def _run(
        self,
        request: Lasting,
        task: Callable[[Any], Awaitable[None]],
        over: Callable[[], None],
    ) -> None:
        try:
            await self._guarded(request.id, partial(task, request))
        finally:
            del self._running[request.id]
            over()

    async def _answer(self, request: Utterance) -> None:
        """Deliver the answer to an utterance, until all of it has arrived."""
        running = self._running[request.id]
        delivery = running.delivery
        async with self._backend.turn(request) as turn:
            turn.acknowledge()
            delivery.tell(turn.acknowledge)
            running.played = turn.played
            running.leave_by(partial(turn.interrupt, "the player interrupted"))
            self._outbox.put(p.AcceptedReply(id=request.id), urgent=False)
            with trio.move_on_after(_time_of(request)) as patience:
                async for event in turn:
                    delivery.take(event)
            if patience.cancelled_caught:
                turn.interrupt("the time of its caller is over")
                async for event in turn:
                    delivery.take(event)
            await delivery.wait_arrived(
                self._limits.ack_within, lambda: turn.unplayed > 0
            )

    async def _listen(self, request: p.ListenRequest) -> None:
        """Hear the client's microphone, and deliver the events of its turns."""
        if any(x.voice is not None for x in self._running.values()):
            raise Refused("too_many", "a microphone of this connection is open already")
        running = self._running[request.id]
        opened = self._backend.voice(request)
        scope = trio.CancelScope()
        running.leave_by(partial(scope.cancel, "the microphone is closed"))
        with scope:
            async with opened as voice:
                running.voice, running.played = voice, voice.played
                voice.played(0)  # from now on, only what the client played counts
                self._outbox.put(p.AcceptedReply(id=request.id))
                async for event in voice:
                    running.delivery.take(event)
        self._done(request.id)

    async def _watch(self, request: p.WatchRequest) -> None:
        """Show the client all turns, until it leaves."""
        if self._watched is None:
            raise Refused("refused", "turns are not watched here")
        scope = trio.CancelScope()
        leave = partial(scope.cancel, "the client watches no more")
        self._running[request.id].leave_by(leave)
        with scope:
            await self._watched.show(
                lambda event: self._outbox.put_event(
                    {"id": request.id, **event}, urgent=False
                ),
                lambda: self._outbox.put(p.AcceptedReply(id=request.id)),
                session=request.session,
                deltas=request.deltas,
                directs=self._client.may(Right.DIRECT),
            )
        self._done(request.id)

    def _acknowledge(self, ack: p.AckRequest) -> None:
        running = self._running.get(ack.id)
        if running is None:
            return  # it is over; nothing is lost by this
        # A client whose playback was flushed counts from 0 once it knows.
        counts = running.voice is None or running.delivery.knows_flush(ack.n)
        if counts and ack.played_ms is not None:
            running.played(ack.played_ms)
        running.delivery.ack(ack.n)

    # -- answers

    def _done(
        self,
        id: str | None,  # noqa: A002
        result: bool | dict[str, Any] | None = None,
    ) -> None:
        if id is not None:  # otherwise nobody waits for it
            self._outbox.put(p.DoneReply(id=id, result=result))

    async def _guarded(
        self,
        id: str | None,  # noqa: A002
        work: Callable[[], Awaitable[None]],
    ) -> None:
        try:
            await work()
        except (Refused, GlyphoxaError, ValueError) as error:
            why = str(error) or type(error).__name__
            self._outbox.put(p.FailedReply(id=id, code=code_of(error), message=why))
        except Exception:  # border: an error must not end what else the client does
            logger.exception("a request of a client failed")
            why = "an error of the service; its log has it"
            self._outbox.put(p.FailedReply(id=id, code="failed", message=why))


def _look_of(scene: SceneStatistics) -> dict[str, Any]:
    return {
        "npcs": list(scene.npcs),
        "speaking": scene.speaking,
        "muted": sorted(scene.muted),
        "puppet": scene.puppet,
        "context": None if scene.context is None else list(scene.context),
    }


def _time_of(request: Utterance) -> float:
    """Return how many seconds the caller has for the answer."""
    if isinstance(request, p.SayRequest) and request.remaining_ms is not None:
        return seconds(request.remaining_ms)
    return inf


def _nothing(*_: object) -> None:
    """Do nothing: the utterance was not accepted yet."""
