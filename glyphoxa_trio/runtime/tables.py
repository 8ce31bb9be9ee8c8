"""The sessions that are open, and what there is of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.npc import Npc, Scene
from glyphoxa_trio.npc.identity import DEFAULT_SESSION, NpcId, SessionKey

MOST_SESSIONS: Final = 10_000


class TooManySessions(GlyphoxaError):
    """As many as may be are open: end some."""


class SessionEnded(GlyphoxaError):
    """This session has ended; `Runtime.session` begins another one."""


def call_id_of(run: str, npc: NpcId) -> str:
    """Of one NPC's session in one run: its ``{call_id}``, the same in a replay."""
    import uuid

    return uuid.uuid5(uuid.UUID(run), npc.text).hex


@attrs.define(eq=False)
class Table:
    """What there is of one session: who was spoken to, and what is known of players."""

    key: SessionKey
    variables: dict[str, str | None] = attrs.field(factory=dict)
    npcs: dict[str, Npc] = attrs.field(factory=dict, init=False)
    scenes: dict[tuple[str, ...], Scene] = attrs.field(factory=dict, init=False)
    ended: bool = attrs.field(default=False, init=False)

    @property
    def at(self) -> str:
        """For the name of what is there; nothing for the default session."""
        return "" if self.key == DEFAULT_SESSION else f" of {self.key}"

    def introduce(self, values: Mapping[str, str | None]) -> None:
        """These are known from now on, to those who are spoken to later."""
        self.variables |= values

    def end(self) -> None:
        """Nobody speaks here any more."""
        self.ended = True

    def check(self) -> None:
        """Raises `SessionEnded` if it has."""
        if self.ended:
            raise SessionEnded(f"the session {self.key} has ended")


@attrs.define(eq=False)
class Tables:
    """Those of one runtime. ``most`` may be open at once."""

    most: int = MOST_SESSIONS
    _open: dict[SessionKey, Table] = attrs.field(factory=dict, init=False)

    @property
    def all(self) -> tuple[Table, ...]:
        return tuple(self._open.values())

    def get(self, key: SessionKey) -> Table | None:
        """The session of that key, if it is open."""
        return self._open.get(key)

    def sit(self, key: SessionKey, variables: Mapping[str, str | None]) -> Table:
        """The session of that key, which begins now if there is none.

        Raises:
          TooManySessions: there is no place for another one.
          ValueError: it is there, and ``variables`` are not what it has.
        """
        table = self._open.get(key)
        if table is None:
            if len(self._open) >= self.most:
                raise TooManySessions(f"{len(self._open)} sessions are open: end some")
            table = self._open[key] = Table(key, dict(variables))
        elif not variables.items() <= table.variables.items():
            raise ValueError(
                f"the session {key} is there already: introduce(...) changes variables"
            )
        return table

    def end(self, table: Table) -> None:
        """Nobody speaks there any more, and its key is free."""
        table.end()
        del self._open[table.key]
