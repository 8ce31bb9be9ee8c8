"""The handover of live objects between actors of one process.

A message is data. Where it has to refer to a live object, such as the stream on which
the caller waits for an answer, the object is put here first, and the message has the
name under which it was put::

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
    """The objects that were put and have not been taken yet, by name."""

    _things: dict[str, object] = attrs.field(factory=dict, init=False)

    def put(self, thing: object) -> str:
        """Put an object here; return its name, which is never used again."""
        name = token_hex(8)
        self._things[name] = thing
        return name

    def look(self, name: str, kind: type[T]) -> T | None:
        """Return the object as `take` does, but leave it here."""
        thing = self._things.get(name)
        return thing if isinstance(thing, kind) else None

    def take(self, name: str, kind: type[T]) -> T | None:
        """Take the object of that name; None if it is gone or of another kind."""
        found = self.look(name, kind)
        if found is not None:
            del self._things[name]
        return found

    @contextmanager
    def offered(self, thing: object) -> Iterator[str]:
        """Put an object here for the length of the block, and yield its name."""
        name = self.put(thing)
        try:
            yield name
        finally:
            self._things.pop(name, None)

    def __len__(self) -> int:
        return len(self._things)
