"""The interface of a language model: one request, one stream of frozen events.

A stream is a context manager: leaving the block closes the connection at once, which is
how a turn is interrupted. The engine limits a model's time; a provider does not wait
for a model to come back, and does not retry after its first event.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from enum import StrEnum
from typing import Any, Literal, Protocol

import attrs

from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.tools.outcome import ToolCall


@attrs.frozen(kw_only=True)
class Verbatim:
    """A part of a response that its model wants back, in the form of its API.

    That may be thoughts, signatures, or other fields that nobody else understands.
    ``model`` is the label of the model that wrote it; no other gets ``content``.
    ``lasting``: it wants it back in later turns as well, and not in this one only.
    """

    model: str
    content: str
    lasting: bool = False


@attrs.frozen(kw_only=True)
class Message:
    """One message of a conversation, in the common chat roles.

    An ``assistant`` message may carry tool calls; each is answered by one ``tool``
    message with its ``call_id``, before any other message. ``verbatim`` is what the
    model that wrote it wants back beside it.
    """

    role: Literal["system", "user", "assistant", "tool"]
    content: str = ""
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""
    name: str = ""
    verbatim: Verbatim | None = None


@attrs.frozen(kw_only=True)
class ToolSpec:
    """A tool as a model sees it. ``name`` is the exposed name."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@attrs.frozen(kw_only=True)
class LLMRequest:
    """All that a model is told for one round.

    ``tools_forbidden`` requests an answer in words: ``tool_choice: none`` where the
    protocol has it. The tools stay listed then, so that the calls in the history keep
    their meaning and the prompt's prefix stays the same.

    The last message may be the ``assistant``'s own: then that is the beginning of its
    answer, and the model continues from there.
    """

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    tools_forbidden: bool = False


@attrs.frozen
class TextChunk:
    """A piece of the answer, as it is written."""

    text: str


@attrs.frozen
class CallReady:
    """A complete tool call; its arguments are as the model wrote them.

    Ids are unique within a response: a provider replaces those that are not.
    """

    call: ToolCall


@attrs.frozen
class Working:
    """A sign that the model is working on something that is not shown.

    That may be thoughts or arguments. The event shows that the stream is alive.
    ``calls`` means that it writes a call, so its words before that are complete.
    ``unsaid`` means that all its words of this answer so far were a thought: what is
    not said yet is not to be said, and none of it is to be remembered.
    """

    calls: bool = False
    unsaid: bool = False


@attrs.frozen
class Waiting:
    """A sign that the request is not sent yet. Comes before all other events.

    All places at the server are taken, or the model is being loaded; ``why`` says
    which. An empty ``why`` means that the request is sent now. ``whole`` means that it
    is sent now and that nothing may arrive before the whole answer is there, or before
    the model is loaded.
    """

    why: str = ""
    whole: bool = False


@attrs.frozen(kw_only=True)
class Switched:
    """A sign that another model than the first one answers, with the reason.

    Comes before all other events, and only from a chain.
    """

    model: str
    instead_of: str
    reason: str


@attrs.frozen(kw_only=True)
class Usage:
    """The tokens of one response.

    ``cached_tokens`` are the part of the input that a cache had; ``model`` is the name
    under which it has a price. The ``audio`` tokens are the part of each that is audio,
    not text. ``audio_time`` is seconds of audio, for a model that is paid by the
    minute.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    audio_input_tokens: int = 0
    audio_output_tokens: int = 0
    audio_cached_tokens: int = 0
    audio_time: float = 0.0
    model: str = ""


class FinishReason(StrEnum):
    """The reasons why a model ends an answer."""

    STOP = "stop"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"
    FILTERED = "filtered"


@attrs.frozen(kw_only=True)
class Finished:
    """The model has finished; nothing follows.

    ``verbatim`` is what the model wants back with the results of its calls, if
    anything.
    """

    reason: FinishReason = FinishReason.STOP
    usage: Usage | None = None
    verbatim: Verbatim | None = None


LLMEvent = TextChunk | CallReady | Working | Waiting | Switched | Finished


class ErrorKind(StrEnum):
    """The kinds of model failures; each says who must act."""

    UNREACHABLE = "unreachable"  # no server at that address
    AUTHENTICATION = "authentication"  # key missing, wrong or not allowed
    NOT_FOUND = "not_found"  # no such model or path
    BAD_REQUEST = "bad_request"  # the server does not accept the request
    CONTEXT_FULL = "context_full"  # the conversation is longer than the model's context
    RATE_LIMITED = "rate_limited"  # 429, quota
    OVERLOADED = "overloaded"  # 5xx
    INTERRUPTED = "interrupted"  # the stream ended halfway
    MALFORMED = "malformed"  # the response breaks the protocol
    FIRST_TOKEN = "first_token"  # no first event in time
    SILENCE = "silence"  # the stream stopped for too long
    TURN = "turn"  # the model's time for the turn is used up
    TOO_LONG = "too_long"  # the answer does not end


class LLMError(GlyphoxaError):
    """The model did not answer. The message is for people and holds no secret.

    ``status`` is that of the HTTP response, if there was one.
    """

    def __init__(
        self,
        kind: ErrorKind,
        detail: str,
        *,
        retry_after: float | None = None,
        status: int | None = None,
    ) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind = kind
        self.detail = detail
        self.retry_after = retry_after
        self.status = status


class LLM(Protocol):
    """A language model. ``label`` names it, for people."""

    @property
    def label(self) -> str: ...

    def stream(
        self, request: LLMRequest
    ) -> AbstractAsyncContextManager[AsyncIterator[LLMEvent]]:
        """Start one round. Entering connects; leaving the block closes the connection.

        Raises:
          LLMError: on entering or while iterating. A stream that ends without
            `Finished` raises `ErrorKind.INTERRUPTED`.
        """
        ...
