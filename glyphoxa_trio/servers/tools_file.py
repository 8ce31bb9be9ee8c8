"""The tools of a Python file, as an offer."""

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
    """Every `Tool` that a Python file has when it has been run, by its order."""

    path: Path

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """None."""

    @asynccontextmanager
    async def open_offer(
        self, options: argparse.Namespace
    ) -> AsyncGenerator[ServerDefinition]:
        yield ServerDefinition(name=self.path.stem, tools=tuple(tools_of(self.path)))


def tools_of(path: Path) -> list[Tool]:
    """The tools of a file, which is run for that, with its folder in front of
    ``sys.path``.

    Raises:
      ValueError: if it cannot be run, or has none.
    """
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ValueError(f"there is no file {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    sys.path.insert(0, str(path.parent.absolute()))
    try:
        spec.loader.exec_module(module)
    except Exception:  # border: it is its author's code
        raise ValueError(f"{path} does not run:\n{traceback.format_exc()}") from None
    found = [value for value in vars(module).values() if isinstance(value, Tool)]
    if not found:
        raise ValueError(f"{path} has no tool; glyphoxa_trio.tool makes one")
    return list({id(tool): tool for tool in found}.values())
