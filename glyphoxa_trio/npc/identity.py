"""The identity of a session, and of an NPC in it.

A session is one table or one phone call. The same character takes part in many
sessions, and nothing that is said in one is known in another.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

DEFAULT: Final = "default"
"""The id of the default session."""


@attrs.frozen
class SessionKey:
    """The key of a session.

    ``tenant`` is the owner of the session, if several owners share a runtime; "" if
    there is none.
    """

    id: str = DEFAULT
    tenant: str = ""

    def npc(self, name: str) -> NpcId:
        """Return the id of an NPC in this session."""
        return NpcId(name, self)

    @property
    def whose(self) -> tuple[str, str]:
        """The tenant and the id, as a tool host takes them."""
        return self.tenant, self.id

    @property
    def text(self) -> str:
        """The key as a unique text; "" for the default session."""
        if self == DEFAULT_SESSION:
            return ""
        return f"{len(self.tenant)}:{self.tenant}{self.id}"

    @property
    def named(self) -> dict[str, str]:
        """The fields that differ from those of the default session."""
        named = {"session": self.id} if self.id != DEFAULT else {}
        return named | ({"tenant": self.tenant} if self.tenant else {})

    def __str__(self) -> str:
        return f"{self.tenant}/{self.id}" if self.tenant else self.id


DEFAULT_SESSION: Final = SessionKey()


@attrs.frozen
class NpcId:
    """One character in one session."""

    npc: str
    session: SessionKey = DEFAULT_SESSION

    @property
    def text(self) -> str:
        """The id as a unique text; in the default session the NPC's name."""
        session = self.session.text
        return f"\x1f{len(session)}:{session}{self.npc}" if session else self.npc

    @property
    def named(self) -> dict[str, str]:
        """The name, and the fields that differ from those of the default session."""
        return {"npc": self.npc, **self.session.named}

    def of(self, turn: int) -> dict[str, Any]:
        """Return the fields that every event of that turn contains."""
        session = self.session
        return {
            "npc": self.npc,
            "turn": turn,
            "session": session.id,
            "tenant": session.tenant,
        }


def npc_in(line: Mapping[str, Any]) -> NpcId:
    """Return the NPC, with its session, that a line of a recording names."""
    return session_in(line).npc(line.get("npc") or "")


def session_in(line: Mapping[str, Any]) -> SessionKey:
    """Return the session that a line of a recording names."""
    return SessionKey(line.get("session") or DEFAULT, line.get("tenant") or "")


def without_default(plain: dict[str, Any]) -> dict[str, Any]:
    """Remove the fields of an event that only name the default session."""
    for field, usual in (("session", DEFAULT), ("tenant", "")):
        if plain.get(field) == usual:
            del plain[field]
    return plain
