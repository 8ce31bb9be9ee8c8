"""The history of a Gemini conversation: an immutable value, so a handle can keep it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from ..voice.steps import SpokenLine, ToolOutput


@attrs.frozen
class FakeHistory:
    """Lines, oldest first; the answers to calls since the user spoke last.

    ``asked`` is the number of replies that were begun; ``model`` is fixed by the first
    setup.
    """

    model: str
    lines: tuple[SpokenLine, ...] = ()
    outputs: tuple[ToolOutput, ...] = ()
    asked: int = 0

    @property
    def user(self) -> str:
        spoken = [line.text for line in self.lines if line.role == "user"]
        return spoken[-1] if spoken else ""

    def said(self, role: str, text: str) -> FakeHistory:
        lines = (*self.lines, SpokenLine(role, text))
        outputs = () if role == "user" else self.outputs
        return attrs.evolve(self, lines=lines, outputs=outputs)

    def answered(
        self, name: str, call_id: str, response: Mapping[str, Any]
    ) -> FakeHistory:
        output = ToolOutput(name, call_id, dict(response))
        return attrs.evolve(self, outputs=(*self.outputs, output))


def text_of(content: Mapping[str, Any] | None) -> str:
    """Return the text of a ``Content``."""
    parts = (content or {}).get("parts", ())
    return " ".join(part["text"] for part in parts if "text" in part)
