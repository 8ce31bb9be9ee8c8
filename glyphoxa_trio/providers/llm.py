"""The contract of a language model: one request, one stream of frozen events.

A stream is a context manager, so that leaving the block closes the connection
at once: that is how a turn is interrupted. Limits on a model's time (D0) are
the engine's; a provider never waits on its own for a model to come back, and
never retries after its first event.
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
    """A response as its model wants to be told it again while the turn goes on: with
    its thoughts, signed. ``model`` is whose it is; nobody else reads ``content``.
    """

    model: str
    content: str


@attrs.frozen(kw_only=True)
class Message:
    """One message of a conversation, in the common chat roles.

    An ``assistant`` message may carry tool calls; each is answered by one
    ``tool`` message with its ``call_id``, before anything else is said. What it may
    have ``verbatim`` says the same once more, for the model that wrote it.
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
    """Everything a model is told for one round.

    ``tools_forbidden`` asks for an answer in words: ``tool_choice: none`` where
    the wire has it. The tools stay listed then, so that the history's calls
    keep their meaning and the prompt's prefix stays the same.

    The last message may be the ``assistant``'s own: then its answer has begun with
    that, and what it writes goes on from there (D23c).
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
    """A tool call, complete; its arguments are as the model wrote them.

    Ids are unique within a response: a provider mends those that are not.
    """

    call: ToolCall


@attrs.frozen
class Working:
    """The model is at work on something that is not shown: thoughts, arguments.

    It says that the stream is alive, so that nobody takes it for silent.
    """


@attrs.frozen
class Waiting:
    """The request is not sent yet: all places at the server are taken, or the model is
    being loaded. Without a ``why`` it is sent now. Before all else.

    ``whole``: it is sent now, and nothing is heard before all of the answer is there.
    """

    why: str = ""
    whole: bool = False


@attrs.frozen(kw_only=True)
class Switched:
    """Another model answers than the one that is asked first, and why. Before all
    else, and of a chain only.
    """

    model: str
    instead_of: str
    reason: str


@attrs.frozen(kw_only=True)
class Usage:
    """Tokens of one response. ``cached_tokens`` are those of the input that a cache
    had; ``model`` is the name under which it has a price.

    The ``audio`` tokens are those of each that are sound, and not text. ``audio_time``
    is seconds of audio, for a model that is paid by the minute.
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
    STOP = "stop"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"
    FILTERED = "filtered"


@attrs.frozen(kw_only=True)
class Finished:
    """The model is done; nothing follows.

    ``verbatim``: what it wants back with the answers to its calls, if it does.
    """

    reason: FinishReason = FinishReason.STOP
    usage: Usage | None = None
    verbatim: Verbatim | None = None


LLMEvent = TextChunk | CallReady | Working | Waiting | Switched | Finished


class ErrorKind(StrEnum):
    """Who must act on a model's failure."""

    UNREACHABLE = "unreachable"  # nobody answers at that address
    AUTHENTICATION = "authentication"  # key missing, wrong or not allowed
    NOT_FOUND = "not_found"  # no such model or path
    BAD_REQUEST = "bad_request"  # the server does not take what we sent
    CONTEXT_FULL = "context_full"  # the conversation is longer than the model takes
    RATE_LIMITED = "rate_limited"  # 429, quota
    OVERLOADED = "overloaded"  # 5xx
    INTERRUPTED = "interrupted"  # the stream ended halfway
    MALFORMED = "malformed"  # what came is not the protocol
    FIRST_TOKEN = "first_token"  # D0: no first event in time
    SILENCE = "silence"  # D0: the stream went quiet
    TURN = "turn"  # D0: the model's time for the turn is used up
    TOO_LONG = "too_long"  # the answer has no end, or none in sight


class LLMError(GlyphoxaError):
    """The model did not answer. The message is for people and holds no secret.

    ``status`` is that of the answer over HTTP, if there was one.
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
    """A model that can be spoken to. ``label`` says which, for people."""

    @property
    def label(self) -> str: ...

    def stream(
        self, request: LLMRequest
    ) -> AbstractAsyncContextManager[AsyncIterator[LLMEvent]]:
        """Start one round. Entering connects; leaving the block hangs up.

        Raises:
          LLMError: on entering or while iterating. A stream that ends without
            `Finished` raises `ErrorKind.INTERRUPTED`.
        """
        ...
