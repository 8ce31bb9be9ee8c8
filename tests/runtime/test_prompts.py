"""The prompts of servers: listed, granted, filled in, completed (N1).

The servers are played in this process; `storyteller` is a real one.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs
import pytest

import trio
from trio.testing import MockClock

from glyphoxa_trio import Config, aio
from glyphoxa_trio.config import McpConfig, NpcConfig, ServerSpec
from glyphoxa_trio.errors import DeadlineExceeded, GlyphoxaError
from glyphoxa_trio.mcp import PromptMessage
from glyphoxa_trio.runtime import PromptRefused, UnknownNpc
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.tools.definition import ToolError

from ..cli.support import run
from ..mcp.odd import OddServer, Wrong, greeting, odd_table, tool
from ..mcp.support import SERVERS

OFFERS = {"initialize": greeting(tools={}, prompts={"listChanged": True})}
RECAP = {
    "name": "recap",
    "description": "What happened so far.",
    "arguments": [{"name": "hero", "required": True}, {"name": "style"}],
}
SECRETS = {"name": "secrets", "arguments": []}
LISTED = {"prompts/list": {"prompts": [RECAP, SECRETS]}}
NONE = "matches no prompt of a server"
STORY = str(SERVERS / "storyteller.py")


async def told(params: Any, server: OddServer) -> dict[str, Any]:
    text = json.dumps(params["arguments"])
    return {"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}


SCRIPT = {**OFFERS, **LISTED, "tools/list": {"tools": []}, "prompts/get": told}


def npc(name: str = "Mara", *prompts: str) -> NpcConfig:
    return NpcConfig(name=name, personality="Kind.", prompts=prompts)


NPCS = (npc("Mara", "odd.recap"), npc("Bob"), npc("Eve", "odd"), npc("Kim", "o*.s*"))


async def test_an_npc_has_the_prompts_that_it_is_granted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # N1
    async with odd_table(monkeypatch, SCRIPT, npcs=NPCS) as table:
        keys = {
            who: [x.key for x in table.runtime.prompts(who)]
            for who in (None, "Mara", "Bob", "Eve", "Kim")
        }
        assert keys == {
            None: ["odd.recap", "odd.secrets"],
            "Mara": ["odd.recap"],
            "Bob": [],
            "Eve": ["odd.recap", "odd.secrets"],
            "Kim": ["odd.secrets"],
        }
        with pytest.raises(UnknownNpc):
            table.runtime.prompts("Nobody")


async def test_a_prompt_is_filled_in_by_key_or_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with odd_table(monkeypatch, SCRIPT, npcs=NPCS) as table:
        for name in ("odd.recap", "recap"):
            filled = await table.runtime.fill_prompt("Mara", name, {"hero": "Ann"})
            assert filled.text == '{"hero": "Ann"}'
            assert filled.key == "odd.recap"
        assert table.server.asked("prompts/get")[0] == {
            "name": "recap",
            "arguments": {"hero": "Ann"},
        }


@pytest.mark.parametrize(
    ("grant", "said", "certain"),
    [
        ("odd.recpa", f"{NONE}, did you mean odd.recap or odd.secrets?", True),
        ("recap", f"{NONE}, did you mean odd.recap?", True),
        ("od", f"{NONE}, did you mean odd?", True),
        ("od.*", NONE, False),
        ("odd.x*", NONE, False),
        ("late.recap", "waits for the server 'late'", False),
        ("late", "waits for the server 'late'", False),
    ],
)
async def test_a_grant_that_no_prompt_matches_is_reported_at_start_and_by_problems(
    monkeypatch: pytest.MonkeyPatch,
    autojump_clock: MockClock,
    grant: str,
    said: str,
    certain: bool,
) -> None:
    npcs = (npc("Mara", "odd.recap", grant), npc("Eve", "o*"))
    async with odd_table(monkeypatch, SCRIPT, npcs=npcs) as table:
        if grant.startswith("late"):
            spec = ServerSpec(name="late", command=("odd",))
            config = table.runtime.config
            mcp = attrs.evolve(config.mcp, servers=(*config.mcp.servers, spec))
            table.server.script["initialize"] = never
            await table.runtime.reload(attrs.evolve(config, mcp=mcp))
        (problem,) = table.runtime.problems()
        where = f"{grant!r} {said} @ npcs[Mara].prompts"
        assert (str(problem), problem.error) == (where, certain)
        await trio.sleep(1)
        if grant.startswith("late"):
            await trio.sleep(300)  # until the server had its time to start
        assert any(grant in x and "[Mara].prompts" in x for x in table.warnings)


@pytest.mark.border
def test_check_names_a_grant_that_no_prompt_matches(tmp_path: Path) -> None:
    config = tmp_path / "inn.yaml"
    mara = {"name": "Mara", "personality": "Kind.", "prompts": ["story.recp"]}
    server = {"name": "story", "command": f"python {STORY}"}
    mcp = {"servers": [server], "state_dir": str(tmp_path / "state")}
    model = {"provider": "offline"}
    config.write_text(json.dumps({"llm": model, "mcp": mcp, "npcs": [mara]}))
    done = run("check", config)
    shown = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 1
    assert shown.count("'story.recp' matches no prompt of a server") == 1, shown
    assert "did you mean story.recap?" in shown


async def never(params: Any, server: OddServer) -> None:
    await trio.sleep_forever()


@pytest.mark.parametrize(
    ("who", "name", "arguments", "why"),
    [
        ("Bob", "odd.recap", {"hero": "Ann"}, "is not granted to Bob: add it to"),
        ("Mara", "odd.secrets", {}, "is not granted to Mara"),
        ("Mara", "recpa", {}, "there is no prompt 'recpa'; granted to Mara: odd.recap"),
        ("Mara", "recap", {}, "needs a value of: hero"),
        ("Mara", "recap", {"hero": "a", "stlye": "b"}, "no argument 'stlye', it has"),
        ("Mara", "recap", {"hero": "a" * 10_001}, "more than 10000 characters"),
    ],
)
async def test_what_is_refused_never_reaches_a_server(
    monkeypatch: pytest.MonkeyPatch,
    who: str,
    name: str,
    arguments: dict[str, str],
    why: str,
) -> None:
    async with odd_table(monkeypatch, SCRIPT, npcs=NPCS) as table:
        with pytest.raises(PromptRefused, match=why):
            await table.runtime.fill_prompt(who, name, arguments)
        assert table.server.asked("prompts/get") == []


async def test_a_value_that_is_no_text_is_a_mistake_of_the_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with odd_table(monkeypatch, SCRIPT, npcs=NPCS) as table:
        with pytest.raises(TypeError, match="'hero' must be a text, not int"):
            await table.runtime.fill_prompt("Mara", "recap", {"hero": 7})  # type: ignore[dict-item]


async def test_the_servers_values_complete_an_argument(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values = {"completion": {"values": ["plain", "playful", 7], "hasMore": True}}
    script = SCRIPT | {"completion/complete": values}
    async with odd_table(monkeypatch, SCRIPT, npcs=NPCS) as table:
        with pytest.raises(ToolError):  # it completes nothing
            await table.runtime.complete_prompt("Mara", "recap", "style")
        with pytest.raises(PromptRefused, match="no argument 'x'"):
            await table.runtime.complete_prompt("Mara", "recap", "x")
        with pytest.raises(PromptRefused, match="not granted to Bob"):
            await table.runtime.complete_prompt("Bob", "recap", "style")
        assert len(table.server.asked("completion/complete")) == 1
    values["completion"]["values"] = ["plain", "playful"]
    async with odd_table(monkeypatch, script, npcs=NPCS) as table:
        found = await table.runtime.complete_prompt(
            "Mara", "recap", "style", "pl", given={"hero": "Ann"}
        )
        assert found == ("plain", "playful")
        (asked,) = table.server.asked("completion/complete")
        assert asked["ref"] == {"type": "ref/prompt", "name": "recap"}
        assert asked["argument"] == {"name": "style", "value": "pl"}
        assert asked["context"] == {"arguments": {"hero": "Ann"}}


async def test_messages_of_all_kinds_become_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    messages = [
        {"role": "user", "content": {"type": "text", "text": "One sesame-seed."}},
        {"role": "assistant", "content": {"type": "text", "text": "Two."}},
        {
            "role": "user",
            "content": {
                "type": "resource",
                "resource": {
                    "uri": "a:b",
                    "mimeType": "text/plain",
                    "blob": "VGhyZWUu",
                },
            },
        },
        {
            "role": "user",
            "content": {"type": "image", "data": "AAAA", "mimeType": "a/b"},
        },
        {"content": "Five."},
    ]
    script = SCRIPT | {"prompts/get": {"messages": messages, "description": None}}
    env = {"TOKEN": Secret("sesame-seed")}
    async with odd_table(monkeypatch, script, npcs=NPCS, env=env) as table:
        filled = await table.runtime.fill_prompt("Eve", "secrets")
        assert filled.messages[1] == PromptMessage("assistant", "Two.")
        assert "sesame-seed" not in filled.text
        assert filled.text.splitlines()[2:] == [
            "(Answer: Two.)",
            "",
            "Three.",
            "",
            "[image: a/b, 3 B]",
            "",
            "Five.",
        ]


async def test_a_broken_prompt_says_server_method_and_field(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = SCRIPT | {"prompts/get": {"description": "x"}}
    async with odd_table(monkeypatch, script, npcs=NPCS) as table:
        with pytest.raises(ToolError) as caught:
            await table.runtime.fill_prompt("Eve", "secrets")
        said = str(caught.value)
        assert said.startswith("odd's answer to prompts/get is not usable: messages: ")
        assert "update the server" in said


@pytest.mark.parametrize(
    "listed",
    [Wrong("not now"), {"prompts": None}, {"prompts": [7, {"title": "x"}]}, 7],
)
async def test_odd_lists_of_prompts_cost_no_tools(
    monkeypatch: pytest.MonkeyPatch, listed: Any
) -> None:
    script = {**OFFERS, "tools/list": {"tools": [tool()]}, "prompts/list": listed}
    async with odd_table(monkeypatch, script) as table:
        assert table.tools == ["ask"]
        assert table.runtime.prompts() == ()


async def test_prompts_change_while_the_server_runs(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    script: dict[str, Any] = SCRIPT | {"prompts/list": {"prompts": []}}
    async with odd_table(monkeypatch, script) as table:
        assert table.runtime.prompts() == ()
        table.server.script |= LISTED
        await table.server.send(method="notifications/prompts/list_changed")
        await trio.sleep(1)
        assert [x.name for x in table.runtime.prompts()] == ["recap", "secrets"]


async def test_a_server_that_does_not_answer_is_not_waited_for_longer_than_asked(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    script = SCRIPT | {"prompts/get": never}
    async with odd_table(monkeypatch, script, npcs=NPCS) as table:
        begun = trio.current_time()
        with pytest.raises(DeadlineExceeded):
            await table.runtime.fill_prompt("Eve", "secrets", within=3)
        assert trio.current_time() - begun <= 4
        await trio.sleep(1)
        heard = [x.get("method") for x in table.server.heard]
        assert "notifications/cancelled" in heard


# ------------------------------------------------------------ a real server


@pytest.mark.border
def test_play_and_mcp_list_and_asyncio_use_the_prompts_of_a_real_server(
    tmp_path: Path,
) -> None:  # N1
    config = tmp_path / "inn.yaml"
    server = {"name": "story", "command": f"python {STORY}"}
    config.write_text(
        json.dumps(
            {
                "llm": {"provider": "offline"},
                "mcp": {"servers": [server], "state_dir": str(tmp_path / "state")},
                "npcs": [
                    {"name": "Mara", "personality": "Kind.", "prompts": ["story.*"]},
                    {"name": "Bob", "personality": "Gruff."},
                ],
            }
        )
    )
    lines = [
        "/prompt",
        "/prompt recap style?pl",
        '/prompt story.recap "Ann of Brill" style=grim',
        "/prompt recap a b c",
        "/prompt recap",
        "/npc Bob",
        "/prompt",
        "/prompt recap Ann",
    ]
    done = run("play", config, lines="\n".join(lines) + "\n")
    shown = done.stdout + done.stderr
    assert "story.recap hero [style]: What happened to a hero so far." in shown
    assert "style: plain, playful" in shown
    assert "Tell me in a grim style what happened to Ann of Brill." in shown
    assert "there is no place for 'c'" in shown
    assert "needs a value of: hero" in shown
    assert "Bob is granted no prompts of servers" in shown
    assert "is not granted to Bob" in shown

    done = run("mcp", "list", "--config", config)
    assert "story.recap hero [style]" in done.stdout
    rows = json.loads(run("mcp", "list", "--config", config, "--json").stdout)
    assert rows["servers"][0]["prompts"] == ["story.recap"]

    async def main() -> None:
        spec = ServerSpec(name="story", command=("python", STORY), start_timeout=30)
        chosen = Config(
            mcp=McpConfig(servers=(spec,), remember=False),
            npcs=(npc("Mara", "story.recap"), npc("Bob")),
        )
        async with aio.open_runtime(chosen, wait_for_servers=30) as runtime:
            (prompt,) = await runtime.prompts("Mara")
            assert prompt.key == "story.recap"
            filled = await runtime.fill_prompt("Mara", "recap", {"hero": "Ann"})
            assert filled.text == "Tell me in a plain style what happened to Ann."
            values = await runtime.complete_prompt("Mara", "recap", "style", "g")
            assert values == ("grim",)
            with pytest.raises(GlyphoxaError, match="not granted to Bob"):
                await runtime.fill_prompt("Bob", "recap", {"hero": "Ann"})

    import asyncio

    asyncio.run(main())
