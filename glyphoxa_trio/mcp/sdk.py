"""Sessions of the MCP SDK: how they are built, and what their errors mean.

The SDK is the authority on protocol, types and HTTP; the code that carries its messages
over pipes is ours. Import this lazily.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, closing, suppress
from functools import partial
from typing import Any, ClassVar, Final, cast

import attrs
import mcp_types as types
import outcome
from mcp.client.session import ClientSession, IncomingMessage
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.dispatcher import Dispatcher
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp_types.methods import is_input_required
from pydantic import TypeAdapter, ValidationError

import trio

from glyphoxa_trio.actors import lone_errors
from glyphoxa_trio.config import ServerSpec
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.tools.condense import COMPLAINT, unstructured
from glyphoxa_trio.tools.definition import (
    AnswerUnusable,
    ConnectionLost,
    OutputMismatch,
    ServerFault,
    ToolError,
    ToolUnavailable,
)
from glyphoxa_trio.tools.output import OutputSchema

from . import http, prompts, resources
from .condensing import Condenser, Unusable, readers
from .handshake import (
    agree,
    announced,
    follow_changes,
    offers_prompts,
    offers_resources,
)
from .listing import ELICIT, Elicit, ListFilter, paginate
from .logs import hush_the_sdk
from .malformed import MalformedAnswer, complained, fault_of, repaired, usable
from .masking import Masked, Masking, masked
from .metadata import PREFIX, REMEDY
from .process import LastLines
from .questions import (
    LONGEST_QUESTION,
    Answers,
    QuestionRefused,
    TimedQuestions,
    asked,
)
from .starts import Start
from .stdio import open_wire
from .tracing import calling
from .transport import Busy, ConnectionFailed, NeverSent, SessionLost, ToolListing
from .wire import ConnectionEnded, PipeDispatcher, RequestUnsent

# Seconds for a server to say if it has resources, and which prompts, while it is asked
# for its tools.
_LOOKING: Final = 2.0
_FIRST: Final = 0.01  # seconds; the tools first, for servers that answer in order
_MOST_INPUTS: Final = 10  # times that a request is sent, with answers to questions
_AGAIN: Final = 0.25  # seconds
_UNSUPPORTED: Final = "which is not supported"
_NOBODY: Final = f"it asks for input, {_UNSUPPORTED}"
_CUT: Final = 300  # characters of an error's text

# The phrases of a server that has forgotten the session, with any code.
_SESSION_OVER: Final = re.compile(
    r"(the |your )?session (has )?(been )?(terminated|expired|closed|ended|not found)",
    re.IGNORECASE,
)

_FIELDLESS: Final = re.compile(r"\d+ validation errors? for ")

# The errors by which our HTTP client reports that a session is gone.
_GONE: Final = (
    types.CONNECTION_CLOSED,
    http.NEVER_SENT,
    http.FORGOTTEN,
    http.BROKEN,
)

# `send_request` validates every result against the negotiated protocol version. A
# second, version-free model of the result would only be converted back here.
_AS_IT_CAME: Final[TypeAdapter[Any]] = TypeAdapter(dict[str, Any])


@asynccontextmanager
async def open_session(
    spec: ServerSpec,
    *,
    on_tools_changed: Callable[[], None],
    stderr: LastLines,
    server: trio.Process | None = None,
    start: Start | None = None,
    masking: Masking | None = None,
    answers: Answers | None = None,
) -> AsyncGenerator[SdkSession]:
    """Open a session as `transport.open_session`; the ``server`` is already running.

    Args:
      server: the process of a stdio server.
      start: records what this start tells about the next one.
      masking: masks the secrets of the session.
      answers: asks a person what the server wants to know; None refuses its questions.
    """
    hush_the_sdk()
    masking = Masking.of(spec) if masking is None else masking
    loss = SessionLost(clean=masking.text)
    condenser = Condenser(lambda: masking.mask.pattern)
    begun = trio.current_time()
    asking, elicit, carried = None, None, spec
    if answers is not None:
        asking = TimedQuestions(answers)
        elicit = partial(_elicit, spec.name, asking.ask)
        # A stream may be silent while a person thinks.
        carried = attrs.evolve(spec, timeout=spec.timeout + LONGEST_QUESTION)

    session: SdkSession | None = None

    async def on_message(message: IncomingMessage) -> None:
        if isinstance(message, _CHANGES) or (
            isinstance(message, types.ResourceListChangedNotification)
            and session is not None
            and session.awaits_resources
        ):
            on_tools_changed()

    try:
        async with (
            readers(),
            _dispatcher(
                carried, loss, stderr, server, condenser, masking
            ) as dispatcher,
            ClientSession(
                dispatcher=(
                    sieve := ListFilter(
                        Masked(dispatcher, masking), condenser, spec.name, elicit
                    )
                ),
                message_handler=on_message,
                elicitation_callback=None if elicit is None else _announce,
            ) as client,
            trio.open_nursery() as nursery,
        ):
            try:
                await agree(client, spec)
                sieve.speak(client.protocol_version)
                if any(kinds := announced(client, resources=spec.resources)):
                    nursery.start_soon(follow_changes, client, kinds, on_tools_changed)
                pid = None if server is None else server.pid
                shaking_hands = None if server is None else trio.current_time() - begun
                timed = start is None or start.over(shaking_hands=shaking_hands)
                offers = spec.resources and offers_resources(client)
                about = {"glyphoxa.server": spec.name}
                about |= {"mcp.protocol.version": client.protocol_version or ""}
                session = SdkSession(
                    client,
                    sieve,
                    dispatcher if isinstance(dispatcher, PipeDispatcher) else None,
                    masking,
                    condenser,
                    loss,
                    pid,
                    timed,
                    on_tools_changed,
                    offers,
                    offers_prompts(client),
                    about,
                    asking,
                    elicit,
                )
                yield session
            except Exception as error:
                # Before the end of the layers below reports another reason.
                loss.report(reason(error))
                raise
            nursery.cancel_scope.cancel()
    except Exception as error:  # foreign code; a dead server raises an exception group
        why = loss.why or reason(error, masking.text)
        loss.report(why)
        raise ConnectionFailed(why) from error


@attrs.define(eq=False)
class SdkSession:
    """A `transport.Session` over the SDK's `ClientSession`."""

    _client: ClientSession
    _sieve: ListFilter
    _wire: PipeDispatcher | None
    _masking: Masking
    _condenser: Condenser
    loss: SessionLost
    pid: int | None
    timed: bool
    # Reading the list again tells a server that is gone from one with a brief fault.
    _suspect: Callable[[], None]
    _offers_resources: bool
    _offers_prompts: bool
    _about: Mapping[str, Any]  # what the spans of its calls say of the server
    _asking: TimedQuestions | None  # None if no person can be asked
    _elicit: Elicit | None
    # The names of the tools that we added to the list: the server does not know them.
    _ours: frozenset[str] = attrs.field(default=frozenset(), init=False)
    # Of the listed tools that declare an output schema. The SDK's own check has no
    # limit on its work, so it is not used.
    _outputs: Mapping[str, OutputSchema] = attrs.field(factory=dict, init=False)

    @property
    def awaits_resources(self) -> bool:
        """True if the server offers resources, and had none when it was last asked."""
        return self._offers_resources and not self._ours

    def asking(self, before: float = 0.0) -> float:
        return (0.0 if self._asking is None else self._asking.open.seconds()) - before

    async def ping(self) -> bool:
        try:
            await self._client.send_request(_PING, _AS_IT_CAME)
        except MCPError as error:
            meaning = self._judged(error)
            # Over HTTP, a request that is refused has been answered. Over a pipe,
            # "unavailable" means that the server does not read the pipe.
            turned_away = self.pid is None and isinstance(meaning, ToolUnavailable)
            if isinstance(meaning, NeverSent) or not (
                turned_away or isinstance(meaning, ToolError)
            ):
                raise meaning from error
            return False
        except GlyphoxaError:
            raise
        except Exception:  # foreign code: an unusable answer is an answer, too
            return False
        return True

    async def list_tools(self) -> ToolListing:
        async def fetch(cursor: str | None) -> types.ListToolsResult:
            return await self._client.list_tools(
                params=types.PaginatedRequestParams(cursor=cursor)
            )

        found: dict[str, Any] = {}

        async def look(name: str, ask: Callable[[], Awaitable[object]]) -> None:
            found[name] = await ask()

        self._sieve.forget()
        self._ours = frozenset()
        with lone_errors():
            async with trio.open_nursery() as nursery:
                nursery.start_soon(look, "prompts", self._prompts)
                nursery.start_soon(look, "resources", self._has_resources)
                listing, none = await self._tools(fetch)
        if found["resources"]:
            more, notes = resources.missing_from(listing.tools)
            self._ours = frozenset(tool["name"] for tool in more)
            listing = ToolListing((*listing.tools, *more), (*listing.warnings, *notes))
        if none and not self._ours:
            listing = attrs.evolve(listing, warnings=("it offers no tools",))
        return attrs.evolve(listing, prompts=found["prompts"])

    async def _prompts(self) -> tuple[Mapping[str, Any], ...]:
        """Return the prompts of the server; none if it does not list them in time."""
        if self._offers_prompts:
            with trio.move_on_after(_LOOKING), suppress(Exception):  # foreign code
                await trio.sleep(_FIRST)
                return await prompts.listed(partial(self._look, {}))
        return ()

    async def _tools(
        self, fetch: Callable[[str | None], Awaitable[types.ListToolsResult]]
    ) -> tuple[ToolListing, bool]:
        """Return the tools, and True if the server does not know of tools.

        Raises:
          ConnectionFailed: as `list_tools`.
        """
        try:
            listing = await paginate(fetch)
        except MCPError as error:
            if error.code == types.METHOD_NOT_FOUND:
                return ToolListing(()), True
            if self.pid is None and error.code in _GONE:
                # The second fault in a row, if a call broke off before: no brief fault.
                forgotten = error.code == http.FORGOTTEN
                self.loss.report(reason(error), forgotten=forgotten)
            raise ConnectionFailed(f"no list of tools: {reason(error)}") from error
        except (MalformedAnswer, ValidationError) as error:
            malformed = (
                MalformedAnswer.of("tools/list", error)
                if isinstance(error, ValidationError)
                else error
            )
            raise ConnectionFailed(f"no list of tools: {malformed}") from error
        listing = attrs.evolve(
            listing, warnings=(*self._sieve.warnings(), *listing.warnings)
        )
        notes = await self._take_outputs(listing)
        return attrs.evolve(listing, warnings=(*listing.warnings, *notes)), False

    async def _has_resources(self) -> bool:
        """Return False if the server offers no resources, or says that it has none.

        A server that does not answer in time, or with an error, may have some.
        """
        if not self._offers_resources:
            return False
        with trio.move_on_after(_LOOKING):
            await trio.sleep(_FIRST)
            try:
                return await resources.are_any(partial(self._look, {}))
            except (
                Exception
            ):  # foreign code; a call of the tools will say what is wrong
                return True
        return True

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any], meta: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        try:
            if name in self._ours:
                look = partial(self._look, meta)
                return await resources.call(name, arguments, look)
            params = {"name": name, "arguments": dict(arguments)}
            with calling(name, self._about):
                answer = await self._ask("tools/call", params, meta)
            return self._fitting(name, answer)
        except GlyphoxaError:
            raise
        except Exception as error:
            raise self._meaning(error) from error

    async def ask(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            return await self._ask(method, dict(params), {})
        except GlyphoxaError:
            raise
        except Exception as error:
            raise self._meaning(error) from error

    def begin_call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        meta: Mapping[str, Any],
        *,
        sent: Callable[[], None],
        settle: Callable[[outcome.Maybe[Mapping[str, Any]]], None],
    ) -> Callable[[], None] | None:
        may_ask = self._elicit is not None  # also instead of an answer
        if self._wire is None or name in self._ours or may_ask:
            return None

        def answered(result: outcome.Maybe[dict[str, Any]]) -> None:
            settle(self._read(name, result))

        params = {
            "name": name,
            "arguments": dict(arguments),
            "_meta": {**self._sieve.stamp, **meta},
        }
        sent()
        try:
            with calling(name, self._about):
                return self._wire.begin("tools/call", params, answered)
        except MCPError:  # `call_tool` will say what the error means
            return None

    def _read(
        self, name: str, result: outcome.Maybe[dict[str, Any]]
    ) -> outcome.Maybe[Mapping[str, Any]]:
        """Convert an answer from the wire, with the checks that the SDK makes."""
        if isinstance(result, outcome.Error):
            error = cast("MCPError", result.error)
            self._masking.clean(error)
            return outcome.Error(self._meaning(error))
        try:
            answer = masked(self._masking.mask, result.value)
            version = self._sieve.version or ""
            answer = usable("tools/call", version, repaired("tools/call", None, answer))
            if is_input_required(answer):
                raise ToolError(_NOBODY)
            return outcome.Value(self._fitting(name, answer))
        except GlyphoxaError as wrong:
            return outcome.Error(wrong)
        except Exception as wrong:
            return outcome.Error(self._meaning(wrong))

    def _meaning(self, error: Exception) -> Exception:
        """Convert a foreign error of a call to the error that its caller gets."""
        if isinstance(error, MCPError):
            meaning = self._judged(error)
        else:  # foreign code: an answer that breaks the protocol
            text = f"its answer is not usable: {reason(error)}"
            if isinstance(error, ValidationError):
                text = self._fault("tools/call", error)
            meaning = AnswerUnusable(text)
        meaning.__cause__ = error
        return meaning

    async def _ask(
        self, method: str, params: dict[str, Any], meta: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Send a request, and return its result."""
        if meta:
            params["_meta"] = dict(meta)
        more: Mapping[str, Any] = {}
        for _ in range(_MOST_INPUTS):
            request = cast(
                "types.CallToolRequest", _SdkRequest(method, {**params, **more})
            )
            try:
                answer: dict[str, Any] = await self._client.send_request(
                    request, _AS_IT_CAME
                )
            except MCPError as error:
                if self._elicit is None or error.code != types.URL_ELICITATION_REQUIRED:
                    raise
                if (met := await _opened(self._elicit, error.data)) is None:
                    raise
                raise met from error
            except MalformedAnswer as error:
                raise AnswerUnusable(str(error)) from error
            except ValidationError as error:
                raise AnswerUnusable(self._fault(method, error)) from error
            if not is_input_required(answer):
                return answer
            more = await self._input(answer)
        raise ToolError("it asks for more and more input")

    async def _input(self, answer: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the parameters with which a request is sent again to a server of the
        newer family that has answered with questions.

        A question that is not asked is cancelled, with the reason in its ``_meta``.
        """
        if self._elicit is None:
            raise ToolError(_NOBODY)
        given: dict[str, Any] = {}
        for key, request in (answer.get("inputRequests") or {}).items():
            if request["method"] != ELICIT:
                raise ToolError(f"it asks for {request['method']}, {_UNSUPPORTED}")
            try:
                given[key] = await self._elicit(request.get("params") or {})
            except QuestionRefused as no:
                meta = {f"{PREFIX}reason": str(no)}
                given[key] = {"action": "cancel", "_meta": meta}
        if not given:  # it only wants to be asked again
            await trio.sleep(_AGAIN)
        more: dict[str, Any] = {"inputResponses": given} if given else {}
        if (state := answer.get("requestState")) is not None:
            more["requestState"] = state
        return more

    def _fault(self, method: str, error: ValidationError) -> str:
        """Say what is wrong with the server's answer to a method."""
        server = str(self._about["glyphoxa.server"])
        return str(MalformedAnswer.of(method, error, server))

    async def _look(
        self, meta: Mapping[str, Any], method: str, params: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Send a request about resources, and return its result."""
        try:
            return await self._ask(method, dict(params), meta)
        except MCPError as error:
            # A server with one kind of resources need not support the list of the
            # other.
            if error.code == types.METHOD_NOT_FOUND and method.endswith("/list"):
                return {}
            raise

    def _judged(self, error: MCPError) -> Exception:
        """Convert an SDK error to what it means for the call and the session."""
        text = reason(error)
        match error:
            case RequestUnsent():
                gone = self.loss.why
                return ToolUnavailable(text) if gone is None else NeverSent(gone)
            case ConnectionEnded():
                assert self.loss.why is not None
                return ConnectionLost(self.loss.why)
            case Unusable():
                return AnswerUnusable(text)
        if self.pid is not None:
            return _refusal(error.code, text)  # the server itself answers so
        # Only HTTP has sessions that can be forgotten.
        over = error.code == types.INVALID_REQUEST and _SESSION_OVER.match(text)
        if over or error.code in (http.NEVER_SENT, http.FORGOTTEN):
            self.loss.report(text, forgotten=error.code != http.NEVER_SENT)
            return NeverSent(text)
        if error.code == http.REFUSED:
            return ToolUnavailable(text)
        if error.code == http.BUSY:
            return Busy(text, http.wait_of(error.data))
        if error.code == http.BROKEN:
            self._suspect()
            return ConnectionLost(text)
        if error.code == types.CONNECTION_CLOSED:
            # "Connection closed" is the end of the session, any other text that of one
            # stream.
            if error.message == "Connection closed":
                self.loss.report("the connection was closed")
                return ConnectionLost(self.loss.why)
            self._suspect()
            return ConnectionLost(text)
        if error.code == types.PARSE_ERROR:  # the SDK's code for an event in a stream
            return AnswerUnusable(text)
        return _refusal(error.code, text)

    async def _take_outputs(self, listing: ToolListing) -> list[str]:
        """Compile the output schemas; return a note about each faulty one."""
        outputs: dict[str, OutputSchema] = {}
        notes: list[str] = []
        for tool in listing.tools:
            if tool.get("outputSchema") is None:
                continue
            name = tool["name"]
            schema = outputs[name] = OutputSchema(tool["outputSchema"])
            if schema.wrong is not None:
                said = f"its outputSchema is ignored: {schema.wrong}"
                notes.append(f"{name}: {said}")
            await trio.lowlevel.checkpoint()
        self._outputs = outputs
        self._condenser.hold_against(
            {
                tool["name"]: tool["outputSchema"]
                for tool in listing.tools
                if tool["name"] in outputs
            }
        )
        return notes

    def _fitting(self, name: str, answer: dict[str, Any]) -> dict[str, Any]:
        """Return as much of an answer as fits its tool's output schema, if it has one.

        Structured content that does not fit is left out, with a complaint.

        Raises:
          OutputMismatch: if nothing else is in the answer.
        """
        schema = self._outputs.get(name)
        if schema is None or answer.get("isError"):
            return answer
        if self._condenser.was_checked(answer):
            problem = answer["_meta"].get(COMPLAINT)
        elif problem := schema.problem_in(answer):
            problem = f"the tool's answer is not what it promised: {problem}"
            answer = complained(unstructured(answer), problem)
        if problem and not answer.get("content"):
            raise OutputMismatch(f"{problem}; {REMEDY}")
        return answer


def _refusal(code: int, text: str) -> ToolError:
    """Return the error of a tool whose server answers with an error of the protocol."""
    its_own = code in (types.INTERNAL_ERROR, types.METHOD_NOT_FOUND)
    return ServerFault(text) if its_own else ToolError(text)


async def _opened(elicit: Elicit, data: Any) -> ToolError | None:
    """Ask a person to open what a server wants opened before it answers, and return
    what its caller is told; None if the server says nothing of the kind."""
    asked = data.get("elicitations") if isinstance(data, dict) else None
    pages = [x for x in asked if isinstance(x, dict)] if isinstance(asked, list) else []
    if not pages:
        return None
    try:
        for params in pages:
            if (await elicit(params | {"mode": "url"}))["action"] != "accept":
                return ToolError("the person did not want to open what it needs")
    except QuestionRefused as no:
        return ToolError(f"a person has to open an address first: {no}")
    return ToolError("a person opens an address first: call it again when that is done")


async def _elicit(
    server: str, answers: Answers, params: Mapping[str, Any]
) -> dict[str, Any]:
    """Ask a person what a server wants to know, and return the answer for the server.

    Raises:
      QuestionRefused: if the question is not asked, or not answered.
    """
    question = asked(server, params)
    answer = await answers(question)
    if answer is None:
        return {"action": "decline"}
    content = question.checked(answer)
    return {"action": "accept"} | ({} if question.address else {"content": content})


async def _announce(
    context: Any, params: types.ElicitRequestParams
) -> types.ElicitResult | types.ErrorData:
    """Stand for the answers to questions, which `ListFilter` passes to `_elicit`.

    The SDK announces that a person can be asked if it has such a function.
    """
    return types.ErrorData(code=types.INVALID_REQUEST, message="nobody is asked")


_CHANGES: Final = (
    types.ToolListChangedNotification,
    types.PromptListChangedNotification,
)
_PING: Final = types.PingRequest(method="ping")


@attrs.frozen
class _SdkRequest:
    """A request for `ClientSession.send_request`, which only needs its dump.

    The SDK's model of a call would be filled in only to be dumped at once, which is a
    tenth of the cost of a call.
    """

    _method: str
    _params: dict[str, Any]
    # As in the SDK's own request: by the method it knows what to put into a header.
    name_param: ClassVar[str | None] = types.CallToolRequest.name_param

    def model_dump(self, **_: object) -> dict[str, Any]:
        return {"method": self._method, "params": self._params}


@asynccontextmanager
async def _dispatcher(
    spec: ServerSpec,
    loss: SessionLost,
    stderr: LastLines,
    server: trio.Process | None,
    condenser: Condenser,
    masking: Masking,
) -> AsyncGenerator[Dispatcher[Any]]:
    """Yield the dispatcher of a session: our wire over pipes, the SDK's over HTTP."""
    if server is not None:
        async with open_wire(server, loss, stderr, condenser) as wire:
            yield wire
    else:
        async with (
            http.open_client(spec, masking, condenser) as client,
            AsyncExitStack() as behind,
            streamable_http_client(http.endpoint(spec), http_client=client) as streams,
        ):
            # While the SDK says goodbye to the server, answers may arrive. Each would
            # raise an error for the whole session, if the dispatcher had closed both
            # streams by then.
            reader, writer = cast("tuple[Any, Any]", streams)
            behind.enter_context(closing(reader.clone()))
            yield JSONRPCDispatcher(
                reader, behind.enter_context(closing(writer.clone()))
            )


def reason(error: BaseException, clean: Callable[[str], str] = str) -> str:
    """Return the first cause of an exception (group), short enough for a warning."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    kind = type(error).__name__
    if isinstance(error, ValidationError):
        return clean(f"it breaks the protocol: {fault_of(error)}; {REMEDY}")[:_CUT]
    first, *more = clean(str(error)).strip().splitlines() or [kind]
    if more and _FIELDLESS.search(first):
        # The words of pydantic, which also servers send: the field is the second line.
        first = ": ".join([first, *(line.strip() for line in more[:2])])
    if not isinstance(error, GlyphoxaError | MCPError | OSError) and first != kind:
        first = f"{kind}: {first}"
    return first if len(first) <= _CUT else f"{first[:_CUT]} …"
