"""``glyphoxa play``: a conversation in the terminal."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Final

import attrs
from rich.console import Console
from rich.markup import escape

import trio

from glyphoxa_trio.config import Config, Provider
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.mcp import ServerWarning
from glyphoxa_trio.npc import (
    FanOutDone,
    FellBack,
    ModelFailed,
    Npc,
    TextDelta,
    TurnEnd,
    TurnEvent,
)
from glyphoxa_trio.runtime import Runtime, open_runtime
from glyphoxa_trio.tools.tier import Tier

from .common import INTERRUPTED, Model, end_for_sure, run
from .render import fan_out_line, on_screen, why_lines
from .terminal import Lines, interrupts
from .tools import show_absences, show_tools, wide_console

HELP: Final = """\
@Name TEXT         say TEXT to another NPC, and stay with that one
/npc [NAME]        who is here; talk to NAME from now on
/tools [TIER]      what this NPC could use in a turn of TIER, and why not the rest
/why               what the runtime decided in the last turn
/tier TIER         the DM's choice of tier for the next utterance
/elevate TIER [S]  lift this NPC's ceiling to TIER for S seconds (60)
/servers           the MCP servers and how they are
/quit              leave; so does Ctrl-C, twice"""

_PIPED_WAIT: Final = 30.0  # a script wants all its tools; a person wants to begin


def play(path: Path, model: Model) -> int:
    """Talk until the input ends or the person leaves."""

    async def main(config: Config) -> int:
        interactive = sys.stdin.isatty()
        console = wide_console()

        def warn(warning: ServerWarning) -> None:
            console.print(
                on_screen(f"! {warning.server}: {warning.text}"),
                style="yellow",
                markup=False,
            )

        if not config.npcs:
            console.print("this configuration has no NPCs to talk to", style="red")
            return 1
        table = _Table(console, interactive=interactive)
        async with interrupts(table.interrupt):
            with table.scope:
                async with open_runtime(
                    config,
                    wait_for_servers=0.0 if interactive else _PIPED_WAIT,
                    on_warning=warn,
                ) as runtime:
                    await table.sit(runtime, path)
        return INTERRUPTED if table.left_by_signal else 0

    return run(main, path, model)


@attrs.define(eq=False)
class _Table:
    """Where the players sit: who is addressed, and what was said last."""

    console: Console
    interactive: bool
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    left_by_signal: bool = attrs.field(default=False, init=False)
    _npc: Npc = attrs.field(init=False)
    _runtime: Runtime = attrs.field(init=False)
    _turn: trio.CancelScope | None = attrs.field(default=None, init=False)
    _events: list[TurnEvent] = attrs.field(factory=list, init=False)
    _override: Tier | None = attrs.field(default=None, init=False)
    _warned: bool = attrs.field(default=False, init=False)
    _greeted: set[str] = attrs.field(factory=set, init=False)

    def interrupt(self, number: int) -> None:
        """The first Ctrl-C interrupts the NPC, the second leaves, the third must."""
        if self.left_by_signal:
            end_for_sure(0.0)
        elif self._warned or number != signal.SIGINT:
            self.left_by_signal = True
            self.scope.cancel("the player left")
            end_for_sure()
        else:
            self._warned = True
            if self._turn is not None:
                self._turn.cancel("Ctrl-C")
            else:
                self.console.print("\n(Ctrl-C again to leave)", style="dim")

    async def sit(self, runtime: Runtime, path: Path) -> None:
        """Read lines and answer them until there are no more."""
        self._runtime = runtime
        self._npc = runtime.npc(runtime.npcs[0].name)
        self._introduce(path)
        lines = Lines()
        while True:
            if self.interactive:
                self.console.print(
                    f"\n[bold]you[/] to {escape(self._npc.name)}> ", end=""
                )
            line = await lines.next()
            if line is None:
                return
            self._warned = False
            if not line:
                continue
            try:
                if line in ("/quit", "/exit", "/q"):
                    return
                await self._take(line)
            except GlyphoxaError as error:
                self._refuse(str(error))

    def _introduce(self, path: Path) -> None:
        runtime, console = self._runtime, self.console
        console.print(f"[dim]model:[/] {escape(runtime.llm.label)}")
        offline = runtime.config.llm.provider is Provider.OFFLINE
        if offline:
            console.print(
                "a real one, for example with Ollama: glyphoxa play"
                f" {path} --model llama3.2 --base-url http://localhost:11434/v1",
                style="dim",
                markup=False,
                soft_wrap=True,
            )
        for npc in runtime.npcs:
            granted = ", ".join(npc.tools) or "no tools"
            model = f", {npc.model}" if npc.model and not offline else ""
            console.print(
                f"  {npc.name} ({npc.budget_tier}{model}): {granted}",
                style="dim",
                markup=False,
            )
        if self.interactive:
            names = ", ".join(spec.name for spec in runtime.config.mcp.servers)
            if names and runtime.config.mcp.enabled:
                console.print(f"  servers, starting: {names}", style="dim")
            console.print("/help lists what can be done", style="dim")
        else:
            self._show_servers()
        self._greet()

    def _greet(self) -> None:
        greeting = self._npc.config.greeting
        if greeting and self.interactive and self._npc.name not in self._greeted:
            self._greeted.add(self._npc.name)
            name = escape(self._npc.name)
            self.console.print(f"[bold cyan]{name}:[/] {escape(greeting)}")

    async def _take(self, line: str) -> None:
        if line.startswith("@"):
            name, _, text = line[1:].partition(" ")
            self._address(name.rstrip(",:"))
            if text.strip():
                await self._say(text.strip())
        elif line.startswith("/"):
            await self._command(*line[1:].split())
        else:
            await self._say(line)

    async def _command(self, verb: str = "", *words: str) -> None:
        match verb, words:
            case "npc", ():
                for npc in self._runtime.npcs:
                    here = "→" if npc.name == self._npc.name else " "
                    self.console.print(
                        f"{here} {npc.name} ({npc.budget_tier})", markup=False
                    )
            case "npc", _:
                self._address(" ".join(words))
            case "tools", ():
                await show_tools(
                    self._runtime, self.console, tier=None, npc=self._npc.name
                )
                show_absences(self._runtime, self.console)
            case "tools", (tier,):
                chosen = self._tier(tier)
                if chosen is not None:
                    await show_tools(
                        self._runtime, self.console, tier=chosen, npc=self._npc.name
                    )
            case "why", ():
                for text in why_lines(self._events) or ["nothing has been said yet"]:
                    self._quiet(text)
            case "tier", (tier,):
                self._override = self._tier(tier)
                if self._override is not None:
                    self._quiet(f"the next utterance is {self._override}")
            case "elevate", (tier,) | (tier, _):
                chosen, seconds = self._tier(tier), self._seconds(*words[1:])
                if chosen is not None and seconds is not None:
                    await self._npc.elevate(chosen, seconds=seconds)
                    self._quiet(
                        f"{self._npc.name} may go to {chosen} for {seconds:g} s"
                    )
            case "servers", ():
                self._show_servers()
            case _:
                if (verb, words) != ("help", ()):
                    self._refuse(f"no command like {' '.join(['/' + verb, *words])}")
                self._quiet(HELP)

    def _tier(self, text: str) -> Tier | None:
        try:
            return Tier.parse(text)
        except ValueError as error:
            self._refuse(str(error))
            return None

    def _seconds(self, text: str = "60") -> float | None:
        try:
            value = float(text)
        except ValueError:
            value = 0.0
        if 0 < value < float("inf"):
            return value
        self._refuse(f"{text!r} is not a number of seconds")
        return None

    def _address(self, name: str) -> None:
        self._npc = self._runtime.npc(name)
        self._greet()

    def _show_servers(self) -> None:
        for row in self._runtime.servers():
            style = "dim" if row.state == "ready" else "yellow"
            why = f": {row.last_error}" if row.last_error else ""
            self.console.print(
                on_screen(f"  {row.name} [{row.state}] {', '.join(row.tools)}{why}"),
                style=style,
                markup=False,
            )

    async def _say(self, text: str) -> None:
        override, self._override = self._override, None
        self._events.clear()
        console, npc = self.console, self._npc
        if not self.interactive:
            console.print(f"you> {text}", style="dim", markup=False)
        speaking = False

        def pause() -> None:
            nonlocal speaking
            if speaking:
                console.print()
                speaking = False

        with trio.CancelScope() as scope:
            self._turn = scope
            try:
                async with npc.say(text, tier=override) as turn:
                    async for event in turn:
                        self._events.append(event)
                        match event:
                            case TextDelta(text=piece):
                                if not speaking:
                                    name = escape(npc.name)
                                    console.print(f"[bold cyan]{name}:[/] ", end="")
                                    speaking = True
                                console.print(
                                    on_screen(piece),
                                    end="",
                                    markup=False,
                                    soft_wrap=True,
                                )
                            case FanOutDone():
                                pause()
                                self._quiet(f"· {fan_out_line(event)}")
                            case ModelFailed(kind=kind, detail=detail):
                                pause()
                                self._quiet(f"! the model failed: {kind}: {detail}")
                            case FellBack(reason=reason):
                                pause()
                                self._quiet(f"· nothing to say ({reason}), so:")
                            case _:
                                pass
            finally:
                self._turn = None
        pause()
        if scope.cancelled_caught:
            self._quiet(f"({TurnEnd.INTERRUPTED}; Ctrl-C again to leave)")

    def _quiet(self, text: str) -> None:
        self.console.print(on_screen(text), style="dim", markup=False, soft_wrap=True)

    def _refuse(self, text: str) -> None:
        self.console.print(on_screen(text), style="red", markup=False, soft_wrap=True)
