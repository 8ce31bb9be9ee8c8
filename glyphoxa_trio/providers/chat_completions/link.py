"""The chat completions API over its `Endpoint`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from glyphoxa_trio.providers.at_endpoint import AtEndpoint, bare
from glyphoxa_trio.providers.llm import LLMRequest
from glyphoxa_trio.providers.opaque import wants_thoughts_later, wants_written_later
from glyphoxa_trio.providers.thoughts import Thoughts, begins_with_thought

from .assembler import Assembler
from .wire import DISPENSABLE, RequestOptions, request_body


@attrs.define(eq=False, kw_only=True)
class ChatCompletions(AtEndpoint):
    """A model of a server with this API.

    Args:
      base_url: up to and including ``/v1``.
      thinks: True if its answers begin with a thought that no tag opens; None decides
        by its name and its answers.
    """

    base_url: str = attrs.field(converter=bare)
    options: RequestOptions = attrs.field(factory=RequestOptions)
    thinks: bool | None = None
    _thought: bool = attrs.field(default=False, init=False)  # in its last answer
    _told: bool = attrs.field(default=False, init=False)
    dispensable = DISPENSABLE

    def _way(self) -> tuple[str, Mapping[str, str]]:
        key = self.api_key
        bearer = {} if key is None else {"authorization": f"Bearer {key.reveal()}"}
        return "/chat/completions", bearer

    def body_of(self, request: LLMRequest) -> dict[str, Any]:
        return request_body(
            request, self.model, options=self.options, writer=self.label
        )

    def _assembler(self, request: LLMRequest) -> Assembler:
        known = begins_with_thought(self.model) or self._thought
        begins = known if self.thinks is None else self.thinks
        return Assembler(
            model=self.model,
            label=self.label,
            lasting=self.options.thoughts_back or wants_thoughts_later(self.model),
            written_lasting=wants_written_later(self.model),
            secret=self.api_key,
            names=frozenset(spec.name for spec in request.tools),
            templates=self._templates(request),
            thoughts=Thoughts(
                begins=begins, lone=self._it_thinks, none=self._it_does_not
            ),
        )

    def _it_thinks(self) -> None:
        """Note that the model ended a thought that no tag had opened."""
        told, self._told = self._told, True
        self._thought = True
        if self.thinks is None and not told:
            self.warn(
                f"{self.label}: its answer began with a thought, which only a closing"
                " tag marks; from now on answers are held back until that tag, as long"
                " as they have one (thinks: true does so from the start, thinks: false"
                " never)"
            )

    def _it_does_not(self) -> None:
        """Note that an answer contained no thought."""
        # A player may get a model to write such a tag; this answer has none.
        self._thought = False
