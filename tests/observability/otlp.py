"""A collector of spans in OTLP over HTTP, and what was sent to it, as a tree."""

from __future__ import annotations

import gzip
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
)

from glyphoxa_trio.testing.http_server import (
    HttpServer,
    ReceivedRequest,
    StatusReply,
    open_http_server,
)


@attrs.frozen
class Received:
    """A span as it came over the wire; ids are hexadecimal."""

    service: str
    name: str
    kind: int
    trace: str
    id: str
    parent: str
    failed: bool
    attributes: dict[str, Any]
    links: tuple[str, ...]


@attrs.define(eq=False)
class Collector:
    """Spans in the order in which they came."""

    url: str = ""
    spans: list[Received] = attrs.field(factory=list)
    _server: HttpServer | None = None

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for more spans until the condition is true."""
        assert self._server is not None
        await self._server.wait(condition)

    def named(self, name: str, service: str | None = None) -> list[Received]:
        return [
            x for x in self.spans if x.name == name and service in (None, x.service)
        ]

    def one(self, name: str, service: str | None = None) -> Received:
        (found,) = self.named(name, service)
        return found

    def take(self, request: ReceivedRequest) -> StatusReply:
        assert request.path == "/v1/traces"
        assert request.headers["content-type"] == "application/x-protobuf"
        body = request.body
        if request.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            about = _plain(resource.resource.attributes)
            for scope in resource.scope_spans:
                for span in scope.spans:
                    self.spans.append(_received(about["service.name"], span))
        return StatusReply(headers={"Content-Type": "application/x-protobuf"})

    @classmethod
    @asynccontextmanager
    async def open(cls) -> AsyncGenerator[Collector]:
        it = cls()
        async with open_http_server(it.take) as server:
            it.url, it._server = f"{server.origin}/v1/traces", server
            yield it


def _received(service: str, span: Any) -> Received:
    assert span.end_time_unix_nano >= span.start_time_unix_nano > 0
    return Received(
        service=service,
        name=span.name,
        kind=span.kind,
        trace=span.trace_id.hex(),
        id=span.span_id.hex(),
        parent=span.parent_span_id.hex(),
        failed=span.status.code == 2,
        attributes=_plain(span.attributes),
        links=tuple(link.span_id.hex() for link in span.links),
    )


def _plain(attributes: Any) -> dict[str, Any]:
    return {item.key: _value(item.value) for item in attributes}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    found = getattr(value, kind)
    return [_value(x) for x in found.values] if kind == "array_value" else found
