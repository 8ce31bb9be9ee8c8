"""A connection that can fall silent without being closed: half open."""

from __future__ import annotations

import attrs

import trio


@attrs.define(eq=False)
class ClosableStream(trio.abc.Stream):
    """A stream; once it is shut, nothing passes through it, in or out."""

    _inner: trio.abc.Stream
    _shut: bool = False

    def shut(self) -> None:
        self._shut = True

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._pass()
        await self._inner.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._pass()
        await self._inner.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        await self._pass()
        data = await self._inner.receive_some(max_bytes)
        await self._pass()
        return data

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def _pass(self) -> None:
        if self._shut:
            await trio.sleep_forever()
