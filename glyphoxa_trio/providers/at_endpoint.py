"""The base class of all vendors' models: one model at one server."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import TYPE_CHECKING, Any, ClassVar, Final

import attrs

import trio

from glyphoxa_trio.secret import Secret
from glyphoxa_trio.tools.arguments import cut

from .answer import ResponseAssembler
from .asking import ModelFindings, ModelRequest
from .endpoint import Endpoint
from .line import Loading, RequestSlots
from .llm import LLMEvent, LLMRequest, Message, Waiting
from .remedies import Advice
from .templates import Templates

if TYPE_CHECKING:
    import httpx2

_SHOWN: Final = 160  # characters of a template that a warning quotes


@attrs.define(eq=False, kw_only=True)
class AtEndpoint(ABC):
    """One model at one server. Subclasses define the request and read the answer.

    Connections are kept for the next round; close the model with `aclose`.

    Args:
      model: the model's name.
      base_url: the server's address.
      api_key: the key, if the server wants one.
      client: see `Endpoint`.
      options: the vendor's options and the model's `Abilities`.
      warn: called once with each thing that the model turns out not to support.
      advice: hints about this kind of server, for error messages.
      line: the places at its server, which its models share.
      patient: see `Endpoint`.
      loads_within: seconds that loading the model may take; None if it is not loaded.
      loads_ahead: see `Loading`.

    Raises:
      ValueError: see `Endpoint`.
    """

    model: str
    base_url: str
    api_key: Secret | None = None
    client: httpx2.AsyncClient | None = attrs.field(default=None, repr=False)
    options: Any = None  # the vendor's `Abilities`
    warn: Callable[[str], None] = attrs.field(default=lambda _: None, repr=False)
    advice: Advice = attrs.field(factory=Advice, repr=False)
    line: RequestSlots = attrs.field(factory=RequestSlots, repr=False)
    patient: bool = True
    loads_within: float | None = None
    loads_ahead: bool = True
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
        """Open one round: entering waits for the headers, leaving hangs up at once.

        Cancelling closes the connection at any point. A field that the server refuses,
        and that a request can do without, is left out in another attempt and from then
        on.

        Raises:
          LLMError: see `LLM.stream`.
        """
        asked = ModelRequest(self, request)
        return self._endpoint.ask(asked, self._assembler(request))

    def keep_loaded(self, nursery: trio.Nursery, tell: Callable[[str], None]) -> None:
        """Load the model now, and before a request that comes after a long pause; if it
        is not loaded ahead, when a turn has waited for it in vain.

        Args:
          nursery: runs the loading. It must outlive all rounds.
          tell: called when the model is being loaded, and when it is loaded.
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
        if loading is None:  # otherwise another link loads it
            loading = self.line.models[self.model] = Loading(
                nursery=nursery,
                ask=ask,
                label=self.label,
                tell=tell,
                within=within,
                ahead=self.loads_ahead,
            )
        self._endpoint.load_by(loading)
        loading.begin()

    async def get(self, path: str) -> tuple[int, str]:
        """Fetch a page of the server; see `Endpoint.get`."""
        return await self._endpoint.get(path)

    async def aclose(self) -> None:
        """Close the kept connections; rounds that still run fail."""
        await self._endpoint.aclose()

    @abstractmethod
    def _way(self) -> tuple[str, Mapping[str, str]]:
        """Return the path below the address, and the headers of every request."""

    @abstractmethod
    def body_of(self, request: LLMRequest) -> dict[str, Any]:
        """Return the body of a round's request."""

    def _templates(self, request: LLMRequest) -> Templates:
        """Return the filter of template marks of one answer."""
        schemas = {spec.name: spec.parameters for spec in request.tools}
        return Templates(
            names=frozenset(schemas), schemas=schemas, found=self._template_mark
        )

    def _template_mark(self, mark: str, unread: str) -> None:
        """Report, once each, that the model's template is in its text, and what could
        not be read of it."""
        what = "marks of its template are in its text"
        then = "they are not spoken, and a call among them is run if its tool is shown"
        if unread:
            what = "its text has a call that could not be read, or of an unknown tool"
            then = "it is neither run nor spoken"
        if what not in self.found.told:
            self.found.told.add(what)
            shown = cut(" ".join(f"{mark} {unread}".split()), _SHOWN)
            self.warn(
                f"{self.label}: {what} ({shown}); {then} (its server should know which"
                " template the model has)"
            )

    @abstractmethod
    def _assembler(self, request: LLMRequest) -> ResponseAssembler: ...


def bare(url: str) -> str:
    """Return an address to which a path can be added."""
    return url.rstrip("/")
