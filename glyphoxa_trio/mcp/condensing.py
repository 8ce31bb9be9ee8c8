"""Condense large answers of one session, in a worker process.

Both transports use this for large messages. Import this lazily: it needs the SDK.
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

# In `_meta`: the key under which the entries of a page are kept.
_KEPT: Final = "glyphoxa/kept"
# In `_meta`: the answer was checked against its schema as a whole.
_SMALL: Final = "glyphoxa/condensed"
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
ENDS: Final = 300  # bytes at either end of a message that are searched for an id


class Unusable(MCPError):
    """The server sent an answer that cannot be used."""

    def __init__(self, why: str) -> None:
        super().__init__(types.INTERNAL_ERROR, f"its answer is not usable: {why}")


def is_unusable(error: MCPError) -> bool:
    """Return whether an error means an unreadable answer, on either transport."""
    return isinstance(error, Unusable) or error.code == types.PARSE_ERROR


class Unasked(Exception):
    """The message does not answer a request of ours."""


def ident_in(head: bytes, tail: bytes) -> int | str | None:
    """Return the id of the request that a message answers.

    Only the first and last bytes of the message are needed. Returns None if the id is
    in neither.
    """
    found = _HEAD.match(head) or _TAIL.search(tail)
    if found is None:
        return None
    return int(found[1]) if found[1] is not None else found[2].decode(errors="replace")


def is_unasked(head: bytes) -> bool:
    """Return whether the first bytes of a message show that it is not an answer."""
    return _METHOD.match(head) is not None


@attrs.define(eq=False)
class Condenser:
    """The reader of large answers, for one session.

    Args:
      mask: returns the pattern of what must be hidden, as of now; see `secret.Mask`.
    """

    mask: Callable[[], str] = attrs.field(default=str, repr=False)
    _schemas: Mapping[str, Any] = attrs.field(factory=dict, init=False)
    _mark: str = attrs.field(factory=lambda: secrets.token_hex(8), init=False)
    _kept: dict[str, Any] = attrs.field(factory=dict, init=False)

    def hold_against(self, schemas: Mapping[str, Any]) -> None:
        """Set the output schemas, by tool, that large answers are checked against."""
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
        """Return the small result of the large message in ``line``.

        Cancelling kills the process that reads the message. ``event`` says that
        ``line`` is an event of a stream, with all of its lines.

        Args:
          method, params: the request that the message answers.
          ident: the id of that request.

        Raises:
          MCPError: the error that the message carries.
          Unusable: if the message cannot be read within the limits.
          Unasked: if it is a request or a notification.
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
            # Of requests whose callers have stopped waiting.
            while len(self._kept) >= _MOST_KEPT:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = (entries, reply["left_out"], reply["uncounted"])
            meta[_KEPT] = key
        else:
            meta[_SMALL] = self._mark
        return result

    def was_checked(self, result: Mapping[str, Any]) -> bool:
        """Return whether ``result`` was condensed from an answer that was checked."""
        meta = result.get("_meta")
        return isinstance(meta, Mapping) and meta.get(_SMALL) == self._mark

    async def entries(
        self, result: Mapping[str, Any]
    ) -> tuple[list[Any], list[str], int] | None:
        """Return the entries of a large page, which ``result`` stands for.

        Returns the entries, a text for each entry that was left out, and the number of
        further ones; None if ``result`` is a small page.
        """
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
        """Have a worker process read ``line``.

        Raises:
          Unusable: if it cannot, or takes more than `bounds.WORKER_PATIENCE` seconds.
        """
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
        raise Unusable(f"reading it takes more than {bounds.WORKER_PATIENCE:g} s")


@asynccontextmanager
async def readers() -> AsyncGenerator[None]:
    """Keep worker processes available within the block.

    Such blocks share the processes; leaving the last block ends them.
    """
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
    """The worker processes of one trio run, and how many blocks use them."""

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
