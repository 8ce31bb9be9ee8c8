"""Anthropic's Messages API over its `Endpoint`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import attrs

from glyphoxa_trio.providers.at_endpoint import AtEndpoint, bare
from glyphoxa_trio.providers.llm import LLMRequest
from glyphoxa_trio.providers.opaque import wants_thoughts_later

from .assembler import Assembler
from .wire import DISPENSABLE, RequestOptions, request_body

VENDOR: Final = "https://api.anthropic.com/v1"
VERSION: Final = "2023-06-01"  # of the API; a later version refuses any temperature


def _with_version(url: str) -> str:
    """Return the address up to and including ``/v1``.

    The vendor's own client takes an address without it.
    """
    url = bare(url)
    return url if re.search(r"/v\d+$", url) else f"{url}/v1"


@attrs.define(eq=False, kw_only=True)
class Anthropic(AtEndpoint):
    """A model of Anthropic, or of a server that supports the same API.

    Args:
      base_url: with or without ``/v1``.
    """

    base_url: str = attrs.field(default=VENDOR, converter=_with_version)
    options: RequestOptions = attrs.field(factory=RequestOptions)
    dispensable = DISPENSABLE

    def _way(self) -> tuple[str, Mapping[str, str]]:
        key = {} if self.api_key is None else {"x-api-key": self.api_key.reveal()}
        return "/messages", {"anthropic-version": VERSION, **key}

    def body_of(self, request: LLMRequest) -> dict[str, Any]:
        return request_body(
            request, self.model, options=self.options, writer=self.label
        )

    def _assembler(self, request: LLMRequest) -> Assembler:
        return Assembler(
            names=frozenset(spec.name for spec in request.tools),
            templates=self._templates(request),
            model=self.model,
            label=self.label,
            lasting=self.options.thoughts_back or wants_thoughts_later(self.model),
            secret=self.api_key,
        )
