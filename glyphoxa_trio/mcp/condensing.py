"""Large answers of one session: read in a worker process, and what is kept of them.

Both transports bring their large messages here. Import this lazily: it needs the SDK.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import attrs
import mcp_types as types
from mcp.shared.exceptions import MCPError
from pydantic_core import from_json

import trio

from glyphoxa_trio.workers import WorkerDied, Workers, WorkersBusy, WorkFailed

from . import bounds

_KEPT: Final = "glyphoxa/kept"  # in `_meta`: where the entries of a page are
_SMALL: Final = "glyphoxa/condensed"  # in `_meta`: it was checked when it was whole
_ID: Final = rb'"id"\s*:\s*(?:(-?\d{1,18})|"([^"\\]{1,200})")'
_HEAD: Final = re.compile(
    rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?' + _ID + rb"\s*,"
)
_METHOD: Final = re.compile(
    rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?(?:' + _ID + rb'\s*,\s*)?"method"\s*:'
)
_TAIL: Final = re.compile(
    rb",\s*" + _ID + rb'\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*\Z'
)
_MOST_KEPT: Final = 4
ENDS: Final = 300  # bytes at either end, in which an id is looked for


class Unusable(MCPError):
    """The server answered, and what it answered is no answer."""

    def __init__(self, why: str) -> None:
        super().__init__(types.INTERNAL_ERROR, f"its answer is not usable: {why}")


def is_unusable(error: MCPError) -> bool:
    """Whether an answer came that cannot be read, on either transport."""
    return isinstance(error, Unusable) or error.code == types.PARSE_ERROR


class Unasked(Exception):
    """The message answers no request of ours."""


def ident_in(head: bytes, tail: bytes) -> int | str | None:
    """Which request a message answers, if its first or last bytes say so."""
    found = _HEAD.match(head) or _TAIL.search(tail)
    if found is None:
        return None
    return int(found[1]) if found[1] is not None else found[2].decode(errors="replace")


def is_unasked(head: bytes) -> bool:
    """Whether a message says at its beginning that it is no answer."""
    return _METHOD.match(head) is not None


@attrs.define(eq=False)
class Condenser:
    """Makes large answers small, for one session.

    Args:
      mask: the pattern of what nobody may read, as of now; see `secret.Mask`.
    """

    mask: Callable[[], str] = attrs.field(default=str, repr=False)
    _schemas: Mapping[str, Any] = attrs.field(factory=dict, init=False)
    _mark: str = attrs.field(factory=lambda: secrets.token_hex(8), init=False)
    _kept: dict[str, Any] = attrs.field(factory=dict, init=False)

    def hold_against(self, schemas: Mapping[str, Any]) -> None:
        """These are the output schemas that large answers must fit, by tool."""
        self._schemas = schemas

    async def small(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        ident: int | str,
        line: bytes | bytearray,
        *,
        event: bool = False,
    ) -> dict[str, Any]:
        """The small result of the large message in ``line``. Cancelling kills the
        process that reads it. An ``event`` is one of a stream, with all its lines.

        Raises:
          MCPError: the error that the message is.
          Unusable: it cannot be read, within the bounds.
          Unasked: it is a request or a notification.
        """
        order: dict[str, Any] = {
            "method": method,
            "id": ident,
            "event": event,
            "mask": self.mask(),
            "text": bounds.KEPT_TEXT,
            "data": bounds.KEPT_DATA,
            "loop_bytes": bounds.LOOP_BYTES,
            "list_bytes": bounds.LIST_BYTES,
            "entry_bytes": bounds.ENTRY_BYTES,
            "entry_nodes": bounds.ENTRY_NODES,
            "entries": bounds.MOST_ENTRIES,
        }
        if method == "tools/list":
            order["entries"] = bounds.MOST_TOOLS
        if method == "tools/call":
            order["schema"] = self._schemas.get(str((params or {}).get("name")))
        task = json.dumps(order).encode() + b"\n"
        head, *entries = (await self._read(task, line)).split(b"\n")
        reply = from_json(head)
        if "unasked" in reply:
            raise Unasked
        if "unusable" in reply:
            raise Unusable(reply["unusable"])
        if "error" in reply:
            raise MCPError(reply["error"]["code"], reply["error"]["message"])
        result: dict[str, Any] = reply["result"]
        meta = result.setdefault("_meta", {})
        if method.endswith("/list"):
            key = secrets.token_hex(8)
            while len(self._kept) >= _MOST_KEPT:  # of questions that nobody waits for
                del self._kept[next(iter(self._kept))]
            self._kept[key] = (entries, reply["left_out"], reply["uncounted"])
            meta[_KEPT] = key
        else:
            meta[_SMALL] = self._mark
        return result

    def was_checked(self, result: Mapping[str, Any]) -> bool:
        """Whether this is what was kept of an answer that was checked as a whole."""
        meta = result.get("_meta")
        return isinstance(meta, Mapping) and meta.get(_SMALL) == self._mark

    async def entries(
        self, result: Mapping[str, Any]
    ) -> tuple[list[Any], list[str], int] | None:
        """The entries of the large page of which only ``result`` was passed on, what
        was left out of it, and how much more was; None if it is a small page."""
        meta = result.get("_meta")
        key = meta.get(_KEPT) if isinstance(meta, Mapping) else None
        if not isinstance(key, str) or key not in self._kept:
            return None
        lines, left_out, uncounted = self._kept.pop(key)
        entries: list[Any] = []
        for line in lines:
            entries.append(from_json(line))
            await trio.lowlevel.checkpoint()
        return entries, left_out, uncounted

    async def _read(self, order: bytes, line: bytes | bytearray) -> bytes:
        with trio.move_on_after(bounds.WORKER_PATIENCE):
            try:
                return await _workers().run(order, line)
            except WorkFailed as error:
                raise Unusable(f"it cannot be read: {error}") from error
            except WorkerDied as error:
                raise Unusable(
                    f"it cannot be read: its reader died: {error}"
                ) from error
            except WorkersBusy as error:
                raise Unusable("too many large answers at once") from error
        raise Unusable(f"to read it takes more than {bounds.WORKER_PATIENCE:g} s")


@asynccontextmanager
async def readers() -> AsyncGenerator[None]:
    """While in this block there may be processes that read; the last who leaves such a
    block ends them."""
    try:
        pool = _pool.get()
    except LookupError:
        pool = _Pool()
        _pool.set(pool)
    pool.users += 1
    try:
        yield
    finally:
        pool.users -= 1
        if not pool.users:
            await pool.workers.aclose()


def _workers() -> Workers:
    return _pool.get().workers


@attrs.define(eq=False)
class _Pool:
    users: int = 0
    workers: Workers = attrs.field(
        factory=lambda: Workers(
            "glyphoxa_trio.tools.condense:condense",
            most=bounds.WORKERS,
            memory=bounds.WORKER_MEMORY,
            largest=bounds.MOST_BYTES,
        )
    )


_pool: trio.lowlevel.RunVar[_Pool] = trio.lowlevel.RunVar("readers of answers")
