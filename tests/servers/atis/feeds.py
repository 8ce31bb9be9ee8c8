"""A feed over HTTP on loopback, as met.no's is, that can also misbehave.

What it answers is set by the test; it keeps what it was asked, with the headers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import attrs
import h11

import trio

from glyphoxa_trio.testing.loopback import HttpConnection, open_loopback


def bulletin(*reports: str) -> str:
    """Reports as met.no sends them: one a line, each with its end."""
    return "".join(f"{report}=\n" for report in reports)


def observed(minutes: float = 0, icao: str = "ENGM", weather: str = "9999") -> str:
    """A report that was observed so many minutes ago, by the clock on the wall."""
    at = datetime.now(UTC) - timedelta(minutes=minutes)
    return f"{icao} {at:%d%H%M}Z 32009KT {weather} 09/M04 Q1025 NOSIG"


@attrs.define(eq=False)
class FeedServer:
    """What is answered next, to everybody, until it is changed.

    Args:
      raw: said in place of an answer of HTTP.
      delay: seconds before the answer, unless ``until`` happens; ``cut`` ends it after
        so many bytes.
    """

    body: str | bytes = ""
    status: int = 200
    headers: dict[str, str] = attrs.field(factory=dict)
    raw: bytes | None = None
    delay: float = 0.0
    until: trio.Event = attrs.field(factory=trio.Event)
    came: trio.Event = attrs.field(factory=trio.Event)  # the first request
    cut: int | None = None
    asked: list[tuple[str, Mapping[str, str]]] = attrs.field(factory=list)
    url: str = ""

    async def serve(self, stream: trio.SocketStream) -> None:
        connection = HttpConnection(stream)

        async def one() -> bool:
            request = await connection.request()
            if request is None:
                return False
            head, _ = request
            self.asked.append(
                (
                    head.target.decode(),
                    {name.decode(): value.decode() for name, value in head.headers},
                )
            )
            self.came.set()
            whole, _ = await connection.unless_left(lambda: self._answer(connection))
            return whole

        await connection.serve(one)

    async def _answer(self, connection: HttpConnection) -> bool:
        with trio.move_on_after(self.delay):
            await self.until.wait()
        if self.raw is not None:
            await connection.stream.send_all(self.raw)
            return False
        body = self.body.encode() if isinstance(self.body, str) else self.body
        headers = {
            "Content-Type": "text/plain; charset=utf-8",
            "Date": format_datetime(datetime.now(UTC), usegmt=True),
            **self.headers,
        }
        if self.status not in (204, 304):
            headers["Content-Length"] = str(len(body))
        await connection.send(
            h11.Response(status_code=self.status, headers=list(headers.items()))
        )
        if self.cut is not None:
            await connection.stream.send_all(body[: self.cut])
            return False
        if self.status not in (204, 304):
            await connection.send(h11.Data(data=body))
        await connection.send(h11.EndOfMessage())
        return connection.is_done


@asynccontextmanager
async def open_feed(body: str = "") -> AsyncIterator[FeedServer]:
    server = FeedServer(body=body)
    async with open_loopback(server.serve) as origin:
        server.url = f"{origin}/metar.txt?icao={{icao}}"
        yield server
