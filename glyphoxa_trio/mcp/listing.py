"""Read a server's list of tools, as much of it as can be used, within limits.

One malformed tool must not cost the others. The SDK refuses a page as a whole, so the
page is filtered before the SDK sees it, and so are the results of calls. Import this
lazily: it needs the SDK.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import anyio.abc
import attrs
import mcp_types as types
from mcp.shared.dispatcher import (
    CallOptions,
    Dispatcher,
    OnNotify,
    OnNotifyIntercept,
    OnRequest,
)
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import find_invalid_x_mcp_header
from mcp_types import methods
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

import trio

from glyphoxa_trio.tools.condense import LISTS
from glyphoxa_trio.tools.repair import repaired_tool
from glyphoxa_trio.units import many

from .bounds import MOST_PAGES, MOST_TOOLS
from .condensing import Condenser, is_unusable
from .malformed import MalformedAnswer, fault_of, repaired, usable
from .metadata import REMEDY
from .questions import QuestionRefused
from .transport import ToolListing

ELICIT: Final = "elicitation/create"

Elicit = Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]
"""Asks a person what a server wants to know; raises `QuestionRefused`."""

_MOST_NAMED: Final = 20  # of the tools that are left out
_SHOWN: Final = 64  # characters of a tool's name
# Tools: the SDK handles a page in one step, and blocks the loop meanwhile.
_SLICE: Final = 25
_NEXT: Final = "glyphoxa/slice/"  # the prefix of a cursor of ours
_CURSOR: Final = 10_000  # characters
# The members of a tool without which it can be used.
_DISPENSABLE: Final = (
    "annotations",
    "_meta",
    "title",
    "description",
    "execution",
    "outputSchema",
)


@attrs.define(eq=False)
class ListFilter:
    """The list filter: an SDK `Dispatcher` that drops malformed tools from lists.

    It wraps another dispatcher. Nothing is dropped until ``version`` is known. A long
    page is passed on in slices, each with a cursor to the next. Other results are
    repaired, and lose those of their parts that are malformed.

    Args:
      elicit: answers the server's questions to a person, which the SDK would refuse if
        their form is odd. None if nobody can be asked.
    """

    _inner: Dispatcher[Any]
    _condenser: Condenser = attrs.field(factory=Condenser)
    server: str = ""
    _elicit: Elicit | None = None
    version: str | None = attrs.field(default=None, init=False)
    # What the SDK puts into the ``_meta`` of each request of this session.
    stamp: Mapping[str, Any] = attrs.field(factory=dict, init=False)
    _left_out: list[str] = attrs.field(factory=list, init=False)
    _uncounted: int = attrs.field(default=0, init=False)
    # The page that is passed on in slices, the rest of its tools, and the next cursor.
    _page: dict[str, Any] = attrs.field(factory=dict, init=False)
    _tools: list[Any] = attrs.field(factory=list, init=False)
    _next: str | None = attrs.field(default=None, init=False)
    _count: int = attrs.field(default=0, init=False)

    def speak(self, version: str | None) -> None:
        """Set the protocol version that was agreed on."""
        self.version = version

    @property
    def is_modern(self) -> bool:
        """True if the server speaks a version of the newer protocol family."""
        return self.version in MODERN_PROTOCOL_VERSIONS

    def forget(self) -> None:
        """Forget the warnings and slices of the last list: a new list begins."""
        self._left_out.clear()
        self._uncounted = 0
        self._tools, self._next = [], None

    def warnings(self) -> tuple[str, ...]:
        """Return what was left out since then, and why."""
        if not self._uncounted:
            return tuple(self._left_out)
        more = f"{many(self._uncounted, 'more tool is', 'more tools are')} left out"
        return (*self._left_out, more)

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        on_notify_intercept: OnNotifyIntercept | None = None,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        async def answered(
            context: Any, method: str, params: Mapping[str, Any] | None
        ) -> dict[str, Any]:
            if method != ELICIT or self._elicit is None:
                return await on_request(context, method, params)
            try:
                return await self._elicit(params or {})
            except QuestionRefused as no:
                raise MCPError(types.INVALID_REQUEST, str(no)) from no

        await self._inner.run(
            answered, on_notify, on_notify_intercept, task_status=task_status
        )

    async def notify(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,
    ) -> None:
        await self._inner.notify(method, params, opts)

    async def send_raw_request(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,
    ) -> dict[str, Any]:
        cursor = (params or {}).get("cursor")
        if method == "tools/list":
            self.stamp = (params or {}).get("_meta") or {}
        if method == "tools/list" and cursor is not None and cursor == self._next:
            await trio.lowlevel.checkpoint()
            return self._slice()
        result = await self._inner.send_raw_request(method, params, opts)
        result = repaired(method, params, result)
        if self.is_modern:
            result = {"resultType": "complete"} | result  # which is the default
        key = LISTS.get(method)
        if key is None:
            return self._usable(method, result)
        large = await self._condenser.entries(result)
        if large is not None:
            entries, left_out, uncounted = large
            result = result | {key: entries}
            for text in left_out:
                self._leave_out(f"the tool {text}")
            self._uncounted += uncounted
        if method == "tools/list" and isinstance(result.get("tools"), list):
            result = self._with_cursor(result)
            self._page, self._tools = result, await self._sieved(result)
            return self._slice()
        return self._usable(method, result)

    def _usable(self, method: str, result: dict[str, Any]) -> dict[str, Any]:
        """Return a result without its malformed parts, if there are others.

        Raises:
          MalformedAnswer: if there are none. The SDK would not name the field.
        """
        try:
            return usable(method, self.version, result)
        except ValidationError as error:
            raise MalformedAnswer.of(method, error, self.server) from error

    def _with_cursor(self, page: dict[str, Any]) -> dict[str, Any]:
        """Return a page without a cursor that is none; note that there is more."""
        if isinstance(page.get("nextCursor"), str | None):
            return page
        text = "the rest of its list of tools cannot be read: nextCursor: is not a text"
        self._leave_out(f"{text}; {REMEDY}")
        return {key: value for key, value in page.items() if key != "nextCursor"}

    def _slice(self) -> dict[str, Any]:
        """Return the next tools of the page, with a cursor to those after them."""
        tools, self._tools = self._tools[:_SLICE], self._tools[_SLICE:]
        self._next = None
        if not self._tools:
            return self._page | {"tools": tools}
        self._count += 1
        self._next = f"{_NEXT}{self._count}"
        return self._page | {"tools": tools, "nextCursor": self._next}

    async def _sieved(self, page: dict[str, Any]) -> list[Any]:
        """Return the tools of a page that the SDK will accept; note the others."""
        # One more than allowed shows that there are more.
        tools: list[Any] = page["tools"][: MOST_TOOLS + 1]
        if self._wrong(page | {"tools": []}) is not None:
            return tools  # the fault is not in the tools: the SDK will report it
        kept: list[Any] = []
        for start in range(0, len(tools), _SLICE):
            if start:
                await trio.lowlevel.checkpoint()
            some = [repaired_tool(tool) for tool in tools[start : start + _SLICE]]
            if self._wrong(page | {"tools": some}) is None:
                kept += some
                continue
            for tool in some:
                await trio.lowlevel.checkpoint()
                if (fitting := self._fitting(page, tool)) is not None:
                    kept.append(fitting)
        return kept

    def _fitting(self, page: dict[str, Any], tool: Any) -> Any:
        """Return a tool that the SDK will accept, perhaps without some members.

        Returns None if it cannot be used, and notes what was left out.
        """
        name = tool.get("name") if isinstance(tool, dict) else tool
        whose = f"the tool {str(name)[:_SHOWN]!r} is malformed"
        ignored: list[str] = []
        while (wrong := self._wrong(page | {"tools": [tool]})) is not None:
            member = wrong.partition(":")[0].partition(".")[0]
            if member not in _DISPENSABLE or member not in tool:
                self._leave_out(f"{whose} and left out: {wrong}; {REMEDY}")
                return None
            ignored.append(wrong)
            tool = {key: value for key, value in tool.items() if key != member}
        if ignored:
            said = "; ".join(ignored)
            self._leave_out(f"{whose}, and this is ignored: {said}; {REMEDY}")
        return tool

    def _leave_out(self, text: str) -> None:
        if len(self._left_out) < _MOST_NAMED:
            self._left_out.append(text)
        else:
            self._uncounted += 1

    def _wrong(self, page: dict[str, Any]) -> str | None:
        """Return why the SDK will refuse a page; None if it will not."""
        if self.version is None:
            return None
        for tool in page["tools"]:
            if place := _no_names(tool):
                return f"{place}: it is not a list of names"
        try:
            methods.validate_server_result("tools/list", self.version, page)
            result = types.ListToolsResult.model_validate(page, by_name=False)
        except KeyError:
            return None
        except ValidationError as error:
            fault = fault_of(error)
            return fault.removeprefix("tools.0.").replace("tools.0:", "it", 1)
        if self.is_modern:
            for tool in result.tools:
                if wrong := find_invalid_x_mcp_header(tool.input_schema):
                    return f"x-mcp-header: {wrong}"
        return None


def _no_names(tool: Any) -> str | None:
    """Return where a list of names contains something else; None if all are names.

    The SDK would report each of thousands of such entries.
    """
    for key in ("inputSchema", "outputSchema") if isinstance(tool, dict) else ():
        schema = tool.get(key)
        names = schema.get("required") if isinstance(schema, dict) else None
        if isinstance(names, list) and not all(type(name) is str for name in names):
            return f"{key}.required"
    return None


async def paginate(
    fetch: Callable[[str | None], Awaitable[types.ListToolsResult]],
) -> ToolListing:
    """Read every page, up to 1,000 tools.

    A cursor that comes again ends the list, and so does a page that cannot be read.
    Both leave a warning.
    """
    tools: list[Mapping[str, Any]] = []
    seen: set[str] = set()
    cursor: str | None = None
    while True:
        try:
            page = await fetch(cursor)
        except MCPError as error:
            if cursor is None or not is_unusable(error):
                raise
            warning = (
                f"the rest of its list of tools cannot be read: {error.error.message}"
            )
            return ToolListing(tuple(tools), (warning,))
        ours = (page.next_cursor or "").startswith(_NEXT)
        tools += [
            tool.model_dump(by_alias=True, mode="json", exclude_none=True)
            for tool in page.tools
        ]
        cursor = page.next_cursor
        if len(tools) > MOST_TOOLS or (cursor and len(tools) == MOST_TOOLS):
            warning = f"it offers more than {MOST_TOOLS} tools: the rest is left out"
            return ToolListing(tuple(tools[:MOST_TOOLS]), (warning,))
        if not cursor:
            return ToolListing(tuple(tools))
        if ours:
            continue
        if len(cursor) > _CURSOR or cursor in seen or len(seen) >= MOST_PAGES:
            warning = "its list of tools does not end: only its first pages are used"
            return ToolListing(tuple(tools), (warning,))
        seen.add(cursor)
