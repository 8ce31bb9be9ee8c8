"""The module for Foundry VTT: its package, its logic, and an evening under Node.

Foundry itself is not here: `foundry/fake_foundry.mjs` stands in for it.
"""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path
from runpy import run_path
from typing import Any, Final

import attrs
import pytest

import trio

from glyphoxa_trio.config import NpcConfig
from glyphoxa_trio.memory.visibility import GAME_MASTER, CampaignKey, Viewer
from glyphoxa_trio.providers.llm import LLMRequest
from glyphoxa_trio.service import ClientRole
from glyphoxa_trio.service.options import service_options
from glyphoxa_trio.tools.tier import Tier

from ..npc.support import HANG, Ran, call
from .support import CONFIG, TOKENS, bytes_of, serving, token_file
from .test_clients import node

ROOT: Final = Path(__file__).parents[2]
MODULE: Final = ROOT / "clients" / "foundry"
BUILD: Final = MODULE / "build.py"
SCRIPTS: Final = Path(__file__).with_name("foundry")
EVIL: Final = "<img src=x onerror=alert(1)> [[/r 1d20]] @UUID[Actor.a]{b} & done."


def answer(request: LLMRequest) -> list[Any]:
    """The words of the NPCs, by what they were told last."""
    told = request.messages[-1]
    if told.role == "tool":
        if "total" in told.content:
            return [f"It came to {json.loads(told.content)['data']['total']}."]
        return ["I know now." if "done" in told.content else "I may not."]
    match told.content.split()[-1]:
        case "evil":
            return [EVIL]
        case "hang":
            return [f"You said {told.content}.\n", HANG]
        case "slow":
            return ["One. ", *(0.02, "And more. ") * 200, HANG]
        case "me":
            return [call("roll", '{"expression": "2d6+3"}')]
        case "carefully":
            return [call("mcp__world__tell", '{"n": "the-vault-is-open"}')]
        case "I?":
            names = [x for x in ("Aria", "Dan") if x in str(request.messages[-3:])]
            return [f"{', '.join(names)}."]
        case "overheard?":
            return ["Yes. " if "1d20 = 17" in str(request.messages) else "No."]
    return [f"You said {told.content}. ", "So it is."]


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The module as Foundry unpacks it."""
    folder = tmp_path_factory.mktemp("Data")
    built = folder / "built"
    run_path(str(BUILD))["build"](built)
    with zipfile.ZipFile(built / "glyphoxa.zip") as archive:
        archive.extractall(folder / "modules" / "glyphoxa")
    return folder / "modules" / "glyphoxa"


async def run(script: str, *arguments: str) -> str:
    """What a file of tests says under Node; it must pass."""
    done = await trio.run_process(
        [*node(), str(SCRIPTS / script), *arguments],
        capture_stdout=True,
        capture_stderr=True,
        check=False,
    )
    said = done.stdout.decode() + done.stderr.decode()
    assert done.returncode == 0, said
    return said


@pytest.mark.border
async def test_an_evening_in_foundry(module: Path, tmp_path: Path) -> None:
    ran = Ran()
    npcs = (
        NpcConfig(name="Bo", tools=("*",)),
        NpcConfig(name="Ann", tools=("*",), budget_tier=Tier.DEEP),
    )
    async with serving(
        answer,
        config=attrs.evolve(CONFIG, npcs=npcs),
        options=service_options(http="127.0.0.1:0", token_file=token_file(tmp_path)),
        tools=(ran.tool("tell", group="world", external=True),),
        approvals=True,
        memory=tmp_path / "memory",
    ) as served:
        tokens = (TOKENS[ClientRole.GAME_MASTER], TOKENS[ClientRole.PLAYER])
        await run("table.test.mjs", str(module), served.ws, *tokens)
        memory, campaign = served.runtime.memory, CampaignKey("saltmarsh")
        assert memory is not None
        learnt = await memory.graph.facts(campaign, Viewer("Bo"), "pier lighthouse")
        secret = await memory.graph.facts(campaign, GAME_MASTER, "pier lighthouse")
    assert len(ran.began) == 1
    assert ["whale" in x.fact.text for x in learnt] == [True]
    assert {x.fact.reach.secret for x in secret} == {True, False}
    assert b"foundry:u1" in bytes_of(tmp_path, "memory*")


@pytest.mark.border
async def test_the_logic_needs_no_foundry(module: Path) -> None:
    await run("pure.test.mjs", str(module))


def test_foundry_finds_what_the_manifest_names(module: Path) -> None:
    manifest = json.loads((module / "module.json").read_text())
    assert manifest["id"] == module.name
    assert {"version", "title", "compatibility", "socket"} <= manifest.keys()
    named = [*manifest["esmodules"], *(x["path"] for x in manifest["languages"])]
    assert all((module / name).is_file() for name in [*named, manifest["license"]])
    # Only what is imported is in the package, and all of that.
    left, seen = list(manifest["esmodules"]), set[str]()
    while left:
        script = left.pop()
        seen.add(script)
        imported = re.findall(r' from "\./([\w.]+)"', (module / script).read_text())
        left += {f"scripts/{name}" for name in imported} - seen
    assert seen == {f"scripts/{x.name}" for x in (module / "scripts").iterdir()}


def test_foundry_is_touched_in_one_file() -> None:
    foundrys = re.compile(r"\b(game|Hooks|ui|canvas|CONFIG|ChatMessage|document)\.")
    touching = {
        path.name
        for path in (MODULE / "scripts").glob("*.mjs")
        if any(
            foundrys.search(line) and not line.lstrip().startswith(("//", "*", "/**"))
            for line in path.read_text().splitlines()
        )
    }
    assert touching == {"foundry.mjs"}


def test_every_text_of_the_module_is_used() -> None:
    words = json.loads((MODULE / "lang" / "en.json").read_text())["GLYPHOXA"]
    scripts = "".join(x.read_text() for x in (MODULE / "scripts").glob("*.mjs"))
    for part, keys in words.items():
        assert part in scripts
        for key in keys:
            assert re.search(rf"\b{key}\b", scripts), f"{part}.{key}"


def test_a_package_is_the_same_whenever_it_is_built(tmp_path: Path) -> None:
    build = run_path(str(BUILD))["build"]
    url = "https://vtt.example.org/files/"
    first, second = (build(tmp_path / x, url).read_bytes() for x in ("one", "two"))
    assert first == second
    manifest = json.loads((tmp_path / "one" / "module.json").read_text())
    assert manifest["manifest"] == f"{url}module.json"
    assert manifest["download"] == f"{url}glyphoxa.zip"
    with zipfile.ZipFile(tmp_path / "one" / "glyphoxa.zip") as archive:
        assert json.loads(archive.read("module.json")) == manifest
        client = (ROOT / "clients/javascript/glyphoxa.mjs").read_bytes()
        assert archive.read("scripts/client.mjs") == client
