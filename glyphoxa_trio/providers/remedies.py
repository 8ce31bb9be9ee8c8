"""Remedies for users when a model does not answer.

To find the right remedy, the server may be asked which models it has.
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
_PIECE: Final = 64 * 1024  # characters searched before other tasks run
_LONGEST: Final = 256  # of a name with its key, which may lie across two pieces


@attrs.frozen(kw_only=True)
class Advice:
    """Hints about a kind of server.

    Args:
      start: the command that starts it; empty for servers that always run.
      fetch: the command that gets a model, with ``{model}`` in place of the name.
      key: the variable that usually holds its key.
      address: what is odd about the address, with the remedy; empty if nothing is.
    """

    start: str = ""
    fetch: str = ""
    key: str = ""
    address: str = ""


class ModelServerHint(Protocol):
    """The server and model that a remedy is about."""

    model: str
    base_url: str
    advice: Advice

    async def get(self, path: str) -> tuple[int, str]: ...


async def models_of(link: ModelServerHint, path: str = "/models") -> list[str] | None:
    """Return the names of the models at a server; None if it does not list them.

    Raises:
      LLMError: if the server does not answer.
    """
    status, text = await link.get(path)
    if status != 200 or not text.lstrip("\ufeff \r\n\t").startswith(("{", "[")):
        return None
    # A vendor's list is large; parsing all of it for the names would block the loop.
    found: list[str] = []
    for at in range(0, len(text), _PIECE):
        found += _NAMED.findall(text, at, at + _PIECE + _LONGEST)
        await trio.lowlevel.checkpoint()
    return [excerpt(name) for name in dict.fromkeys(found)]


async def remedy_of(link: ModelServerHint, error: LLMError) -> str:
    """Return what a user can do about a failure; empty if nothing is known."""
    advice = link.advice
    match error.kind:
        case ErrorKind.UNREACHABLE:
            start = f"; start it with `{advice.start}`" if advice.start else ""
            return f"is a server running at {link.base_url}?{start}"
        case ErrorKind.AUTHENTICATION:
            key = f": ${{{advice.key}}}" if advice.key else ""
            return f"set the key in api_key{key}"
        case ErrorKind.CONTEXT_FULL:
            return "context_tokens sets how long a conversation may be"
        case ErrorKind.NOT_FOUND:
            return await _what_is_there(link)
    return ""


async def _what_is_there(link: ModelServerHint) -> str:
    """Return a remedy for a model or address that was not found."""
    try:
        there = await models_of(link)
        if there is None and link.advice.address:
            return link.advice.address
        if there is None and not re.search(r"/v\d+(?:beta)?(?:/|$)", link.base_url):
            there = await models_of(link, "/v1/models")
            if there is not None:
                return f"write base_url: {link.base_url}/v1"
    except LLMError:
        return ""
    if there is None:
        return f"no models are listed at {link.base_url}/models: is the address right?"
    if is_there(link.model, there):
        return ""
    return not_there(link, there)


def is_there(model: str, names: list[str]) -> bool:
    """Return whether a list of names contains the model, in any form of its name."""
    forms = {model, f"{model}:latest", f"models/{model}"}
    return not forms.isdisjoint(names)


def not_there(link: ModelServerHint, there: list[str]) -> str:
    """Say that a server does not have a model, and what to do."""
    near = [*nearest(link.model, there), *there]
    names = ", ".join([*dict.fromkeys(near)][:_MOST_NAMED])
    more = ", …" if len(there) > _MOST_NAMED else ""
    listed = f"it has {names}{more}" if there else "it has none"
    fetch = link.advice.fetch.format(model=link.model)
    return f"the server does not have {link.model!r}: {listed}" + (
        f"; get it with `{fetch}`" if fetch else ""
    )
