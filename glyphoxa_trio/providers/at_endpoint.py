"""One model at one server: what every vendor's link is made of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

import trio

from glyphoxa_trio.secret import Secret

from .answer import ResponseAssembler
from .asking import ModelFindings, ModelRequest
from .endpoint import Endpoint
from .line import Loading, RequestSlots
from .llm import LLMEvent, LLMRequest, Message, Waiting
from .remedies import Advice

if TYPE_CHECKING:
    import httpx2


@attrs.define(eq=False, kw_only=True)
class AtEndpoint(ABC):
    """One model at one server; a vendor says what is sent, and how the answer is read.

    Connections are kept for the next round; whoever makes one closes it with
    `aclose`.

    Args:
      client: see `Endpoint`.
      warn: told once of each thing that the model turns out not to take.
      advice: what there is to say to people of this kind of server.
      line: the places at its server, which its other models have in common with it.
      patient: see `Endpoint`.
      loads_within: seconds that loading it may take; None where it is not loaded.

    Raises:
      ValueError: see `Endpoint`.
    """

    model: str
    base_url: str
    api_key: Secret | None = None
    client: httpx2.AsyncClient | None = attrs.field(default=None, repr=False)
    options: Any = None  # a vendor's `Abilities`
    warn: Callable[[str], None] = attrs.field(default=lambda _: None, repr=False)
    advice: Advice = attrs.field(factory=Advice, repr=False)
    line: RequestSlots = attrs.field(factory=RequestSlots, repr=False)
    patient: bool = True
    loads_within: float | None = None
    found: ModelFindings = attrs.field(factory=ModelFindings, init=False, repr=False)
    _endpoint: Endpoint = attrs.field(init=False, repr=False)
    dispensable: ClassVar[frozenset[str]] = frozenset()

    def __attrs_post_init__(self) -> None:
        path, headers = self._way()
        self._endpoint = Endpoint(
            base_url=self.base_url,
            path=path,
            api_key=self.api_key,
            headers=headers,
            client=self.client,
            line=self.line,
            patient=self.patient,
        )

    @property
    def label(self) -> str:
        return f"{self.model} at {self.base_url}"

    def stream(
        self, request: LLMRequest
    ) -> AbstractAsyncContextManager[AsyncIterator[LLMEvent]]:
        """One round: entering waits for the headers, leaving hangs up at once.

        Cancelled at any point, the connection is closed. What the server refuses and
        we can do without is left out in another attempt, and from then on.

        Raises:
          LLMError: see `LLM.stream`.
        """
        asked = ModelRequest(self, request)
        return self._endpoint.ask(asked, self._assembler(request))

    def keep_loaded(self, nursery: trio.Nursery, tell: Callable[[str], None]) -> None:
        """Have the model loaded now, and before a request after a long silence.

        Args:
          nursery: where that runs. It outlives all rounds.
          tell: told when it is being loaded, and when it is there.
        """
        within = self.loads_within
        if within is None:
            return

        async def ask() -> None:
            request = LLMRequest(messages=(Message(role="user", content="Hello"),))
            assembler = self._assembler(request)
            async with AsyncExitStack() as stack:
                self.line.take()
                self._endpoint.give_back(stack, assembler)
                asked = ModelRequest(self, request)
                events = await self._endpoint.answer(stack, asked, assembler)
                async for event in events:
                    if not isinstance(event, Waiting):
                        break

        loading = self.line.models.get(self.model)
        if loading is None:  # else another link has it loaded
            loading = self.line.models[self.model] = Loading(
                nursery=nursery, ask=ask, label=self.label, tell=tell, within=within
            )
        self._endpoint.load_by(loading)
        loading.begin()

    async def get(self, path: str) -> tuple[int, str]:
        """See `Endpoint.get`."""
        return await self._endpoint.get(path)

    async def aclose(self) -> None:
        """Close the connections kept for later; rounds that still run fail."""
        await self._endpoint.aclose()

    @abstractmethod
    def _way(self) -> tuple[str, Mapping[str, str]]:
        """The path below the address, and the headers of every request."""

    @abstractmethod
    def body_of(self, request: LLMRequest) -> dict[str, Any]:
        """What is sent for a round."""

    @abstractmethod
    def _assembler(self, request: LLMRequest) -> ResponseAssembler: ...


def bare(url: str) -> str:
    """An address to which a path can be added."""
    return url.rstrip("/")
