"""Players whom another process has forgotten are forgotten here as well.

A session that is open here still has their words, and would write them again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Final

import attrs

import trio

from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.memory.contract import Memory

EVERY: Final = 5.0  # seconds between two looks
_LAST: Final = 5.0  # for the one when the program ends


@attrs.define(eq=False)
class ForgottenElsewhere:
    """Looks for players whom other processes have forgotten.

    Args:
      memory: the store.
      warn: called with what was done, and with what went wrong.
    """

    memory: Memory
    warn: Callable[[str], None]
    _seen: int = attrs.field(default=0, init=False)  # the last mark
    # Of a tenant, in a campaign or in all; in sessions that may have ended since.
    _due: list[tuple[str, str, str | None]] = attrs.field(factory=list, init=False)
    _failed: bool = attrs.field(default=False, init=False)
    _look: Callable[[], Awaitable[None]] | None = attrs.field(default=None, init=False)

    async def begin(self) -> None:
        """Leave out players who were forgotten before a session is open here."""
        for mark in await self.memory.forgotten(after=0):
            self._seen = mark.n

    async def run(
        self,
        players: Callable[[str], Iterable[str]],
        forget: Callable[[str, str, str | None], Awaitable[object]],
    ) -> None:
        """Look again and again, until cancelled.

        Args:
          players: returns the ids of the players of a tenant whose words open sessions
            have.
          forget: ends the sessions with the words of a player of a tenant, in one
            campaign or in all, and removes what they have written since.
        """
        self._look = partial(self._once, players, forget)
        while True:
            await trio.sleep(EVERY)
            await self._look()

    async def last(self) -> None:
        """Look once more, before what open sessions have is written for good."""
        if self._look is not None:
            with trio.move_on_after(_LAST, shield=True):
                await self._look()

    async def _once(
        self,
        players: Callable[[str], Iterable[str]],
        forget: Callable[[str, str, str | None], Awaitable[object]],
    ) -> None:
        try:
            for mark in await self.memory.forgotten(after=self._seen):
                known = await self.memory.campaigns(mark.tenant)
                places = None, *(x.campaign for x in known)
                self._due += (
                    (mark.tenant, player, campaign)
                    for player in players(mark.tenant)
                    for campaign in places
                    if mark.is_of(player, campaign)
                )
                self._seen = mark.n
            while self._due:
                await forget(*self._due[0])
                del self._due[0]
                self.warn(  # without the id, which would stay in logs
                    "memory: another process has forgotten a player; the sessions"
                    " with words of that player have ended"
                )
            self._failed = False
        except GlyphoxaError as error:
            if not self._failed:
                self.warn(f"memory: a player may not be forgotten yet: {error}")
            self._failed = True
