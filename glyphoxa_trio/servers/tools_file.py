"""The tools of a Python file, as a server."""

from __future__ import annotations

import argparse
import importlib.util
import sys
import traceback
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs

from glyphoxa_trio.tools.definition import Tool

from .definition import ServerDefinition


@attrs.frozen
class ToolsOfFile:
    """A server with every `Tool` that a Python file defines, in its order."""

    path: Path

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add no options."""

    @asynccontextmanager
    async def open_offer(
        self, options: argparse.Namespace
    ) -> AsyncGenerator[ServerDefinition]:
        yield ServerDefinition(name=self.path.stem, tools=tuple(tools_of(self.path)))


def tools_of(path: Path) -> list[Tool]:
    """Run a Python file, with its folder first in ``sys.path``, and return its tools.

    Raises:
      ValueError: if it does not exist, does not run, or defines no tool.
    """
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ValueError(f"there is no file {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    sys.path.insert(0, str(path.parent.absolute()))
    try:
        spec.loader.exec_module(module)
    except Exception:  # border: the file is its author's code
        raise ValueError(f"{path} does not run:\n{traceback.format_exc()}") from None
    found = [value for value in vars(module).values() if isinstance(value, Tool)]
    if not found:
        raise ValueError(f"{path} defines no tool; make one with glyphoxa_trio.tool")
    return list({id(tool): tool for tool in found}.values())
