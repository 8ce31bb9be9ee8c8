"""Which response of a model is wanted: the one that runs, and the one after it.

Theory of operation. Nothing on the wire says to what a response is the answer, and a
server may begin one in the moment in which it is told not to. So two things are known
of a conversation, each with a state of its own::

    what runs      NOTHING   nobody is being answered
                   WANTED    it is the answer to the utterance that is current
                   VOID      it is for nobody, and nothing of it is passed on

    what is next   OPEN      it was not asked for: it begins by itself, if it does
                   ASKED     it was asked for, and has not begun
                   UNWANTED  whatever begins is void

    what happens                        what runs            what is next
    it is asked for                                          ASKED
    a result is given that is for nobody                     UNWANTED
    a response begins, next is UNWANTED VOID                 OPEN
    a response begins, else             WANTED               OPEN
    it is stopped, while one runs       VOID                 ASKED -> OPEN
    it is stopped, none runs, and the
      wire can cancel                                        ASKED -> OPEN
      wire cannot cancel                                     ASKED -> UNWANTED
    it ends                             NOTHING
    another utterance begins                                 OPEN
    the socket is gone                  NOTHING              OPEN

A response that was void once stays so until it has ended, also when another has begun
before that. A `Cancel` is worth sending if one runs or is ASKED for, and then only.
"""

from __future__ import annotations

from enum import StrEnum

import attrs


class Runs(StrEnum):
    """The response that began last."""

    NOTHING = "nothing"
    WANTED = "wanted"
    VOID = "void"


class Next(StrEnum):
    """The response that will begin."""

    OPEN = "open"
    ASKED = "asked"
    UNWANTED = "unwanted"


@attrs.define(eq=False)
class OpenResponses:
    """The responses of one conversation."""

    next: Next = attrs.field(default=Next.OPEN, init=False)
    _running: str | None = attrs.field(default=None, init=False)
    _void: set[str] = attrs.field(factory=set, init=False)

    @property
    def runs(self) -> Runs:
        if self._running is None:
            return Runs.NOTHING
        return Runs.VOID if self._running in self._void else Runs.WANTED

    def is_void(self, response: str) -> bool:
        """Whether what it says is for nobody."""
        return response in self._void

    def ask(self) -> None:
        self.next = Next.ASKED

    def expect_unwanted(self) -> None:
        """A result for nobody is given, and some models speak of it all the same."""
        self.next = Next.UNWANTED

    def stop(self, *, cancels: bool) -> bool:
        """It is not wanted any more; returns whether there is something to cancel."""
        asked = self.next is Next.ASKED
        if self._running is not None:
            self._void.add(self._running)
        if asked:
            stopped = cancels or self._running is not None
            self.next = Next.OPEN if stopped else Next.UNWANTED
        return cancels and (asked or self._running is not None)

    def start(self, response: str) -> bool:
        """It begins; returns whether it is wanted."""
        wanted = self.next is not Next.UNWANTED
        (self._void.discard if wanted else self._void.add)(response)
        self._running, self.next = response, Next.OPEN
        return wanted

    def end(self, response: str) -> bool:
        """It ends; returns whether it was wanted."""
        if self._running == response:
            self._running = None
        wanted = response not in self._void
        self._void.discard(response)
        return wanted

    def rest(self) -> None:
        """Whatever runs has ended, says the server."""
        self._running = None

    def begin(self) -> None:
        """Another utterance is answered from now on."""
        self.next = Next.OPEN

    def forget(self) -> None:
        """The socket is gone, and everything that was asked for on it."""
        self._running, self.next = None, Next.OPEN
        self._void.clear()
