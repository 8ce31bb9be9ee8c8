"""A server on stdin and stdout: one message a line, nothing else on stdout.

It answers at once and alone, without the SDK, whose import takes longer than all
of this: `dispatch` says what.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import Any, Final

import attrs

import trio

from .dispatch import Client, Dispatch, Request, RpcError

VERSIONS: Final = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")


async def serve_stdio(dispatch: Dispatch, version: str) -> None:
    """Serve the client behind stdin and stdout until it hangs up."""
    async with (
        trio.lowlevel.FdStream(os.dup(sys.stdin.fileno())) as incoming,
        trio.lowlevel.FdStream(os.dup(sys.stdout.fileno())) as outgoing,
    ):
        session = _Session(dispatch, version, outgoing)
        await session.run(incoming)


@attrs.define(eq=False)
class _Session:
    _dispatch: Dispatch
    _version: str
    _outgoing: trio.abc.SendStream
    _client: Client = attrs.field(factory=lambda: Client(session="stdio"))
    _writing: trio.Lock = attrs.field(factory=trio.Lock)

    async def run(self, incoming: trio.abc.ReceiveStream) -> None:
        rest = bytearray()
        async with trio.open_nursery() as nursery:
            async for chunk in incoming:
                *lines, last = (bytes(rest) + chunk).split(b"\n")
                rest = bytearray(last)
                for line in lines:
                    nursery.start_soon(self._answer, line)
            nursery.cancel_scope.cancel()

    async def _answer(self, line: bytes) -> None:
        message = json.loads(line)
        if "id" not in message:
            return
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        try:
            answer["result"] = await self._result(message)
        except RpcError as error:
            answer["error"] = {"code": error.code, "message": str(error)}
        async with self._writing:
            await self._outgoing.send_all(json.dumps(answer).encode() + b"\n")

    async def _result(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        params = message.get("params") or {}
        if message["method"] == "initialize":
            wanted = params.get("protocolVersion")
            self._client.version = wanted if wanted in VERSIONS else VERSIONS[0]
            offer = self._dispatch.offer
            return {
                "protocolVersion": self._client.version,
                "capabilities": self._dispatch.capabilities,
                "serverInfo": {"name": offer.name, "version": self._version},
            }
        return await self._dispatch.answer(
            Request(
                method=message["method"],
                params=params,
                client=self._client,
                channel=_NoChannel(),
            )
        )


class _NoChannel:
    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        return None

    async def request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        raise RpcError(-32601, "nobody can be asked")
