"""A server on the SDK that exports its own spans, as a stranger's would.

    python traced.py COLLECTOR [http]

With ``http`` it serves streamable HTTP on loopback and writes its port to stdout.
"""

from __future__ import annotations

import json
import socket
import sys
from typing import Any

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.types import ToolAnnotations
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

collector, transport = sys.argv[1], (sys.argv[2:] or ["stdio"])[0]
provider = TracerProvider(resource=Resource.create({"service.name": transport}))
# At once: nobody waits for a server that ends.
provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(collector)))
trace.set_tracer_provider(provider)

server: MCPServer[Any] = MCPServer(transport, log_level="ERROR")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
async def look(ctx: Context[Any, Any]) -> str:
    """Say what came along with this call."""
    meta = ctx.request_context.meta or {}
    request = getattr(ctx.request_context, "request", None)
    headers = {} if request is None else dict(request.headers)
    return json.dumps({"meta": dict(meta), "headers": headers})


if transport == "stdio":
    server.run()
else:
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    settings = uvicorn.Config(server.streamable_http_app(), log_level="error")
    uvicorn.Server(settings).run(sockets=[listener])
