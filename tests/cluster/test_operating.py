"""What operators see at a gateway: turns, tools, servers, sessions of the workers."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import httpx2
import pytest
from trio_websocket import WebSocketConnection, open_websocket_url

import trio

from glyphoxa_trio.cluster import ClusterWorker, connect, looks
from glyphoxa_trio.cluster.gateway import open_gateway
from glyphoxa_trio.cluster.messages import SeenMessage, WatchMessage
from glyphoxa_trio.cluster.operating import ClusterTurnWatch
from glyphoxa_trio.nats import open_nats
from glyphoxa_trio.service import ClientRole, Service, service_options
from glyphoxa_trio.service.refusal import Refused

from ..nats.server import RealServer, a_server
from ..service.support import TOKENS, token_file, until
from .test_cluster import bus, client, database, permissions_of_the_docs, postgres
from .test_gateway import gateway, worker, ws

pytestmark = pytest.mark.border

__all__ = ["bus", "database", "postgres"]


@attrs.frozen
class RealServerAt:
    """A server of NATS as one of its users has it."""

    url: str


@attrs.define
class Watcher:
    """A raw client of the gateway that watches."""

    socket: WebSocketConnection
    events: list[dict[str, Any]] = attrs.field(factory=list)

    async def ask(self, **message: Any) -> dict[str, Any]:
        await self.socket.send_message(json.dumps(message))
        while True:
            told: dict[str, Any] = json.loads(await self.socket.get_message())
            if told["type"] != "events":
                return told
            self.events += told["events"]

    async def until(self, kind: str) -> dict[str, Any]:
        while True:
            for event in self.events:
                if event["event"] == kind:
                    return event
            self.events += json.loads(await self.socket.get_message()).get("events", [])


@asynccontextmanager
async def watcher(
    service: Service, token: str | None = None
) -> AsyncGenerator[Watcher]:
    with trio.fail_after(60):
        async with open_websocket_url(ws(service)) as socket:
            one = Watcher(socket)
            hello: dict[str, Any] = {"type": "hello", "protocol": 1}
            assert (await one.ask(**hello, token=token))["type"] == "welcome"
            yield one


async def hail(bus: RealServer, session: str, text: str = "Hail", **more: Any) -> None:
    async with open_nats(bus.url) as nats, connect(nats, **more) as runtime:
        async with runtime.session(session).npc("Bo").say(text, within=20) as turn:
            await turn.finish()


async def heard(bus: RealServer, *workers: ClusterWorker) -> None:
    names = {x.name for x in workers}
    async with client(bus) as runtime:
        await until(lambda: {x.worker for x in runtime.workers} == names)


async def test_turns_are_watched_wherever_they_run(
    bus: RealServer, database: str
) -> None:
    async with worker(bus, database) as one, gateway(bus) as service:
        await heard(bus, one)
        async with watcher(service) as watching, watcher(service) as narrow:
            accepted = await watching.ask(type="watch", id="w")
            assert accepted == {"type": "accepted", "id": "w"}
            await narrow.ask(type="watch", id="w", session="b", deltas=True)
            await hail(bus, "a")
            await hail(bus, "secret", tenant="studio")
            done = await watching.until("TurnDone")
            assert (done["session"], done["worker"]) == ("a", one.name)
            assert done["number"] == f"{one.name}-1"
            assert [x["n"] for x in watching.events] == [
                *range(1, len(watching.events) + 1)
            ]
            # Of a worker that comes later, too; and of no other tenant.
            async with worker(bus, database) as two:
                await heard(bus, one, two)
                await until(lambda: len(two._looks._watches) == 2)
                await one.drained()
                await hail(bus, "b", "And now")
                done = await narrow.until("TurnDone")
                assert (done["session"], done["worker"]) == ("b", two.name)
                kinds = {x["event"] for x in narrow.events}
                assert {"TierSelected", "TextDelta", "Sentence"} <= kinds
                assert {x.get("session") for x in narrow.events} == {"b"}
                watching.events.clear()
                await watching.until("TurnDone")
                assert (await narrow.ask(type="leave", id="w"))["type"] == "done"
                await until(lambda: len(two._looks._watches) == 1)
            told = json.dumps(watching.events)
            assert "secret" not in told
            assert "TextDelta" not in told


@pytest.mark.long
async def test_the_last_turns_of_all_workers_are_one_list(
    bus: RealServer, database: str
) -> None:
    async with worker(bus, database) as one, gateway(bus) as service:
        await hail(bus, "a")
        await hail(bus, "secret", tenant="studio")
        await one.drained()
        async with worker(bus, database) as two, httpx2.AsyncClient(timeout=60) as http:

            async def get(path: str, status: int = 200) -> Any:
                answer = await http.get(f"{service.url}{path}", timeout=20)
                assert answer.status_code == status, answer.text
                return answer.json() if status == 200 else answer.text

            await heard(bus, one, two)
            await hail(bus, "b")
            found = await get("/api/turns")
            rows = [(x["session"], x["worker"], x["end"]) for x in found["turns"]]
            assert rows == [
                ("b", two.name, "completed"),
                ("a", one.name, "completed"),
            ]
            assert found["silent"] == []
            only = await get("/api/turns?session=a&limit=1")
            (turn,) = only["turns"]
            assert turn["number"] == f"{one.name}-1"
            whole = await get(f"/api/turns/{turn['number']}")
            assert "TurnDone" in [x["event"] for x in whole["events"]]
            lines = await http.get(
                f"{service.url}/api/turns/{turn['number']}/events.jsonl"
            )
            assert len(lines.text.splitlines()) == len(whole["events"])
            # Another tenant's is none, and neither is a worker's that is not there.
            assert "not kept" in await get(f"/api/turns/{one.name}-2", 404)
            assert "no worker" in await get("/api/turns/x-1", 404)
            assert "own turns" in await get("/api/turns?before=3", 409)
            assert "limit" in await get("/api/turns?limit=0", 400)
            sessions = (await get("/api/sessions"))["sessions"]
            assert {"b"} <= {x["session"] for x in sessions}
            assert "secret" not in {x["session"] for x in sessions}


async def test_tools_and_servers_are_those_of_a_worker(
    bus: RealServer, database: str
) -> None:
    async with worker(bus, database) as one, gateway(bus) as service:
        await heard(bus, one)
        async with httpx2.AsyncClient(timeout=60) as http:

            async def get(path: str) -> Any:
                answer = await http.get(f"{service.url}{path}", timeout=20)
                assert answer.status_code == 200, answer.text
                return answer.json()

            tools = await get("/api/tools?tier=fast")
            assert tools["worker"] == one.name
            assert len(tools["tools"]) > 5
            name = tools["tools"][0]["tool"]
            tool = await get(f"/api/tools/{name}?worker={one.name}")
            assert tool["tool"] == name
            assert {x["npc"] for x in tool["npcs"]} == {"Bo", "Ann"}
            assert [x["name"] for x in (await get("/api/npcs"))["npcs"]] == [
                "Bo",
                "Ann",
            ]
            assert (await get("/mcp/status"))["servers"] == []
            assert (await get("/api/servers"))["editable"] is False
            status = await get("/api/status")
            assert [x["worker"] for x in status["workers"]] == [one.name]
            assert status["service"]["state"] == "ready"
            gone = await http.get(f"{service.url}/api/tools?worker=nobody")
            assert f"there is {one.name}" in gone.json()["error"]


@pytest.mark.long
async def test_a_worker_answers_a_few_looks_at_a_time_and_only_pages_that_read(
    bus: RealServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with worker(bus, database) as one, client(bus) as runtime:
        await heard(bus, one)
        for page in (
            "/api/reload",
            "/api/calibrate",
            "/api/turns/{number}/events.jsonl",
        ):
            (shown,) = await runtime.looks(page)
            assert shown.status == 404
        monkeypatch.setattr(looks, "MOST_LOOKS", 0)
        (shown,) = await runtime.looks("/api/turns")
        assert (shown.status, shown.body["code"]) == (503, "busy")


@pytest.mark.long
async def test_what_cannot_be_done_here_says_where(
    bus: RealServer, database: str, tmp_path: Path
) -> None:
    tokens = token_file(tmp_path)
    async with worker(bus, database), gateway(bus, token_file=tokens) as service:
        async with httpx2.AsyncClient(timeout=60) as http:

            async def error(method: str, path: str, role: ClientRole) -> str:
                answer = await http.request(
                    method,
                    f"{service.url}{path}",
                    headers={"Authorization": f"Bearer {TOKENS[role]}"},
                )
                assert answer.status_code in (403, 409)
                return str(answer.json()["error"])

            operator = ClientRole.OPERATOR
            reload = await error("POST", "/api/reload", operator)
            assert "glyphoxa cluster drain WORKER" in reload
            added = await error("DELETE", "/api/servers/x?revision=1", operator)
            assert "when they start" in added
            approve = await error("POST", "/api/tools/x.y/approve", operator)
            assert "glyphoxa mcp approve" in approve
            memory = await error("POST", "/api/memory/judge", operator)
            assert "glyphoxa memory review" in memory
            player = await error("GET", "/api/turns", ClientRole.PLAYER)
            assert player == "this needs the right to read"
        async with watcher(service, TOKENS[ClientRole.PLAYER]) as watching:
            refused = await watching.ask(type="watch", id="w")
            assert (refused["type"], refused["code"]) == ("error", "forbidden")


@pytest.mark.long
async def test_a_gateway_that_may_give_no_orders_says_so(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("WORKER", "GAME", "OPERATOR"):
        monkeypatch.setenv(f"{name}_PASSWORD", f"{name.lower()}-secret")
    file = tmp_path / "nats.conf"
    file.write_text(permissions_of_the_docs())
    with a_server(config=file) as own, trio.fail_after(60):

        def address(user: str) -> str:
            return own.url.replace("//", f"//{user}:{user}-secret@")

        async with (
            worker(RealServerAt(address("worker")), database),
            open_nats(address("game")) as game,
            connect(game) as far,
            open_gateway(far, service_options(http="127.0.0.1:0")) as service,
            open_nats(address("operator")) as orders,
            connect(orders) as near,
            open_gateway(near, service_options(http="127.0.0.1:0")) as another,
            httpx2.AsyncClient(timeout=60) as http,
        ):
            found = await http.get(f"{service.url}/api/turns", timeout=20)
            assert (found.status_code, found.json()["code"]) == (503, "busy")
            assert "one of operators" in found.json()["error"]
            async with watcher(service) as watching:
                refused = await watching.ask(type="watch", id="w")
                assert "one of operators" in refused["message"]
            found = await http.get(f"{another.url}/api/turns", timeout=20)
            assert found.json() == {"turns": [], "silent": []}
            async with watcher(another) as watching:
                accepted = await watching.ask(type="watch", id="w")
                assert accepted["type"] == "accepted"


@pytest.mark.long
async def test_a_watch_that_is_not_renewed_ends_and_gaps_are_told(
    bus: RealServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looks, "MOST_EVENTS", 2)
    async with worker(bus, database) as one, client(bus) as runtime:
        await heard(bus, one)
        told: list[dict[str, Any]] = []
        started = trio.Event()
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def watch() -> None:
                await ClusterTurnWatch(runtime).show(
                    told.append, started.set, session=None, deltas=False, directs=True
                )

            await started.wait()
            await until(lambda: one._looks._desk._present == 1)
            await hail(bus, "a")
            await hail(bus, "a")
            await until(lambda: any(x["event"] == "EventsMissed" for x in told))
            nursery.cancel_scope.cancel()
        await until(lambda: one._looks._desk._present == 0)
        assert [x["n"] for x in told] == [*range(1, len(told) + 1)]
        # Whoever leaves without a word is forgotten, too.
        one._looks.watch(WatchMessage(id="x", for_ms=100), "_INBOX.nobody")
        assert one._looks._watches
        await until(lambda: not one._looks._watches)


async def test_a_watch_of_nobody_is_refused_to_whoever_watches() -> None:
    class Mute:
        workers = ("one",)

        async def watch(self, seen: Any, started: Any, **_: Any) -> None:
            seen(SeenMessage(id="w", worker="one", n=1))
            started(())

    watch = ClusterTurnWatch(Mute())  # type: ignore[arg-type]
    with pytest.raises(Refused, match="operators"):
        await watch.show(
            lambda _: None, lambda: None, session=None, deltas=False, directs=False
        )
