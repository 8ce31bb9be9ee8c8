"""A server's list of tools: as much of it as can be used, within bounds.

One malformed tool must not cost the others. The SDK refuses a page as a whole,
so the page is sieved before the SDK sees it. Import this lazily: it needs the SDK.
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
from mcp.shared.inbound import find_invalid_x_mcp_header
from mcp_types import methods
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from .transport import Listing

MOST_TOOLS: Final = 1_000
_MOST_PAGES: Final = 200
_MOST_NAMED: Final = 20  # of the tools that are left out
_SHOWN: Final = 64  # characters of a tool's name


@attrs.define(eq=False)
class Sieve:
    """An SDK `Dispatcher` that lets malformed tools fall out of another's lists.

    Until ``version`` is known, nothing is sieved.
    """

    _inner: Dispatcher[Any]
    version: str | None = attrs.field(default=None, init=False)
    _left_out: list[str] = attrs.field(factory=list, init=False)
    _uncounted: int = attrs.field(default=0, init=False)

    def forget(self) -> None:
        """A new list begins."""
        self._left_out.clear()
        self._uncounted = 0

    def warnings(self) -> tuple[str, ...]:
        """What was left out since, and why."""
        if not self._uncounted:
            return tuple(self._left_out)
        more = f"{self._uncounted} more tools are malformed and left out"
        return (*self._left_out, more)

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        on_notify_intercept: OnNotifyIntercept | None = None,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        await self._inner.run(
            on_request, on_notify, on_notify_intercept, task_status=task_status
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
        result = await self._inner.send_raw_request(method, params, opts)
        if method == "tools/list" and isinstance(result.get("tools"), list):
            return result | {"tools": self._sieved(result)}
        return result

    def _sieved(self, page: dict[str, Any]) -> list[Any]:
        # One too many says that there are more.
        tools: list[Any] = page["tools"][: MOST_TOOLS + 1]
        if self._wrong(page | {"tools": tools}) is None:
            return tools
        if self._wrong(page | {"tools": []}) is not None:
            return tools  # it is not the tools: the SDK will say so
        kept: list[Any] = []
        for tool in tools:
            wrong = self._wrong(page | {"tools": [tool]})
            if wrong is None:
                kept.append(tool)
            elif len(self._left_out) < _MOST_NAMED:
                name = tool.get("name") if isinstance(tool, dict) else tool
                text = f"the tool {str(name)[:_SHOWN]!r} is malformed and left out"
                self._left_out.append(f"{text}: {wrong}")
            else:
                self._uncounted += 1
        return kept

    def _wrong(self, page: dict[str, Any]) -> str | None:
        """What the SDK will refuse in a page, if it will."""
        if self.version is None:
            return None
        try:
            methods.validate_server_result("tools/list", self.version, page)
            result = types.ListToolsResult.model_validate(page, by_name=False)
        except KeyError:
            return None
        except ValidationError as error:
            return _first(error)
        if self.version in MODERN_PROTOCOL_VERSIONS:
            for tool in result.tools:
                if wrong := find_invalid_x_mcp_header(tool.input_schema):
                    return f"x-mcp-header: {wrong}"
        return None


async def paginate(
    fetch: Callable[[str | None], Awaitable[types.ListToolsResult]],
) -> Listing:
    """Every page, up to 1,000 tools; a cursor that comes again is the end."""
    tools: list[Mapping[str, Any]] = []
    seen: set[str] = set()
    cursor: str | None = None
    while True:
        page = await fetch(cursor)
        tools += [
            tool.model_dump(by_alias=True, mode="json", exclude_none=True)
            for tool in page.tools
        ]
        cursor = page.next_cursor
        if len(tools) > MOST_TOOLS or (cursor and len(tools) == MOST_TOOLS):
            warning = f"it offers more than {MOST_TOOLS} tools: the rest is left out"
            return Listing(tuple(tools[:MOST_TOOLS]), (warning,))
        if not cursor:
            return Listing(tuple(tools))
        if cursor in seen or len(seen) >= _MOST_PAGES:
            warning = "its list of tools does not end: what came so far is taken"
            return Listing(tuple(tools), (warning,))
        seen.add(cursor)


def _first(error: ValidationError) -> str:
    """The first fault, with its place inside of the tool."""
    fault = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(step) for step in fault["loc"] if step not in ("tools", 0))
    return f"{place}: {fault['msg']}" if place else str(fault["msg"])
