"""What a person can do when a model does not answer.

To find the right remedy the server may be asked which models it has.
"""

from __future__ import annotations

import re
from typing import Final, Protocol

import attrs

import trio

from glyphoxa_trio.tools.naming import nearest

from .failures import excerpt
from .llm import ErrorKind, LLMError

_MOST_NAMED: Final = 8
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


class ModelServerHint(Protocol):
    """Where a model is, and which."""

    model: str
    base_url: str
    advice: Advice

    async def get(self, path: str) -> tuple[int, str]: ...


async def models_of(link: ModelServerHint, path: str = "/models") -> list[str] | None:
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


async def remedy_of(link: ModelServerHint, error: LLMError) -> str:
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


async def _what_is_there(link: ModelServerHint) -> str:
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


def not_there(link: ModelServerHint, there: list[str]) -> str:
    """That a model is not among those that a server has, and what to do."""
    near = [*nearest(link.model, there), *there]
    names = ", ".join([*dict.fromkeys(near)][:_MOST_NAMED])
    more = ", …" if len(there) > _MOST_NAMED else ""
    listed = f"it has {names}{more}" if there else "it has none"
    fetch = link.advice.fetch.format(model=link.model)
    return f"{link.model!r} is not there: {listed}" + (
        f"; get it with `{fetch}`" if fetch else ""
    )
