"""The way of a server's question to a person, and back: outside of every tool's time.

A question is only asked while a call of its server is waited for, in one turn and no
other, one at a time in each session, and at most until that call ends. All questions of
a turn together take a limited time. A server that nobody answers, or that asks too
often, is refused for the rest of the turn.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import attrs

import trio

from glyphoxa_trio.host import ToolHost
from glyphoxa_trio.mcp.questions import (
    LONGEST_QUESTION,
    Answer,
    Answers,
    QuestionRefused,
    ServerQuestion,
)
from glyphoxa_trio.units import in_ms

_TOO_LATE: Final = "no call waits for the answer any more"
_WHOSE: Final = "nobody is asked while several turns use this server at once"
_TOO_OFTEN: Final = "nobody is asked any more in this turn"
_NOBODY_CALLED: Final = "nobody is asked anything while no tool of this server is used"


@attrs.define(eq=False)
class ServerQuestions:
    """Asks the embedder's person what servers want to know.

    Args:
      answers: the embedder's code, which asks.
      patience: seconds for which the questions of one turn stay open, all together.
      host: its calls wait meanwhile.
    """

    _answers: Answers
    _patience: float
    _host: ToolHost
    # one question at a time, by tenant and session
    _open: dict[tuple[str, str], trio.Lock] = attrs.field(factory=dict, init=False)

    async def ask(self, question: ServerQuestion) -> Answer | None:
        """Return the person's answer; None if they decline.

        Raises:
          QuestionRefused: no call waits for the answer, or nobody gives one in time.
        """
        host, server = self._host, question.server
        turns = host.turns_waiting(server)
        if len(turns) != 1:
            raise QuestionRefused(_WHOSE if turns else _NOBODY_CALLED)
        (turn,) = turns
        patience = turn.left(min(self._patience, LONGEST_QUESTION))
        if not (turn.may_ask(server) and patience):
            raise QuestionRefused(_TOO_OFTEN)
        with host.pause(server, turn, patience) as scope, scope:
            with trio.move_on_after(patience):  # with the questions before it
                async with self._next(turn.whose):
                    try:
                        return await self._answers(question)
                    except Exception as error:  # border: the embedder's code
                        kind = type(error).__name__
                        text = f"the person could not be asked: {kind}"
                        raise QuestionRefused(text) from error
            turn.end_questions(server)
            raise QuestionRefused(f"nobody answered within {in_ms(patience)}")
        raise QuestionRefused(_TOO_LATE)

    @asynccontextmanager
    async def _next(self, whose: tuple[str, str]) -> AsyncGenerator[None]:
        """Wait for the questions before this one, at its table."""
        lock = self._open.setdefault(whose, trio.Lock())
        try:
            async with lock:
                yield
        finally:
            if not lock.locked():  # else another question has it by now
                self._open.pop(whose, None)
