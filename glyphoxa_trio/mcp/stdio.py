"""The SDK's streams over the pipes of a stdio server's process.

They are ours, because the SDK's own transport does not say whose process it
runs, leaves children of a server behind, and takes up to 6 s to end one; a
dispatcher of our own may replace them. Import this lazily: it needs the SDK.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Final

import anyio
import attrs
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

import trio

from glyphoxa_trio.config import ServerSpec

from . import process
from .process import LastLines
from .transport import ConnectionFailed, Loss

_LONGEST_MESSAGE: Final = 16 * 2**20  # bytes; a server that exceeds it is broken
_LAST_WORDS: Final = 0.2  # seconds for what a dead server still has in its pipes

Incoming = MemoryObjectReceiveStream[SessionMessage | Exception]
Outgoing = MemoryObjectSendStream[SessionMessage]


@asynccontextmanager
async def open_streams(
    spec: ServerSpec, loss: Loss, stderr: LastLines
) -> AsyncGenerator[tuple[Incoming, Outgoing, int]]:
    """A server's process and the SDK's streams over its pipes."""
    try:
        server = await process.start(spec)
    except OSError as error:
        raise ConnectionFailed(f"cannot be started: {error}") from error
    to_session, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, from_session = anyio.create_memory_object_stream[SessionMessage](0)
    silent = trio.Event()
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_read_stderr, server, stderr, silent)
            nursery.start_soon(_read_stdout, server, to_session, loss, stderr)
            nursery.start_soon(_write_stdin, server, from_session, to_session, loss)
            try:
                yield read, write, server.pid
            finally:
                await process.end(server)
                with trio.move_on_after(_LAST_WORDS):
                    await silent.wait()
                nursery.cancel_scope.cancel()
    finally:
        for stream in (to_session, read, write, from_session):
            stream.close()
        for pipe in (server.stdout, server.stderr):
            if pipe is not None:
                with trio.CancelScope(shield=True):  # closing a pipe does not wait
                    await pipe.aclose()


async def _read_stdout(
    server: trio.Process,
    to_session: MemoryObjectSendStream[SessionMessage | Exception],
    loss: Loss,
    said: LastLines,
) -> None:
    """Hand over messages until the server ends; keep reading when nobody listens.

    A line that is no message is kept beside stderr and otherwise ignored.
    """

    async def end_with_the_process(scope: trio.CancelScope) -> None:
        # A child that inherited stdout would keep it open for ever.
        await server.wait()
        await trio.sleep(_LAST_WORDS)
        scope.cancel()

    async def hand_over(line: bytes) -> None:
        try:
            message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            said.feed(b"stdout: " + line + b"\n")
            return
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await to_session.send(SessionMessage(message))

    lines = Framing()
    assert server.stdout is not None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(end_with_the_process, nursery.cancel_scope)
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            async for chunk in server.stdout:
                for line in lines.feed(bytes(chunk)):
                    await hand_over(line)
                if lines.too_long:
                    loss.report("it wrote a line of more than 16 MB")
                    break
        with trio.move_on_after(_LAST_WORDS):
            await server.wait()
        nursery.cancel_scope.cancel()
    loss.report(process.how_it_ended(server))
    to_session.close()  # after the reason is known: calls in flight fail now


@attrs.define
class Framing:
    """Chunks of bytes in, whole lines out."""

    _unfinished: bytearray = attrs.field(factory=bytearray, init=False)

    def feed(self, chunk: bytes) -> list[bytes]:
        *finished, rest = chunk.split(b"\n")
        if finished:
            finished[0] = bytes(self._unfinished) + finished[0]
            self._unfinished.clear()
        self._unfinished += rest
        return [line for line in finished if line.strip()]

    @property
    def too_long(self) -> bool:
        return len(self._unfinished) > _LONGEST_MESSAGE


async def _write_stdin(
    server: trio.Process,
    from_session: MemoryObjectReceiveStream[SessionMessage],
    to_session: MemoryObjectSendStream[SessionMessage | Exception],
    loss: Loss,
) -> None:
    assert server.stdin is not None
    try:
        async for item in from_session:
            text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
            await server.stdin.send_all(text.encode() + b"\n")
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        with trio.move_on_after(_LAST_WORDS):
            await server.wait()
        loss.report(
            "closed its stdin"
            if server.returncode is None
            else process.how_it_ended(server)
        )
        to_session.close()  # the session ends, and with it whoever waits to write


async def _read_stderr(
    server: trio.Process, stderr: LastLines, silent: trio.Event
) -> None:
    assert server.stderr is not None
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        async for chunk in server.stderr:
            stderr.feed(bytes(chunk))
    stderr.finish()
    silent.set()
