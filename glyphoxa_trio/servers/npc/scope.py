"""The NPCs and sessions that clients reach, and their names in arguments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import attrs

import trio

from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.npc import Npc
from glyphoxa_trio.runtime import Runtime, Session, UnknownNpc
from glyphoxa_trio.runtime.session_registry import full_name
from glyphoxa_trio.tools.definition import ToolError, ToolUnavailable

MOST_NAME: Final = 200  # characters of the name of an NPC, a session or a speaker
_MOST_NAMED: Final = 20  # NPCs that an error names


class NotThere(ToolError):
    """A name of nothing that there is; the message has the names of those that do."""

    code = "NotFound"


class NoName(ToolError):
    """A name that nothing can have."""

    code = "InvalidArgument"


@attrs.frozen(eq=False)
class ServedNpcs:
    """The part of a runtime that clients reach.

    Args:
      npcs: the full names of the NPCs; at least one.
      session: the only session, if ``fixed``; else that of calls that name none.
      waits_until: the time on trio's clock until which turns wait for servers that
        start and whose tools are not known.
    """

    runtime: Runtime
    npcs: Sequence[str]
    session: str
    fixed: bool
    waits_until: float

    async def settled(self) -> None:
        """Wait for the servers, the first turns after the start."""
        left = self.waits_until - trio.current_time()
        if left > 0:
            await self.runtime.wait_ready(within=left, known=True)

    def place(self, **more: Any) -> dict[str, Any]:
        """Return the schema of arguments that say where, and of ``more`` of them.

        ``npc`` is optional if there is one NPC only; there is no ``session`` if it is
        fixed.
        """
        return self._schema(["npc", "session"], more)

    def table(self) -> dict[str, Any]:
        """As `place`, for what concerns a session and none of its NPCs."""
        return self._schema(["session"], {})

    def _schema(self, where: list[str], more: Mapping[str, Any]) -> dict[str, Any]:
        known = {
            "npc": {
                "type": "string",
                "maxLength": MOST_NAME,
                "description": f"One of {', '.join(self.npcs[:_MOST_NAMED])}.",
            },
            "session": {
                "type": "string",
                "minLength": 1,
                "maxLength": MOST_NAME,
                "description": "The name of the conversation. NPCs know nothing of the"
                f" others. Left out, it is {self.session}.",
            },
        }
        if self.fixed:
            del known["session"]
        properties = {x: known[x] for x in where if x in known} | dict(more)
        optional = {"session"} | {x for x, y in more.items() if "default" in y}
        if len(self.npcs) == 1:
            optional.add("npc")
        return {
            "type": "object",
            "properties": properties,
            "required": [x for x in properties if x not in optional],
            "additionalProperties": False,
        }

    def name_of(self, arguments: Mapping[str, Any]) -> str:
        """Return the full name of the NPC that is meant.

        Raises:
          NotThere: there is none; the message names those that there are.
        """
        given = arguments.get("npc", self.npcs[0])
        try:
            return full_name(self.npcs, given)
        except UnknownNpc:
            there = "there is" if len(self.npcs) == 1 else "there are"
            named = ", ".join(self.npcs[:_MOST_NAMED])
            raise NotThere(f"no NPC {given!r}; {there} {named}") from None

    def session_of(self, arguments: Mapping[str, Any]) -> str:
        """Return the id of the session that is meant."""
        return self.session if self.fixed else arguments.get("session", self.session)

    def open(self, arguments: Mapping[str, Any]) -> tuple[Session, Npc]:
        """Return the session and the NPC that are meant; the session may begin.

        Raises:
          NotThere: as `name_of`.
          GlyphoxaError, ValueError: as `Runtime.session`.
        """
        name = self.name_of(arguments)
        session = self.runtime.session(self.session_of(arguments))
        return session, session.npc(name)


@contextmanager
def answered() -> Iterator[None]:
    """Turn the errors of a runtime into answers for a client."""
    try:
        yield
    except (ToolError, ToolUnavailable):
        raise
    except GlyphoxaError as error:  # full, ended, kept elsewhere
        raise ToolUnavailable(str(error)) from None
    except ValueError as error:
        raise NoName(str(error)) from None
