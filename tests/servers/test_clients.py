"""The samples for other people's clients: each is read as its client reads it, what it
names is started or called, and the same campaign is there."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest

import trio

from glyphoxa_trio.config import ServerSpec
from glyphoxa_trio.secret import Secret

from .processes import LIMIT, client_of, over_http

SAMPLES = Path(__file__).parents[2] / "config" / "clients"
TOKEN = "a-token-that-nobody-guesses"

# How each client writes a variable of its environment, and where its servers stand.
FORMS = {
    "opencode.jsonc": (r"\{env:(\w+)\}", "mcp"),
    "claude-code.json": (r"\$\{(\w+)\}", "mcpServers"),
    "claude-desktop.json": (r"\$\{(\w+)\}", "mcpServers"),
    "vscode.json": (r"\$\{env:(\w+)\}", "servers"),
}


def test_every_sample_is_tried_and_told_of() -> None:
    samples = {path.name for path in SAMPLES.iterdir() if path.suffix != ".md"}
    assert samples == FORMS.keys()
    readme = (SAMPLES / "README.md").read_text()
    assert set(re.findall(r"\]\((\S+?)\)", readme)) == samples


def servers_of(name: str, environment: Mapping[str, str]) -> dict[str, ServerSpec]:
    """The servers that a sample names, as its client understands it."""
    variable, where = FORMS[name]
    text = (SAMPLES / name).read_text()
    if name.endswith(".jsonc"):  # strings stay, comments go
        text = re.sub(
            r'("(?:\\.|[^"\\])*")|//[^\n]*', lambda found: found[1] or "", text
        )
    text = re.sub(variable, lambda found: environment[found[1]], text)
    servers: dict[str, Any] = json.loads(text)[where]
    return {name: _spec(name, entry) for name, entry in servers.items()}


def _spec(name: str, entry: Mapping[str, Any]) -> ServerSpec:
    if "url" in entry:
        assert entry["type"] in ("remote", "http")
        headers = {key: Secret(value) for key, value in entry["headers"].items()}
        return ServerSpec(name=name, url=entry["url"], headers=headers)
    assert entry.get("type", "stdio") in ("local", "stdio")
    command = entry["command"]
    words = command if isinstance(command, list) else [command, *entry["args"]]
    return ServerSpec(name=name, command=tuple(words))


@pytest.mark.border
@pytest.mark.parametrize(
    "name",
    [
        name if name == "opencode.jsonc" else pytest.param(name, marks=pytest.mark.long)
        for name in FORMS
    ],
)
async def test_what_a_sample_names_is_there(name: str, tmp_path: Path) -> None:  # F15
    servers = servers_of(name, {"GLYPHOXA_SERVE_TOKEN": TOKEN})
    home = {"XDG_DATA_HOME": str(tmp_path)}
    with trio.fail_after(LIMIT):
        # As the samples' README says, but on a port that is free.
        async with over_http("campaign", GLYPHOXA_SERVE_TOKEN=TOKEN, **home) as table:
            specs = []
            for spec in servers.values():
                if spec.url is None:
                    secrets = {key: Secret(value) for key, value in home.items()}
                    specs.append(attrs.evolve(spec, env=secrets))
                else:
                    assert spec.url == "http://localhost:8081/mcp"
                    specs.append(attrs.evolve(spec, url=table))
            async with client_of(specs) as runtime:
                keys = runtime.host.snapshot.by_key.keys()
                assert {f"{one}.campaign_create" for one in servers} <= keys
