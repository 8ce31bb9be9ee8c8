"""Checks of the arguments of `open_runtime`, made before anything is opened."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

from glyphoxa_trio.config import ConfigError
from glyphoxa_trio.tools.definition import Tool
from glyphoxa_trio.tools.naming import NameCollision


def tools_given(tools: Any) -> list[Tool]:
    """Return the tools as a list.

    Raises:
      ConfigError: naming each value that is not a tool.
      NameCollision: naming a tool that is given twice.
    """
    if isinstance(tools, Tool) or not isinstance(tools, Iterable):
        raise ConfigError(f"expected a list of tools, got {_what(tools)} @ tools")
    found: list[Tool] = []
    problems: list[str] = []
    for at, one in enumerate(tools):
        if isinstance(one, Tool):
            found.append(one)
        else:
            problems.append(f"expected a tool, got {_what(one)} @ tools[{at}]")
    if problems:
        raise ConfigError(*problems)
    first: dict[str, int] = {}
    for at, one in enumerate(found):
        if one.key in first:
            raise NameCollision(
                f"{one.key} is given twice: leave one out, or give it another name or"
                f" group @ tools[{first[one.key]}] and tools[{at}]"
            )
        first[one.key] = at
    return found


def _what(value: Any) -> str:
    if isinstance(value, Tool):
        return f"the tool {value.key}: write [{value.definition.name}]"
    if inspect.isroutine(value) or inspect.isclass(value):
        name = getattr(value, "__name__", "")
        return f"{name!r}, which is not decorated: write @tool above it"
    return f"a {type(value).__name__}"
