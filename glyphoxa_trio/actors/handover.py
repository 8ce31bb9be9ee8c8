"""Live ends that messages name, for actors of one process.

A message is data. Where it is about something that lives, such as the stream on which
somebody waits for an answer, that is put here first, and the message has the name under
which it lies::

    with handover.offered(stream) as name:
        await ref.ask(Ask(question, stream=name), within=1)
    ...
    stream = handover.take(call.stream, Stream)  # the actor, once
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from secrets import token_hex
from typing import TypeVar

import attrs

T = TypeVar("T")


@attrs.define(eq=False)
class Handover:
    """What was put and nobody has taken yet."""

    _things: dict[str, object] = attrs.field(factory=dict, init=False)

    def put(self, thing: object) -> str:
        """Leave it here. Returns its name, which is never used again."""
        name = token_hex(8)
        self._things[name] = thing
        return name

    def look(self, name: str, kind: type[T]) -> T | None:
        """As `take`, but it stays here."""
        thing = self._things.get(name)
        return thing if isinstance(thing, kind) else None

    def take(self, name: str, kind: type[T]) -> T | None:
        """What was put under that name; None if it was taken, or is something else."""
        found = self.look(name, kind)
        if found is not None:
            del self._things[name]
        return found

    @contextmanager
    def offered(self, thing: object) -> Iterator[str]:
        """It can be taken inside the block."""
        name = self.put(thing)
        try:
            yield name
        finally:
            self._things.pop(name, None)

    def __len__(self) -> int:
        return len(self._things)
