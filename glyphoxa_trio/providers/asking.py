"""One request on its way to a model: what is sent, what is sent after a refusal, and
what a failure means to people.

A refusal that teaches something changes what every later request has (`abilities`). A
conversation that the model finds too long is halved once. What cannot be mended gets a
remedy; to find the right one the server is asked which models it has, once, and within
a second.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, Protocol

import attrs

import trio

from glyphoxa_trio.tools.naming import nearest

from .abilities import Abilities, context_is_full, learned
from .budget import estimate, fitted
from .failures import excerpt
from .llm import ErrorKind, LLMError, LLMRequest
from .payloads import refused_fields

LOOKING: Final = 1.0  # seconds to find out what the matter is
_SMALLEST: Final = 256  # tokens; nobody's model takes less
_MOST_NAMED: Final = 8
_EMPTY: Final = 2  # streams in a row, after which a model is taken not to stream
_STATED: Final = re.compile(
    r"(\d{3,8}) max(?:imum)? context"
    r"|n_ctx\"?\s*[:=(]\s*(\d{3,8})"
    r"|(?:context (?:length|size|window)|max_model_len|tokens allowed|maximum)"
    r"[^\d\"]{0,40}(\d{3,8})",
    re.IGNORECASE,
)


_NAMED: Final = re.compile(r'"(?:id|name)"\s*:\s*"([^"\\]{1,200})"')
_PIECE: Final = 64 * 1024  # characters looked through before others have their turn
_LONGEST: Final = 256  # of a name with its key, which may lie across two pieces


@attrs.frozen(kw_only=True)
class Advice:
    """What there is to say of a kind of server.

    Args:
      start: how it is started; empty for those that always run.
      fetch: how it gets a model, with ``{model}`` in place of the name.
      key: the variable that its key is usually in.
    """

    start: str = ""
    fetch: str = ""
    key: str = ""


class Link(Protocol):
    """The model that is asked, as far as this file knows it."""

    model: str
    base_url: str
    options: Any
    warn: Callable[[str], None]
    advice: Advice
    empty_streams: int  # in a row

    @property
    def dispensable(self) -> frozenset[str]: ...

    @property
    def label(self) -> str: ...

    def body_of(self, request: LLMRequest) -> dict[str, Any]: ...

    async def get(self, path: str) -> tuple[int, str]: ...


@attrs.define(eq=False)
class Asked:
    """One round of a conversation, asked until there is nothing more to learn."""

    _link: Link
    _request: LLMRequest
    _most: int | None = attrs.field(default=None, init=False)  # tokens, of this round

    def body(self) -> dict[str, Any]:
        """What is sent, with as much of the past as the model takes."""
        return self._link.body_of(self._fitted())

    def mend(self, status: int, words: str, sent: dict[str, Any]) -> bool:
        """Whether the same is worth asking again, since less will be sent."""
        link = self._link
        if context_is_full(words):
            return self._most is None and self._halve(words)
        if status in (400, 422):
            refused = refused_fields(sent, words, link.dispensable)
            if refused:
                link.options = link.options.without(refused)
                return True
        known: Abilities = link.options
        link.options, what = learned(known, status, words, self._request)
        if what:
            link.warn(f"{link.label}: {what}")
        return bool(what)

    @property
    def is_whole(self) -> bool:
        """Whether the answer is asked for in one piece."""
        options = self._link.options
        tools = bool(self._request.tools) and options.tools
        return tools and not options.streams_calls

    def streamed(self) -> None:
        """There is something in the stream."""
        self._link.empty_streams = 0

    def came_in_one_piece(self) -> None:
        """The stream ended with nothing in it, and the whole answer is good."""
        link = self._link
        if not self._request.tools or self.is_whole or self._most is not None:
            return
        link.empty_streams += 1
        if link.empty_streams == _EMPTY:
            link.options = attrs.evolve(link.options, streams_calls=False)
            link.warn(
                f"{link.label}: it does not stream answers when there are tools; they"
                " are asked for in one piece from now on"
            )

    async def explained(self, error: LLMError) -> LLMError:
        """The error with what can be done about it, if anybody knows."""
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
        options = self._link.options
        known: int | None = options.context_tokens
        answer = options.max_tokens if known is not None else None
        fit = fitted(self._request, known, answer=answer)
        return fit if self._most is None else fitted(fit, self._most, answer=1)

    def _halve(self, words: str) -> bool:
        before = self._fitted()
        size = estimate(before.messages)
        match = _STATED.search(words)
        stated = next((int(x) for x in match.groups() if x), None) if match else None
        if stated is not None and stated >= 2 * size:
            stated = None  # that number is of something else
        half = size // 2 if stated is None else min(size // 2, stated * 3 // 4)
        self._most = max(half, _SMALLEST)
        if self._fitted() == before:
            return False  # all of it belongs to this turn
        link = self._link
        known: int | None = link.options.context_tokens
        found = max(stated or half, _SMALLEST)
        if known is None or found < known:
            link.options = attrs.evolve(link.options, context_tokens=found)
            link.warn(
                f"{link.label}: the conversation is too long for it; it is told of"
                f" {found} tokens at most from now on (context_tokens says how many it"
                " takes)"
            )
        return True


async def models_of(link: Link, path: str = "/models") -> list[str] | None:
    """The names of the models at a server; None if it does not say.

    Raises:
      LLMError: if nobody answers.
    """
    status, text = await link.get(path)
    if status != 200 or not text.lstrip("\ufeff \r\n\t").startswith(("{", "[")):
        return None
    # A vendor's list is large; parsing all of it for the names would hold the loop.
    found: list[str] = []
    for at in range(0, len(text), _PIECE):
        found += _NAMED.findall(text, at, at + _PIECE + _LONGEST)
        await trio.lowlevel.checkpoint()
    return [excerpt(name) for name in dict.fromkeys(found)]


async def remedy_of(link: Link, error: LLMError) -> str:
    """What a person can do about a failure; empty if nobody knows."""
    advice = link.advice
    match error.kind:
        case ErrorKind.UNREACHABLE:
            start = f"; start it with `{advice.start}`" if advice.start else ""
            return f"is a server running at {link.base_url}?{start}"
        case ErrorKind.AUTHENTICATION:
            key = f": ${{{advice.key}}}" if advice.key else ""
            return f"the key is api_key{key}"
        case ErrorKind.CONTEXT_FULL:
            return "context_tokens says how long a conversation may be"
        case ErrorKind.NOT_FOUND:
            return await _what_is_there(link)
    return ""


async def _what_is_there(link: Link) -> str:
    try:
        there = await models_of(link)
        if there is None and not re.search(r"/v\d+(?:beta)?(?:/|$)", link.base_url):
            there = await models_of(link, "/v1/models")
            if there is not None:
                return f"write base_url: {link.base_url}/v1"
    except LLMError:
        return ""
    if there is None:
        return f"no models are listed at {link.base_url}/models: is that the address?"
    if is_there(link.model, there):
        return ""
    return not_there(link, there)


def is_there(model: str, names: list[str]) -> bool:
    """Whether a server that lists these has the model, under whichever name."""
    forms = {model, f"{model}:latest", f"models/{model}"}
    return not forms.isdisjoint(names)


def not_there(link: Link, there: list[str]) -> str:
    """That a model is not among those that a server has, and what to do."""
    near = [*nearest(link.model, there), *there]
    names = ", ".join([*dict.fromkeys(near)][:_MOST_NAMED])
    more = ", …" if len(there) > _MOST_NAMED else ""
    listed = f"it has {names}{more}" if there else "it has none"
    fetch = link.advice.fetch.format(model=link.model)
    return f"{link.model!r} is not there: {listed}" + (
        f"; get it with `{fetch}`" if fetch else ""
    )
