"""The servers that people really put into a configuration: files, memory, thoughts,
the time and git, each over stdio (N3, N28).
"""

from __future__ import annotations

import os
import signal
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import trio
import trio.testing

from glyphoxa_trio.mcp import ServerState
from glyphoxa_trio.tools.outcome import Effect, Outcome, Status

from .support import at_the_table, node_peer, python_peer

pytestmark = pytest.mark.border


async def test_files_are_read_and_written_inside_the_sandbox_only(
    tmp_path: Path,
) -> None:
    # N1, N3, N18 to N20, N28
    sandbox = tmp_path / "sandbox"
    sandbox.mkdir()
    (sandbox / "rumours.txt").write_text("The bridge is out.\n")
    secret = tmp_path / "secret.txt"
    secret.write_text("the innkeeper's own")
    (sandbox / "shortcut").symlink_to(secret)

    async with at_the_table(node_peer("filesystem", str(sandbox))) as table:
        tools = table.tools("filesystem")
        assert "read_resource" not in tools  # it offers none
        assert tools["read_text_file"].read_only
        assert not tools["write_file"].read_only

        read = await table.answer(
            "filesystem.read_text_file", path=str(sandbox / "rumours.txt")
        )
        assert read["text"] == "The bridge is out.\n"
        written = await table.call(
            "filesystem.write_file",
            path=str(sandbox / "ledger.txt"),
            content="Bo: 3 copper",
        )
        assert (written.status, written.effect) == (Status.OK, Effect.DONE)
        assert (sandbox / "ledger.txt").read_text() == "Bo: 3 copper"
        await table.answer(
            "filesystem.edit_file",
            path=str(sandbox / "ledger.txt"),
            edits=[{"oldText": "3 copper", "newText": "5 copper"}],
        )
        assert (sandbox / "ledger.txt").read_text() == "Bo: 5 copper"
        listed = await table.answer("filesystem.list_directory", path=str(sandbox))
        assert listed["text"].splitlines() == [
            "[FILE] ledger.txt",
            "[FILE] rumours.txt",
            "[FILE] shortcut",
        ]

        # The tool says no: an answer for the NPC, and nothing is wrong.
        missing = await table.call(
            "filesystem.read_text_file", path=str(sandbox / "none.txt")
        )
        assert missing.status is Status.TOOL_ERROR
        assert "no such file" in missing.message
        for outside in (secret, sandbox / ".." / "secret.txt", sandbox / "shortcut"):
            refused = await table.call("filesystem.read_text_file", path=str(outside))
            assert refused.status is Status.TOOL_ERROR
            assert refused.message.startswith("Access denied")
            assert "innkeeper" not in str(refused)
        overwritten = await table.call(
            "filesystem.write_file", path=str(secret), content="mine"
        )
        assert overwritten.status is Status.TOOL_ERROR
        assert secret.read_text() == "the innkeeper's own"

        # Arguments that its schema forbids are not sent.
        odd = await table.call("filesystem.write_file", path=str(sandbox / "x"))
        assert odd.status is Status.INVALID_ARGUMENTS
        assert "content" in odd.message
        assert table.server("filesystem").restarts == 0
        assert table.warnings == []


async def test_a_memory_that_is_killed_comes_back_with_what_it_knew(
    tmp_path: Path,
) -> None:
    # N3, N20, N28
    spec = node_peer("memory", env={"MEMORY_FILE_PATH": str(tmp_path / "memory.jsonl")})
    patrons = [
        {"name": name, "entityType": "patron", "observations": [f"{name} drinks ale"]}
        for name in ("Bo", "Ada")
    ]
    async with at_the_table(spec) as table:
        made = await table.call("memory.create_entities", entities=patrons)
        assert (made.status, made.effect) == (Status.OK, Effect.DONE)
        assert made.data["structured"] == {"entities": patrons}

        # It stands still with two calls in its pipe, and then it dies.
        # It offers its graph as a resource, too.
        graph = await table.answer(
            "memory.read_resource", uri="memory://knowledge-graph"
        )
        assert "Bo drinks ale" in str(graph)
        first = table.server("memory").pid
        assert first is not None
        os.kill(first, signal.SIGSTOP)
        ends: dict[str, Outcome] = {}

        async def call(tool: str, **arguments: Any) -> None:
            ends[tool] = await table.call(f"memory.{tool}", **arguments)

        stranger = {"name": "Cy", "entityType": "patron", "observations": []}
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call, "read_graph")
            nursery.start_soon(partial(call, "create_entities", entities=[stranger]))
            await trio.testing.wait_all_tasks_blocked(0.2)
            os.kill(first, signal.SIGKILL)

        # The one only reads, so it is made again, within what is left of its turn.
        read = ends["read_graph"]
        assert read.status is Status.OK
        # The other was in the pipe when its server died, unread, so it has done
        # nothing, and its successor is asked: Cy has come, once.
        made = ends["create_entities"]
        assert (made.status, made.effect) == (Status.OK, Effect.DONE)
        graph = await table.answer("memory.read_graph")
        assert graph == {"entities": [*patrons, stranger], "relations": []}
        row = table.server("memory")
        assert (row.state, row.restarts) == (ServerState.READY, 1)
        assert row.pid not in (None, first)
        (warning,) = table.warnings
        assert (warning.server, warning.text.splitlines()[0]) == (
            "memory",
            "was ended by SIGKILL",
        )

        related = {"from": "Bo", "to": "Ada", "relationType": "owes a beer to"}
        await table.answer("memory.create_relations", relations=[related])
        found = await table.answer("memory.search_nodes", query="Ada drinks")
        assert [entity["name"] for entity in found["entities"]] == ["Ada"]
        graph = await table.answer("memory.read_graph")
        assert graph["relations"] == [related]


async def test_thoughts_come_in_sequence() -> None:
    # N3, N20, N28
    async with at_the_table(node_peer("sequential-thinking")) as table:
        for number in (1, 2, 3):
            thought = await table.answer(
                "sequential-thinking.sequentialthinking",
                thought=f"thought {number}",
                thoughtNumber=number,
                totalThoughts=3,
                nextThoughtNeeded=number < 3,
            )
            assert thought == {
                "thoughtNumber": number,
                "totalThoughts": 3,
                "nextThoughtNeeded": number < 3,
                "branches": [],
                "thoughtHistoryLength": number,
            }
        half = await table.call("sequential-thinking.sequentialthinking", thought="?")
        assert half.status is Status.INVALID_ARGUMENTS
        # It draws each thought on its stderr; that is not for anybody's screen.
        assert table.warnings == []


async def test_the_time_is_told_and_converted() -> None:
    # N3, N20, N28
    spec = python_peer("time", "--local-timezone", "Europe/Berlin")
    async with at_the_table(spec) as table:
        now = await table.answer("time.get_current_time", timezone="UTC")
        assert now["timezone"] == "UTC"
        converted = await table.answer(
            "time.convert_time",
            source_timezone="UTC",
            time="16:30",
            target_timezone="Asia/Tokyo",
        )
        assert converted["time_difference"] == "+9.0h"
        assert converted["target"]["datetime"].endswith("T01:30:00+09:00")
        unknown = await table.call("time.get_current_time", timezone="Mars/Olympus")
        assert unknown.status is Status.TOOL_ERROR
        assert "Mars/Olympus" in unknown.message


async def test_a_repository_is_read_changed_and_committed(tmp_path: Path) -> None:
    # N3, N20, N28
    somebody = {
        "GIT_AUTHOR_NAME": "Bartok",
        "GIT_AUTHOR_EMAIL": "bartok@tavern.example",
        "GIT_COMMITTER_NAME": "Bartok",
        "GIT_COMMITTER_EMAIL": "bartok@tavern.example",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
    }
    repository = tmp_path / "ledger"
    repository.mkdir()

    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", *words],
            cwd=repository,
            env={**os.environ, **somebody},
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout

    git("init", "--quiet", "--initial-branch=main")
    (repository / "tab.txt").write_text("Bo: 3\n")
    git("add", "tab.txt")
    git("commit", "--quiet", "--message=The tab is opened")
    (repository / "tab.txt").write_text("Bo: 5\n")
    where = {"repo_path": str(repository)}

    spec = python_peer("git", "--repository", str(repository), env=somebody)
    async with at_the_table(spec) as table:
        assert "modified:   tab.txt" in await table.answer("git.git_status", **where)
        change = await table.answer("git.git_diff_unstaged", **where)
        assert "-Bo: 3" in change
        assert "+Bo: 5" in change
        await table.answer("git.git_add", **where, files=["tab.txt"])
        committed = await table.call(
            "git.git_commit", **where, message="Bo has another"
        )
        assert (committed.status, committed.effect) == (Status.OK, Effect.DONE)
        assert git("log", "--format=%an: %s").splitlines() == [
            "Bartok: Bo has another",
            "Bartok: The tab is opened",
        ]
        log = await table.answer("git.git_log", **where, max_count=1)
        assert "Bo has another" in log

        elsewhere = await table.call("git.git_status", repo_path=str(tmp_path))
        assert elsewhere.status is Status.TOOL_ERROR
        assert table.server("git").restarts == 0


@pytest.mark.long
async def test_all_of_them_serve_together_come_and_go_and_leave_nothing(
    tmp_path: Path,
) -> None:
    # N17 to N22, N28
    # G2, G42
    (tmp_path / "note.txt").write_text("a note")
    await trio.run_process(["git", "init", "--quiet", str(tmp_path)])
    calls: dict[str, dict[str, Any]] = {
        "filesystem.read_text_file": {"path": str(tmp_path / "note.txt")},
        "memory.read_graph": {},
        "time.get_current_time": {"timezone": "UTC"},
        "git.git_status": {"repo_path": str(tmp_path)},
        "sequential-thinking.sequentialthinking": {
            "thought": "one",
            "thoughtNumber": 1,
            "totalThoughts": 1,
            "nextThoughtNeeded": False,
        },
    }
    servers = (
        node_peer("filesystem", str(tmp_path)),
        node_peer("memory", env={"MEMORY_FILE_PATH": str(tmp_path / "memory")}),
        python_peer("time"),
        python_peer("git", "--repository", str(tmp_path)),
        node_peer("sequential-thinking"),
    )
    async with at_the_table(*servers) as table:
        assert table.warnings == []
        answered: set[str] = set()

        async def ask(tool: str) -> None:
            await table.answer(tool, **calls[tool])
            answered.add(tool)

        async with trio.open_nursery() as nursery:
            for tool in calls:
                nursery.start_soon(ask, tool)
        assert answered == set(calls)

        # One more comes while they serve, and one goes.
        table.runtime.add_server(node_peer("everything"))
        assert await table.runtime.wait_ready(within=30)
        assert await table.answer("everything.echo", message="hi") == "Echo: hi"
        await table.runtime.remove_server("memory")
        gone = await table.call("memory.read_graph")
        assert gone.status is Status.DENIED
        assert [row.name for row in table.runtime.servers()] == [
            "filesystem",
            "time",
            "git",
            "sequential-thinking",
            "everything",
        ]
        for tool in calls:
            if not tool.startswith("memory"):
                await table.answer(tool, **calls[tool])
