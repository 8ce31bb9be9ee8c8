"""A model server over HTTP: one request, and its response as an event stream.

It holds what the vendors' links share: connections and their end, one table of errors,
further attempts, and the events of an answer, read as the caller asks for them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import (
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from typing import TYPE_CHECKING, Any, Final

import attrs

import trio

from glyphoxa_trio.certificates import trusted_for
from glyphoxa_trio.quiet import quiet
from glyphoxa_trio.secret import Mask, Secret

from .address import check_address
from .answer import AnswerEvents, Opened, ResponseAssembler
from .asking import ModelRequest
from .body import Given, hang_up, is_json, is_stream, payloads_of
from .client_errors import kinds_of_client_errors
from .failures import STATUS, excerpt, status_error, status_of
from .line import Loading, RequestSlots
from .llm import LLMError, LLMEvent, Waiting
from .payloads import encoded
from .retries import RequestRetries

if TYPE_CHECKING:
    import httpx2

# Seconds; the engine limits the time of everything after it.
CONNECT_TIMEOUT: Final = 5.0
_SHORTEST_CONNECT: Final = 1.0
MAX_ERROR_BODY: Final = 64 * 1024  # bytes read of a response that is not a stream
MAX_WHOLE: Final = 256 * 1024  # bytes of an answer that is not streamed
MAX_LIST: Final = 1024 * 1024  # bytes of other pages


@attrs.define(eq=False, kw_only=True)
class Endpoint:
    """The address of a model, with its connections.

    Connections are kept for the next round; close the endpoint with `aclose`.

    Args:
      base_url: the address, as it is shown.
      path: the path below it to which requests are sent.
      api_key: the key, if the server wants one; it is hidden in messages.
      headers: sent with every request; they may contain the key.
      client: a client to share, which its owner closes. Without one, a client is made
        on first use; it obeys the proxies of the environment, except for a server on
        this machine.
      line: the places at the server.
      patient: see `RequestRetries`.

    Raises:
      ValueError: for an address that is not plain http(s), or that carries credentials
        or a query (an address is shown; a key belongs in ``api_key``), and for a key
        that a header cannot hold.
    """

    base_url: str
    path: str
    api_key: Secret | None = None
    headers: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    client: httpx2.AsyncClient | None = attrs.field(default=None, repr=False)
    line: RequestSlots = attrs.field(factory=RequestSlots, repr=False)
    patient: bool = True
    loading: Loading | None = attrs.field(default=None, init=False, repr=False)
    _own: httpx2.AsyncClient | None = attrs.field(default=None, init=False, repr=False)
    _mask: Mask = attrs.field(init=False, repr=False)

    @_mask.default
    def _of_the_key(self) -> Mask:
        return Mask.around(self.api_key)

    def __attrs_post_init__(self) -> None:
        check_address(self.base_url, self.api_key)
        # This loads the HTTP client, which would otherwise delay the first turn.
        kinds_of_client_errors()

    def load_by(self, loading: Loading) -> None:
        """Use ``loading`` to load the model before a request."""
        self.loading = loading

    @asynccontextmanager
    async def ask(
        self, asked: ModelRequest, assembler: ResponseAssembler
    ) -> AsyncIterator[AsyncIterator[LLMEvent]]:
        """Open one round: entering waits for the headers, leaving hangs up at once.

        If the request has to wait for a place, or is for a whole answer, entering does
        not wait: the first event says why, and the next ones wait; nor if the model may
        have to be loaded. Cancelling closes the connection at any point. A refusal that
        teaches what the model accepts, or a server that may take the request in a
        moment, is followed by another attempt (`retries`).

        Raises:
          LLMError: see `LLM.stream`.
        """
        async with AsyncExitStack() as stack:
            why = self.line.enter_nowait(self.loading)
            if not why:
                self.give_back(stack, assembler)
            loads = self.loading is not None and self.loading.unknown
            if why or loads or asked.is_whole:
                yield _InLine(self, stack, asked, assembler, why, queues=bool(why))
            else:
                yield await self.answer(stack, asked, assembler)

    def give_back(self, stack: AsyncExitStack, assembler: ResponseAssembler) -> None:
        """Have the place that was taken given back when the stack closes."""

        def leave() -> None:
            if assembler.over and self.loading is not None:
                self.loading.use()
            self.line.leave()

        stack.callback(leave)

    async def answer(
        self, stack: AsyncExitStack, asked: ModelRequest, assembler: ResponseAssembler
    ) -> AnswerEvents:
        """Return the events of an answer, for a request that has a place.

        Closing the stack hangs up.

        Raises:
          LLMError: see `LLM.stream`.
        """

        # Some servers end a stream at once if they cannot stream, or find the
        # conversation too long: asked for a whole answer, they answer or report the
        # error.
        async def again(ended: bool) -> Opened:
            few = RequestRetries(asked.tool_count, self.patient)
            response, payloads = await self._open(asked, assembler, few, whole=True)
            if ended and isinstance(payloads, Given):
                asked.came_in_one_piece()
            return response, payloads

        retries = RequestRetries(asked.tool_count, self.patient)

        # Others accept the request, and refuse it as the first thing in the stream.
        async def refused(text: str, error: LLMError) -> Opened | None:
            status = status_of(text) or STATUS.get(error.kind, 0)
            mended = asked.mend(status, text) and retries.learn()
            if mended or await retries.again(error, status):
                return await self._open(asked, assembler, retries)
            return None

        response, payloads = await self._open(asked, assembler, retries)
        events = AnswerEvents(
            response,
            payloads,
            assembler,
            self._translating,
            again,
            asked.streamed,
            refused,
        )
        stack.push_async_callback(events.aclose)
        return events

    async def get(self, path: str) -> tuple[int, str]:
        """Fetch the page at ``path`` below the address; return its status and text.

        Raises:
          LLMError: if the server does not answer.
        """
        import httpx2

        with self._translating():
            client = self.client or await self._own_client()
            request = client.build_request(
                "GET",
                f"{self.base_url}{path}",
                headers={"accept": "application/json"} | dict(self.headers),
                timeout=httpx2.Timeout(CONNECT_TIMEOUT),
            )
            response = await client.send(request, stream=True, follow_redirects=False)
        return response.status_code, await self._read(response, MAX_LIST)

    async def aclose(self) -> None:
        """Close the kept connections; rounds that still run fail."""
        own, self._own = self._own, None
        if own is not None:
            await own.aclose()

    async def _open(
        self,
        asked: ModelRequest,
        assembler: ResponseAssembler,
        retries: RequestRetries,
        *,
        whole: bool = False,
    ) -> Opened:
        """Send the request, with further attempts, until there is an answer.

        Raises:
          LLMError: see `LLM.stream`.
        """
        while True:
            body = asked.body()
            if whole:
                body["stream"] = False
                body.pop("stream_options", None)
            said: int | None = None
            try:
                response = await self._send(body)
            except LLMError as error:
                failure = error
            else:
                if is_stream(response):
                    return response, payloads_of(response)
                most = MAX_WHOLE if is_json(response) else MAX_ERROR_BODY
                text = await self._read(response, most)
                status = response.status_code
                read = assembler.whole if status < 300 else assembler.rescued
                given = read(text)
                if given is not None:
                    return response, Given(given)
                said = (status < 300 and status_of(text)) or status
                if asked.mend(said, text) and retries.learn():
                    continue
                failure = status_error(status, response.headers, text, self.api_key)
            if not await retries.again(failure, said):
                raise await asked.explained(failure) from failure.__cause__

    async def _send(self, body: dict[str, Any]) -> httpx2.Response:
        """Send one attempt; return the response, with its body unread."""
        import httpx2

        headers = {
            "accept": "text/event-stream",
            "accept-encoding": "identity",  # compression would delay the stream
            "content-type": "application/json",
        }
        with self._translating(), quiet(self._mask.text):
            client = self.client or await self._own_client()
            request = client.build_request(
                "POST",
                f"{self.base_url}{self.path}",
                content=encoded(body),
                headers=headers | dict(self.headers),
                timeout=httpx2.Timeout(None, connect=_connect_timeout()),
            )
            return await client.send(request, stream=True, follow_redirects=False)

    async def _own_client(self) -> httpx2.AsyncClient:
        import httpx2

        from .reading import client_for

        if self._own is None:
            # The line has the limit; this leaves room for other requests.
            limits = httpx2.Limits(
                max_connections=None,
                max_keepalive_connections=max(4, self.line.places // 4),
            )
            tls = await trusted_for(self.base_url)
            # Another task may have made it meanwhile.
            self._own = self._own or client_for(self.base_url, tls, limits=limits)
        return self._own

    async def _read(self, response: httpx2.Response, most: int) -> str:
        """Return the beginning of a response's body, as far as it arrived."""
        body = bytearray()
        chunks = response.aiter_bytes()
        try:
            with suppress(LLMError), self._translating():
                async for chunk in chunks:
                    body += chunk
                    if len(body) >= most:
                        break
        finally:
            await hang_up(response, chunks)
        return body.decode("utf-8", "replace")

    @contextmanager
    def _translating(self) -> Iterator[None]:
        """Convert the HTTP client's errors to `LLMError`."""
        try:
            yield
        # Border to foreign code: the HTTP client's errors, by one table.
        except Exception as error:
            for types, kind in kinds_of_client_errors():
                if isinstance(error, types):
                    words = f"{self.base_url}: {error or type(error).__name__}"
                    raise LLMError(kind, excerpt(words, self.api_key)) from error
            raise


def _connect_timeout() -> float:
    """Return the seconds that connecting may take, so that it can be tried again."""
    left = trio.current_effective_deadline() - trio.current_time()
    return min(CONNECT_TIMEOUT, max(left / 2, _SHORTEST_CONNECT))


@attrs.define(eq=False)
class _InLine:
    """The events of an answer, whose request is not sent yet."""

    _endpoint: Endpoint
    _stack: AsyncExitStack
    _asked: ModelRequest
    _assembler: ResponseAssembler
    _why: str
    _queues: bool = attrs.field(kw_only=True)
    _sent: bool = attrs.field(default=False, init=False)
    _loads: Loading | None = attrs.field(default=None, init=False)
    _events: AnswerEvents | None = attrs.field(default=None, init=False)

    def __aiter__(self) -> _InLine:
        return self

    async def __anext__(self) -> LLMEvent:
        if self._why:
            await trio.lowlevel.checkpoint_if_cancelled()
            why, self._why = self._why, ""
            return Waiting(why)
        if not self._sent:
            if self._queues:
                await self._endpoint.line.enter(self._endpoint.loading)
                self._endpoint.give_back(self._stack, self._assembler)
            else:
                await trio.lowlevel.checkpoint_if_cancelled()
            self._sent = True
            loading = self._endpoint.loading
            self._loads = loading if loading is not None and loading.unknown else None
            whole = self._loads is not None or self._asked.is_whole
            return Waiting(whole=whole)
        loads, self._loads = self._loads, None
        if loads is None:
            return await self._next()
        await loads.wait()
        try:
            with loads.by_a_turn():
                return await self._next()
        except LLMError as error:
            if not loads.missed(error):
                raise
        self._loads = loads
        return Waiting("it is being loaded")

    async def _next(self) -> LLMEvent:
        if self._events is None:
            self._events = await self._endpoint.answer(
                self._stack, self._asked, self._assembler
            )
        return await anext(self._events)
