"""``glyphoxa play --cluster``: a conversation with NPCs that workers have."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import attrs

from glyphoxa_trio.actors.interrupts import interrupts
from glyphoxa_trio.cluster import RemoteRuntime
from glyphoxa_trio.cluster.remote_session import RemoteNpc, RemoteScene, RemoteSession
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.npc import Turn, TurnEnd, TurnEvent
from glyphoxa_trio.runtime.session_registry import full_name
from glyphoxa_trio.tools.tier import Tier

from .cluster_runs import remote
from .commands import help_from_afar, usage
from .common import INTERRUPTED, run_orderly
from .completing import Completable
from .console import wide_console
from .directing import Directing
from .render import why_lines
from .screen import Screen
from .terminal import can_edit
from .turn_display import TurnDisplay, addressed


def play_in_cluster(
    nats: str, npcs: Sequence[str], *, deployment: str, tenant: str, session: str
) -> int:
    """Talk in a session of a deployment; return the exit status."""

    async def main() -> int:
        table = ClusterTable(opened_screen(), npcs)
        async with interrupts(table.talk.interrupt):
            with table.talk.scope:
                async with remote(nats, deployment, tenant) as runtime:
                    await table.sit(runtime, session)
        return INTERRUPTED if table.talk.left_by_signal else 0

    return run_orderly(main)


def opened_screen() -> Screen:
    """Return the screen of this terminal, or of a pipe."""
    return Screen(wide_console(), sys.stdin.isatty())


@attrs.frozen
class _SeenNpc:
    name: str
    budget_tier: Tier


@attrs.define(eq=False)
class ClusterTable:
    """The state of the conversation.

    Args:
      wanted: the NPCs to talk to, by the beginnings of their names; none is all.
    """

    screen: Screen
    wanted: Sequence[str] = ()
    talk: TurnDisplay = attrs.field(init=False)
    _runtime: RemoteRuntime = attrs.field(init=False)
    _session: RemoteSession[Turn] = attrs.field(init=False)
    _scene: RemoteScene[Turn] = attrs.field(init=False)
    _directing: Directing = attrs.field(init=False)
    _npcs: tuple[_SeenNpc, ...] = attrs.field(default=(), init=False)
    _npc: str = attrs.field(default="", init=False)  # whom the player talks to
    _events: list[TurnEvent] = attrs.field(factory=list, init=False)
    _override: Tier | None = attrs.field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self.talk = TurnDisplay(self.screen)
        if can_edit():
            from .editing import EditedLines  # loads prompt_toolkit
            from .history import InMemoryHistory

            self.screen.edit(EditedLines(InMemoryHistory(), self._vocabulary))

    async def sit(self, runtime: RemoteRuntime, session: str) -> None:
        """Read lines and answer them until there are no more.

        Raises:
          ClusterRefused: there is no worker, or none has room.
          UnknownNpc: a wanted NPC is not there.
        """
        self._runtime, self._session = runtime, runtime.session(session)
        there = await self._session.npcs()
        if not there:
            self.screen.refuse("the workers have no NPCs to talk to")
            return
        names = [full_name([*there], x) for x in self.wanted] or [*there]
        self._npcs = tuple(_SeenNpc(x, there[x]) for x in names)
        self._scene = self._session.scene(*(names if self.wanted else ()))
        self._directing = Directing(
            self._find, lambda: self._npcs, tuple, self._scene, self.screen
        )
        await self._address(names[0])
        for npc in self._npcs:
            self.screen.quiet(f"  {npc.name} ({npc.budget_tier})")
        if self.screen.interactive:
            self.screen.quiet("/help lists what can be done")
            await self._listen(self._scene.greet(self._npc, events="all"))
        while (line := await self.screen.next_line(self._npc)) is not None:
            self.talk.line_came()
            if line in ("/quit", "/exit", "/q"):
                return
            if not line:
                continue
            try:
                await self._take(line)
            except GlyphoxaError as error:
                self.screen.refuse(str(error))

    def _vocabulary(self) -> Completable:
        return Completable(npcs=tuple(x.name for x in self._npcs))

    def _find(self, name: str) -> RemoteNpc[Turn]:
        return self._session.npc(full_name([x.name for x in self._npcs], name))

    async def _address(self, name: str) -> None:
        self._npc = self._find(name).name
        await self._scene.turn_to(self._npc)

    async def _take(self, line: str) -> None:
        if line.startswith("@"):
            name, text = addressed([x.name for x in self._npcs], line[1:])
            await self._address(name)
            if text:
                await self._say(text, to=self._npc)
        elif line.startswith("/"):
            await self._command(*line[1:].split())
        else:
            await self._say(line)

    async def _command(self, verb: str = "", *words: str) -> None:
        screen = self.screen
        match verb, words:
            case "npc", ():
                for npc in self._npcs:
                    here = "→" if npc.name == self._npc else " "
                    screen.plain(f"{here} {npc.name} ({npc.budget_tier})")
            case "npc", _:
                await self._address(" ".join(words))
            case "who", ():
                await self._directing.show(self._session.npc(self._npc))
            case "why", ():
                for text in why_lines(self._events) or ["nothing has been said yet"]:
                    screen.quiet(text)
            case "dm" | "tier", (tier,):
                self._choose(tier)
            case "elevate", (_, *_):
                await self._directing.elevate(words, self._session.npc(self._npc))
            case "as", (_, _, *_):
                name, text = self._directing.whose(words)
                await self._listen(self._scene.speak_as(name, text, events="all"))
            case "whisper", (_, _, *_):
                name, text = self._directing.whose(words)
                await self._say(text, to=name, whisper=True)
            case "mute" | "unmute", (_, *_):
                await self._directing.mute(words, muted=verb == "mute")
            case "puppet", (_, *_):
                await self._directing.puppet(words)
            case "scene", (_, *_):
                await self._directing.tell(words)
            case "where", ():
                await self._show_where()
            case "help", ():
                screen.quiet(help_from_afar())
            case _:
                self._refuse(verb, words)

    def _refuse(self, verb: str, words: Sequence[str]) -> None:
        known = usage(verb)
        if known and known not in help_from_afar():
            self.screen.refuse(f"/{verb} needs the process that has the NPCs")
        elif known:
            typed = " ".join(["/" + verb, *words])
            self.screen.refuse(f"{typed} lacks a word, or has one too many:")
            self.screen.quiet(known)
        else:
            self.screen.refuse(f"no command like /{verb}")
            self.screen.quiet(help_from_afar())

    def _choose(self, tier: str) -> None:
        try:
            self._override = Tier.parse(tier)
        except ValueError as error:
            self.screen.refuse(str(error))
        else:
            self.screen.quiet(f"the next utterance is {self._override}")

    async def _show_where(self) -> None:
        session, places = self._session, {x.worker: x for x in self._runtime.workers}
        answers = await self._runtime.sessions(session.id, tenant=session.tenant)
        found = [(y.epoch, x.worker) for x in answers for y in x.sessions]
        if not found:
            self.screen.quiet("no worker has this session now")
            return
        epoch, worker = max(found)
        place = f" ({places[worker].where})" if worker in places else ""
        self.screen.quiet(f"the worker {worker}{place}, epoch {epoch}")

    async def _say(
        self, text: str, *, to: str | None = None, whisper: bool = False
    ) -> None:
        override, self._override = self._override, None
        if not self.screen.interactive:
            self.screen.quiet(f"you> {text}")
        turn = self._scene.say(
            text, to=to, tier=override, whisper=whisper, events="all"
        )
        await self._listen(turn)
        if turn.done is not None:
            self._npc = turn.done.npc or self._npc

    async def _listen(self, turn: Turn) -> None:
        self._events = events = list[TurnEvent]()
        await self.talk.listen(turn, events)
        done = turn.done
        if done is not None and done.end in (TurnEnd.LOST, TurnEnd.FAILED):
            why = f": {done.error}" if done.error else ""
            self.screen.refuse(f"the turn is {done.end}{why}")
