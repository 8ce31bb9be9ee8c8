"""The order and time of a fake server's transcripts: late, crossed and doubled.

Real servers do not promise that a transcript comes before the answer, in the order of
the utterances, or only once; so by default these do not either.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

import trio

LATE: Final = 0.4  # seconds after the utterance: the answer runs by then
CROSSED: Final = 3.0  # seconds that one waits for the next one, at most
AGAIN: Final = 0.3  # seconds after which it is sent once more


@attrs.define(eq=False)
class Transcripts:
    """The transcripts of one session.

    Of four utterances the first is sent late, the second after the third (or after
    `CROSSED`), the third twice, the fourth with the end of the answer.

    Args:
      nursery: where they wait.
      has_items: whether a transcript names its utterance. Without, none is crossed or
        doubled, since the client could not match them.
    """

    _nursery: trio.Nursery = attrs.field(repr=False)
    _has_items: bool
    _number: int = 0
    _next_told: trio.Event = attrs.field(factory=trio.Event, repr=False)
    _at_the_end: list[Callable[[], None]] = attrs.field(factory=list, repr=False)

    def tell(self, tell: Callable[[], None], *, late: bool | None) -> None:
        """Send a transcript at once, or ``late``, with the end of the answer.

        None: as the class describes.
        """
        if late is None:
            way, self._number = self._number % 4, self._number + 1
            if way == 3:
                self._at_the_end.append(tell)
            else:
                self._nursery.start_soon(self._later, tell, way)
        elif late:
            self._at_the_end.append(tell)
        else:
            tell()

    def answered(self) -> None:
        """Send the transcripts that wait for the end of the answer."""
        due, self._at_the_end = self._at_the_end, []
        for tell in due:
            tell()

    async def _later(self, tell: Callable[[], None], way: int) -> None:
        if way == 1 and self._has_items:
            with trio.move_on_after(CROSSED):
                await self._next_told.wait()
        else:
            await trio.sleep(LATE)
        tell()
        if way == 2 and self._has_items:
            self._next_told.set()
            self._next_told = trio.Event()
            await trio.sleep(AGAIN)
            tell()
