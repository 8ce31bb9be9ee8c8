"""A spoken conversation on the screen: words, levels, latencies; or lines of JSON."""

from __future__ import annotations

import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from math import inf
from typing import Any, Final

import attrs
from rich.console import Console
from rich.live import Live
from rich.text import Text

from glyphoxa_trio.mcp import ServerWarning
from glyphoxa_trio.npc import (
    FanOutDone,
    FellBack,
    Filler,
    Flush,
    ModelFailed,
    ModelSwitched,
    Sentence,
    TextDelta,
    Transcript,
    TurnDone,
    TurnEnd,
    TurnEvent,
)
from glyphoxa_trio.npc.event_json import plain_event
from glyphoxa_trio.npc.events import HearingFailed, SpeechFailed
from glyphoxa_trio.units import in_ms, milliseconds

from .console import say, say_json
from .render import fan_out_line, on_screen
from .talk_latency import PARTS, TurnLatency

_COLOURS: Final = dict(
    zip(PARTS, ("blue", "cyan", "magenta", "yellow", "green"), strict=True)
)
_BAR: Final = 40  # columns of a latency
_LEVEL: Final = 20  # columns of the microphone
_QUIETEST: Final = 60  # dB below the loudest


def latency_line(latency: TurnLatency, columns: int = _BAR) -> Text:
    """Return the picture of a latency: a bar with a piece for each part, and what each
    took."""
    text = Text(f"  {in_ms(latency.total):>8} ", style="dim")
    ends, at = 0.0, 0
    for name, seconds in latency.parts:
        ends += seconds
        until = round(columns * ends / latency.total) if latency.total else 0
        text.append("█" * (until - at), style=_COLOURS[name])
        at = max(at, until)
    for name, seconds in latency.parts:
        text.append(f" {name} {in_ms(seconds)}", style=_COLOURS[name])
    return text


def level_bar(decibels: float, columns: int = _LEVEL) -> str:
    """Return a bar for a loudness in dB below the loudest."""
    share = 0.0 if decibels == -inf else 1 + max(decibels, -_QUIETEST) / _QUIETEST
    full = round(columns * share)
    return "▮" * full + "▯" * (columns - full)


@attrs.define(eq=False)
class TalkScreen:
    """The conversation for people: lines, and below them the state, on a terminal."""

    console: Console
    _live: Live | None = attrs.field(default=None, init=False)
    _partial: str = attrs.field(default="", init=False)
    _npc: str = attrs.field(default="the NPC", init=False)

    @contextmanager
    def shown(self) -> Generator[None]:
        """Show the state until the block is left."""
        if not self.console.is_terminal:
            yield
            return
        with Live(
            console=self.console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        ) as self._live:
            yield
        self._live = None

    def event(self, event: TurnEvent) -> None:
        """Show what happens, if people want to know it."""
        match event:
            case Transcript(text=text, final=False):
                self._partial = text
            case Transcript(speaker=speaker, text=text):
                self._partial = ""
                self._said(speaker, text, "bold green")
            case Sentence(npc=npc, text=text):
                self._npc = npc
                self._said(npc, text, "bold cyan")
            case Filler(text=text):
                self.note(f"… {text}")
            case FanOutDone():
                self.note(f"· {fan_out_line(event)}")
            case ModelFailed(kind=kind, detail=detail):
                self.note(f"! the model failed: {kind}: {detail}", "yellow")
            case ModelSwitched(model=model, reason=reason):
                self.note(f"· {model} answers: {reason}")
            case FellBack(reason=reason):
                self.note(f"· nothing to say ({reason}), so:")
            case HearingFailed(detail=detail):
                self.note(f"! not understood: {detail}", "yellow")
            case SpeechFailed(detail=detail):
                self.note(f"! not spoken: {detail}", "yellow")
            case Flush(reason=reason):
                self.note(f"({TurnEnd.INTERRUPTED}: {reason})")
            case TurnDone(end=TurnEnd.FAILED, error=error):
                self.note(f"! the turn failed: {error}", "yellow")
            case _:
                pass

    def latency(self, latency: TurnLatency) -> None:
        """Show how long the player has waited."""
        self.console.print(latency_line(latency), soft_wrap=True)

    def state(self, loudness: float, what: str) -> None:
        """Show the level of the microphone, what the NPC does, and words that are not
        final."""
        if self._live is not None:
            words = on_screen(f"  {self._npc} {what}  {self._partial}")
            line = Text(level_bar(loudness), style="green").append(words, style="dim")
            line.truncate(self.console.width - 1, overflow="ellipsis")
            self._live.update(line, refresh=True)

    def note(self, text: str, style: str = "dim") -> None:
        """Show a line beside the talk."""
        say(self.console, text, style)

    def warn(self, warning: ServerWarning) -> None:
        """Show a warning of a server."""
        self.note(f"! {warning.server}: {warning.text}", "yellow")

    def counts(self, overflows: int, underflows: int, gaps: int) -> None:
        """Show at the end what went wrong with the devices, if anything did."""
        for count, what in (
            (overflows, "times was audio of the microphone lost"),
            (underflows, "times did the loudspeaker get its audio too late"),
            (gaps, "silences in the middle of an answer"),
        ):
            if count:
                self.note(f"{count} {what}")

    def _said(self, who: str, text: str, style: str) -> None:
        line = Text(f"{on_screen(who)}: ", style=style).append(
            on_screen(text), "default"
        )
        self.console.print(line, soft_wrap=not self.console.is_terminal)


@attrs.define(eq=False)
class TalkLines:
    """The conversation for programs: a line of JSON for each event but audio."""

    @contextmanager
    def shown(self) -> Generator[None]:
        """Show nothing."""
        yield

    def event(self, event: TurnEvent) -> None:
        """Write an event. Pieces of text are left out: the sentences have them."""
        if not isinstance(event, TextDelta):
            self._write(plain_event(event))

    def latency(self, latency: TurnLatency) -> None:
        """Write how long the player has waited, and for what."""
        parts = {f"{name}_ms": milliseconds(value) for name, value in latency.parts}
        self._say(
            "TurnLatency",
            npc=latency.npc,
            turn=latency.turn,
            **parts,
            total_ms=milliseconds(latency.total),
        )

    def state(self, loudness: float, what: str) -> None:
        """Write nothing: it changes ten times a second."""

    def note(self, text: str, style: str = "dim") -> None:
        """Write a line beside the talk."""
        self._say("Note", text=text)

    def warn(self, warning: ServerWarning) -> None:
        """Write a warning of a server."""
        self._say("Warning", server=warning.server, text=warning.text)

    def counts(self, overflows: int, underflows: int, gaps: int) -> None:
        """Write what went wrong with the devices."""
        self._say("Devices", overflows=overflows, underflows=underflows, gaps=gaps)

    def _say(self, event: str, **fields: object) -> None:
        self._write({"event": event, **fields})

    def _write(self, line: Mapping[str, Any]) -> None:
        say_json(line)
        sys.stdout.flush()  # whoever reads it does so while we talk
