"""A tool's output schema, and the check of its structured answers against it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from .schema import BadSchema, problem_of, sound
from .validators import Compiled


@attrs.define(eq=False)
class OutputSchema:
    """The output schema of one tool of a server.

    It is foreign: its regular expressions are ignored, the work of a check is bounded,
    and a schema that is broken or too large checks nothing.

    Args:
      schema: a JSON schema; None checks nothing.
    """

    schema: Any
    wrong: str | None = attrs.field(default=None, init=False)
    """The error in the schema itself, if there is one."""
    _compiled: Compiled | None = attrs.field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        if self.schema is None:
            return
        try:
            self._compiled = sound(self.schema, foreign=True)
        except BadSchema as error:
            self.wrong = str(error)
        else:
            if self._compiled.work is None:
                self.wrong = "it takes too much work to check"
                self._compiled = None

    def problem_in(self, answer: Mapping[str, Any]) -> str | None:
        """Return what is wrong with the structured content of an answer, or None."""
        if self.wrong is not None:
            return None
        if answer.get("structuredContent") is None:
            return "it has no structuredContent, which its outputSchema requires"
        problem = self.problem(answer["structuredContent"])
        return problem and f"structuredContent: {problem}"

    def problem(self, value: Any) -> str | None:
        """Return the error in a value, with its place; None if it fits, or if it is too
        large for the time that a check has."""
        if self._compiled is None:
            return None
        return problem_of(self._compiled, value, too_much=None)
