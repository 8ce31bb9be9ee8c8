"""The conversation of `play`: the NPC that is addressed, and the meaning of a line."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import attrs

import trio

from glyphoxa_trio.config import Provider
from glyphoxa_trio.config.voices import Engine
from glyphoxa_trio.control import status_of
from glyphoxa_trio.control.status import plain
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.mcp import ServerState
from glyphoxa_trio.npc import (
    Npc,
    Scene,
    SceneTurn,
    TurnEvent,
)
from glyphoxa_trio.runtime import Runtime, Session
from glyphoxa_trio.runtime.looking import looked_at, looked_lines
from glyphoxa_trio.tools.naming import nearest
from glyphoxa_trio.tools.tier import Tier

from .commands import HELP, usage
from .completing import Completable
from .directing import Directing
from .prompting import use_prompt
from .render import (
    mcp_lines,
    reach_in_words,
    server_lines,
    why_lines,
)
from .screen import Screen
from .status import changes
from .tools import show_absences, show_tools
from .turn_display import TurnDisplay, addressed

# For so many seconds after the first question, questions wait for servers that start.
# A turn alone waits for less, and without the servers its question would be wasted.
_PATIENCE: Final = 5.0
# So long may writing a conversation down take after each turn. Seconds.
_KEEPING: Final = 2.0


@attrs.define(eq=False)
class PlayTable:
    """The state of `play`: the NPC that is addressed, and the last turn.

    Args:
      keep: called after each turn.
    """

    screen: Screen
    keep: Callable[[], Awaitable[None]]
    talk: TurnDisplay = attrs.field(init=False)
    _npc: Npc = attrs.field(init=False)  # whom the player talks to
    _runtime: Runtime = attrs.field(init=False)
    _session: Session = attrs.field(init=False)
    _scene: Scene = attrs.field(init=False)
    _directing: Directing = attrs.field(init=False)
    _events: list[TurnEvent] = attrs.field(factory=list, init=False)
    _override: Tier | None = attrs.field(default=None, init=False)
    _greeted: set[str] = attrs.field(factory=set, init=False)
    _patient_until: float | None = attrs.field(default=None, init=False)
    _looked_at: dict[str, str] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self.talk = TurnDisplay(self.screen)

    async def sit(self, runtime: Runtime, session: Session, path: Path) -> None:
        """Read lines and answer them until there are no more."""
        self._runtime = runtime
        self._talk_in(session)
        await self._address(runtime.npcs[0].name, greet=False)
        self._introduce(path)
        await self._greet()
        while True:
            line = await self.screen.next_line(self._npc.name)
            if line is None:
                return
            self.talk.line_came()
            if not line:
                continue
            try:
                if line in ("/quit", "/exit", "/q"):
                    return
                if self._session.ended:
                    await self._begin_again()
                await self._take(line)
            except GlyphoxaError as error:
                self.screen.refuse(str(error))

    def _talk_in(self, session: Session) -> None:
        self._session, self._scene = session, session.scene()
        self._directing = Directing(
            session.npc,
            lambda: self._runtime.npcs,
            lambda: self._runtime.config.scene.context,
            self._scene,
            self.screen,
        )

    async def _begin_again(self) -> None:
        """Go on in another session: somebody has ended this one, for example with
        ``glyphoxa memory forget``."""
        self.screen.quiet("the conversation was ended; another one begins")
        before = self._session
        self._talk_in(self._runtime.session(before.id, tenant=before.tenant or None))
        await self._address(self._npc.name, greet=False)

    def vocabulary(self) -> Completable:
        """Return the names and tools that completion knows now."""
        runtime = self._runtime
        waiting = {one.key for one in runtime.unapproved()}
        return Completable(
            npcs=tuple(npc.name for npc in runtime.npcs),
            servers=tuple(row.name for row in runtime.servers()),
            tools=tuple(sorted(runtime.host.approvals.held | waiting)),
            prompts={
                prompt.key: tuple(x.name for x in prompt.arguments)
                for prompt in runtime.prompts(self._npc.name)
            },
        )

    def _introduce(self, path: Path) -> None:
        runtime, screen = self._runtime, self.screen
        speaks = {npc.engine is Engine.S2S for npc in runtime.npcs}
        if True in speaks:
            screen.plain(f"model that speaks: {runtime.s2s_label}")
        offline = runtime.config.llm.provider is Provider.OFFLINE
        if False in speaks or not offline:
            screen.plain(f"model: {runtime.llm.label}")
        if offline and False in speaks:
            screen.quiet(
                "a real one, for example with Ollama: glyphoxa play"
                f" {path} --model ollama:llama3.2"
            )
        for npc in runtime.npcs:
            granted = ", ".join(npc.tools) or "no tools"
            model = f", {npc.model}" if npc.model and not offline else ""
            screen.quiet(f"  {npc.name} ({npc.budget_tier}{model}): {granted}")
        if screen.interactive:
            names = ", ".join(spec.name for spec in runtime.config.mcp.servers)
            if names and runtime.config.mcp.enabled:
                screen.quiet(f"  servers, starting: {names}")
            screen.quiet("/help lists what can be done")
        else:
            self._show_servers()

    async def _greet(self) -> None:
        name = self._npc.name
        has_one = bool(self._npc.config.greeting)
        if has_one and self.screen.interactive and name not in self._greeted:
            self._greeted.add(name)
            await self._listen(self._scene.greet(name), keep=False)

    async def _take(self, line: str) -> None:
        if line.startswith("@"):
            name, text = addressed([x.name for x in self._runtime.npcs], line[1:])
            await self._address(name)
            if text:
                await self._say(text, to=self._npc.name)
        elif line.split()[0] == "/prompt":
            await self._prompt(line.removeprefix("/prompt").strip())
        elif line.startswith("/"):
            await self._command(*line[1:].split())
        else:
            await self._say(line)

    async def _command(self, verb: str = "", *words: str) -> None:
        screen = self.screen
        match verb, words:
            case "whisper", (_, _, *_):
                name, text = self._directing.whose(words)
                await self._say(text, to=name, whisper=True)
            case "npc", ():
                for npc in self._runtime.npcs:
                    here = "→" if npc.name == self._npc.name else " "
                    reach = reach_in_words(self._runtime.usability(npc.name))
                    screen.plain(f"{here} {npc.name} ({npc.budget_tier}): {reach}")
            case "npc", _:
                await self._address(" ".join(words))
            case "who", ():
                await self._directing.show(self._npc)
            case "tools", ():
                await self._show_tools(None)
                show_absences(self._runtime, screen.console)
            case "tools", (tier,):
                chosen = self._tier(tier)
                if chosen is not None:
                    await self._show_tools(chosen)
            case "why", ():
                for text in why_lines(self._events) or ["nothing has been said yet"]:
                    screen.quiet(text)
            case "dm" | "tier", (tier,):
                self._override = self._tier(tier)
                if self._override is not None:
                    screen.quiet(f"the next utterance is {self._override}")
            case "elevate", (_, *_):
                await self._directing.elevate(words, self._npc)
            case "as", (_, _, *_):
                name, text = self._directing.whose(words)
                await self._listen(self._scene.speak_as(name, text))
            case "mute" | "unmute", (_, *_):
                await self._directing.mute(words, muted=verb == "mute")
            case "puppet", (_, *_):
                await self._directing.puppet(words)
            case "scene", (_, *_):
                await self._directing.tell(words)
            case "mcp", ():
                for text in mcp_lines(self._runtime.servers()):
                    screen.plain(text)
            case "mcp", (name,):
                self._show_server(name)
            case "servers", ():
                self._show_servers()
            case "approve", (name,):
                self._approve(name, yes=False)
            case "approve", (name, "yes"):
                self._approve(name, yes=True)
            case "reload", ():
                with suppress(GlyphoxaError):  # a warning says why
                    screen.quiet(changes(plain(await self._runtime.reload())))
            case "help", ():
                screen.quiet(HELP)
            case _:
                typed, known = " ".join(["/" + verb, *words]), usage(verb)
                if known:
                    screen.refuse(f"{typed} lacks a word, or has one too many:")
                    screen.quiet(known)
                else:
                    screen.refuse(f"no command like {typed}")
                    screen.quiet(HELP)

    async def _prompt(self, rest: str) -> None:
        await self._servers_started()
        npc = self._npc.name
        text = await use_prompt(self._runtime, self.screen, npc, rest)
        if text is not None:
            await self._say(text, to=npc, echo=False)

    def _approve(self, name: str, *, yes: bool) -> None:
        host = self._runtime.host
        listing = host.snapshot.find(name)
        waiting = {one.key for one in self._runtime.unapproved()}
        if listing.key not in host.approvals.held | waiting:
            self.screen.quiet(f"{listing.key} is not held back")
        elif yes:
            # The tool that was shown, not what its server may have made of it since.
            host.approve(name, seen=self._looked_at.pop(listing.key, None))
            self.screen.quiet(f"{listing.key} may be used again")
        else:
            found = looked_at(self._runtime, name)
            self._looked_at[listing.key] = found["fingerprint"]
            for text in looked_lines(found):
                self.screen.plain(text)
            self.screen.quiet(f"/approve {name} yes lets it be used as it is now")

    def _tier(self, text: str) -> Tier | None:
        try:
            return Tier.parse(text)
        except ValueError as error:
            self.screen.refuse(str(error))
            return None

    async def _address(self, name: str, *, greet: bool = True) -> None:
        self._npc = self._session.npc(name)
        await self._scene.turn_to(self._npc.name)
        if greet:
            await self._greet()

    async def _show_tools(self, tier: Tier | None) -> None:
        npc = self._npc.name
        await show_tools(self._runtime, self.screen.console, tier=tier, npc=npc)

    def _show_servers(self) -> None:
        for row in self._runtime.servers():
            why = f": {row.last_error}" if row.last_error else ""
            self.screen.plain(
                f"  {row.name} [{row.state}] {', '.join(row.tools)}{why}",
                style="dim" if row.state == "ready" else "yellow",
            )

    def _show_server(self, name: str) -> None:
        rows = {row["name"]: row for row in status_of(self._runtime)["servers"]}
        if name in rows:
            for text in server_lines(rows[name]):
                self.screen.plain(text)
            return
        near = nearest(name, rows) or tuple(rows)
        self.screen.refuse(f"no server {name!r}, there is {', '.join(near) or 'none'}")

    async def _say(
        self,
        text: str,
        *,
        to: str | None = None,
        echo: bool = True,
        whisper: bool = False,
    ) -> None:
        override, self._override = self._override, None
        if not self.screen.interactive and echo:
            self.screen.quiet(f"you> {text}")
        await self._servers_started()
        turn = self._scene.say(text, to=to, tier=override, whisper=whisper)
        await self._listen(turn)
        self._npc = self._session.npc(turn.npc)

    async def _servers_started(self) -> None:
        """Wait for servers that start, so that the first questions do not fail."""
        starting = [
            row.name
            for row in self._runtime.servers()
            if row.state is ServerState.STARTING
        ]
        now = trio.current_time()
        if self._patient_until is None:
            self._patient_until = now + _PATIENCE
        left = self._patient_until - now
        if starting and left > 0:
            self.screen.quiet(f"waiting for {', '.join(starting)}")
            await self._runtime.wait_ready(within=left)

    async def _listen(self, turn: SceneTurn, *, keep: bool = True) -> None:
        events = list[TurnEvent]()
        if keep:
            self._events = events
        try:
            await self.talk.listen(turn, events)
        finally:
            with trio.move_on_after(_KEEPING, shield=True):
                await self.keep()
