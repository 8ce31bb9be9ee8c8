"""Messages of a fake server that are lost, repeated, late or changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import trio

from .wire import Message, SocketWriter

# Messages, and pauses in seconds.
Altered: TypeAlias = Sequence[Message | float]
Mangle: TypeAlias = Callable[[Message], Altered]


def as_it_is(message: Message) -> Altered:
    """Send a message once, at once."""
    return [message]


async def emit_mangled(wire: SocketWriter, mangle: Mangle, message: Message) -> None:
    """Send what ``mangle`` makes of a message; waits while the client does not read."""
    for each in mangle(message):
        if isinstance(each, float | int):
            await trio.sleep(each)
        else:
            wire.emit(each)
    await wire.drained()
