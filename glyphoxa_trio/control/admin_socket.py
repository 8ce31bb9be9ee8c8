"""The control socket: its clients, their time limits, and the answers they get."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import attrs

import trio

from glyphoxa_trio.actors import lone_errors
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.runtime import Runtime
from glyphoxa_trio.runtime.looking import looked_at

from .sockets import ControlError, control_folders, open_socket
from .status import plain, status_of

LONGEST_REQUEST: Final = 4096  # bytes
MOST_CLIENTS: Final = 8
IDLE: Final = 10.0  # seconds for a client to ask, and to take its answer
# Seconds until the caller of a reload is told that it takes longer: a switch
# waits a minute for turns that run, and for servers that start.
RELOAD: Final = 90.0


@asynccontextmanager
async def open_control(
    runtime: Runtime, *, folder: Path | None = None
) -> AsyncGenerator[Path]:
    """Answer questions about ``runtime`` until the block is left; yields the socket.

    Args:
      folder: where the socket is made, in place of `control_folders`.

    Raises:
      ControlError: if no folder can be used. Nothing else needs the
        socket: the caller may go on without it.
    """
    address, door = await open_socket([folder] if folder else control_folders())
    try:
        with lone_errors():
            async with trio.open_nursery() as nursery:
                desk = AdminSocket(runtime)
                nursery.start_soon(trio.serve_listeners, desk.attend, [door])
                yield address
                nursery.cancel_scope.cancel("the control socket is closed")
    finally:
        door.socket.close()
        with suppress(OSError):
            address.unlink()


@attrs.define(eq=False)
class AdminSocket:
    """Answers the clients of one runtime, a few at a time."""

    _runtime: Runtime
    _clients: int = attrs.field(default=0, init=False)

    async def attend(self, stream: trio.SocketStream) -> None:
        """One client until it leaves, idles or talks nonsense without end."""
        self._clients += 1
        try:
            async with stream:
                with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                    if self._clients > MOST_CLIENTS:
                        await _send(stream, {"error": "too many clients"})
                    else:
                        await self._converse(stream)
        finally:
            self._clients -= 1

    async def _converse(self, stream: trio.SocketStream) -> None:
        lines = _Lines(stream)
        while True:
            line: bytes | None = None
            with trio.move_on_after(IDLE):
                line = await lines.next(LONGEST_REQUEST)
            if line is None:
                return
            if not await _send(stream, await self._answer(line)):
                return
            if not line.endswith(b"\n"):
                return  # too long: the beginning of the next one is unknown

    async def _answer(self, line: bytes) -> Mapping[str, Any]:
        if len(line) >= LONGEST_REQUEST:
            return {"error": f"a request has at most {LONGEST_REQUEST} bytes"}
        try:
            request = json.loads(line)
        except (ValueError, RecursionError):
            return {"error": "a request is a line of JSON"}
        wanted = request.get("do") if isinstance(request, dict) else None
        try:
            match wanted:
                case "status":
                    return {"status": status_of(self._runtime)}
                case "tool" | "approve":
                    return self.put(request)
                case "reload":
                    return {"reload": await self._reload()}
        except GlyphoxaError as error:
            return {"error": str(error) or type(error).__name__}
        except Exception as bug:  # border: a question must not end the table's evening
            return {"error": f"{type(bug).__name__}: {bug}"}
        return {"error": "do is one of status, tool, approve, reload"}

    def put(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Answer a ``tool`` or an ``approve``, for callers that hold the runtime.

        Raises:
          GlyphoxaError: where a client would read ``error``.
        """
        if request.get("do") == "approve":
            return {"approve": self._approve(request)}
        return {"tool": self._tool(request)}

    def _tool(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        found = looked_at(self._runtime, _text(request, "tool"))
        return {**found, "parameters": plain(found["parameters"])}

    def _approve(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        tool = _text(request, "tool")
        seen = None if request.get("seen") is None else _text(request, "seen")
        return {"tool": tool, "was_held": self._runtime.host.approve(tool, seen=seen)}

    async def _reload(self) -> Any:
        with trio.move_on_after(RELOAD):
            return plain(await self._runtime.reload())
        raise ControlError(f"still at it after {RELOAD:g} s; it will be done")


def _text(request: Mapping[str, Any], key: str) -> str:
    value = request.get(key)
    if not isinstance(value, str):
        raise ControlError(f"{request['do']} needs {key}, a text")
    return value


@attrs.define(eq=False)
class _Lines:
    """Lines of a stream, with their ends; a line that is too long comes without."""

    _stream: trio.abc.ReceiveStream
    _rest: bytes = attrs.field(default=b"", init=False)

    async def next(self, longest: int) -> bytes | None:
        while b"\n" not in self._rest and len(self._rest) < longest:
            piece = await self._stream.receive_some(longest)
            if not piece:
                return None
            self._rest += piece
        line, end, self._rest = self._rest.partition(b"\n")
        return line + end


async def _send(stream: trio.abc.SendStream, answer: Mapping[str, Any]) -> bool:
    with trio.move_on_after(IDLE):
        await stream.send_all(json.dumps(answer).encode() + b"\n")
        return True
    return False
