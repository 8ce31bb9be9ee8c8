"""Track which response of a model is wanted: the running one, and the next one.

Theory of operation. No event on the wire says which utterance a response answers, and a
server may begin a response at the moment when it is told not to. So a conversation
tracks two things, each with a state of its own::

    the running one   NOTHING   no response runs
                      WANTED    it answers the current utterance
                      VOID      it is unwanted, and nothing of it is passed on
    the next one      OPEN      not asked for: the model may begin it by itself
                      ASKED     asked for, and not begun
                      UNWANTED  a response that begins now is void

    event                               the running one     the next one
    a response is asked for                                 ASKED
    a result is sent that is unwanted                       UNWANTED
    a response begins, next is UNWANTED VOID                OPEN
    a response begins, otherwise        WANTED              OPEN
    a response is stopped, one runs     VOID                ASKED -> OPEN
    a response is stopped, none runs,
       and the wire can cancel                              ASKED -> OPEN
       and the wire cannot cancel                           ASKED -> UNWANTED
    a response ends                     NOTHING
    another utterance begins                                OPEN
    the socket is lost                  NOTHING             OPEN

A void response stays void until it has ended, even if another one begins before that.
Sending `Cancel` makes sense only while a response runs or is ASKED for.
"""

from __future__ import annotations

from enum import StrEnum

import attrs


class Runs(StrEnum):
    """The state of the response that began last."""

    NOTHING = "nothing"
    WANTED = "wanted"
    VOID = "void"


class Next(StrEnum):
    """The state of the response that will begin next."""

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
        """The state of the running response."""
        if self._running is None:
            return Runs.NOTHING
        return Runs.VOID if self._running in self._void else Runs.WANTED

    def is_void(self, response: str) -> bool:
        """Return True if nothing of ``response`` is passed on."""
        return response in self._void

    def ask(self) -> None:
        """Record that a response is asked for."""
        self.next = Next.ASKED

    def expect_unwanted(self) -> None:
        """Record that a result is sent that should cause no response."""
        self.next = Next.UNWANTED

    def stop(self, *, cancels: bool) -> bool:
        """Stop the response; return True if a `Cancel` has to be sent.

        ``cancels``: the wire can cancel, and a socket is open.
        """
        asked = self.next is Next.ASKED
        if self._running is not None:
            self._void.add(self._running)
        if asked:
            stopped = cancels or self._running is not None
            self.next = Next.OPEN if stopped else Next.UNWANTED
        return cancels and (asked or self._running is not None)

    def start(self, response: str) -> bool:
        """Record that a response begins; return True if it is wanted."""
        wanted = self.next is not Next.UNWANTED
        (self._void.discard if wanted else self._void.add)(response)
        self._running, self.next = response, Next.OPEN
        return wanted

    def end(self, response: str) -> bool:
        """Record that a response has ended; return True if it was wanted."""
        if self._running == response:
            self._running = None
        wanted = response not in self._void
        self._void.discard(response)
        return wanted

    def rest(self) -> None:
        """Record that the server has ended the running response."""
        self._running = None

    def begin(self) -> None:
        """Record that another utterance is answered from now on."""
        self.next = Next.OPEN

    def forget(self) -> None:
        """Forget all responses, running or asked for: their socket is lost."""
        self._running, self.next = None, Next.OPEN
        self._void.clear()
