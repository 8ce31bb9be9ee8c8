"""A handler may return the enum that it was given."""

from __future__ import annotations

from enum import Enum, IntEnum, StrEnum
from typing import Any

from glyphoxa_trio import tool
from glyphoxa_trio.host import open_host


class Door(Enum):
    OPEN = "open"
    SHUT = ("shut", 2)


class Floor(IntEnum):
    CELLAR = -1


class Light(StrEnum):
    DIM = "dim"


class Endless(Enum):
    FIRST = 1


Endless.FIRST._value_ = Endless.FIRST  # type: ignore[assignment]  # holds itself


async def test_members_of_enums_are_their_values() -> None:
    @tool(read_only=True)
    async def look(door: Door) -> Any:
        """Look at a door."""
        return {"door": door, "all": [*Door, Floor.CELLAR], door: Light.DIM}

    async with open_host() as host:
        host.register(look)
        outcome = await host.execute("custom.look", {"door": "open"})
    assert outcome.ok, outcome.message
    assert outcome.data == {
        "door": "open",
        "all": ["open", ["shut", 2], -1],
        "open": "dim",
    }


async def test_a_member_alone_is_an_answer_and_an_endless_one_an_error() -> None:
    @tool(read_only=True)
    async def door() -> Door:
        """Look at a door."""
        return Door.OPEN

    @tool(read_only=True)
    async def endless() -> Endless:
        """Look for ever."""
        return Endless.FIRST

    async with open_host() as host:
        host.register(door, endless)
        assert (await host.execute("custom.door")).data == "open"
        assert "not JSON" in (await host.execute("custom.endless")).message
