"""``glyphoxa serve campaign`` as a process, over stdin and stdout.

Real processes; an absolute limit around each test.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest

import trio

pytestmark = pytest.mark.border

LIMIT = 60.0
COMMAND = [str(Path(sys.executable).with_name("glyphoxa")), "serve", "campaign"]


@attrs.define(eq=False)
class Lines:
    """A client that writes a line, and reads until it is answered."""

    process: trio.Process
    notes: list[dict[str, Any]] = attrs.field(factory=list)
    _rest: bytes = b""
    _numbers: Any = attrs.field(factory=lambda: itertools.count(1))

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self._numbers)
        await self.send({"id": number, "method": method, "params": params})
        while True:
            message = await self._message()
            if message.get("id") == number:
                return message
            self.notes.append(message)

    async def call(self, tool: str, /, **arguments: Any) -> Any:
        answer = await self.ask("tools/call", name=tool, arguments=arguments)
        return answer["result"]["structuredContent"]

    async def send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        line = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
        await self.process.stdin.send_all(line)

    async def note(self) -> dict[str, Any]:
        """The next notification."""
        while not self.notes:
            self.notes.append(await self._message())
        return self.notes.pop(0)

    async def _message(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        while b"\n" not in self._rest:
            chunk = await self.process.stdout.receive_some()
            assert chunk, "it hung up"
            self._rest += chunk
        line, _, self._rest = self._rest.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message


@asynccontextmanager
async def serving(*arguments: str, greet: bool = True) -> AsyncGenerator[Lines]:
    process = await trio.lowlevel.open_process(
        [*COMMAND, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        client = Lines(process)
        if greet:
            about = {"name": "test", "version": "1"}
            answer = await client.ask(
                "initialize",
                protocolVersion="2025-06-18",
                capabilities={},
                clientInfo=about,
            )
            assert answer["result"]["serverInfo"]["name"] == "campaign"
            await client.send({"method": "notifications/initialized"})
        yield client
    finally:
        process.kill()
        await process.wait()


async def test_a_game_is_set_up_by_a_client_of_a_process(tmp_path: Path) -> None:
    # F16, F25 to F30, F44 to F49
    with trio.fail_after(LIMIT):
        async with serving("--db", str(tmp_path / "c.db")) as client:
            campaign = await client.call("campaign_create", name="C", gm_mode="AI")
            of = {"campaign_id": campaign["id"]}
            assert await client.call("set_context", **of) == {"context": of}
            alice = await client.call(
                "participant_create", display_name="Alice", role="PLAYER"
            )
            thorin = await client.call("actor_create", name="Thorin", kind="PC")
            control = {"actor_id": thorin["id"], "controller": alice["id"]}
            told = await client.call("actor_control_set", **control)
            assert told == of | control
            await client.call("session_start", name="One")
            for uri, word, count in (
                ("campaigns://list", "campaigns", 1),
                (f"campaign://{campaign['id']}/participants", "participants", 1),
                (f"campaign://{campaign['id']}/actors", "actors", 1),
                (f"campaign://{campaign['id']}/sessions", "sessions", 1),
            ):
                answer = await client.ask("resources/read", uri=uri)
                (content,) = answer["result"]["contents"]
                assert len(json.loads(content["text"])[word]) == count
            refused = await client.call("session_start", name="Two")
            assert refused["error"]["code"] == "FailedPrecondition"
            missing = await client.ask("resources/read", uri="campaign://camp_x")
            assert "error" in missing


async def test_every_tool_says_how_fast_it_is_and_what_it_may_do() -> None:
    with trio.fail_after(LIMIT):
        async with serving("--db", ":memory:") as client:
            answer = await client.ask("tools/list")
            tools = {tool["name"]: tool for tool in answer["result"]["tools"]}
    assert {
        "set_context",
        "campaign_create",
        "participant_create",
        "actor_create",
        "actor_control_set",
        "session_start",
        "session_end",
    } <= tools.keys()
    for name, tool in tools.items():
        assert tool["title"], name
        assert tool["description"].endswith("."), name
        assert tool["inputSchema"]["additionalProperties"] is False, name
        assert 0 < tool["_meta"]["glyphoxa/estimated_duration_ms"] <= 500, name
        assert tool["_meta"]["glyphoxa/max_duration_ms"] <= 11_000, name
        if name.endswith(("_list", "_get", "_export")):
            assert tool["annotations"]["readOnlyHint"], name
        if name.endswith("_delete"):
            assert tool["annotations"]["destructiveHint"], name


async def test_what_was_acknowledged_outlives_a_kill(tmp_path: Path) -> None:
    db = str(tmp_path / "c.db")
    with trio.fail_after(LIMIT):
        names = []
        for run in range(3):
            async with serving("--db", db) as client:
                for n in range(5):
                    name = f"{run} {n}"
                    await client.call("campaign_create", name=name, gm_mode="AI")
                    names.append(name)
                client.process.send_signal(signal.SIGKILL)
        async with serving("--db", db) as client:
            found = (await client.call("campaign_list"))["campaigns"]
            assert [campaign["name"] for campaign in found] == names


async def test_two_servers_on_one_file_are_one_game(tmp_path: Path) -> None:
    # F31
    db = str(tmp_path / "c.db")
    with trio.fail_after(LIMIT):
        async with serving("--db", db) as ann, serving("--db", db) as bob:
            campaign = await ann.call("campaign_create", name="C", gm_mode="AI")
            of = {"campaign_id": campaign["id"]}
            answers: list[dict[str, Any]] = []

            async def start(client: Lines) -> None:
                answers.append(await client.call("session_start", **of))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(start, ann)
                nursery.start_soon(start, bob)
            refused = [one["error"]["code"] for one in answers if "error" in one]
            assert refused == ["FailedPrecondition"]
            (session,) = (await bob.call("session_list", **of))["sessions"]
            assert session["status"] == "ACTIVE"
            # What each client has chosen is its own.
            await ann.call("set_context", **of)
            assert (await bob.call("get_context"))["context"]["campaign_id"] is None


async def test_who_subscribed_hears_of_changes_in_this_server_and_in_another(
    tmp_path: Path,
) -> None:
    db = str(tmp_path / "c.db")
    with trio.fail_after(LIMIT):
        async with serving("--db", db) as ann, serving("--db", db) as bob:
            campaign = await ann.call("campaign_create", name="C", gm_mode="AI")
            uri = f"campaign://{campaign['id']}/actors"
            await bob.ask("resources/subscribe", uri=uri)
            await bob.ask("resources/subscribe", uri="campaigns://list")
            for client in (bob, ann):
                actor = {"campaign_id": campaign["id"], "name": "A", "kind": "PC"}
                await client.call("actor_create", **actor)
                told: set[str | None] = set()
                while not {uri, "campaigns://list"} <= told:
                    note = await bob.note()
                    told.add(note["params"].get("uri"))
                    if "uri" in note["params"]:
                        assert note["method"] == "notifications/resources/updated"
                bob.notes.clear()
                assert told <= {uri, "campaigns://list", None}


def ended(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The server with a client that hangs up at once."""
    return subprocess.run(
        [*COMMAND, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
        env={**os.environ, **environment},
    )


@pytest.mark.parametrize("flag", ["--addr", "-addr"])
def test_the_address_of_another_service_is_accepted_and_what_it_means_is_said(
    flag: str, tmp_path: Path
) -> None:
    # F5
    db = str(tmp_path / "c.db")
    ran = ended("--db", db, f"{flag}=localhost:8080")
    assert ran.returncode == 0
    assert ran.stdout == ""
    assert "localhost:8080: ignored" in ran.stderr
    assert db in ran.stderr


def test_without_a_path_it_is_among_the_users_data(tmp_path: Path) -> None:
    assert ended(XDG_DATA_HOME=str(tmp_path)).returncode == 0
    assert (tmp_path / "glyphoxa" / "campaigns.db").exists()


def test_a_file_that_is_none_is_said_and_left_alone(tmp_path: Path) -> None:
    diary = tmp_path / "diary.txt"
    diary.write_text("Dear diary, today nothing happened. " * 30)
    before = diary.read_bytes()
    ran = ended("--db", str(diary))
    assert ran.returncode == 2
    assert f"glyphoxa serve campaign: {diary}: it is damaged" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert diary.read_bytes() == before
