"""Which session, and which NPC in it.

A session is one table or one phone call. The same character sits at many of them, and
nothing that is said at one is known at another.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

DEFAULT: Final = "default"
"""The session of whoever names none."""


@attrs.frozen
class SessionKey:
    """``tenant`` is whose session it is, where several share a runtime; "" is nobody's
    in particular."""

    id: str = DEFAULT
    tenant: str = ""

    def npc(self, name: str) -> NpcId:
        return NpcId(name, self)

    @property
    def whose(self) -> tuple[str, str]:
        """The tenant and the id, as a tool host is told them."""
        return self.tenant, self.id

    @property
    def text(self) -> str:
        """The key as one text, another one for each; "" for the default."""
        if self == DEFAULT_SESSION:
            return ""
        return f"{len(self.tenant)}:{self.tenant}{self.id}"

    @property
    def named(self) -> dict[str, str]:
        """What of it is not as in the default session."""
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
        """As one text, another one for each; in the default session its name."""
        session = self.session.text
        return f"\x1f{len(session)}:{session}{self.npc}" if session else self.npc

    @property
    def named(self) -> dict[str, str]:
        """Its name, and what is not as in the default session."""
        return {"npc": self.npc, **self.session.named}

    def of(self, turn: int) -> dict[str, Any]:
        """What every event of that turn says."""
        session = self.session
        return {
            "npc": self.npc,
            "turn": turn,
            "session": session.id,
            "tenant": session.tenant,
        }


def npc_in(line: Mapping[str, Any]) -> NpcId:
    """Who is named by a line of a recording, with its session."""
    return session_in(line).npc(line.get("npc") or "")


def session_in(line: Mapping[str, Any]) -> SessionKey:
    return SessionKey(line.get("session") or DEFAULT, line.get("tenant") or "")


def without_default(plain: dict[str, Any]) -> dict[str, Any]:
    """The fields of an event, without those that only say: the default session."""
    for field, usual in (("session", DEFAULT), ("tenant", "")):
        if plain.get(field) == usual:
            del plain[field]
    return plain
