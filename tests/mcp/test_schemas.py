"""Schemas of real servers that would hold the process, in a process that is watched."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

# A server with one tool, whose schemas and answer are in a file.
SERVER = """
import json, sys
told = json.load(open(sys.argv[1]))
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    method = asked["method"]
    if method == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                  "serverInfo": {"name": "unkind", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [told["tool"], {"name": "plain",
                  "inputSchema": {"type": "object"}}]}
    elif method == "tools/call" and asked["params"]["name"] == "unkind":
        result = {"content": [], "structuredContent": told["answer"]}
    else:
        result = {"content": [{"type": "text", "text": "well"}]}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}),
          flush=True)
"""

# Prints what the tools of all servers answer, and for how long the loop stood still.
PROGRAM = """
import json, sys, trio
from glyphoxa_trio import load_config, open_runtime

async def main():
    worst = 0.0

    async def tick():
        nonlocal worst
        while True:
            due = trio.current_time() + 0.01
            await trio.sleep_until(due)
            worst = max(worst, trio.current_time() - due)

    async with trio.open_nursery() as nursery:
        async with open_runtime(load_config(sys.argv[1])) as runtime:
            # The libraries are loaded by now or soon.
            await runtime.wait_ready(within=40)
            nursery.start_soon(tick)
            said = {}
            for server in sys.argv[2:]:
                for tool in ("unkind", "plain"):
                    outcome = await runtime.host.execute(f"{server}.{tool}")
                    said[f"{server}.{tool}"] = [outcome.status.value, outcome.message]
            nursery.cancel_scope.cancel()
    print(json.dumps({"said": said, "worst": worst}))

trio.run(main)
"""


def several(count: int, **keywords: Any) -> dict[str, Any]:
    return {"type": "object", **keywords, "description": f"{count} of them"}


def exploding(keyword: str) -> dict[str, Any]:
    parts: dict[str, Any] = {
        str(n): {keyword: [{"$ref": f"#/$defs/{n + 1}"}] * 2} for n in range(40)
    }
    return {"type": "object", "$ref": "#/$defs/0", "$defs": parts | {"40": {}}}


LETTERS = "a" * 40 + "!"
OUTPUTS: dict[str, tuple[dict[str, Any], Any]] = {
    "a regular expression": (
        several(1, properties={"x": {"type": "string", "pattern": "^(a+)+$"}}),
        {"x": LETTERS},
    ),
    "a name's regular expression": (
        several(1, patternProperties={"^(a|a)*$": {"type": "string"}}),
        {LETTERS: "x"},
    ),
    "references that double in anyOf": (exploding("anyOf"), {"x": 1}),
    "references that double in allOf": (exploding("allOf"), {"x": 1}),
    "items that are compared in pairs": (
        several(1, properties={"x": {"uniqueItems": True}}),
        {"x": [[n, {"a": n}] for n in range(2_000)]},
    ),
}
INPUTS = {
    "50,000 properties": several(1, properties={str(n): {} for n in range(50_000)}),
    # A list of over 200,000 values is not read at all.
    "60,000 dependentSchemas": several(
        1, dependentSchemas={str(n): {"minProperties": n} for n in range(60_000)}
    ),
    "100,000 required": several(1, required=[str(n) for n in range(100_000)]),
    "1.6 MB of one description": several(1, title="x" * 1_600_000),
}


@pytest.mark.long
def test_schemas_hold_neither_the_process_nor_other_servers(tmp_path: Path) -> None:
    tools: dict[str, tuple[dict[str, Any], Any]] = {}
    for number, (schema, answer) in enumerate(OUTPUTS.values()):
        tools[f"output{number}"] = {"outputSchema": schema}, answer
    for number, schema in enumerate(INPUTS.values()):
        tools[f"input{number}"] = {"inputSchema": schema}, {}
    tools["kind"] = {}, {}
    for name, (schemas, answer) in tools.items():
        tool = {"name": "unkind", "inputSchema": {"type": "object"}, **schemas}
        told = json.dumps({"tool": tool, "answer": answer})
        (tmp_path / f"{name}.json").write_text(told)
    (tmp_path / "server.py").write_text(SERVER)
    (tmp_path / "program.py").write_text(PROGRAM)
    servers = [
        {"name": name, "command": f"python {tmp_path}/server.py {tmp_path}/{name}.json"}
        for name in tools
    ]
    config = tmp_path / "config.yaml"
    npc = {
        "name": "Mara",
        "personality": "Kind.",
        "trust": {"mode": "full"},
        "tools": ["*"],
    }
    config.write_text(json.dumps({"mcp": {"servers": servers}, "npcs": [npc]}))
    done = subprocess.run(
        [sys.executable, tmp_path / "program.py", config, *tools],
        capture_output=True,
        text=True,
        timeout=60,  # before, it ended by no signal but SIGKILL
        check=True,
    )
    found = json.loads(done.stdout.splitlines()[-1])
    for name in tools:
        assert found["said"][f"{name}.plain"] == ["ok", "well"]
        status, _ = found["said"][f"{name}.unkind"]
        # Such a tool is left out; what an answer should look like is not looked at.
        assert status == ("denied" if name.startswith("input") else "ok"), name
    assert found["worst"] < 1.0
