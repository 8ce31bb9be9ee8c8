"""The gateway at ``/mcp`` in front of the SDK's transport. An ASGI application.

It decides which requests may come in, how many and how large; the SDK sees no others.
A cookie may stand for ``Mcp-Session-Id``; ``Accept`` need not name the event stream. A
body is read completely, within its bounds, before it is passed on.
"""

from __future__ import annotations

import anyio
import attrs
from mcp.server.streamable_http import GET_STREAM_KEY
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.types import Receive, Scope, Send

import trio

from glyphoxa_trio.units import many

from .access import RequestRefusal, principal, read_headers, refusal
from .answering import SSE, ResponseSender
from .bridge import HttpExchange
from .incoming import COOKIE, HttpRequest, RequestRefused
from .limits import Access, Limits
from .message import HttpMessage
from .rates import Rates, opener_of
from .replies import Intake, TooLong, read_body, refuse
from .sessions import HttpSession, Running, Sessions


@attrs.define(eq=False, kw_only=True)
class Gateway:
    """The application at ``/mcp``.

    Args:
      stateless: serves the requests without a session, of protocol 2026-07-28.
      secure: whether the server uses TLS, so that cookies are marked ``Secure``.
      draining: whether the server is stopping and accepts no new requests.
    """

    sessions: Sessions
    stateless: StreamableHTTPSessionManager
    access: Access
    limits: Limits
    secure: bool = False
    draining: bool = False
    running: Running = attrs.field(factory=Running, init=False)
    rates: Rates = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.rates = Rates(self.limits.rate)

    def begin_nothing_new(self) -> None:
        self.draining = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        intake = Intake(receive)
        try:
            await self._serve(scope, intake, send)
        except RequestRefused as refused:
            await refuse(intake, send, refused.status, refused.body, refused.headers)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = read_headers(scope["headers"])
        refused = headers if isinstance(headers, RequestRefusal) else None
        if isinstance(headers, dict):
            refused = refusal(headers, self.access)
        if refused is not None:
            raise RequestRefused(refused.status, refused.message, refused.headers)
        assert isinstance(headers, dict)
        if scope["http_version"] not in ("1.0", "1.1"):
            # HTTP/2's flow control would hide from us that a client does not read.
            raise RequestRefused(505, "only HTTP/1.1 is supported")
        if scope["method"] not in ("GET", "POST", "DELETE"):
            raise RequestRefused(
                405, "Method Not Allowed", {"Allow": "GET, POST, DELETE"}
            )
        if self.draining and scope["method"] != "DELETE":
            raise RequestRefused(503, "the server is stopping", {"Retry-After": "5"})
        owner = principal(headers, self.access)
        assert owner is not None
        body = await self._body(scope, headers, receive)
        if body is None:
            return
        request = HttpRequest(scope, headers, owner, body, receive, send)
        if request.is_alone:
            await self._alone(request)
        elif scope["method"] == "POST":
            await self._post(request)
        elif scope["method"] == "GET":
            await self._get(request)
        else:
            await self._delete(request)

    async def _body(
        self, scope: Scope, headers: dict[str, str], receive: Receive
    ) -> bytes | None:
        if headers.get("content-encoding", "identity").lower() != "identity":
            raise RequestRefused(415, "Content-Encoding is not supported")
        if scope["method"] == "POST":
            kind = headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind != "application/json":
                raise RequestRefused(415, "Content-Type must be application/json")
        most = self.limits.body if scope["method"] == "POST" else 1024
        too_long = RequestRefused(413, f"a body has at most {most} bytes")
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit():
            raise RequestRefused(400, "Content-Length must be a number")
        if len(length) > 18 or int(length) > most:
            raise too_long
        with trio.move_on_after(self.limits.body_within) as scope_:
            try:
                return await read_body(receive, most)
            except TooLong:
                raise too_long from None
        assert scope_.cancelled_caught
        raise RequestRefused(
            408, "the body did not arrive in time", {"Connection": "close"}
        )

    async def _alone(self, request: HttpRequest) -> None:
        """Handle a request without a session."""
        plain = True
        if request.method == "POST":
            message = request.message()
            plain = request.is_plain and message.method != "subscriptions/listen"
            self.rates.count_call(request)
        if plain:
            request.accept()
        answering = ResponseSender(send=request.send, plain=plain)
        # A stopping server does not wait for a listener: it ends its stream instead.
        with self.running.counted(request.method == "POST" and plain):
            await self.stateless.handle_request(
                request.handed_on(HttpExchange(streams=not plain)),
                request.replayed,
                answering,
            )
            await answering.end()

    async def _post(self, request: HttpRequest) -> None:
        message = request.message()
        request.accept()
        if message.opens and "mcp-session-id" not in request.headers:
            await self._open(request, message)
            return
        session = self._session(request)
        self.rates.count_call(request, session.bucket)
        exchange = HttpExchange(
            client=session.client,
            streams=not (request.is_plain or session.is_plain),
            greeted=session.greet,
        )
        owed = session.events.owed
        self._owe(owed, message.id)
        answering = ResponseSender(
            send=request.send, plain=request.is_plain, gone=lambda: session.ended
        )
        try:
            with self.running.counted(message.id is not None):
                await self._hand_on(session, request, exchange, answering, message.id)
        finally:
            if message.id is not None and (answering.status or 500) >= 400:
                owed.discard(message.id)

    async def _open(self, request: HttpRequest, message: HttpMessage) -> None:
        """Handle `initialize`, which always begins a new session.

        A waiting GET may be an attacker's, who planted a cookie in this client to get
        its notifications. So its stream ends; the client itself opens a new one.
        """
        waiting = self.sessions.find(request.cookie or "", request.owner)
        if waiting is not None and not waiting.is_greeted:
            waiting.end_streams()
            await self.sessions.discard(waiting)
        session = await self._new(request, plain=request.is_plain)
        request.set_session(session.id)
        self._owe(session.events.owed, message.id)
        answering = ResponseSender(
            send=request.send,
            plain=request.is_plain,
            settled=lambda: session.is_greeted,
            headers=lambda: self._cookie(session) if session.is_greeted else [],
            without=lambda: None if session.is_greeted else b"mcp-session-id",
            gone=lambda: session.ended,
        )
        exchange = HttpExchange(
            client=session.client,
            streams=not (request.is_plain or session.is_plain),
            greeted=session.greet,
        )
        try:
            with self.running.counted(True):
                await self._hand_on(session, request, exchange, answering, message.id)
        finally:
            if not session.is_greeted:
                await self.sessions.discard(session)

    async def _get(self, request: HttpRequest) -> None:
        if "accept" not in request.headers:
            request.set_header(b"accept", SSE)
        known = self._known(request)
        session = known or await self._new(request)
        request.set_session(session.id)
        last = request.headers.get("last-event-id")
        if known is not None and last is not None:
            stream = session.events.stream_of(last)
            if stream is None:
                raise RequestRefused(400, "Last-Event-ID: this event is no longer kept")
            # The new request takes the stream over from a dead connection.
            session.transport.close_sse_stream(stream)
        elif GET_STREAM_KEY in session.events.tails:
            raise RequestRefused(409, "Conflict: the session has a stream already")
        answering = ResponseSender(
            send=request.send,
            headers=lambda: self._cookie(session) if known is None else [],
            gone=lambda: session.ended,
        )
        try:
            await self._hand_on(session, request, HttpExchange(), answering)
        finally:
            if not session.is_greeted:
                await self.sessions.discard(session)

    async def _delete(self, request: HttpRequest) -> None:
        session = self._session(request)
        answering = ResponseSender(
            send=request.send,
            headers=lambda: [(b"set-cookie", _cookie("", "Max-Age=0"))],
        )
        await self._hand_on(session, request, HttpExchange(), answering)
        await self.sessions.discard(session)

    async def _hand_on(
        self,
        session: HttpSession,
        request: HttpRequest,
        exchange: HttpExchange,
        answering: ResponseSender,
        number: str | None = None,
    ) -> None:
        try:
            with session.used():
                await session.transport.handle_request(
                    request.handed_on(exchange), request.replayed, answering
                )
            await answering.end()
        # the SDK's; the client that still waits has been answered
        except anyio.ClosedResourceError:
            if not (session.ended or session.transport.is_terminated):
                raise
        finally:
            if number is not None and not answering.done:
                # The client has disconnected, perhaps before the SDK saw the request:
                # it would keep the streams of this request for as long as the session
                # lasts.
                session.transport.close_sse_stream(number)

    async def _new(self, request: HttpRequest, *, plain: bool = False) -> HttpSession:
        opener = opener_of(request)
        self.rates.count_session(request)
        if not await self.sessions.make_room(opener):
            raise RequestRefused(503, "Too many open sessions", {"Retry-After": "30"})
        return await self.sessions.open(request.owner, opener=opener, plain=plain)

    def _owe(self, owed: set[str], number: str | None) -> None:
        """Remember that a request awaits its answer, or refuse it."""
        if number is None:
            return
        if number in owed:
            raise RequestRefused(400, "a request with this id is still running")
        if len(owed) >= self.limits.running:
            wait = {"Retry-After": "1"}
            raise RequestRefused(
                429,
                f"{many(self.limits.running, 'request is', 'requests are')} running",
                wait,
            )
        owed.add(number)

    def _session(self, request: HttpRequest) -> HttpSession:
        """Return the session of a request that must have one."""
        session = self._known(request)
        if session is None:
            raise RequestRefused(400, "Bad Request: Missing session ID")
        request.set_session(session.id)
        return session

    def _known(self, request: HttpRequest) -> HttpSession | None:
        """Return the session that a request names; None if it names none.

        For a GET an unknown cookie counts as none: it may be of another server here.
        """
        named = request.headers.get("mcp-session-id")
        session_id = named if named is not None else request.cookie
        if session_id is None:
            return None
        session = self.sessions.find(session_id, request.owner)
        if session is None and (named is not None or request.method != "GET"):
            raise RequestRefused(404, "Session not found")
        return session

    def _cookie(self, session: HttpSession) -> list[tuple[bytes, bytes]]:
        secure = ("Secure",) if self.secure else ()
        return [(b"set-cookie", _cookie(session.id, *secure))]


def _cookie(value: str, *more: str) -> bytes:
    kept = ("HttpOnly", "SameSite=Strict", "Path=/", *more)
    return "; ".join((f"{COOKIE}={value}", *kept)).encode()
