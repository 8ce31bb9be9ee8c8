"""The chat-completions protocol at its `Endpoint`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from glyphoxa_trio.providers.endpoint import AtEndpoint, bare
from glyphoxa_trio.providers.llm import LLMRequest
from glyphoxa_trio.providers.thoughts import Thoughts, begins_with_thought

from .assembler import Assembler
from .wire import DISPENSABLE, Options, request_body


@attrs.define(eq=False, kw_only=True)
class ChatCompletions(AtEndpoint):
    """A model of a server that speaks this protocol.

    Args:
      base_url: up to and including ``/v1``.
      thinks: its answers begin with a thought that no tag opens; None goes by its
        name, and by what it does.
    """

    base_url: str = attrs.field(converter=bare)
    options: Options = attrs.field(factory=Options)
    thinks: bool | None = None
    dispensable = DISPENSABLE

    def _way(self) -> tuple[str, Mapping[str, str]]:
        key = self.api_key
        bearer = {} if key is None else {"authorization": f"Bearer {key.reveal()}"}
        return "/chat/completions", bearer

    def body_of(self, request: LLMRequest) -> dict[str, Any]:
        return request_body(request, self.model, options=self.options)

    def _assembler(self, request: LLMRequest) -> Assembler:
        begins = begins_with_thought(self.model) if self.thinks is None else self.thinks
        return Assembler(
            model=self.model,
            secret=self.api_key,
            names=frozenset(spec.name for spec in request.tools),
            thoughts=Thoughts(begins=begins, lone=self._it_thinks),
        )

    def _it_thinks(self) -> None:
        if self.thinks is None:
            self.thinks = True
            self.warn(
                f"{self.label}: it has thought aloud, with only a tag behind the"
                " thought; from now on its answers are kept back until that tag"
                " (thinks: true does so from the start)"
            )
