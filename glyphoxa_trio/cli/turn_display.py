"""An answer on the screen as it comes, and Ctrl-C, which interrupts it."""

from __future__ import annotations

import signal
from collections.abc import Sequence

import attrs

import trio

from glyphoxa_trio.npc import (
    FanOutDone,
    FellBack,
    Filler,
    ModelFailed,
    ModelSwitched,
    TextDelta,
    Turn,
    TurnEnd,
    TurnEvent,
)

from .common import end_for_sure
from .render import fan_out_line
from .screen import Screen


@attrs.define(eq=False)
class TurnDisplay:
    """The turn that is listened to, and how a player leaves. ``scope``: the block that
    a player who leaves ends."""

    screen: Screen
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    left_by_signal: bool = attrs.field(default=False, init=False)
    _turn: trio.CancelScope | None = attrs.field(default=None, init=False)
    _warned: bool = attrs.field(default=False, init=False)

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
            self.screen.drop_typed()
            if self._turn is not None:
                self._turn.cancel("Ctrl-C")
            else:
                self.screen.aside("(Ctrl-C again to leave)")

    def line_came(self) -> None:
        """Take a line as the answer to the warning, but none from a pipe."""
        if self.screen.interactive:
            self._warned = False

    async def listen(self, turn: Turn, events: list[TurnEvent]) -> None:
        """Show a turn until its end, and add what happens to ``events``."""
        with trio.CancelScope() as scope:
            self._turn = scope
            try:
                async with turn:
                    async for event in turn:
                        events.append(event)
                        self._show(event)
            finally:
                self._turn = None
                self.screen.pause()
        if scope.cancelled_caught:
            self.screen.quiet(f"({TurnEnd.INTERRUPTED}; Ctrl-C again to leave)")

    def _show(self, event: TurnEvent) -> None:
        match event:
            case TextDelta(text=piece):
                self.screen.speak(event.npc, piece)
            case Filler(text=text):
                self.screen.quiet(f"… {text}")
            case FanOutDone():
                self.screen.quiet(f"· {fan_out_line(event)}")
            case ModelFailed(kind=kind, detail=detail):
                self.screen.quiet(f"! the model failed: {kind}: {detail}")
            case ModelSwitched(model=model, reason=reason):
                self.screen.quiet(f"· {model} answers: {reason}")
            case FellBack(reason=reason):
                self.screen.quiet(f"· nothing to say ({reason}), so:")
            case _:
                pass


def addressed(names: Sequence[str], text: str) -> tuple[str, str]:
    """Split what follows an @ into a name, which may have spaces, and the rest."""
    folded = text.casefold()
    for name in sorted(names, key=lambda name: -len(name)):
        rest = text[len(name) :]
        if folded.startswith(name.casefold()) and rest[:1] in ("", *" ,:"):
            return name, rest.lstrip(" ,:")
    name, _, rest = text.partition(" ")
    return name.rstrip(",:"), rest.strip()
