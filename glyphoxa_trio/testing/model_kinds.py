"""Model servers that answer as real ones do, and refuse the same requests.

    async with open_strict_server(KINDS["mistral"]) as server:
        model = ChatCompletions(model="m", base_url=server.base_url)

Each kind follows its vendor's documentation of requests and streams, in our own words:
which fields it accepts, in which order roles may come, how its chunks are cut. A
request that it would refuse is refused with its status and its wording, and is noted in
``refused``. An accepted one is answered by a ``Speaker``: a sentence, or a call of a
tool.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import attrs

from .http_server import (
    HttpServer,
    Pieces,
    ReceivedRequest,
    Reply,
    StatusReply,
    open_http_server,
)
from .model_chat import pieces_of

Body = Mapping[str, Any]
Refusal = tuple[int, Any]
Call = tuple[str, str]  # a tool's name, and arguments as JSON
Speaker = Callable[[Body], "str | Call"]

_STREAM: Final = {"content-type": "text/event-stream"}
_ALTERNATE: Final = (
    "After the optional system message, conversation roles must alternate"
    " user/assistant/user/assistant/..."
)


@attrs.frozen(kw_only=True)
class ModelServerKind:
    """One kind of server.

    Args:
      refuse: returns its answer to a request that it refuses; None if it accepts it.
      chunks: returns a reply as the text of its stream, piece by piece.
      context: tokens that it accepts, four characters each; None means no limit.
      full: returns its answer to a conversation that is longer.
    """

    name: str
    refuse: Callable[[Body], Refusal | None]
    chunks: Callable[[str | Call, Body], Iterator[str]]
    context: int | None = None
    full: Callable[[int, int], Refusal] | None = None


@attrs.define(eq=False)
class StrictServer:
    """A running server; accepted and refused requests, in order of arrival."""

    http: HttpServer
    kind: ModelServerKind
    taken: list[Body] = attrs.field(factory=list)
    refused: list[str] = attrs.field(factory=list)

    @property
    def base_url(self) -> str:
        return f"{self.http.origin}/v1"


def echo(body: Body) -> str | Call:
    """Call the first tool if the user says "use it"; else say a sentence."""
    last = body["messages"][-1]
    tools = body.get("tools") or ()
    asked = last["role"] == "user" and last["content"].rstrip().endswith("use it")
    if asked and tools and body.get("tool_choice") != "none":
        return tools[0]["function"]["name"], '{"thing": "door"}'
    return "Well met. I am here."


@asynccontextmanager
async def open_strict_server(
    kind: ModelServerKind, speaker: Speaker = echo, *, models: Sequence[str] = ("m",)
) -> AsyncIterator[StrictServer]:
    """Run a server of this kind on a free port of 127.0.0.1 until the block is left."""
    made: list[StrictServer] = []

    def answer(request: ReceivedRequest) -> Reply:
        server = made[0]
        if request.method == "GET" and request.path == "/v1/models":
            return StatusReply(body={"data": [{"id": name} for name in models]})
        if request.path != "/v1/chat/completions":
            plain = {"content-type": "text/plain"}
            return StatusReply(404, plain, b"404 page not found")
        body = request.message
        no = kind.refuse(body) or _too_long(kind, body)
        if no is not None:
            server.refused.append(json.dumps(no[1]))
            return StatusReply(no[0], {}, no[1])
        server.taken.append(body)
        pieces = [piece.encode() for piece in kind.chunks(speaker(body), body)]
        return Pieces(lambda: pieces, _STREAM)

    async with open_http_server(answer) as http:
        made.append(StrictServer(http, kind))
        yield made[0]


def _too_long(kind: ModelServerKind, body: Body) -> Refusal | None:
    size = len(json.dumps([body["messages"], body.get("tools")])) // 4
    if kind.context is None or kind.full is None or size <= kind.context:
        return None
    return kind.full(size, kind.context)


# ------------------------------------------------------------------------ requests


def _fields(body: Body, known: str) -> str:
    return next((key for key in body if key not in known.split()), "")


_COMMON: Final = (
    "model messages stream tools tool_choice temperature max_tokens top_p stop seed"
    " parallel_tool_calls response_format"
)
_MESSAGE: Final = {
    "system": {"role", "content"},
    "user": {"role", "content"},
    "assistant": {"role", "content", "tool_calls"},
    "tool": {"role", "content", "tool_call_id"},
}


def _odd_field(body: Body) -> tuple[int, str] | None:
    """Return the first field of a message that the strict protocol does not have."""
    for at, message in enumerate(body["messages"]):
        odd = set(message) - _MESSAGE.get(message["role"], set())
        if odd:
            return at, min(odd)
    return None


def _answered(body: Body) -> str:
    """Return why calls and results do not match; "" if they do."""
    owed: list[str] = []
    for message in body["messages"]:
        if message["role"] == "tool":
            if message["tool_call_id"] not in owed:
                return "a tool message answers no call before it"
            owed.remove(message["tool_call_id"])
        elif owed:
            return "Not the same number of function calls and responses"
        for call in message.get("tool_calls") or ():
            owed.append(call["id"])
            if not isinstance(json.loads(call["function"]["arguments"]), dict):
                return "arguments are no object"
    return "Not the same number of function calls and responses" if owed else ""


def alternation(body: Body, *, tools: bool, system: bool = True) -> str:
    """Return the error of a template that wants alternating roles; "" if there is none.

    Args:
      tools: whether calls and results may stand in between; they do not count.
      system: whether the first message may be the system's.
    """
    messages = list(body["messages"])
    if messages and messages[0]["role"] == "system":
        if not system:
            return "System role not supported"
        messages.pop(0)
    wanted = "user"
    for message in messages:
        if tools and (message["role"] == "tool" or message.get("tool_calls")):
            continue
        if message["role"] != wanted:
            return _ALTERNATE
        wanted = "assistant" if wanted == "user" else "user"
    return ""


def _mistral(body: Body) -> Refusal | None:
    def no(status: int, words: Any, kind: str = "invalid_request_error") -> Refusal:
        return status, {"object": "error", "message": words, "type": kind}

    if odd := _fields(body, f"{_COMMON} random_seed safe_prompt"):
        where = ["body", odd]
        detail = {"type": "extra_forbidden", "loc": where, "msg": "Extra inputs"}
        return no(422, {"detail": [detail]})
    if found := _odd_field(body):
        at, key = found
        where = ["body", "messages", str(at), "user", key]
        detail = {"loc": where, "msg": "Extra inputs are not permitted"}
        return no(422, {"detail": [detail]})
    before = ""
    for message in body["messages"]:
        role = message["role"]
        follows = {
            "": ("system", "user"),
            "system": ("user",),
            "user": ("assistant", "user"),
            "assistant": ("user", "tool"),
            "tool": ("tool", "assistant"),
        }[before]
        if role not in follows:
            words = f"Unexpected role '{role}' after role '{before or 'nothing'}'"
            return no(400, words, "invalid_request_message_order")
        before = role
        for call in message.get("tool_calls") or ():
            if not re.fullmatch(r"[a-zA-Z0-9]{9}", call["id"]):
                return no(
                    400,
                    f"Tool call id was {call['id']} but must be a-z, A-Z, 0-9, with"
                    " a length of 9.",
                )
    if before == "assistant":
        return no(400, "Expected last role User or Tool for serving, got assistant")
    return no(400, words) if (words := _answered(body)) else None


def _template(*, tools: bool, system: bool) -> Callable[[Body], Refusal | None]:
    """Return the rules of llama.cpp with --jinja: a template's error has status 500."""

    def refuse(body: Body) -> Refusal | None:
        words = alternation(body, tools=tools, system=system) or _answered(body)
        for message in body["messages"]:
            if len(message.get("tool_calls") or ()) > 1 and tools:
                words = words or "This model only supports single tool-calls at once!"
        if not words:
            return None
        error = {"code": 500, "message": words, "type": "server_error"}
        return 500, {"error": error}

    return refuse


def _vllm(body: Body) -> Refusal | None:
    words = ""
    if body.get("tools") and body.get("tool_choice") != "none":
        words = (
            '"auto" tool choice requires --enable-auto-tool-choice and'
            " --tool-call-parser to be set"
        )
    words = words or alternation(body, tools=False) or _answered(body)
    if not words:
        return None
    error = {"message": words, "type": "BadRequestError", "param": None, "code": 400}
    return 400, {"error": error}


def _ollama(body: Body) -> Refusal | None:
    if not body.get("tools"):
        return None
    words = f"registry.ollama.ai/library/{body['model']} does not support tools"
    error = {"message": words, "type": "api_error", "param": None, "code": None}
    return 400, {"error": error}


def _lenient(body: Body) -> Refusal | None:
    words = _answered(body)
    return (400, {"error": {"message": words, "code": 400}}) if words else None


def _gemini(body: Body) -> Refusal | None:
    known = f"{_COMMON} stream_options max_completion_tokens reasoning_effort"
    words = _answered(body)
    if odd := _fields(body, known):
        words = f'Invalid JSON payload received. Unknown name "{odd}": no such field.'
    if found := _odd_field(body):
        words = f'Unknown name "{found[1]}" at messages[{found[0]}]: no such field.'
    if not any(x["role"] == "user" for x in body["messages"]):
        words = "contents are required"
    if not words:
        return None
    error = {"code": 400, "message": words, "status": "INVALID_ARGUMENT"}
    return 400, [{"error": error}]


# ------------------------------------------------------------------------- streams


def _chunk(delta: Any, finish: str | None = None, **more: Any) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    head = {"id": "c1", "object": "chat.completion.chunk", "choices": [choice]}
    return f"data: {json.dumps(head | more)}\n\n"


def _entry(name: str | None, arguments: str, **more: Any) -> Any:
    function = {"arguments": arguments} | ({"name": name} if name else {})
    return {"tool_calls": [{"function": function} | more]}


def _words(text: str) -> list[str]:
    return re.findall(r"\s*\S+", text)


def _said_by_mistral(reply: str | Call, _: Body) -> Iterator[str]:
    yield _chunk({"role": "assistant", "content": ""})
    if isinstance(reply, str):
        for word in _words(reply):
            yield _chunk({"content": [{"type": "text", "text": word}]})
        yield _chunk({"content": ""}, "stop", usage={"prompt_tokens": 3})
    else:
        yield _chunk(_entry(*reply, id="Ab1Cd2Ef3", index=0), "tool_calls")
    yield "data: [DONE]\n\n"


def _said_by_llamacpp(reply: str | Call, _: Body) -> Iterator[str]:
    yield _chunk({"role": "assistant", "content": None})
    if isinstance(reply, str):
        for word in _words(reply):
            yield _chunk({"content": word})
        yield _chunk({}, "stop", timings={"predicted_ms": 1.5})
    else:
        name, arguments = reply
        yield _chunk(_entry(name, "{", id="Zx9", index=0, type="function"))
        for piece in pieces_of(arguments[1:], 3):
            yield _chunk(_entry(None, piece, index=0))
        yield _chunk({}, "tool_calls")
    yield "data: [DONE]\n\n"


def _said_by_vllm(reply: str | Call, body: Body) -> Iterator[str]:
    yield _chunk({"role": "assistant", "content": ""}, logprobs=None)
    if isinstance(reply, str):
        for word in _words(reply):
            yield _chunk({"content": word}, stop_reason=None)
        yield _chunk({"content": ""}, "stop")
    else:
        name, arguments = reply
        yield _chunk(_entry(name, "", id="chatcmpl-tool-1", index=0))
        for piece in pieces_of(arguments, 4):
            yield _chunk(_entry(None, piece, index=0))
        yield _chunk({"content": ""}, "tool_calls")
    if (body.get("stream_options") or {}).get("include_usage"):
        usage = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
        yield f"data: {json.dumps({'choices': [], 'usage': usage})}\n\n"
    yield "data: [DONE]\n\n"


def _said_by_ollama(reply: str | Call, _: Body) -> Iterator[str]:
    if isinstance(reply, str):
        for word in ("<think>", "Who is", " it?</th", "ink>\n\n", *_words(reply)):
            yield _chunk({"role": "assistant", "content": word})
    else:
        delta = _entry(*reply, id="call_8ab1", index=0, type="function")
        yield _chunk({"role": "assistant", "content": "", **delta})
    yield _chunk({"role": "assistant", "content": ""}, "stop")
    yield "data: [DONE]\n\n"


def _said_by_openrouter(reply: str | Call, body: Body) -> Iterator[str]:
    yield ": OPENROUTER PROCESSING\n\n: OPENROUTER PROCESSING\n\n"
    yield _chunk({"role": "assistant", "content": "", "reasoning": "Hm."})
    if isinstance(reply, str):
        for word in _words(reply):
            yield _chunk({"role": "assistant", "content": word}, provider="Any")
            yield ": OPENROUTER PROCESSING\n\n"
        yield _chunk({"role": "assistant", "content": ""}, "stop")
    else:
        yield _chunk(_entry(*reply, id="tool_0_x", index=0), native_finish_reason=None)
        yield _chunk({"role": "assistant", "content": ""}, "tool_calls")
    yield "data: [DONE]\n\n"


def _said_by_gemini(reply: str | Call, _: Body) -> Iterator[str]:
    if isinstance(reply, str):
        yield _chunk({"role": "assistant", "content": reply[:8]})
        yield _chunk({"role": "assistant", "content": reply[8:]}, "stop")
    else:
        yield _chunk({"role": "assistant", **_entry(*reply, id="", index=0)}, "stop")
    yield "data: [DONE]\n\n"


def _full_llamacpp(size: int, most: int) -> Refusal:
    error = {
        "code": 400,
        "message": "the request exceeds the available context size, try increasing it",
        "type": "exceed_context_size_error",
        "n_prompt_tokens": size,
        "n_ctx": most,
    }
    return 400, {"error": error}


def _full_vllm(size: int, most: int) -> Refusal:
    words = (
        f"This model's maximum context length is {most} tokens. However, you requested"
        f" {size} tokens in the messages. Please reduce the length of the messages."
    )
    return 400, {"object": "error", "message": words, "code": 400}


def _full_mistral(size: int, most: int) -> Refusal:
    words = (
        f"Prompt contains {size} tokens and 0 draft tokens, too large for model with"
        f" {most} maximum context length"
    )
    return 400, {"object": "error", "message": words, "code": "3051"}


def _full_openrouter(size: int, most: int) -> Refusal:
    words = f"This endpoint's maximum context length is {most} tokens, got {size}."
    return 400, {"error": {"message": words, "code": 400}}


def _full_gemini(size: int, most: int) -> Refusal:
    words = (
        f"The input token count ({size}) exceeds the maximum number of tokens"
        f" allowed ({most})."
    )
    error = {"code": 400, "message": words, "status": "INVALID_ARGUMENT"}
    return 400, [{"error": error}]


KINDS: Final[Mapping[str, ModelServerKind]] = {
    kind.name: kind
    for kind in (
        ModelServerKind(
            name="mistral",
            refuse=_mistral,
            chunks=_said_by_mistral,
            full=_full_mistral,
        ),
        ModelServerKind(
            name="mistral template",
            refuse=_template(tools=True, system=True),
            chunks=_said_by_llamacpp,
            full=_full_llamacpp,
        ),
        ModelServerKind(
            name="gemma template",
            refuse=_template(tools=False, system=False),
            chunks=_said_by_llamacpp,
            full=_full_llamacpp,
        ),
        ModelServerKind(
            name="vllm", refuse=_vllm, chunks=_said_by_vllm, full=_full_vllm
        ),
        ModelServerKind(name="ollama", refuse=_ollama, chunks=_said_by_ollama),
        ModelServerKind(
            name="llama.cpp",
            refuse=_lenient,
            chunks=_said_by_llamacpp,
            full=_full_llamacpp,
        ),
        ModelServerKind(
            name="openrouter",
            refuse=_lenient,
            chunks=_said_by_openrouter,
            full=_full_openrouter,
        ),
        ModelServerKind(
            name="gemini", refuse=_gemini, chunks=_said_by_gemini, full=_full_gemini
        ),
    )
}
"""The kinds by name. Anthropic's own strictness is that of `open_model_server`."""
