"""Agents of OpenAI Agents and pydantic-ai, as released, speak with an NPC as a tool.

They run in an environment of their own (``make peers``), with a model that is served
here. Without it the tests are skipped; with ``GLYPHOXA_PEERS=required`` they fail.
"""

from __future__ import annotations

import json
import os
import re
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

import trio

from glyphoxa_trio.testing.model_server import (
    CallTools,
    Reply,
    SayText,
    open_model_server,
)

PYTHON: Final = Path(__file__).with_name(".agents") / "bin" / "python"
ROOT: Final = Path(__file__).parents[2]
PINS: Final = Path(__file__).with_name("agents.txt")
EXAMPLES: Final = ROOT / "docs" / "examples" / "frameworks"
KEY: Final = "sk-of-the-agent"
LIMIT: Final = 60.0  # seconds; no test that passes comes near it


@pytest.fixture
def installed() -> None:
    if PYTHON.exists():
        return
    missing = "the frameworks of tests/frameworks/agents.txt are not installed"
    if os.environ.get("GLYPHOXA_PEERS") == "required":
        pytest.fail(missing)
    pytest.skip(f"{missing} (make peers)")


def test_the_page_shows_the_example() -> None:
    page = (ROOT / "docs" / "serve-npc.md").read_text()
    example = (EXAMPLES / "openai_agents_npc.py").read_text()
    (shown,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert textwrap.indent(shown, "    ") in example


def test_the_frameworks_are_pinned_and_nothing_else_is_named() -> None:
    lines = PINS.read_text().splitlines()[1:]
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in lines)
    assert {"openai-agents", "pydantic-ai-slim"} <= {x.split("==")[0] for x in lines}


def agent(body: Mapping[str, Any]) -> Reply:
    """The agent's model: it asks the NPC, and repeats the answer."""
    last = body["messages"][-1]
    if last["role"] == "tool":
        return SayText(f"He says: {_text(last['content'])}")
    return CallTools([("say", {"npc": "Bo", "text": "Roll 2d1+3 for me"})])


def _text(content: Any) -> str:
    """The words of a result, however a framework writes it for its model."""
    if not isinstance(content, str):
        return " ".join(part["text"] for part in content)
    try:
        found = json.loads(content)
    except ValueError:
        return content
    return str(found["text"])


def _with_command(folder: Path) -> Path:
    """A folder with our command, on this source: MCP clients pass on only a few
    variables, of which PYTHONPATH is none."""
    command = folder / "bin" / "glyphoxa"
    command.parent.mkdir()
    ours = Path(sys.executable).with_name("glyphoxa")
    command.write_text(
        f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" "{ours}" "$@"\n'
    )
    command.chmod(0o755)
    return command.parent


@pytest.mark.long
@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("example", ["openai_agents_npc.py", "pydantic_ai_npc.py"])
async def test_an_agent_speaks_with_an_npc(example: str, tmp_path: Path) -> None:
    config = {
        "npcs": [{"name": "Bo", "tools": ["dice"]}],
        "mcp": {"state_dir": "state"},
    }
    (tmp_path / "npcs.yaml").write_text(json.dumps(config))
    kept = ("PATH", "HOME", "XDG_STATE_HOME", "TMPDIR")
    env = {name: os.environ[name] for name in kept if name in os.environ}
    env["PATH"] = os.pathsep.join([str(_with_command(tmp_path)), env["PATH"]])
    with trio.fail_after(LIMIT):
        async with open_model_server(agent, api_key=KEY) as model:
            env |= {
                "OPENAI_BASE_URL": model.base_url,
                "OPENAI_API_KEY": KEY,
                "OPENAI_AGENTS_DISABLE_TRACING": "1",
            }
            words = [str(EXAMPLES / example), "npcs.yaml", "What does Bo roll?"]
            done = await trio.run_process(
                [str(PYTHON), *words],
                cwd=tmp_path,
                env=env,
                capture_stdout=True,
                capture_stderr=True,
                check=False,
            )
    assert done.returncode == 0, done.stderr.decode()[-4000:]
    assert done.stdout.decode().strip() == "He says: 2d1+3 comes to 5."
    shown = {tool["function"]["name"] for tool in model.requests[0]["tools"]}
    assert shown == {"list_npcs", "say", "conversation"}
    assert not model.refused
