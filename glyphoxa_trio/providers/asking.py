"""One request to a model: its body, its retries after refusals, its error messages.

A refusal that teaches something changes all later requests (`abilities`). A tool that a
refusal is about is left out of them (`refused_tools`). A conversation that is too long
for the model is halved once. An error that cannot be repaired gets a remedy
(`remedies`), for which one second is spent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from math import inf
from typing import Any, Final, Protocol

import attrs

import trio

from glyphoxa_trio.secret import Secret

from .abilities import (
    Abilities,
    context_is_full,
    learned,
    refuses_all_tools,
    teaches,
)
from .budget import estimate, fitted, room, size_of_tools
from .failures import excerpt, message_of, refusal
from .llm import LLMError, LLMRequest
from .payloads import refused_fields
from .refused_tools import is_about_tools, most_tools, refused_tools
from .remedies import ModelServerHint, remedy_of

LOOKING: Final = 1.0  # seconds to look for a remedy
_SMALLEST: Final = 256  # tokens; no model has a smaller context
# Empty streams in a row, after which the model counts as not streaming.
_EMPTY: Final = 2
_NUMBER: Final = r"(\d{1,3}(?:,\d{3})+|\d{3,8})"
_STATED: Final = re.compile(
    rf"{_NUMBER} max(?:imum)? context"
    rf"|n_ctx\"?\s*[:=(]\s*{_NUMBER}"
    rf"| > {_NUMBER}"
    r"|(?:context (?:length|size|window)|max_model_len|tokens allowed|limit of|maximum)"
    rf"[^\d\"]{{0,40}}{_NUMBER}",
    re.IGNORECASE,
)
# The model has written a call that its server could not read, in the words of Groq,
# Ollama, llama.cpp and Gemini. It may write another one.
_UNREADABLE: Final = re.compile(
    r"tool_use_failed|output_parse_failed|failed to call a function"
    r"|could not be parsed|malformed_function_call|parsing (?:failed|tool call)"
    r"|failed to parse (?:input at pos|tool call)|tool call validation failed",
    re.IGNORECASE,
)
_FORBIDDEN: Final = re.compile(r"tool choice is none", re.IGNORECASE)
AGAIN: Final = 600.0  # seconds after which tools are offered to a model again


@attrs.define
class ModelFindings:
    """Facts about a model that are not abilities.

    Args:
      empty_streams: how many streams in a row ended with nothing in them.
      tools_again: when tools, which the model has refused, are offered again, on trio's
        clock.
      told: the messages that were reported.
      left_out: the names of the tools that it has refused.
      most_tools: how many tools it accepts in a request; None if that is not known.
    """

    empty_streams: int = 0
    tools_again: float = inf
    told: set[str] = attrs.field(factory=set)
    left_out: set[str] = attrs.field(factory=set)
    most_tools: int | None = None


class ModelLink(ModelServerHint, Protocol):
    """The model that is asked, as far as this module uses it."""

    options: Any
    warn: Callable[[str], None]
    api_key: Secret | None
    found: ModelFindings

    @property
    def dispensable(self) -> frozenset[str]: ...

    @property
    def label(self) -> str: ...

    def body_of(self, request: LLMRequest) -> dict[str, Any]: ...


@attrs.define(eq=False)
class ModelRequest:
    """One round of a conversation, sent until there is nothing more to learn."""

    _link: ModelLink
    _request: LLMRequest
    _most: int | None = attrs.field(default=None, init=False)  # tokens, of this round
    _sent: LLMRequest = attrs.field(init=False)
    _options: Abilities = attrs.field(init=False)  # with which it was sent
    sent: dict[str, Any] = attrs.field(factory=dict, init=False)  # the last body
    _unread: bool = attrs.field(default=False, init=False)  # one of its answers

    def body(self) -> dict[str, Any]:
        """Return the body to send, with as much of the past as the model takes."""
        link = self._link
        if trio.current_time() >= link.found.tools_again:
            link.found.tools_again = inf
            link.options = attrs.evolve(link.options, tools=True)
        tools = tuple(
            x for x in self._request.tools if x.name not in link.found.left_out
        )
        tools = tools[: link.found.most_tools]
        if len(tools) < len(self._request.tools):
            self._request = attrs.evolve(self._request, tools=tools)
        self._options = link.options
        self._sent = self._fitted()
        self.sent = link.body_of(self._sent)
        return self.sent

    def mend(self, status: int, text: str) -> bool:
        """Return whether to send again after a refusal, because the body will differ.

        What other rounds have learned meanwhile counts, too.

        Args:
          status: the HTTP status.
          text: the response's body.
        """
        link, sent = self._link, self.sent
        words = self._own_words(refusal(text))
        if context_is_full(words):
            less = self._fitted() != self._sent
            return less or (self._most is None and self._halve(words))
        if status in (400, 422):
            if self._leave_out(words, text, sent):
                return True
            refused = refused_fields(sent, words, link.dispensable)
            if refused:
                link.options = link.options.without(refused)
                return True
        if _UNREADABLE.search(words) and not self._unread:
            self._unread = True
            if _FORBIDDEN.search(words):  # it calls what it sees
                link.options = link.options.without(frozenset({"tool_choice"}))
            return True
        options, what = learned(self._options, status, words, self._request)
        if not what:
            return False
        if link.options is self._options:
            link.options = options
            if self._options.tools and not options.tools:
                link.found.tools_again = trio.current_time() + AGAIN
            quoted = excerpt(self._own_words(message_of(text)), link.api_key)
            self._tell_once(what, f"; it said: {quoted}")
        return True

    def _leave_out(self, words: str, text: str, sent: dict[str, Any]) -> bool:
        """Leave out the tools that a refusal is about; return whether there are any."""
        link = self._link
        if refuses_all_tools(words):
            return False
        names = refused_tools(words, sent.get("tools", ()))
        names &= {tool.name for tool in self._request.tools}
        if new := sorted(names - link.found.left_out):
            link.found.left_out.update(new)
            several = len(new) > 1
            quoted = excerpt(self._own_words(message_of(text)), link.api_key)
            link.warn(
                f"{link.label}: it refuses the tool{'s' * several}"
                f" {', '.join(map(repr, new))}, and is asked without"
                f" {'them' if several else 'it'} from now on; it said: {quoted};"
                " simplify the input schema at the tool's author, or take the tool from"
                " the NPC's list"
            )
        if not names and (most := most_tools(words, len(self._request.tools))):
            link.found.most_tools = most
            self._tell_once(
                f"it accepts {most} tools in a request, so the others are left out"
                " (narrower grants show fewer)"
            )
            return True
        return bool(names)

    def _own_words(self, words: str) -> str:
        """Return the server's own words, without what it quotes from the conversation.

        The quotations must teach nothing: otherwise a player could take the tools away
        from an NPC by speaking of them.
        """
        fields = self._link.dispensable

        def counts(text: str) -> bool:
            about_tools = teaches(text) or is_about_tools(text)
            return about_tools or any(name in text for name in fields)

        if not counts(words):
            return words
        told = [x.content for x in self._request.messages]
        told += [y.arguments for x in self._request.messages for y in x.calls]
        told += [x.description for x in self._request.tools]
        for text in map(str.strip, told):
            if counts(text):
                whole, ascii_ = json.dumps(text, ensure_ascii=False), json.dumps(text)
                for form in (text, whole[1:-1], ascii_[1:-1]):
                    words = words.replace(form, "…")
        return words

    def _tell_once(self, what: str, more: str = "") -> None:
        """Report a change about the model, once."""
        link = self._link
        if what not in link.found.told:
            link.found.told.add(what)
            link.warn(f"{link.label}: {what}{more}")

    @property
    def tool_count(self) -> int:
        """The number of tools that are offered."""
        return len(self._request.tools)

    @property
    def is_whole(self) -> bool:
        """True if the answer is requested as a whole, not as a stream."""
        options = self._link.options
        tools = bool(self._request.tools) and options.tools
        return tools and not options.streams_calls

    def streamed(self) -> None:
        """Note that the stream is not empty."""
        self._link.found.empty_streams = 0

    def came_in_one_piece(self) -> None:
        """Note that the stream was empty, and the whole answer is good."""
        link = self._link
        if not self._request.tools or self.is_whole or self._most is not None:
            return
        link.found.empty_streams += 1
        if link.found.empty_streams == _EMPTY:
            link.options = attrs.evolve(link.options, streams_calls=False)
            link.warn(
                f"{link.label}: it does not stream answers when there are tools;"
                " from now on they are requested as a whole"
            )

    async def explained(self, error: LLMError) -> LLMError:
        """Return the error with a remedy, if one is known."""
        remedy = ""
        with trio.move_on_after(LOOKING):
            remedy = await remedy_of(self._link, error)
        if not remedy:
            return error
        detail = f"{error.detail}; {remedy}"
        return LLMError(
            error.kind, detail, retry_after=error.retry_after, status=error.status
        )

    def _fitted(self) -> LLMRequest:
        """Return the request with as much of the past as the model takes."""
        options = self._link.options
        known: int | None = options.context_tokens
        answer = options.max_tokens if known is not None else None
        fit = fitted(self._request, known, answer=answer)
        if known and fit is not self._request and room(fit, known, answer=answer) < 1:
            self._tell_once(
                f"the tools alone take more than its {known} tokens, so it gets only"
                " the last exchange (context_tokens sets the number of tokens)"
            )
        return fit if self._most is None else fitted(fit, self._most, answer=1)

    def _halve(self, words: str) -> bool:
        """Halve the conversation; return False if it cannot become shorter."""
        told, tools = estimate(self._sent.messages), size_of_tools(self._sent)
        match = _STATED.search(words)
        found = next((x for x in match.groups() if x), None) if match else None
        stated = int(found.replace(",", "")) if found else None
        if stated is not None and stated >= 2 * (told + tools):
            stated = None  # the number is about something else
        half = told // 2 + tools
        most = half if stated is None else min(half, stated * 3 // 4)
        self._most = max(most, _SMALLEST)
        if self._fitted() == self._sent:
            return False  # all of it belongs to this turn
        link = self._link
        known: int | None = link.options.context_tokens
        takes = max(stated or half, _SMALLEST)
        if known is None or takes < known:
            link.options = attrs.evolve(link.options, context_tokens=takes)
            link.warn(
                f"{link.label}: the conversation is too long for it; from now on it"
                f" gets at most {takes} tokens (context_tokens sets the number)"
            )
        return True
