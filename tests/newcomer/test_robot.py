"""A newcomer's robot: eleven servers of other people, everything by default.

It has three NPCs, one of each ceiling, to each of which it grants every tool by its
full name, and five evenings in the same home. In the first four it only talks, and the
model looks what it could call; in the last the model runs errands on every server.

Bars: nothing of the newcomer's is touched before somebody asks for it; at least nine in
ten tools can be reached by an NPC of any ceiling in its first turn and still in its
third; they are the same ones at every start; what is called works, and nothing else is
called but what only reads and was granted. One look in five may fall into a moment in
which the machine stands still.
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import pytest

import trio

from glyphoxa_trio.testing.http_server import (
    ReceivedRequest,
    StatusReply,
    open_http_server,
)
from glyphoxa_trio.testing.model_server import open_model_server

from ..peers.conftest import installed as installed
from .mind import Mind, failed
from .strangers import ALL, READING, STRANGERS, Call, Home, furnish
from .support import LONG, Ran, contents, run, write_config

pytestmark = pytest.mark.long

STARTS: Final = 10 if LONG else 5
ENOUGH: Final = 0.9

NPCS: Final = {"Fay": "fast", "Stan": "standard", "Dee": "deep"}
FIRST, SECOND, THIRD = "Good morning.", "I slept well.", "The bread is good here."
# A search is a matter of a millisecond: if one took half of the FAST budget, the
# machine stood still, and what else was searched for had too little time.
STOOD_STILL: Final = 250.0  # ms
NO_TOOLS: Final = "What a lovely fire."


def errands(mine: Path, page: str) -> dict[str, list[list[Call]]]:
    """What is asked for, and what the model then calls, round by round."""
    notes, repo = mine / "notes", str(mine / "repo")
    innkeeper = {"name": "Bo", "entityType": "innkeeper", "observations": ["tired"]}
    return {
        "Put the notes in order, please.": [
            [
                ("files.write_file", {"path": f"{notes}/ale", "content": "3 copper"}),
                ("files.create_directory", {"path": f"{notes}/new"}),
                (
                    "files.move_file",
                    {
                        "source": f"{notes}/deep/cellar",
                        "destination": f"{notes}/cellar",
                    },
                ),
            ],
            [
                ("files.read_text_file", {"path": f"{notes}/ale"}),
                ("files.list_directory", {"path": str(notes)}),
                ("files.search_files", {"path": str(notes), "pattern": "cellar"}),
            ],
        ],
        "Keep the innkeeper in mind.": [
            [("memory.create_entities", {"entities": [innkeeper]})],
            [
                ("memory.search_nodes", {"query": "innkeeper"}),
                ("memory.read_graph", {}),
                ("thinking.sequentialthinking", _thought()),
            ],
        ],
        "Hand in what I have written.": [
            [("git.git_add", {"repo_path": repo, "files": ["new"]})],
            [("git.git_commit", {"repo_path": repo, "message": "By the robot"})],
            [
                ("git.git_log", {"repo_path": repo}),
                ("git.git_status", {"repo_path": repo}),
            ],
        ],
        "Put three copper on the tab.": [
            [("sqlite.write_query", {"query": "insert into tabs values ('Bo', 3)"})],
            [
                ("sqlite.read_query", {"query": "select * from tabs"}),
                ("sqlite.list_tables", {}),
                ("calculator.calculate", {"expression": "6*7"}),
                ("bones.roll_dice", {"notation": "2d6+3"}),
            ],
        ],
        "Look around outside.": [
            [
                ("everything.echo", {"message": "hello"}),
                ("everything.get-sum", {"a": 19, "b": 23}),
                ("time.get_current_time", {"timezone": "Europe/Berlin"}),
                ("fetch.fetch", {"url": page, "raw": True}),
                ("vault.search_notes", {"query": "a"}),
            ]
        ],
    }


def _thought() -> dict[str, Any]:
    numbers = {"thoughtNumber": 1, "totalThoughts": 1}
    return {"thought": "He is tired.", "nextThoughtNeeded": False, **numbers}


@attrs.define
class Evenings:
    """What happened."""

    home: Home
    before: dict[str, str]
    ran: list[Ran] = attrs.field(factory=list)
    after: list[dict[str, str]] = attrs.field(factory=list)
    reached: list[dict[tuple[str, str], set[str]]] = attrs.field(factory=list)
    slow: list[set[tuple[str, str]]] = attrs.field(factory=list)  # as in `reached`
    visits: list[int] = attrs.field(factory=list)  # to the page, after each start
    calls: list[Counter[str]] = attrs.field(factory=list)
    made: Counter[str] = attrs.field(factory=Counter)
    answers: list[tuple[str, str]] = attrs.field(factory=list)


@pytest.fixture(scope="module")
def evenings(tmp_path_factory: pytest.TempPathFactory) -> Evenings:
    home = Home(tmp_path_factory.mktemp("newcomer"))
    furnish(home)
    return trio.run(_play, home)


def _page(request: ReceivedRequest) -> StatusReply:
    if request.path == "/robots.txt":
        return StatusReply(404)
    page = b"<html><body><p>The bridge is out.</p></body></html>"
    return StatusReply(200, {"Content-Type": "text/html"}, page)


async def _play(home: Home) -> Evenings:
    async with open_http_server(_page) as page:
        mind = Mind(errands(home.mine, f"{page.origin}/news"), (FIRST, SECOND, THIRD))
        async with open_model_server(mind) as model:
            config = {
                "llm": {
                    "provider": "chat_completions",
                    "model": "scripted",
                    "base_url": model.base_url,
                },
                "mcp": {
                    "servers": [home.server(name) for name in STRANGERS],
                    # Eleven at once, on a machine that does other things as well.
                    "defaults": {"start_timeout_ms": 30_000},
                },
                "npcs": [
                    {"name": name, "budget_tier": tier, "tools": list(ALL)}
                    for name, tier in NPCS.items()
                ],
            }
            write_config(home.table, config)
            all_ = Evenings(home, contents(home.mine))
            looks = [
                f"@{npc} {text}" for text in (FIRST, SECOND, THIRD) for npc in NPCS
            ]
            chores = [line for text in mind.errands for line in ("/dm deep", text)]
            for start in range(STARTS):
                last = start == STARTS - 1
                mind.reached.clear()
                all_.ran.append(
                    await run(
                        *("play", home.table, "--log-json", _log(home, start)),
                        env=home.env,
                        cwd=home.mine,
                        lines=[*looks, *chores] if last else looks,
                        # Once somebody thinks before the first word.
                        idle=5.0 if start == 1 else 0.0,
                        # Each start has hashes of its own, and thus an order.
                    )
                )
                all_.reached.append({k: set(v) for k, v in mind.reached.items()})
                all_.slow.append(_slow(_log(home, start)))
                all_.after.append(contents(home.mine))
                all_.visits.append(len(page.requests))
                all_.calls.append(home.calls())
            all_.made += Counter(mind.made)
            all_.answers += mind.answers
    return all_


def _log(home: Home, start: int) -> Path:
    return home.base / f"evening{start}.jsonl"


def _slow(log: Path) -> set[tuple[str, str]]:
    """Return the NPCs, and what was said, in whose turns a search took long."""
    turns: dict[str, dict[int, float]] = {}
    for line in log.read_text().splitlines():
        told = json.loads(line)
        if told["event"] == "tool_call" and told["tool"] == "tool_search":
            took = turns.setdefault(told["context_name"], {})
            took[told["turn"]] = max(
                took.get(told["turn"], 0.0), told["duration_ms"] or 0.0
            )
    return {
        (npc, text)
        for npc, took in turns.items()
        for text, turn in zip((FIRST, SECOND, THIRD), sorted(took), strict=False)
        if took[turn] > STOOD_STILL
    }


def test_the_robot_has_servers_and_tools_enough() -> None:
    assert len(STRANGERS) >= 10
    assert len(ALL) >= 60


def test_every_server_comes_and_offers_what_it_did(evenings: Evenings) -> None:
    for ran in evenings.ran:
        assert ran.status == 0, ran
        for name, stranger in STRANGERS.items():
            assert f"  {name} [ready] {', '.join(stranger.tools)}" in ran.out, ran


def test_talk_touches_nothing(evenings: Evenings) -> None:  # G21
    assert evenings.after[:-1] == [evenings.before] * (STARTS - 1)
    assert evenings.visits[:-1] == [0] * (STARTS - 1)


@pytest.mark.parametrize("npc", NPCS)
@pytest.mark.parametrize("text", [FIRST, THIRD])
def test_nine_in_ten_tools_can_be_reached(
    npc: str, text: str, evenings: Evenings
) -> None:
    assert sum((npc, text) in slow for slow in evenings.slow) <= 1, evenings.slow
    for start, reached in enumerate(evenings.reached):
        assert (npc, text) in reached, evenings.ran[start]
        if (npc, text) in evenings.slow[start]:
            continue
        missing = sorted({*ALL} - reached[npc, text])
        share = 1 - len(missing) / len(ALL)
        assert share >= ENOUGH, (
            f"start {start + 1}: {share:.0%}, without {_few(missing)}"
        )


@pytest.mark.parametrize("npc", NPCS)
def test_they_are_the_same_tools_at_every_start(npc: str, evenings: Evenings) -> None:
    # N28
    for text in (FIRST, THIRD):
        sets = [
            reached.get((npc, text), set())
            for reached, slow in zip(evenings.reached, evenings.slow, strict=True)
            if (npc, text) not in slow
        ]
        odd = sorted(sets[0].union(*sets) - sets[0].intersection(*sets))
        assert not odd, f"{text!r}: only at some starts: {_few(odd)}"


def _few(keys: Sequence[str]) -> str:
    return f"{len(keys)}: {' '.join(keys[:12])}{' …' if len(keys) > 12 else ''}"


def test_what_the_model_calls_is_answered(evenings: Evenings) -> None:
    assert Counter(key for key, _ in evenings.answers) == Counter(
        call.split()[0] for call in evenings.made.elements()
    )
    bad = {key: answer for key, answer in evenings.answers if failed(answer)}
    assert not bad, bad
    assert {call.split(".")[0] for call in evenings.made} == {*STRANGERS}


def test_what_the_model_did_has_happened(evenings: Evenings) -> None:
    mine = evenings.home.mine
    assert (mine / "notes" / "ale").read_text() == "3 copper"
    assert (mine / "notes" / "new").is_dir()
    assert (mine / "notes" / "cellar").read_text() == "precious: notes/deep/cellar\n"
    assert '"name":"Bo"' in (mine / "memory.jsonl").read_text()
    with sqlite3.connect(mine / "ledger.db") as ledger:
        rows = ledger.execute("select * from tabs").fetchall()
    ledger.close()
    assert rows == [("a", 3), ("Bo", 3)]
    log = subprocess.run(
        ["git", "log", "--format=%s"],
        cwd=mine / "repo",
        check=True,
        capture_output=True,
        text=True,
    )
    assert log.stdout.splitlines() == ["By the robot", "The beginning"]
    assert evenings.visits[-1] > 0
    # And nothing but that.
    changed = {
        name
        for name in {*evenings.before, *evenings.after[-1]}
        if evenings.before.get(name) != evenings.after[-1].get(name)
        and not name.startswith("repo/.git")
    }
    assert changed == {
        *("notes/ale", "notes/new", "notes/cellar", "notes/deep/cellar"),
        *("memory.jsonl", "ledger.db"),
    }


def test_no_server_was_asked_anything_else(evenings: Evenings) -> None:
    unasked = evenings.calls[-1] - evenings.made
    wrong = [call for call in unasked if call.split()[0] not in READING]
    assert not wrong, wrong
    assert not evenings.made - evenings.calls[-1]


def test_what_is_measured_is_not_measured_again(evenings: Evenings) -> None:
    """Five samples of each at the first start; a metered service is paid once."""
    first, second, *_ = evenings.calls
    tools = Counter[str]()
    for call, times in first.items():
        tools[call.split()[0]] += times
    again = Counter[str]()
    for call, times in (second - first).items():
        again[call.split()[0]] += times
    assert not {tool for tool in again if tools[tool] >= 5}, again


@pytest.mark.parametrize("trust", ["limited", "full"])
async def test_servers_that_were_added_and_granted_to_nobody_are_let_alone(
    trust: str, tmp_path: Path
) -> None:
    """As the docs say: ``glyphoxa mcp add``, and then an NPC without any tools, and one
    that has a pattern of them."""
    home = Home(tmp_path)
    furnish(home)
    for name in ("files", "memory", "git"):
        env = STRANGERS[name].env.items()
        given = [f"--env={k}={v.format(mine=home.mine)}" for k, v in env]
        command = ("--", *home.command(name))
        added = await run(
            *("mcp", "add", name, *given, *command), env=home.env, cwd=home.mine
        )
        assert added.status == 0, added
    npcs: list[dict[str, Any]] = [{"name": "Scribe"}]
    if trust == "limited":  # a pattern grants, and approves nothing
        npcs.append({"name": "Clerk", "tools": ["files.*", "git.*"]})
    write_config(home.table, {"trust": {"mode": trust}, "npcs": npcs})
    before = contents(home.mine)
    ran = await run(
        *("play", home.table), env=home.env, cwd=home.mine, lines=[NO_TOOLS], idle=3.0
    )
    assert ran.out.count("[ready]") == 3, ran
    assert home.calls() == Counter()
    assert contents(home.mine) == before
