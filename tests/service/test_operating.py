"""What operators do over HTTP: look at tools, approve, measure; edit servers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import httpx2
import pytest

import trio

from glyphoxa_trio import load_config, open_runtime
from glyphoxa_trio.config import ConfigError
from glyphoxa_trio.config.server_entries import ChangedMeanwhile, ServerFile
from glyphoxa_trio.providers.llm import LLMRequest
from glyphoxa_trio.service import open_service
from glyphoxa_trio.service.options import service_options
from glyphoxa_trio.tools.decorate import tool

from ..npc.support import ScriptedLLM
from .support import CONFIG, echo, serving

COMMENTED = """{
  // Others write here, too.
  "mcpServers": {
    "one": {"command": "true", "env": {"KEY": "a-secret-value", "OTHER": "x"}}
  },
  "theirs": [1, 2]
}
"""
PLAIN = COMMENTED.replace("  // Others write here, too.\n", "")


@attrs.frozen
class Edited:
    http: httpx2.AsyncClient
    file: Path

    async def servers(self) -> dict[str, Any]:
        found: dict[str, Any] = (await self.http.get("/api/servers")).json()
        return found

    async def revision(self) -> str:
        return str((await self.servers())["revision"])


@asynccontextmanager
async def edited(
    folder: Path,
    text: str | None = PLAIN,
    script: Callable[[LLMRequest], list[Any]] = echo,
) -> AsyncIterator[Edited]:
    """A service over a configuration in a file, beside a ``.mcp.json``."""
    (folder / ".git").mkdir()
    config = folder / "table.yaml"
    config.write_text("npcs: [{name: Bo, tools: ['*']}]\nmcp: {remember: false}\n")
    file = folder / ".mcp.json"
    if text is not None:
        file.write_text(text)
    options = service_options(http="127.0.0.1:0")
    assert options.printed is not None
    shown = {"Authorization": f"Bearer {options.printed.reveal()}"}
    async with open_runtime(
        lambda: load_config(config), llm=ScriptedLLM(script)
    ) as runtime:
        async with open_service(runtime, options, config=config) as service:
            async with httpx2.AsyncClient(
                timeout=60, base_url=service.url, headers=shown, trust_env=False
            ) as http:
                with trio.fail_after(60):
                    yield Edited(http, file)


async def test_a_reload_now_does_not_wait_for_a_turn(tmp_path: Path) -> None:
    async with edited(tmp_path, text=None, script=lambda _: [30.0, "Hm."]) as at:

        async def say() -> None:
            said = {"text": "Is it open?"}
            await at.http.post("/api/sessions/one/npcs/Bo/say", json=said, timeout=60)

        async with trio.open_nursery() as talking:
            talking.start_soon(say)
            while not (await at.http.get("/api/turns")).json()["turns"]:  # noqa: ASYNC110
                await trio.sleep(0.01)
            config = tmp_path / "table.yaml"
            config.write_text(config.read_text().replace("[{", "[{name: Cy}, {"))
            answer = await at.http.post("/api/reload", json={"now": "yes"})
            assert answer.status_code == 400
            answer = await at.http.post("/api/reload", json={"now": True})
            assert answer.json()["generation"] == 2
            (turn,) = (await at.http.get("/api/turns")).json()["turns"]
            assert "end" not in turn  # it goes on
            talking.cancel_scope.cancel("seen")
        assert "Cy" in (await at.http.get("/api/npcs")).text


async def test_servers_are_edited_and_what_is_not_ours_stays(  # A52
    tmp_path: Path,
) -> None:
    async with edited(tmp_path) as at:
        found = await at.servers()
        (row,) = found["servers"]
        assert row["name"] == "one"
        assert row["editable"] is True
        assert "a-secret-value" not in json.dumps(found)
        body = {
            "name": "two",
            "command": ["npx", "-y", "x"],
            "revision": found["revision"],
        }
        body["env"] = {"TOKEN": "another-secret"}
        answer = await at.http.post("/api/servers", json=body)
        assert answer.json() == {"server": "two", "plain_secrets": ["env.TOKEN"]}
        data = json.loads(at.file.read_text())
        assert data["theirs"] == [1, 2]
        assert data["mcpServers"]["two"]["args"] == ["-y", "x"]
        assert "another-secret" not in json.dumps(await at.servers())
        # What is left out of a change stays, and null takes a name out.
        change = {"revision": await at.revision(), "env": {"OTHER": None, "NEW": "y"}}
        answer = await at.http.patch("/api/servers/one", json=change)
        assert answer.status_code == 200, answer.text
        one = json.loads(at.file.read_text())["mcpServers"]["one"]
        assert one == {"command": "true", "env": {"KEY": "a-secret-value", "NEW": "y"}}
        change = {"revision": await at.revision(), "url": "https://example.org/mcp"}
        await at.http.patch("/api/servers/one", json=change)
        one = json.loads(at.file.read_text())["mcpServers"]["one"]
        assert one["url"] == "https://example.org/mcp"
        assert "command" not in one
        query = f"/api/servers/two?revision={await at.revision()}"
        assert (await at.http.delete(query)).status_code == 200
        assert json.loads(at.file.read_text())["mcpServers"].keys() == {"one"}


async def test_edits_that_cannot_be_made_change_nothing(tmp_path: Path) -> None:
    async with edited(tmp_path) as at:
        revision = await at.revision()
        there = {"name": "one", "command": ["true"], "revision": revision}
        add: dict[str, Any] = {"name": "two", "command": ["true"]}
        for path, body, status, told in (
            ("/api/servers", add | {"revision": "old"}, 409, "another edit"),
            ("/api/servers", {"name": "two", "revision": revision}, 409, "url, or"),
            ("/api/servers", there, 409, "already"),
            ("/api/servers", add, 400, "revision"),
            ("/api/servers", add | {"revision": revision, "x": 1}, 400, "x"),
            (
                "/api/servers",
                {"name": "w", "url": "ftp://x", "revision": revision},
                409,
                "url",
            ),
        ):
            answer = await at.http.post(path, json=body)
            assert answer.status_code == status, answer.text
            assert told in answer.json()["error"]
        answer = await at.http.post("/api/servers", json=add | {"revision": "old"})
        assert answer.json()["code"] == "changed"
        for method, path in (
            ("PATCH", "/api/servers/none"),
            ("DELETE", f"/api/servers/none?revision={revision}"),
        ):
            sent = {"revision": revision} if method == "PATCH" else None
            answer = await at.http.request(method, path, json=sent)
            assert answer.status_code == 409
            assert "no server 'none'" in answer.json()["error"]
        assert at.file.read_text() == PLAIN


async def test_a_file_that_is_not_there_is_made(tmp_path: Path) -> None:
    async with edited(tmp_path, None) as at:
        body = {"name": "one", "command": ["true"], "revision": ""}
        assert (await at.http.post("/api/servers", json=body)).status_code == 200
        assert json.loads(at.file.read_text())["mcpServers"].keys() == {"one"}


async def test_without_a_file_nothing_is_edited() -> None:
    async with serving() as served:
        token = served.service.token
        assert token is not None
        shown = {"Authorization": f"Bearer {token.reveal()}"}
        url = f"{served.url}/api/servers"
        async with httpx2.AsyncClient(
            timeout=60, headers=shown, trust_env=False
        ) as http:
            assert (await http.get(url)).json()["editable"] is False
            body = {"name": "x", "command": ["true"], "revision": ""}
            answer = await http.post(url, json=body)
            assert answer.status_code == 409
            assert "no file" in answer.json()["error"]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_revision_is_that_of_the_text(
    tmp_path: Path, newline: str, mark: str
) -> None:
    (tmp_path / ".git").mkdir()
    config = tmp_path / "table.yaml"
    config.write_text("npcs: []\n")
    file = ServerFile(config)
    file.path.write_bytes((mark + PLAIN.replace("\n", newline)).encode())
    revision = file.revision()
    with pytest.raises(ChangedMeanwhile):
        file.add("two", {"command": "true"}, revision="")
    file.add("two", {"command": "true"}, revision=revision)
    assert file.revision() != revision
    with pytest.raises(ChangedMeanwhile):
        file.remove("two", revision=revision)
    file.remove("two", revision=file.revision())
    assert file.path.read_bytes().decode() == mark + PLAIN.replace("\n", newline)
    config.write_text("npcs: []\nmcp: {servers: [{name: own, command: ['true']}]}\n")
    with pytest.raises(ConfigError, match="edit it there"):
        file.add("own", {"command": "true"}, revision=file.revision())


async def test_tools_are_shown_with_reasons_measured_and_approved() -> None:
    called: list[str] = []

    @tool(read_only=True)
    async def ponder() -> str:
        """Ponder."""
        called.append("ponder")
        return "well"

    @tool(read_only=False)
    async def curse(name: str) -> str:
        """Curse somebody."""
        called.append(name)
        return "cursed"

    definition = attrs.evolve(curse.definition, external=True)
    foreign = attrs.evolve(curse, definition=definition)
    async with serving(config=CONFIG, tools=[ponder, foreign]) as served:
        token = served.service.token
        assert token is not None
        shown = {"Authorization": f"Bearer {token.reveal()}"}
        async with httpx2.AsyncClient(
            timeout=60, base_url=served.url, headers=shown, trust_env=False
        ) as http:

            async def rows(query: str = "") -> dict[str, Any]:
                found = (await http.get(f"/api/tools{query}")).json()
                return {row["tool"]: row for row in found["tools"]}

            found = await rows()
            assert found["custom.curse"]["waits_for_approval"] is True
            assert found["custom.ponder"]["waits_for_approval"] is False
            assert "approved" in found["custom.curse"]["hidden"]
            answer = await http.post("/api/calibrate", json={"tools": []})
            assert "custom.ponder" in {x["key"] for x in answer.json()["measured"]}
            assert set(called) == {"ponder"}  # nothing that writes
            assert (await rows())["custom.ponder"]["p50_ms"] is not None
            look = (await http.get("/api/tools/custom.curse")).json()
            assert look["description"] == "Curse somebody."
            uses = {one["npc"]: one for one in look["npcs"]}
            assert uses["Bo"]["remedies"]
            approve = "/api/tools/custom.curse/approve"
            answer = await http.post(approve, json={"seen": "another"})
            assert answer.status_code == 409
            for path in ("/api/tools/none", "/api/tools?npc=Zed"):
                assert (await http.get(path)).status_code == 404
            assert (await http.get("/api/tools?tier=slow")).status_code == 400
            sent = {"tools": ["none"]}
            answer = await http.post("/api/calibrate", json=sent)
            assert answer.status_code == 404


@pytest.mark.border
async def test_two_measurements_at_once_are_refused() -> None:
    @tool(read_only=True)
    async def ponder() -> str:
        """Ponder."""
        await trio.sleep(0.3)
        return "well"

    async with serving(tools=[ponder]) as served:
        token = served.service.token
        assert token is not None
        shown = {"Authorization": f"Bearer {token.reveal()}"}
        status: list[int] = []
        async with httpx2.AsyncClient(
            timeout=60, base_url=served.url, headers=shown, trust_env=False
        ) as http:

            async def measure() -> None:
                body = {"tools": ["custom.ponder"]}
                answer = await http.post("/api/calibrate", json=body, timeout=30)
                status.append(answer.status_code)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(measure)
                nursery.start_soon(measure)
        assert sorted(status) == [200, 503]


async def test_sessions_say_who_talks_and_what_it_costs() -> None:
    async with serving() as served:
        async with served.runtime.session("one").npc("Bo").say("Hail") as turn:
            await turn.finish()
        served.runtime.session("two")
        async with httpx2.AsyncClient(
            timeout=60, base_url=served.url, trust_env=False
        ) as http:
            found = (await http.get("/api/sessions")).json()
        rows = {row["session"]: row for row in found["sessions"]}
        assert rows["one"]["npcs"] == ["Bo"]
        assert rows["one"]["set_aside"] is False
        assert rows["one"]["unused_ms"] >= 0
        assert rows["one"]["spent"]["cost"] == 0
        assert rows["two"]["npcs"] == []
        assert served.runtime.sessions[-1].id == "two"  # to look is not to use
