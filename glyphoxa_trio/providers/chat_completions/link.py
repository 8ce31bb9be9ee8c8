"""The chat-completions protocol at its `Endpoint`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

import attrs

from glyphoxa_trio.providers.endpoint import Endpoint, bare
from glyphoxa_trio.providers.llm import LLMEvent, LLMRequest
from glyphoxa_trio.secret import Secret

from .assembler import Assembler
from .wire import DISPENSABLE, Options, request_body

if TYPE_CHECKING:
    import httpx2


@attrs.define(eq=False, kw_only=True)
class ChatCompletions:
    """One model at one server.

    Connections are kept for the next round; whoever makes one closes it with
    `aclose`.

    Args:
      base_url: up to and including ``/v1``.
      client: see `Endpoint`.

    Raises:
      ValueError: see `Endpoint`.
    """

    model: str
    base_url: str = attrs.field(converter=bare)
    api_key: Secret | None = None
    options: Options = attrs.field(factory=Options)
    client: httpx2.AsyncClient | None = attrs.field(default=None, repr=False)
    _endpoint: Endpoint = attrs.field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        key = self.api_key
        self._endpoint = Endpoint(
            base_url=self.base_url,
            path="/chat/completions",
            api_key=key,
            headers={} if key is None else {"authorization": f"Bearer {key.reveal()}"},
            client=self.client,
        )

    @property
    def label(self) -> str:
        return f"{self.model} at {self.base_url}"

    def stream(
        self, request: LLMRequest
    ) -> AbstractAsyncContextManager[AsyncIterator[LLMEvent]]:
        """One round: entering waits for the headers, leaving hangs up at once.

        Cancelled at any point, the connection is closed. A field that the server
        refuses and that we can do without is left out in one second attempt, and
        from then on.

        Raises:
          LLMError: see `LLM.stream`.
        """
        return self._endpoint.ask(
            lambda: request_body(request, self.model, options=self.options),
            Assembler(model=self.model, secret=self.api_key),
            dispensable=DISPENSABLE,
            leave_out=self._leave_out,
        )

    async def aclose(self) -> None:
        """Close the connections kept for later; rounds that still run fail."""
        await self._endpoint.aclose()

    def _leave_out(self, fields: frozenset[str]) -> None:
        self.options = self.options.without(fields)
