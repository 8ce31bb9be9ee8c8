"""The prompts of servers in `play`: which there are, and a line that uses one."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

import attrs

from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.mcp import ServerPrompt
from glyphoxa_trio.runtime import Runtime
from glyphoxa_trio.tools.characters import visible

from .screen import Screen


class PromptLineWrong(GlyphoxaError):
    """A ``/prompt`` line cannot be read."""


@attrs.frozen
class PromptLine:
    """A ``/prompt`` line: the values it gives, and the argument it asks about.

    ``asks`` is the name of an argument and the beginning of its value, if the line
    wants to know which values there are.
    """

    arguments: dict[str, str]
    asks: tuple[str, str] | None = None


def read_line(prompt: ServerPrompt, words: Sequence[str]) -> PromptLine:
    """Read the words after a prompt's name.

    Each is ``NAME=VALUE``, ``NAME?BEGINNING``, or the value of the next argument.

    Raises:
      PromptLineWrong: if there are more values than arguments.
    """
    names = [x.name for x in prompt.arguments]
    given: dict[str, str] = {}
    asks: tuple[str, str] | None = None
    values: list[str] = []
    for word in words:
        name = next((x for x in names if word.startswith((f"{x}=", f"{x}?"))), None)
        if name is None:
            values.append(word)
        elif word[len(name)] == "=":
            given[name] = word[len(name) + 1 :]
        else:
            asks = name, word[len(name) + 1 :]
    free = [x for x in names if x not in given and (asks is None or x != asks[0])]
    if len(values) > len(free):
        takes = ", ".join(names) or "no arguments"
        raise PromptLineWrong(
            f"{prompt.key} takes {takes}, and there is no place for"
            f" {values[len(free)]!r}; a value of several words is put in quotes"
        )
    return PromptLine(given | dict(zip(free, values, strict=False)), asks)


def prompt_lines(prompts: Sequence[ServerPrompt]) -> Iterator[str]:
    """Yield a line for each prompt, with its arguments, and a line for each of those
    that say more."""
    for prompt in prompts:
        takes = " ".join(
            x.name if x.required else f"[{x.name}]" for x in prompt.arguments
        )
        said = prompt.title or prompt.description
        said = visible(" ".join(said.split()))
        yield visible(f"  {prompt.key} {takes}".rstrip()) + (
            f": {said}" if said else ""
        )


async def use_prompt(
    runtime: Runtime, screen: Screen, npc: str, rest: str
) -> str | None:
    """Carry out a ``/prompt`` line; return the text to be said to the NPC, if any.

    Args:
      rest: the line without its first word.

    Raises:
      GlyphoxaError: if there is no such prompt, it is not granted, or fails.
    """
    try:
        name, *words = shlex.split(rest) or [""]
    except ValueError as error:
        raise PromptLineWrong(f"the line cannot be read: {error}") from None
    granted = runtime.prompts(npc)
    if not name:
        lines = list(prompt_lines(granted))
        for line in lines:
            screen.plain(line)
        others = len(runtime.prompts()) - len(granted)
        if not lines:
            screen.quiet(f"{npc} is granted no prompts of servers")
        if others:
            screen.quiet(f"{others} more of servers, not in the NPC's prompts")
        return None
    prompt = next((x for x in granted if name in (x.key, x.name)), None)
    if prompt is None:  # the runtime says why
        await runtime.fill_prompt(npc, name)
        return None
    read = read_line(prompt, words)
    if read.asks is not None:
        argument, beginning = read.asks
        values = await runtime.complete_prompt(
            npc, prompt.key, argument, beginning, given=read.arguments
        )
        shown = ", ".join(map(visible, values))
        screen.quiet(f"{argument}: {shown or 'the server suggests nothing'}")
        return None
    filled = await runtime.fill_prompt(npc, prompt.key, read.arguments)
    if not filled.text:
        screen.refuse(f"{prompt.key} says nothing")
        return None
    # The server has worded it, so the player sees what is said in their name.
    for text in filled.text.splitlines():
        screen.plain(visible(f"  {text}"))
    return filled.text
