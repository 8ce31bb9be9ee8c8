"""The service over HTTP: probes, the API, events of a turn, and who may come in."""

from __future__ import annotations

import json
import ssl
import sys
from pathlib import Path
from typing import Any

import attrs
import httpx2
import jsonschema
import openapi_spec_validator
import pytest
import trustme
from prometheus_client.parser import text_string_to_metric_families

import trio

from glyphoxa_trio.config import McpConfig, ServerSpec
from glyphoxa_trio.npc import TurnDone, TurnEnd
from glyphoxa_trio.providers.llm import LLMRequest
from glyphoxa_trio.service import ClientRole
from glyphoxa_trio.service.options import service_options

from ..npc.support import HANG
from .support import CONFIG, TOKENS, raw_client, serving, token_file, until

DIARY = Path(__file__).parents[1] / "runtime" / "servers" / "diary.py"


def client(url: str, **more: Any) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(timeout=60, base_url=url, trust_env=False, **more)


async def test_probes_say_that_it_serves_and_that_it_stops() -> None:
    async with serving() as served, client(served.url) as http:
        assert (await http.get("/healthz")).json() == {"status": "ok"}
        ready = await http.get("/readyz")
        assert (ready.status_code, ready.json()) == (200, {"status": "ready"})
        assert await served.service.drain(1)
        stopping = await http.get("/readyz")
        assert (stopping.status_code, stopping.json()["status"]) == (503, "stopping")
        assert (await http.get("/healthz")).status_code == 200
        said = await http.post("/api/sessions/a/npcs/Bo/say", json={"text": "Hail"})
        assert (said.status_code, said.json()["code"]) == (503, "busy")


async def test_metrics_are_what_prometheus_reads() -> None:  # A46, A47
    async with serving() as served, client(served.url) as http:
        await http.post("/api/sessions/a/npcs/Bo/say", json={"text": "Hail"})
        answer = await http.get("/metrics")
        families = {x.name: x for x in text_string_to_metric_families(answer.text)}
        assert "ai_agent_mcp_server_up" in families
        assert "glyphoxa_turns" in families


async def test_a_session_may_have_a_slash_in_its_name(tmp_path: Path) -> None:
    file, shown = tmp_path / "tokens", "token-of-a-player"
    file.write_text(f"player:guild/table {shown}\ngame_master token-of-the-master\n")
    options = service_options(http="127.0.0.1:0", token_file=file)
    async with serving(options=options) as served, client(served.url) as http:
        http.headers["Authorization"] = f"Bearer {shown}"
        for written in ("guild%2Ftable", "guild%2ftable"):
            url = f"/api/sessions/{written}/npcs/Bo/say"
            said = await http.post(url, json={"text": "Hail"})
            assert said.status_code == 200
            assert '"session":"guild/table"' in said.text.replace(" ", "")
        for other in ("guild/table", "guild", "guild%252Ftable", "guild%00table"):
            url = f"/api/sessions/{other}/npcs/Bo/say"
            said = await http.post(url, json={"text": "Hail"})
            assert said.status_code in (403, 404), other
        for bad in ("/%2F", "/pages/..%2Fnpcs.yaml", "/%2e%2e%2fx", "/%2Fapi%2Fme"):
            assert (await http.get(bad)).status_code == 404, bad
        http.headers["Authorization"] = "Bearer token-of-the-master"
        ended = await http.delete("/api/sessions/guild%2Ftable")
        assert ended.json() == {"ended": "guild/table"}


async def test_an_answer_is_a_stream_of_events() -> None:
    async with serving() as served, client(served.url) as http:
        url = "/api/sessions/one/npcs/Bo/say"
        said = {"text": "Hail", "speaker": "Eve", "tier": "deep"}
        async with http.stream("POST", url, json=said) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            lines = [line async for line in answer.aiter_lines() if line]
        events = [json.loads(x[6:]) for x in lines if x.startswith("data: ")]
        assert [x[7:] for x in lines if x.startswith("event: ")] == [
            x["event"] for x in events
        ]
        assert events[0]["speaker"] == "Eve"
        assert events[-1]["text"] == "You said Hail. So it is."
        await http.post(url, json={"text": "And?"})
        past = [x.content for x in served.llm.requests[-1].messages]
        assert "You said Hail. So it is." in past


async def test_a_reader_that_leaves_interrupts_the_turn() -> None:
    ended: list[TurnDone] = []

    def slow(request: LLMRequest) -> list[Any]:
        return ["One.\n", HANG]

    async with serving(slow) as served:
        with served.runtime.events.tap(
            lambda x: ended.append(x) if isinstance(x, TurnDone) else None
        ):
            port = int(served.url.rpartition(":")[2])
            async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
                body = b'{"text": "Hail"}'
                head = "POST /api/sessions/one/npcs/Bo/say HTTP/1.1\r\n"
                head += f"Host: 127.0.0.1\r\nContent-Length: {len(body)}\r\n\r\n"
                await stream.send_all(head.encode() + body)
                answer = b""
                while b"event: Sentence" not in answer:
                    answer += await stream.receive_some(4096)
            await until(lambda: bool(ended))
        assert ended[0].end is TurnEnd.INTERRUPTED


@pytest.mark.border
async def test_a_turn_over_http_ends_with_the_time_of_its_caller() -> None:
    def slow(request: LLMRequest) -> list[Any]:
        return ["One.\n", HANG]

    async with serving(slow) as served, client(served.url) as http:
        url = "/api/sessions/one/npcs/Bo/say"
        said = await http.post(url, json={"text": "Hail", "remaining_ms": 200})
        assert '"end": "interrupted"' in said.text


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"", "text"),
        (b"nonsense", "JSON"),
        (b'{"text": 3}', "text"),
        (b'{"text": "a", "mood": 1}', "mood"),
        (b'{"text": "' + b"x" * 70_000 + b'"}', "64 KiB"),
    ],
)
async def test_a_bad_body_is_told(body: bytes, told: str) -> None:
    async with serving() as served, client(served.url) as http:
        answer = await http.post("/api/sessions/a/npcs/Bo/say", content=body)
        assert answer.status_code == 400
        assert told in answer.json()["error"]
        assert not served.llm.requests


async def test_paths_and_npcs_that_are_not_there_are_told() -> None:
    async with serving() as served, client(served.url) as http:
        for path in ("/x", "/api", "/mcp", "/healthz/", "/api/sessions/a/npcs/Bo/say"):
            assert (await http.get(path)).status_code in (404, 405), path
        answer = await http.post("/api/sessions/a/npcs/Zed/say", json={"text": "Hm"})
        assert answer.status_code == 404
        assert "Bo" in answer.json()["error"]


async def test_the_description_is_valid_and_so_is_the_schema() -> None:
    async with serving() as served, client(served.url) as http:
        document = (await http.get("/api/openapi.json")).json()
        schema = (await http.get("/api/gateway.schema.json")).json()
        assert {"Request", "Reply", "Event"} <= schema["$defs"].keys()
    openapi_spec_validator.validate(document)
    ids = [x["operationId"] for y in document["paths"].values() for x in y.values()]
    assert len(ids) == len(set(ids))
    jsonschema.Draft202012Validator.check_schema(schema)


@pytest.mark.border
async def test_servers_are_listed_and_tested_in_steps() -> None:  # A51
    diary = ServerSpec(name="diary", command=(sys.executable, "-B", str(DIARY)))
    broken = ServerSpec(name="broken", command=(sys.executable, "-c", "1/0"))
    servers = McpConfig(remember=False, servers=(diary, broken))
    config = attrs.evolve(CONFIG, mcp=servers)
    async with serving(config=config) as served, client(served.url) as http:
        await served.runtime.wait_ready(within=20)
        rows = (await http.get("/mcp/status")).json()["servers"]
        states = {row["name"]: row["state"] for row in rows}
        assert states["diary"] == "ready"
        well = (await http.post("/mcp/test/diary", timeout=30)).json()
        assert [step["step"] for step in well["steps"]] == ["connect", "list"]
        assert well["ok"]
        assert well["tools"]
        bad = (await http.post("/mcp/test/broken", timeout=30)).json()
        assert not bad["ok"]
        assert any("ZeroDivisionError" in line for line in bad["stderr"])
        answer = await http.post("/mcp/test/dairy")
        assert answer.status_code == 404
        assert "diary" in answer.json()["error"]


@pytest.mark.parametrize("path", ["/healthz", "/metrics", "/api/status", "/ws"])
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "127.0.0.1.evil.example"}, 421),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "file://"}, 403),
    ],
)
async def test_pages_of_others_do_not_come_in(
    path: str, headers: dict[str, str], status: int
) -> None:
    async with serving() as served, client(served.url) as http:
        upgrade = {"Upgrade": "websocket", "Connection": "Upgrade"}
        more = upgrade if path == "/ws" else {}
        answer = await http.get(path, headers={**headers, **more})
        assert answer.status_code == status


async def test_what_is_allowed_comes_in() -> None:
    options = service_options(
        http="127.0.0.1:0",
        allow_hosts=["npcs.example"],
        allow_origins=["https://table.example"],
    )
    async with serving(options=options) as served, client(served.url) as http:
        for headers in (
            {"Host": "npcs.example"},
            {"Host": "localhost:1"},
            {"Origin": "https://table.example"},
            {"Host": "npcs.example", "Origin": "https://npcs.example"},
        ):
            answer = await http.get("/api/status", headers=headers)
            assert answer.status_code == 200, headers
            assert "access-control-allow-origin" not in answer.headers
            assert answer.headers["cache-control"] == "no-store"


async def test_other_machines_need_a_token_but_for_probes(tmp_path: Path) -> None:
    options = service_options(
        http="0.0.0.0:0",
        token_file=token_file(tmp_path),
        behind_proxy=True,
        probes="127.0.0.1:0",
    )
    async with serving(options=options) as served:
        here = served.url.replace("0.0.0.0", "127.0.0.1")
        async with client(here) as http:
            assert (await http.get("/healthz")).status_code == 200
            assert (await http.get("/metrics")).status_code == 401
            shown = {"Authorization": f"Bearer {TOKENS[ClientRole.GAME_MASTER]}"}
            assert (await http.get("/metrics", headers=shown)).status_code == 200
            answer = await http.get("/healthz", headers={"Host": "evil.example"})
            assert answer.status_code == 421
        async with client(served.service.probes_url) as http:
            assert (await http.get("/metrics")).status_code == 200
            assert (await http.get("/readyz")).status_code == 200
            assert (await http.get("/api/status")).status_code == 404


async def test_whoever_comes_through_a_proxy_needs_a_token(tmp_path: Path) -> None:
    options = service_options(
        http="127.0.0.1:0",
        token_file=token_file(tmp_path),
        behind_proxy=True,
        allow_hosts=["npcs.example"],
    )
    async with serving(options=options) as served, client(served.url) as http:
        through = {"Host": "npcs.example"}
        for path in ("/api/status", "/api/npcs"):
            assert (await http.get(path, headers=through)).status_code == 401
        shown = {**through, "Authorization": f"Bearer {TOKENS[ClientRole.OPERATOR]}"}
        assert (await http.get("/api/status", headers=shown)).status_code == 200
        page = {**shown, "Origin": "http://localhost:3000"}
        assert (await http.get("/api/status", headers=page)).status_code == 403


async def test_it_is_reached_by_tls(tmp_path: Path) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1", "localhost")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    issued.cert_chain_pems[0].write_to_path(str(cert))
    issued.private_key_pem.write_to_path(str(key))
    options = service_options(http="127.0.0.1:0", tls_cert=cert, tls_key=key)
    async with serving(options=options) as served:
        assert served.url.startswith("https://")
        context = ssl.create_default_context()
        authority.configure_trust(context)
        async with client(served.url, verify=context) as http:
            assert (await http.get("/healthz")).status_code == 200
        from glyphoxa_client import connect

        async with connect(served.ws, tls=context) as speaker:
            async with speaker.say("Hail", npc="Bo") as answer:
                assert (await answer.finish())["end"] == "completed"
        # Half a handshake does not hold it.
        port = int(served.url.rpartition(":")[2])
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            await stream.send_all(b"\x16\x03")
            async with client(served.url, verify=context) as http:
                assert (await http.get("/healthz")).status_code == 200


async def test_a_websocket_after_another_request_is_told_to_begin_anew() -> None:
    async with serving() as served:
        port = int(served.url.rpartition(":")[2])
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            host = f"Host: 127.0.0.1:{port}\r\n"
            await stream.send_all(f"GET /healthz HTTP/1.1\r\n{host}\r\n".encode())
            answer = b""
            while not answer.endswith(b"}"):
                answer += await stream.receive_some(4096)
            assert answer.startswith(b"HTTP/1.1 200")
            upgrade = "Upgrade: websocket\r\nConnection: Upgrade\r\n"
            key = "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
            request = f"GET /ws HTTP/1.1\r\n{host}{upgrade}{key}"
            request += "Sec-WebSocket-Version: 13\r\n\r\n"
            await stream.send_all(request.encode())
            answer = await stream.receive_some(4096)
            assert answer.startswith((b"HTTP/1.1 403", b"HTTP/1.1 404"))
        async with raw_client(served):
            pass
