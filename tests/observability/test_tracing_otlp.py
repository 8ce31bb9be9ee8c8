"""One trace over processes: an embedder, an NPC's turn, and two servers of strangers.

Everything is real: the SDK of OpenTelemetry with its exporter, a server on stdio, one
on HTTP, a model server, and what they send over loopback.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest
from opentelemetry import baggage
from opentelemetry.context import attach, detach
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace.export import BatchSpanProcessor

import trio

from glyphoxa_trio import Config, Runtime, TurnDone, open_runtime
from glyphoxa_trio.config import (
    CalibrationConfig,
    LlmConfig,
    McpConfig,
    NpcConfig,
    Provider,
    ServerSpec,
)
from glyphoxa_trio.npc import TurnEnd
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.testing.model_server import CallTools, SayText, open_model_server
from glyphoxa_trio.tools.tier import TierLimits

from ..traced import TRACER, spans_to
from .otlp import Collector

pytestmark = pytest.mark.border

SERVER = Path(__file__).parent / "servers" / "traced.py"
LIMIT = 60.0  # seconds; no test that passes comes near it
# A server gets none of this process's environment, and its libraries may be there.
SAME_LIBRARIES = {"PYTHONPATH": Secret(os.pathsep.join(filter(None, sys.path)))}
INTERNAL, SERVING, CLIENT = 1, 2, 3  # kinds of spans on the wire


@asynccontextmanager
async def over_http(collector: Collector) -> AsyncGenerator[str]:
    """The server on HTTP; yields its address."""
    command = [sys.executable, str(SERVER), collector.url, "http"]
    async with trio.open_nursery() as nursery:
        run = partial(trio.run_process, command, stdout=PIPE, check=False)
        process = await nursery.start(run)
        port = await process.stdout.receive_some(16)
        yield f"http://127.0.0.1:{int(port)}/mcp"
        process.terminate()


@asynccontextmanager
async def exporting(collector: Collector) -> AsyncGenerator[BatchSpanProcessor]:
    """This process as one that exports its spans."""
    batch = BatchSpanProcessor(OTLPSpanExporter(collector.url))
    try:
        with spans_to(batch):
            yield batch
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(batch.shutdown)


@asynccontextmanager
async def table(collector: Collector, model: str, web: str) -> AsyncGenerator[Runtime]:
    command = (sys.executable, str(SERVER), collector.url)
    config = Config(
        npcs=(NpcConfig(name="Bo", tools=("pipe.look", "web.look")),),
        llm=LlmConfig(
            provider=Provider.CHAT_COMPLETIONS,
            model="small",
            base_url=model,
            api_key=Secret("a-key"),
        ),
        mcp=McpConfig(
            servers=(
                ServerSpec(name="pipe", command=command, env=SAME_LIBRARIES),
                ServerSpec(name="web", url=web),
            ),
            remember=False,
        ),
        calibration=CalibrationConfig(at_start=False),
        tiers=TierLimits(
            fast_ceiling=LIMIT, standard_ceiling=LIMIT, deep_ceiling=LIMIT
        ),
    )
    async with open_runtime(config) as runtime:
        await runtime.wait_ready(within=LIMIT)
        yield runtime


async def say(runtime: Runtime, text: str) -> TurnDone:
    async with runtime.npc("Bo").say(text) as turn:
        return await turn.finish()


def carried(done: TurnDone) -> dict[str, dict[str, Any]]:
    """What each server says that came along, by the server."""
    return {
        str(x.tool).partition(".")[0]: json.loads(x.data["text"]) for x in done.outcomes
    }


# The SDK leaves a response's stream before its end without closing the generators
# of httpx2 and httpcore2; trio closes them, and says so.
@pytest.mark.filterwarnings("ignore:Async generator 'http:ResourceWarning")
async def test_one_trace_leads_from_the_embedder_into_the_servers() -> None:
    with trio.fail_after(LIMIT):
        async with (
            Collector.open() as collector,
            over_http(collector) as web,
            open_model_server(
                [
                    [CallTools([("mcp__pipe__look", {}), ("mcp__web__look", {})])],
                    [SayText("Torn.")],
                ]
            ) as model,
            exporting(collector) as batch,
            table(collector, model.base_url, web) as runtime,
        ):
            with TRACER.start_as_current_span("command"):
                token = attach(baggage.set_baggage("table", "seven"))
                done = await say(runtime, "What is a room?")
                detach(token)
            assert done.end is TurnEnd.COMPLETED
            assert [x.ok for x in done.outcomes] == [True, True], done.outcomes
            await trio.to_thread.run_sync(batch.force_flush)
            port = int(web.rpartition(":")[2].partition("/")[0])

        command = collector.one("command")
        assert command.parent == ""
        turn = collector.one("invoke_agent Bo")
        assert (turn.parent, turn.trace) == (command.id, command.trace)
        assert turn.attributes["gen_ai.conversation.id"] == "default"
        assert turn.attributes["glyphoxa.end"] == "completed"
        first, second = collector.named("chat small")
        for round_ in (first, second):
            assert (round_.parent, round_.kind) == (turn.id, CLIENT)
            assert round_.attributes["gen_ai.provider.name"] == "openai"
            assert round_.attributes["server.address"] == "127.0.0.1"
            assert round_.attributes["gen_ai.usage.input_tokens"] > 0
        assert first.attributes["gen_ai.response.finish_reasons"] == ["tool_calls"]
        assert second.attributes["gen_ai.response.finish_reasons"] == ["stop"]
        for name, service in (("pipe", "stdio"), ("web", "http")):
            call = collector.one(f"execute_tool mcp__{name}__look")
            assert (call.parent, call.kind) == (turn.id, INTERNAL)
            assert call.attributes["glyphoxa.status"] == "ok"
            (request,) = (
                x
                for x in collector.named("tools/call look", "table")
                if x.attributes["glyphoxa.server"] == name
            )
            assert (request.parent, request.kind) == (call.id, CLIENT)
            assert request.attributes["mcp.method.name"] == "tools/call"
            assert request.attributes["mcp.protocol.version"]
            assert request.attributes["jsonrpc.request.id"]
            theirs = collector.one("tools/call look", service)
            assert (theirs.parent, theirs.kind) == (request.id, SERVING)
            assert {call.trace, request.trace, theirs.trace} == {command.trace}

            # What the server itself was told: the trace, and the program's own baggage.
            told = carried(done)[name]
            parent = f"00-{command.trace}-{request.id}-"
            assert told["meta"]["traceparent"].startswith(parent)
            assert told["meta"]["baggage"] == "table=seven"
            if name == "web":
                assert told["headers"]["traceparent"].startswith(parent)
                assert request.attributes["server.address"] == "127.0.0.1"
                assert request.attributes["server.port"] == port
                assert request.attributes["network.transport"] == "tcp"
            else:
                assert request.attributes["network.transport"] == "pipe"
        # No word that was said, asked or answered.
        ours = [x for x in collector.spans if x.service == "table"]
        assert not any(
            word in repr(ours) for word in ("What is a room", "Torn", "baggage")
        )
