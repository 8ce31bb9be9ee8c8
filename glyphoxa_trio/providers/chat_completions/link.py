"""The chat-completions protocol at its `Endpoint`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from glyphoxa_trio.providers.endpoint import AtEndpoint, bare
from glyphoxa_trio.providers.llm import LLMRequest

from .assembler import Assembler
from .wire import DISPENSABLE, Options, request_body


@attrs.define(eq=False, kw_only=True)
class ChatCompletions(AtEndpoint):
    """A model of a server that speaks this protocol.

    Args:
      base_url: up to and including ``/v1``.
    """

    base_url: str = attrs.field(converter=bare)
    options: Options = attrs.field(factory=Options)
    dispensable = DISPENSABLE

    def _way(self) -> tuple[str, Mapping[str, str]]:
        key = self.api_key
        bearer = {} if key is None else {"authorization": f"Bearer {key.reveal()}"}
        return "/chat/completions", bearer

    def _body(self, request: LLMRequest) -> dict[str, Any]:
        return request_body(request, self.model, options=self.options)

    def _assembler(self) -> Assembler:
        return Assembler(model=self.model, secret=self.api_key)

    def _leave_out(self, fields: frozenset[str]) -> None:
        self.options = self.options.without(fields)
