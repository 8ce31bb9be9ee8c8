"""``glyphoxa mcp test``: connect, list, call one tool; how long each step takes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import attrs
from rich.console import Console

import trio

from glyphoxa_trio.config import ConfigError, ServerSpec, load_config, load_mcp_json
from glyphoxa_trio.config.mcp_json import find_mcp_json
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.mcp import Session, open_session
from glyphoxa_trio.mcp.metadata import describe, result_of
from glyphoxa_trio.mcp.process import LastLines, secrets_of
from glyphoxa_trio.tools.definition import ToolDefinition, ToolError
from glyphoxa_trio.tools.instance import NoInstance, minimal_instance
from glyphoxa_trio.tools.naming import nearest
from glyphoxa_trio.tools.schema import BadSchema
from glyphoxa_trio.units import in_ms

from .common import run_orderly, warn
from .mcp_list import servers_in
from .render import cut, on_screen
from .tools import wide_console

T = TypeVar("T")

_SHOWN_LINES: Final = 10


class StepFailed(GlyphoxaError):
    """A step took longer than it may."""


def check_server(name: str, *, config: Path | None) -> int:
    """Print a line per step; 0 if all went well, 1 if one failed."""

    async def main() -> int:
        spec = _spec(name, config)
        console = wide_console()
        steps = _Steps(console, LastLines(secrets_of(spec)))
        # Over a second of loading is ours, and no fault of the server.
        await trio.to_thread.run_sync(_load, abandon_on_cancel=True)
        return 0 if await steps.take(spec) else 1

    return run_orderly(main)


def _load() -> None:
    from glyphoxa_trio.mcp import sdk  # noqa: F401


def _spec(name: str, config: Path | None) -> ServerSpec:
    """The server of that name.

    Raises:
      ConfigError: with the nearest names; or that the file says it is disabled.
    """
    if config is not None:
        servers = load_config(config, warn=warn).mcp.servers
        shared = find_mcp_json(config.absolute().parent)
    else:
        shared = find_mcp_json(Path.cwd())
        if shared is None:
            raise ConfigError(
                f"no server {name!r}: there is no .mcp.json from here upward;"
                " give --config"
            )
        found = load_mcp_json(shared, only=name)
        servers = found.servers
        for text in found.warnings:
            warn(text)
    for spec in servers:
        if spec.name == name:
            return spec
    rows = servers_in(shared) if shared is not None else ()
    for row in rows:
        if row.name == name:
            raise ConfigError(f"{name!r} is not to be started: {row.state}")
    names = list(dict.fromkeys(x.name for x in (*servers, *rows)))
    near = nearest(name, names) or names
    raise ConfigError(f"no server {name!r}, there is {', '.join(near) or 'none'}")


@attrs.define(eq=False)
class _Steps:
    """Takes one step after the other and says of each how it went."""

    console: Console
    stderr: LastLines
    _step: str = attrs.field(default="", init=False)
    _began: float = attrs.field(default=0.0, init=False)

    async def take(self, spec: ServerSpec) -> bool:
        """Connect, list and probe; whether all of it went well."""
        failed: GlyphoxaError | None = None
        self._begin("connect")
        try:
            async with open_session(
                spec, on_tools_changed=_ignore, stderr=self.stderr
            ) as session:
                self._done("" if session.pid is None else f"process {session.pid}")
                try:
                    await self._probe(session, spec, await self._list(session, spec))
                except GlyphoxaError as error:
                    failed = error  # told in its own words, once the server has left
        except GlyphoxaError as error:
            failed = failed or error
        if failed is not None:
            self._say(f"FAILED after {self._took()}: {failed}", style="red")
            for line in self.stderr.lines[-_SHOWN_LINES:]:
                self._line(f"  {line}", style="red")
        return failed is None

    async def _list(
        self, session: Session, spec: ServerSpec
    ) -> tuple[ToolDefinition, ...]:
        self._begin("list")
        listing = await _within(spec.start_timeout, session.list_tools)
        described = describe(spec, listing.tools)
        names = ", ".join(tool.name for tool in described.definitions)
        self._done(f"{len(described.definitions)} tools{names and ': '}{names}")
        for text in (*listing.warnings, *described.warnings):
            self._line(f"warning: {text}", style="yellow")
        return described.definitions

    async def _probe(
        self, session: Session, spec: ServerSpec, tools: Iterable[ToolDefinition]
    ) -> None:
        self._begin("probe")
        for tool in tools:
            if (arguments := _arguments(tool)) is None:
                continue
            self._begin(f"probe {tool.name}")
            call = partial(session.call_tool, tool.name, arguments, {})
            try:
                answer = result_of(await _within(spec.timeout, call))
            except ToolError as error:  # it answers, and that is what is asked here
                self._done(f"answered, and refused: {cut(str(error))}")
            else:
                said = cut(" ".join(answer.text)) if answer.is_error else ""
                self._done(f"answered, and refused: {said}" if said else "answered")
            return
        self._say("none: no tool says that it only reads or may be called twice")

    # how it is told

    def _begin(self, step: str) -> None:
        self._step, self._began = step, trio.current_time()

    def _took(self) -> str:
        return in_ms(trio.current_time() - self._began)

    def _done(self, what: str) -> None:
        self._say(f"{self._took()}{what and ': '}{what}")

    def _say(self, what: str, *, style: str = "") -> None:
        self._line(f"{self._step}: {what}", style=style)

    def _line(self, text: str, *, style: str = "") -> None:
        self.console.print(on_screen(text), style=style, markup=False, soft_wrap=True)


async def _within(limit: float, work: Callable[[], Awaitable[T]]) -> T:
    with trio.move_on_after(limit):
        return await work()
    raise StepFailed(f"no answer within {in_ms(limit)}")


def _arguments(tool: ToolDefinition) -> Mapping[str, Any] | None:
    """What a tool may be probed with (D9); None if it may not, or nothing fits."""
    if not tool.probeable:
        return None
    for example in tool.examples:
        return example
    try:
        return minimal_instance(tool.parameters, foreign=True)
    except (NoInstance, BadSchema):
        return None


def _ignore() -> None:
    """A list that changes now is not looked at again."""
