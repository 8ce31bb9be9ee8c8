"""A message to an actor, and the place for its answer."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

import attrs
import outcome

import trio

from glyphoxa_trio.errors import ActorGone, GlyphoxaError, MessageNotUnderstood

A = TypeVar("A")  # the actor that a message is for
R_co = TypeVar("R_co", covariant=True)


class Request(Generic[A, R_co]):
    """A message. Its type arguments are the actor and the type of the answer."""

    __slots__ = ()


@attrs.define(eq=False)
class Call(Generic[A]):
    """One request in flight: the message, and the place for its answer."""

    request: Request[A, Any]
    told: bool = False  # sent without waiting for an answer
    delivered: bool = attrs.field(default=False, init=False)  # set by its mailbox
    # Cancelled by the caller when it stops waiting, and by nothing else.
    _scope: trio.CancelScope | None = attrs.field(init=False)
    _answer: outcome.Maybe[Any] | None = attrs.field(default=None, init=False)
    _settled: trio.Event | None = attrs.field(init=False)
    _in_work: bool = attrs.field(default=False, init=False)

    # Every observation of a tool is sent with `tell`, so a told call is kept cheap.
    @_scope.default
    def _asked(self) -> trio.CancelScope | None:
        return None if self.told else trio.CancelScope()

    @_settled.default
    def _awaited(self) -> trio.Event | None:
        return None if self.told else trio.Event()

    @contextmanager
    def answering(self) -> Generator[None]:
        """Work on this call, for as long as its caller waits.

        The body is cancelled when the caller's time is up or the caller is cancelled. A
        `GlyphoxaError` raised in it, alone or as the only kind in a group, becomes the
        answer; any other exception crashes the actor, and is the ``__cause__`` of the
        error that the caller gets. Either way the caller is not left waiting: if the
        body ends without an answer, the message counts as not understood.
        """
        self._in_work = True
        understood = True
        crash: BaseException | None = None
        try:
            with self._scope or trio.CancelScope():
                yield
                understood = self._answer is not None
        except GlyphoxaError as error:
            self.refuse(error)
        except BaseExceptionGroup as group:
            on_purpose, others = group.split(GlyphoxaError)
            bugs = others and others.split(trio.Cancelled)[1]
            if bugs is not None or on_purpose is None:
                crash = bugs
                raise
            self.refuse(_first_leaf(on_purpose))
            if others is not None:  # the actor is cancelled at the same time
                raise others from None
        except Exception as bug:
            crash = bug
            raise
        finally:
            if self._answer is None:
                self._leave_unanswered(crash, understood=understood)

    def _leave_unanswered(
        self, crash: BaseException | None, *, understood: bool
    ) -> None:
        kind = type(self.request).__name__
        if not understood:
            self.refuse(MessageNotUnderstood(f"{kind} is a message for another actor"))
            return
        gone = ActorGone(f"no answer to {kind}")
        gone.__cause__ = crash
        self.refuse(gone)

    def reply(self, value: object) -> None:
        """Answer with ``value``. Reply last: the caller may be gone at once."""
        self._settle(outcome.Value(value))

    def refuse(self, error: Exception) -> None:
        """Answer by raising ``error`` in the caller."""
        self._settle(outcome.Error(error))

    async def settled(self) -> None:
        """Wait for the answer, be it a value or an error."""
        if self._settled is not None:
            await self._settled.wait()

    def abandon(self) -> None:
        """Cancel the work, unless it is done, because the caller has left."""
        if self._scope is not None:
            self._scope.cancel("the caller left")

    @property
    def abandoned(self) -> bool:
        """True once the caller no longer waits for the answer."""
        return self._scope is not None and self._scope.cancel_called

    def _settle(self, answer: outcome.Maybe[Any]) -> None:
        assert self._answer is None, f"answered twice: {self.request!r}"
        self._answer = answer
        if self._settled is not None:
            self._settled.set()


def _first_leaf(group: BaseExceptionGroup[GlyphoxaError]) -> GlyphoxaError:
    first = group.exceptions[0]
    return _first_leaf(first) if isinstance(first, BaseExceptionGroup) else first
