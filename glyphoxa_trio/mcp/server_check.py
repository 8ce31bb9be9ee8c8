"""A check of one server, in steps: connect, list its tools, call one; each is timed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from enum import StrEnum
from functools import partial
from typing import Any, Final, TypeVar

import attrs

import trio

from glyphoxa_trio.config import ServerSpec
from glyphoxa_trio.config.secrecy import mask_of
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.tools.characters import harmless
from glyphoxa_trio.tools.definition import ToolDefinition, ToolError
from glyphoxa_trio.tools.naming import nearest
from glyphoxa_trio.units import in_ms, many

from .metadata import describe, result_of
from .opening import open_session
from .process import LastLines
from .prompts import described as prompts_of
from .transport import ServerSession

T = TypeVar("T")

_SHOWN_LINES: Final = 10
_LONGEST: Final = 160  # characters of an answer that are told


class StepFailed(GlyphoxaError):
    """A step took longer than it may."""


class CheckLine(StrEnum):
    """The kinds of lines that a check tells."""

    GOOD = "good"
    WARNING = "warning"
    FAILED = "failed"


def _tell_nobody(_: CheckLine, __: str) -> None:
    """The result has all of it."""


@attrs.define(eq=False)
class ServerCheck:
    """Takes one step after the other, and tells of each.

    Args:
      spec: the server; a process is started, or a connection made, for this check.
      tell: called at once with each line for people.
      tool: called with ``arguments`` in the end; None calls none.
    """

    spec: ServerSpec
    tell: Callable[[CheckLine, str], None] = _tell_nobody
    tool: str | None = None
    arguments: Mapping[str, Any] = attrs.field(factory=dict)
    _stderr: LastLines = attrs.field(init=False)
    _step: str = attrs.field(default="", init=False)
    _began: float = attrs.field(default=0.0, init=False)
    _steps: list[dict[str, Any]] = attrs.field(factory=list, init=False)
    _tools: list[str] = attrs.field(factory=list, init=False)
    _prompts: list[str] = attrs.field(factory=list, init=False)
    _warnings: list[str] = attrs.field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        self._stderr = LastLines(mask_of(self.spec))

    async def run(self) -> bool:
        """Take all steps; return True if all of them went well."""
        failed: GlyphoxaError | None = None
        self._begin("connect")
        try:
            async with open_session(
                self.spec, on_tools_changed=_ignore, stderr=self._stderr
            ) as session:
                self._done("" if session.pid is None else f"process {session.pid}")
                try:
                    tools = await self._list(session)
                    if self.tool is not None:
                        await self._call(session, self.tool, tools)
                except GlyphoxaError as error:
                    failed = error  # told in its own words, once the server has left
        except GlyphoxaError as error:
            failed = failed or error
        if failed is not None:
            self._note(ok=False, text=str(failed))
            text = f"{self._step}: FAILED after {in_ms(self._took())}: {failed}"
            self.tell(CheckLine.FAILED, text)
            for line in self._last_lines:
                self.tell(CheckLine.FAILED, f"  {line}")
        return failed is None

    async def _list(self, session: ServerSession) -> tuple[ToolDefinition, ...]:
        self._begin("list")
        listing = await _within(self.spec.start_timeout, session.list_tools)
        described = describe(self.spec, listing.tools)
        self._tools += [tool.name for tool in described.definitions]
        names = ", ".join(self._tools)
        self._done(f"{many(len(described.definitions), 'tool')}{names and ': '}{names}")
        self._prompts += [x.name for x in prompts_of(self.spec.name, listing.prompts)]
        if self._prompts:
            names = ", ".join(map(_cut, self._prompts))
            self.tell(CheckLine.GOOD, f"prompts: {names}")
        for text in (*listing.warnings, *described.warnings):
            self._warnings.append(text)
            self.tell(CheckLine.WARNING, f"warning: {text}")
        return described.definitions

    async def _call(
        self, session: ServerSession, name: str, tools: Iterable[ToolDefinition]
    ) -> None:
        names = [tool.name for tool in tools]
        self._begin(f"call {name}")
        if name not in names:
            near = nearest(name, names)
            hint = f", did you mean {' or '.join(near)}?" if near else ""
            raise StepFailed(f"the server has no tool {name!r}{hint}")
        call = partial(session.call_tool, name, self.arguments, {})
        try:
            answer = result_of(await _within(self.spec.timeout, call))
        except ToolError as error:  # a server that refuses does answer
            self._done(f"answered, and refused: {_cut(str(error))}")
        else:
            said = _cut(" ".join(answer.text))
            refused = "answered, and refused" if answer.is_error else "answered"
            self._done(f"{refused}: {said}" if said else refused)

    def _begin(self, step: str) -> None:
        self._step, self._began = step, trio.current_time()

    def _took(self) -> float:
        return trio.current_time() - self._began

    def _done(self, what: str) -> None:
        self._note(ok=True, text=what)
        told = f"{self._step}: {in_ms(self._took())}{what and ': '}{what}"
        self.tell(CheckLine.GOOD, told)

    def _note(self, *, ok: bool, text: str) -> None:
        took = round(self._took() * 1000, 1)
        self._steps.append(
            {"step": self._step, "ok": ok, "took_ms": took, "text": text}
        )

    @property
    def _last_lines(self) -> list[str]:
        return list(self._stderr.lines[-_SHOWN_LINES:])

    def as_json(self, *, ok: bool) -> dict[str, Any]:
        """Return the result as JSON has it: server, ok, steps (each with step, ok,
        took_ms, text), tools, prompts, warnings, and if it failed the last lines of
        stderr."""
        return {
            "server": self.spec.name,
            "ok": ok,
            "steps": self._steps,
            "tools": self._tools,
            "prompts": self._prompts,
            "warnings": self._warnings,
            "stderr": [] if ok else self._last_lines,
        }


def _cut(text: str) -> str:
    """Return a foreign text as one line of bounded length."""
    words = " ".join(harmless(text).split())
    return words if len(words) <= _LONGEST else f"{words[: _LONGEST - 1]}…"


async def _within(limit: float, work: Callable[[], Awaitable[T]]) -> T:
    with trio.move_on_after(limit):
        return await work()
    raise StepFailed(f"no answer within {in_ms(limit)}")


def _ignore() -> None:
    """A list that changes now is not looked at again."""
