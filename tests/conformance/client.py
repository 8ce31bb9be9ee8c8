"""The client that the conformance suite tests: a runtime with one server.

    MCP_CONFORMANCE_SCENARIO=tools_call python tests/conformance/client.py URL

Everything goes the way of any server of a configuration: `open_runtime` connects
and lists, the host's gate, executor and connection call. It makes the calls that
the scenario asks for, or else calls each tool that it is offered once. The last
line it prints says how that ended: ``served``, ``not connected`` or ``failed
calls``.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Final

import trio

from glyphoxa_trio.config import (
    CalibrationConfig,
    Config,
    McpConfig,
    RestartConfig,
    ServerSpec,
)
from glyphoxa_trio.config.servers import OAuth
from glyphoxa_trio.host import ToolHost
from glyphoxa_trio.mcp import ServerWarning
from glyphoxa_trio.mcp.questions import Answer, ServerQuestion
from glyphoxa_trio.runtime import Runtime, open_runtime
from glyphoxa_trio.secret import Secret

_CONNECT: Final = 15.0
_ALL: Final = 25.0  # seconds, less than the suite waits
_SERVER: Final = "scenario"

# Arguments by JSON type, for tools of which a scenario does not say more.
_ARGUMENTS: Final[Mapping[str, Any]] = {
    "number": 2,
    "integer": 3,
    "string": "four",
    "boolean": True,
    "array": [],
    "object": {},
}


async def main(url: str, scenario: str, context: Mapping[str, Any]) -> str:
    config = Config(
        # A probe would be a call that the scenario did not ask for.
        calibration=CalibrationConfig(at_start=False),
        mcp=McpConfig(servers=(spec_of(url, scenario, context),), remember=False),
    )
    with trio.fail_after(_ALL):
        async with open_runtime(
            config, wait_for_servers=_CONNECT, on_warning=_warn, answers=_answer
        ) as runtime:
            return await _use(runtime, scenario, context)


def spec_of(url: str, scenario: str, context: Mapping[str, Any]) -> ServerSpec:
    """The server as an operator would configure it, with what a scenario gives.

    In the scenarios that give no secret a client is to register itself, or a
    person to log in. Neither is done here: a secret of our own stands in.
    """
    oauth = None
    if scenario.startswith("auth/"):
        oauth = OAuth(
            client_id=context.get("client_id", "conformance"),
            client_secret=Secret(context.get("client_secret", "a-secret-of-our-own")),
        )
    return ServerSpec(
        name=_SERVER,
        url=url,
        oauth=oauth,
        restart=RestartConfig(enabled=False),
        start_timeout=_CONNECT,
    )


async def _use(runtime: Runtime, scenario: str, context: Mapping[str, Any]) -> str:
    (server,) = runtime.servers()
    print(server.state, *server.tools)
    if not await runtime.wait_ready(within=0):
        return "not connected"
    ended = "served"
    for tool, arguments in calls_of(runtime.host, scenario, context):
        outcome = await runtime.host.execute(f"{_SERVER}.{tool}", arguments)
        print(outcome.tool, outcome.status, outcome.message)
        if not outcome.ok:
            ended = "failed calls"
    return ended


def calls_of(
    host: ToolHost, scenario: str, context: Mapping[str, Any]
) -> Iterable[tuple[str, dict[str, Any]]]:
    """The calls to make: a tool's own name and its arguments."""
    schemas = {
        x.definition.name: x.definition.parameters
        for x in host.snapshot.listings
        if x.definition.group == _SERVER
    }
    if "toolCalls" in context:
        return [
            # A null that the schema forbids is refused here, and would not be sent:
            # what a tool is not given is left out.
            (
                call["name"],
                {k: v for k, v in call["arguments"].items() if v is not None},
            )
            for call in context["toolCalls"]
        ]
    if scenario == "json-schema-2020-12-preservation":
        # It wants the schema back as this client has understood it.
        return [("json_schema_echo", {"schema": schemas["json_schema_2020_12_tool"]})]
    return [(name, arguments_for(schema)) for name, schema in schemas.items()]


def arguments_for(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Something of the right type for each parameter."""
    properties: Mapping[str, Mapping[str, Any]] = schema.get("properties", {})
    return {
        name: _ARGUMENTS[of.get("type", "string")] for name, of in properties.items()
    }


async def _answer(question: ServerQuestion) -> Answer:
    """Answer as a person who presses Enter at each field."""
    return {field.name: field.read("") for field in question.fields}


def _warn(warning: ServerWarning) -> None:
    print("warning:", warning.text, file=sys.stderr)


if __name__ == "__main__":
    end = trio.run(
        main,
        sys.argv[1],
        os.environ["MCP_CONFORMANCE_SCENARIO"],
        json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}")),
    )
    print(end)
    sys.exit(end != "served")
