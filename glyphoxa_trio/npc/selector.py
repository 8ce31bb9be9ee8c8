"""The tier selector: the actor that holds the rules.

What the rules need to remember of a conversation comes with each request.
"""

from __future__ import annotations

import attrs

from glyphoxa_trio.actors import Inbox, Request

from .selection import Selection, SelectionRules, Situation, Vocabulary, select


@attrs.frozen
class Select(Request["Selector", Selection]):
    """Ask for the tier of an utterance."""

    situation: Situation


@attrs.frozen(kw_only=True)
class Learn(Request["Selector", None]):
    """Use the rules of this vocabulary from now on."""

    vocabulary: Vocabulary


@attrs.define(eq=False)
class Selector:
    """The actor's state; `run` is its body."""

    rules: SelectionRules

    async def run(self, inbox: Inbox[Selector]) -> None:
        """Read the mailbox until it is closed."""
        async for call in inbox:
            with call.answering():
                match call.request:
                    case Learn(vocabulary=vocabulary):
                        self.rules = vocabulary.rules()
                        call.reply(None)
                    case Select(situation):
                        call.reply(select(self.rules, situation))
