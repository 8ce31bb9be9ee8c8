"""``glyphoxa mcp test``: connect, list, call a named tool; how long each step takes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import attrs
from rich.console import Console

import trio

from glyphoxa_trio.config import (
    ConfigError,
    LeftOut,
    ServerSpec,
    SharedServer,
    load_config,
    load_mcp_json,
)
from glyphoxa_trio.config.mcp_json import find_mcp_json, stranger_of
from glyphoxa_trio.config.secrecy import mask_of
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.mcp import ServerSession, open_session
from glyphoxa_trio.mcp.metadata import describe, result_of
from glyphoxa_trio.mcp.process import LastLines
from glyphoxa_trio.tools.arguments import InvalidArguments, load
from glyphoxa_trio.tools.definition import ToolDefinition, ToolError
from glyphoxa_trio.tools.naming import nearest
from glyphoxa_trio.units import in_ms

from .common import run_orderly, warn
from .consent import REMEDY, agreed_to
from .console import say, say_json, wide_console
from .grids import FAILED, GOOD, HELD
from .mcp_list import servers_in
from .render import cut, ms_or_none

T = TypeVar("T")

_SHOWN_LINES: Final = 10


class StepFailed(GlyphoxaError):
    """A step took longer than it may."""


def check_server(
    name: str,
    *,
    config: Path | None,
    tool: str | None = None,
    arguments: str = "{}",
    as_json: bool = False,
) -> int:
    """Print a line per step; 0 if all went well, 1 if one failed.

    Args:
      tool: called with ``arguments``, the text of a JSON object. None calls nothing.

    Raises:
      ConfigError: if the arguments are no JSON object.
    """

    async def main() -> int:
        given: dict[str, Any] | None = None
        if tool is not None:
            try:
                given = load(arguments)
            except InvalidArguments as error:
                raise ConfigError(f"{error} @ ARGUMENTS") from None
        spec = await _spec(name, config)
        console = None if as_json else wide_console()
        steps = _Steps(console, LastLines(mask_of(spec)), tool, given or {})
        # Over a second of loading is ours, and no fault of the server.
        await trio.to_thread.run_sync(_load, abandon_on_cancel=True)
        well = await steps.take(spec)
        if as_json:
            say_json(steps.as_json(name, ok=well))
        return 0 if well else 1

    return run_orderly(main)


def _load() -> None:
    from glyphoxa_trio.mcp import sdk  # noqa: F401


async def _spec(name: str, config: Path | None) -> ServerSpec:
    """The server of that name, if it may be started; asks if that is not known.

    Raises:
      ConfigError: with the nearest names; or that the file says it is disabled, or
        cannot be used; or that the file has another owner; or that starting it was not
        agreed to.
    """
    own: Sequence[ServerSpec] = ()
    left_out: Sequence[LeftOut] = ()
    shared: Sequence[SharedServer]
    path: Path | None = None
    if config is not None:
        mcp = load_config(config, warn=warn).mcp
        own, shared, left_out = mcp.servers, mcp.shared, mcp.left_out
    else:
        path = find_mcp_json(Path.cwd())
        if path is None:
            raise ConfigError(
                f"no server {name!r}: there is no .mcp.json from here upward;"
                " give --config"
            )
        if (why := stranger_of(path, Path.cwd())) is not None:
            raise ConfigError(why)
        found = load_mcp_json(path, only=name)
        for text in found.warnings:
            warn(text)
        shared, left_out = found.entries, found.left_out
    for spec in own:
        if spec.name == name:
            return spec
    for server in shared:
        if server.name == name:
            if not await agreed_to([server], warn=warn):
                raise ConfigError(
                    f"{name!r} is not to be started: it is not agreed to yet: {REMEDY}"
                )
            return server.spec
    for left in left_out:
        if left.name == name:
            raise ConfigError(f"{name!r} is not to be started: {left.why}")
    rows = servers_in(path) if path is not None else ()
    names = [x.name for x in (*own, *shared, *rows)]
    names += [left.name for left in left_out if left.name is not None]
    near = nearest(name, names) or tuple(dict.fromkeys(names))
    raise ConfigError(f"no server {name!r}, there is {', '.join(near) or 'none'}")


@attrs.define(eq=False)
class _Steps:
    """Take one step after the other, and report each.

    Args:
      console: where it is said at once; None only collects it for `as_json`.
    """

    console: Console | None
    stderr: LastLines
    tool: str | None
    arguments: Mapping[str, Any]
    _step: str = attrs.field(default="", init=False)
    _began: float = attrs.field(default=0.0, init=False)
    _steps: list[dict[str, Any]] = attrs.field(factory=list, init=False)
    _tools: list[str] = attrs.field(factory=list, init=False)
    _warnings: list[str] = attrs.field(factory=list, init=False)

    async def take(self, spec: ServerSpec) -> bool:
        """Connect, list, call the tool that was named; whether all of it went well."""
        failed: GlyphoxaError | None = None
        self._begin("connect")
        try:
            async with open_session(
                spec, on_tools_changed=_ignore, stderr=self.stderr
            ) as session:
                self._done("" if session.pid is None else f"process {session.pid}")
                try:
                    tools = await self._list(session, spec)
                    if self.tool is not None:
                        await self._call(session, spec, self.tool, tools)
                except GlyphoxaError as error:
                    failed = error  # told in its own words, once the server has left
        except GlyphoxaError as error:
            failed = failed or error
        if failed is not None:
            self._note(ok=False, text=str(failed))
            self._say(f"FAILED after {in_ms(self._took())}: {failed}", style=FAILED)
            for line in self.stderr.lines[-_SHOWN_LINES:]:
                self._line(f"  {line}", style=FAILED)
        return failed is None

    async def _list(
        self, session: ServerSession, spec: ServerSpec
    ) -> tuple[ToolDefinition, ...]:
        self._begin("list")
        listing = await _within(spec.start_timeout, session.list_tools)
        described = describe(spec, listing.tools)
        self._tools += [tool.name for tool in described.definitions]
        names = ", ".join(self._tools)
        self._done(f"{len(described.definitions)} tools{names and ': '}{names}")
        for text in (*listing.warnings, *described.warnings):
            self._warnings.append(text)
            self._line(f"warning: {text}", style=HELD)
        return described.definitions

    async def _call(
        self,
        session: ServerSession,
        spec: ServerSpec,
        name: str,
        tools: Iterable[ToolDefinition],
    ) -> None:
        names = [tool.name for tool in tools]
        self._begin(f"call {name}")
        if name not in names:
            near = nearest(name, names)
            hint = f", did you mean {' or '.join(near)}?" if near else ""
            raise StepFailed(f"the server has no tool {name!r}{hint}")
        call = partial(session.call_tool, name, self.arguments, {})
        try:
            answer = result_of(await _within(spec.timeout, call))
        except ToolError as error:  # a server that refuses does answer
            self._done(f"answered, and refused: {cut(str(error))}")
        else:
            said = cut(" ".join(answer.text))
            refused = "answered, and refused" if answer.is_error else "answered"
            self._done(f"{refused}: {said}" if said else refused)

    # how it is told

    def _begin(self, step: str) -> None:
        self._step, self._began = step, trio.current_time()

    def _took(self) -> float:
        return trio.current_time() - self._began

    def _done(self, what: str) -> None:
        self._note(ok=True, text=what)
        self._say(f"{in_ms(self._took())}{what and ': '}{what}", style=GOOD)

    def _say(self, what: str, *, style: str = "") -> None:
        self._line(f"{self._step}: {what}", style=style)

    def _line(self, text: str, *, style: str = "") -> None:
        if self.console is not None:
            say(self.console, text, style)

    def _note(self, *, ok: bool, text: str) -> None:
        took = ms_or_none(self._took())
        self._steps.append(
            {"step": self._step, "ok": ok, "took_ms": took, "text": text}
        )

    def as_json(self, server: str, *, ok: bool) -> dict[str, Any]:
        """Return the object that `glyphoxa mcp test --json` writes."""
        return {
            "server": server,
            "ok": ok,
            "steps": self._steps,
            "tools": self._tools,
            "warnings": self._warnings,
            "stderr": [] if ok else list(self.stderr.lines[-_SHOWN_LINES:]),
        }


async def _within(limit: float, work: Callable[[], Awaitable[T]]) -> T:
    with trio.move_on_after(limit):
        return await work()
    raise StepFailed(f"no answer within {in_ms(limit)}")


def _ignore() -> None:
    """A list that changes now is not looked at again."""
