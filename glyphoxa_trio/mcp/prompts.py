"""The prompts of servers: what each is called, and what it says when it is filled in.

A prompt is a text that a server has written for a person to use, with arguments that
the person gives. Models neither see nor use them. No I/O, except for the requests,
which the session sends.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import attrs

from glyphoxa_trio.tools.arguments import cut
from glyphoxa_trio.tools.condense import text_of

from .bounds import MOST_ENTRIES

LIST: Final = "prompts/list"
GET: Final = "prompts/get"
COMPLETE: Final = "completion/complete"

MOST_SUGGESTED: Final = 100
_MOST_PAGES: Final = 50
_TITLE: Final = 200  # characters of a name or a title
_DESCRIPTION: Final = 1000  # characters of a description

Ask = Callable[[str, Mapping[str, Any]], Awaitable[Mapping[str, Any]]]


@attrs.frozen
class PromptArgument:
    """An argument of a prompt. All arguments are texts."""

    name: str
    description: str = ""
    required: bool = False


@attrs.frozen
class ServerPrompt:
    """A prompt that a server offers. ``key`` is ``server.name``."""

    server: str
    name: str
    title: str = ""
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()

    @property
    def key(self) -> str:
        return f"{self.server}.{self.name}"


@attrs.frozen
class PromptMessage:
    """A message of a prompt that was filled in; ``role`` is user or assistant."""

    role: str
    text: str


@attrs.frozen
class FilledPrompt:
    """A prompt with its arguments filled in, as its server has worded it.

    Its texts are the server's: show them to the person in whose name they are said.
    """

    key: str
    messages: tuple[PromptMessage, ...]
    description: str = ""

    @property
    def text(self) -> str:
        """The messages as one text, to be said to an NPC.

        The server's examples of answers are marked as such.
        """
        return "\n\n".join(
            one.text if one.role != "assistant" else f"(Answer: {one.text})"
            for one in self.messages
            if one.text
        )


async def listed(ask: Ask) -> tuple[Mapping[str, Any], ...]:
    """Return the prompts that a server offers, as plain MCP objects, within limits."""
    found: list[Mapping[str, Any]] = []
    seen: set[str] = set()
    cursor: Any = None
    while True:
        page = await ask(LIST, {"cursor": cursor} if cursor else {})
        found += [x for x in page.get("prompts") or () if isinstance(x, Mapping)]
        cursor = page.get("nextCursor")
        over = len(found) >= MOST_ENTRIES or len(seen) >= _MOST_PAGES
        if not cursor or cursor in seen or over:
            return tuple(found[:MOST_ENTRIES])
        seen.add(cursor)


def described(
    server: str, offered: tuple[Mapping[str, Any], ...]
) -> tuple[ServerPrompt, ...]:
    """Return the prompts of a list; of two with the same name the first one counts."""
    found: dict[str, ServerPrompt] = {}
    for one in offered:
        name = one.get("name")
        if isinstance(name, str) and name and len(name) <= _TITLE:
            arguments = one.get("arguments")
            prompt = ServerPrompt(
                server,
                name,
                _words(one.get("title"), _TITLE),
                _words(one.get("description"), _DESCRIPTION),
                tuple(
                    PromptArgument(
                        str(each["name"]),
                        _words(each.get("description"), _DESCRIPTION),
                        each.get("required") is True,
                    )
                    for each in (arguments if isinstance(arguments, list) else ())
                    if isinstance(each, Mapping) and each.get("name")
                ),
            )
            found.setdefault(name, prompt)
    return tuple(found.values())


def filled(prompt: ServerPrompt, answer: Mapping[str, Any]) -> FilledPrompt:
    """Return what a server has answered to `GET`; media become placeholders."""
    messages = answer.get("messages")
    return FilledPrompt(
        prompt.key,
        tuple(
            PromptMessage(str(one.get("role", "user")), text_of(one["content"]))
            for one in (messages if isinstance(messages, list) else ())
            if isinstance(one, Mapping) and isinstance(one.get("content"), Mapping)
        ),
        _words(answer.get("description"), _DESCRIPTION),
    )


def completion_of(
    prompt: ServerPrompt, argument: str, beginning: str, given: Mapping[str, str]
) -> dict[str, Any]:
    """Return the parameters of `COMPLETE` for an argument that begins so.

    ``given`` are the values of other arguments.
    """
    return {
        "ref": {"type": "ref/prompt", "name": prompt.name},
        "argument": {"name": argument, "value": beginning},
        **({"context": {"arguments": dict(given)}} if given else {}),
    }


def suggested(answer: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the values that a server suggests in its answer to `COMPLETE`."""
    completion = answer.get("completion")
    values = completion.get("values") if isinstance(completion, Mapping) else None
    kept = [x for x in values if isinstance(x, str)] if isinstance(values, list) else []
    return tuple(kept[:MOST_SUGGESTED])


def _words(value: object, longest: int) -> str:
    return cut(value, longest) if isinstance(value, str) else ""
