"""An agent as seed 003 writes it: its blocks of YAML, a server on the protocol's SDK, a
model server that keeps what it is asked, and the command with its defaults.

Only the command of the server is another one than in the seed. Real processes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from glyphoxa_trio.testing.model_server import (
    CallTools,
    Reply,
    SayText,
    ScriptedModelServer,
    open_model_server,
)

from .support import beside, run

SERVER = Path(__file__).parent / "servers" / "atis.py"
TOOL = "mcp_aviation_atis_get_atis"

# The seed's, but for the command, and with its second context.
SEED = """
mcp:
  enabled: true
  servers:
    aviation_atis:
      transport: stdio
      command:
{command}
      env:
        # met.no requires an identifying User-Agent; pass one via config file or env.
        METNO_USER_AGENT: "Asterisk-AI-Voice-Agent (+https://github.com/...)"
      restart:
        enabled: true
        max_restarts: 5
        backoff_ms: 1000
      defaults:
        timeout_ms: 10000
        slow_response_threshold_ms: 2000
        slow_response_message: "Let me look that up for you, one moment..."
      tools:
        - name: get_atis
          expose_as: mcp_aviation_atis_get_atis
          description: "Get current ATIS for an airport"
          speech_field: atis_text
          # speech_template: "The current ATIS for {{icao}} is: {{atis_text}}"

contexts:
  aviation_support:
    provider: openai_realtime
    tools:
      - transfer
      - hangup_call
      - mcp_aviation_atis_get_atis
  customer_support:
    provider: openai_realtime
    greeting: "Hi {{caller_name}}, thanks for calling support!"
    prompt: |
      You are a customer support agent.

      ## Caller Information
      - Phone: {{caller_number}}
      - Name: {{caller_name}}
      - Call ID: {{call_id}}
      - Context: {{context_name}}
    tools:
      - mcp_uisp_server_lookup_customer
      - transfer
      - hangup_call
"""


def written(folder: Path, *, seconds: float, more: str = "") -> Path:
    words = [sys.executable, str(SERVER), str(seconds), str(folder / "calls")]
    command = "\n".join(f'        - "{word}"' for word in words)
    path = folder / "ai-agent.yaml"
    path.write_text(SEED.format(command=command) + more)
    return path


def calls(folder: Path) -> list[str]:
    file = folder / "calls"
    return file.read_text().split() if file.exists() else []


def asks_for_weather(request: Mapping[str, Any]) -> Reply:
    last = request["messages"][-1]
    if last["role"] == "tool":
        return SayText("There it is.")
    return CallTools([(TOOL, {"icao": last["content"].split()[-1]})])


def shown(request: Mapping[str, Any]) -> list[str]:
    return [tool["function"]["name"] for tool in request.get("tools", ())]


def played(
    path: Path, lines: str, script: Callable[[Mapping[str, Any]], Reply]
) -> tuple[str, ScriptedModelServer]:
    with beside(open_model_server(script)) as server:
        done = run(
            *("play", path, "--model", "recording", "--base-url", server.base_url),
            lines=lines,
        )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr, server


@pytest.mark.border
def test_the_agent_of_the_seed_has_its_tool_in_every_turn(tmp_path: Path) -> None:
    # A4, A5, A30, A33, A54. Slower than a fast turn: it is what `select_tier` is for.
    path = written(tmp_path, seconds=0.8)
    lines = "The ATIS for ENBR\nThank you, now ENGM\nok and ENZV\n"
    said, server = played(path, lines, asks_for_weather)
    assert calls(tmp_path)[-3:] == ["ENBR", "ENGM", "ENZV"]
    assert len(server.requests) == 6
    for number in (0, 2, 4):
        assert shown(server.requests[number]) == [TOOL]
        answer = server.requests[number + 1]["messages"][-1]
        assert answer["role"] == "tool"
        assert "information Quebec." in answer["content"]
    (told,) = {request["messages"][0]["content"] for request in server.requests}
    assert told.startswith("You are the assistant aviation_support. ")
    assert "role-playing" not in told
    assert said.count("deep · 1 tool shown") == 3


@pytest.mark.border
@pytest.mark.alone  # a deep turn has four seconds
def test_a_call_of_seconds_is_announced_as_the_seed_says(tmp_path: Path) -> None:
    # A18, A27, A54
    path = written(tmp_path, seconds=2.6)
    said, server = played(path, "The ATIS for ENBR\n", asks_for_weather)
    assert "Let me look that up for you, one moment..." in said
    assert "information Quebec." in server.requests[1]["messages"][-1]["content"]


@pytest.mark.border
def test_the_provider_of_the_seed_speaks_by_itself(tmp_path: Path) -> None:
    # A10, A30: the model of `s2s`, here the stand-in of the command
    more = "s2s: {provider: openai_realtime, model: some-model}\n"
    path = written(tmp_path, seconds=0.8, more=more)
    lines = "get atis for ENBR\nthank you\nget atis ENGM\n"
    done = run("play", path, "--stand-in", lines=lines)
    assert (done.returncode, done.stderr) == (0, "")
    assert calls(tmp_path)[-2:] == ["ENBR", "ENGM"]
    assert "aviation_support: ENBR information Quebec." in done.stdout
    assert "aviation_support: ENGM information Quebec." in done.stdout


@pytest.mark.border
def test_the_prompt_of_an_operator_is_all_that_the_model_is_told(
    tmp_path: Path,
) -> None:
    # A30, A32, A33
    path = written(tmp_path, seconds=0)
    lines = "@customer_support Hello?\n"
    said, server = played(path, lines, lambda _: SayText("Hello, Ann."))
    (request,) = server.requests
    system, _, greeting, *_ = request["messages"]
    assert system["content"].startswith("You are a customer support agent.\n\n## Call")
    assert "- Phone: unknown\n- Name: there\n- Call ID: " in system["content"]
    assert system["content"].endswith("\n- Context: customer_support")
    assert greeting["content"] == "Hi there, thanks for calling support!"
    assert shown(request) == []
    assert "openai_realtime would make it speak by itself" in said


@pytest.mark.border
def test_what_the_lists_of_the_seed_name_and_nobody_has_is_told(tmp_path: Path) -> None:
    # A30
    done = run("check", written(tmp_path, seconds=0))
    assert done.returncode == 0
    said = done.stdout + done.stderr
    for tool in ("transfer", "hangup_call"):
        assert f"no tool '{tool}' yet, unless a program adds it" in said
    assert "no tool 'mcp_uisp_server_lookup_customer' yet, did you mean " in said


@pytest.mark.border
def test_a_mistaken_name_of_a_server_that_is_there_is_an_error(tmp_path: Path) -> None:
    # A6, A12
    wrong = "mcp__aviation_atis__Lookup-Customer, mcp_aviation_atis_lookup_customers"
    more = f"  sales:\n    tools: [{wrong}]\n"
    done = run("check", written(tmp_path, seconds=0, more=more))
    assert done.returncode == 1
    said = " ".join(done.stderr.split() + done.stdout.split())
    assert (
        "with mcp.naming single it is mcp_aviation_atis_lookup_customer; grant" in said
    )
    assert "did you mean mcp_aviation_atis_lookup_customer" in said
