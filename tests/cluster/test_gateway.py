"""Clients of the service in front of a cluster, who notice nothing of it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import httpx2
import pytest
from glyphoxa_client import GlyphoxaError, connect

from glyphoxa_trio import open_runtime
from glyphoxa_trio.cluster import ClusterWorker, serve
from glyphoxa_trio.cluster.gateway import open_gateway
from glyphoxa_trio.memory.postgres import open_postgres
from glyphoxa_trio.nats import open_nats
from glyphoxa_trio.service import ClientRole, Service, service_options

from ..nats.server import RealServer
from ..npc.support import ScriptedLLM
from ..service.support import CONFIG, TOKENS, token_file, until
from ..service.test_clients import answer, speak, under
from .test_cluster import bus, client, database, postgres

pytestmark = pytest.mark.border

__all__ = ["bus", "database", "postgres"]


class HasUrl(Protocol):
    """A server of NATS, as one of its users has it."""

    @property
    def url(self) -> str: ...


@asynccontextmanager
async def worker(bus: HasUrl, database: str) -> AsyncGenerator[ClusterWorker]:
    async with (
        open_postgres(database) as store,
        open_runtime(CONFIG, llm=ScriptedLLM(answer), memory=store) as runtime,
        open_nats(bus.url) as nats,
        serve(runtime, nats) as worker,
    ):
        yield worker


@asynccontextmanager
async def gateway(bus: RealServer, **more: Any) -> AsyncGenerator[Service]:
    options = service_options(http="127.0.0.1:0", **more)
    async with client(bus) as runtime, open_gateway(runtime, options) as service:
        yield service


def ws(service: Service) -> str:
    return f"{service.url.replace('http', 'ws', 1)}/ws"


@pytest.mark.parametrize("backend", ["trio", "asyncio"])
async def test_a_program_speaks_with_a_cluster_as_with_one_service(
    bus: RealServer, database: str, tmp_path: Path, backend: str
) -> None:
    token = TOKENS[ClientRole.GAME_MASTER]
    async with worker(bus, database), worker(bus, database):
        async with gateway(bus, token_file=token_file(tmp_path)) as service:
            await under(backend, partial(speak, ws(service), token))


async def test_any_gateway_goes_on_with_a_conversation(
    bus: RealServer, database: str, tmp_path: Path
) -> None:
    tokens, token = token_file(tmp_path), TOKENS[ClientRole.GAME_MASTER]
    async with worker(bus, database) as one:
        async with gateway(bus, token_file=tokens) as service:
            async with connect(ws(service), token=token) as first:
                await first.join("one", variables={"town": "Ulm"})
                await first.request("overhear", npc="Bo", speaker="Ann", text="Psst.")
                async with first.say("Hail", npc="Bo", session="one") as turn:
                    done = await turn.finish()
                    assert done["end"] == "completed"
                    assert isinstance(done["kept"], bool)
                await first.request("mute", npc="Bo", muted=True, session="one")
        async with gateway(bus, token_file=tokens) as service:
            async with connect(ws(service), token=token) as second:
                look = await second.request("look", session="one")
                assert look["result"]["muted"] == ["Bo"]
                await second.request("mute", npc="Bo", muted=False, session="one")
                with pytest.raises(GlyphoxaError, match="memory import"):
                    await second.request("learn", name="Harbour", data={"_id": "x"})
                async with second.say("hang", npc="Bo", session="one") as turn:
                    await anext(turn)
                    interrupted = await second.request("interrupt", session="one")
                    assert interrupted["result"] is True
                    assert (await turn.finish())["end"] == "interrupted"
                await second.request("end", session="one")
                await until(lambda: one.sessions <= 1)


@pytest.mark.long
async def test_a_login_at_one_gateway_counts_at_another(
    bus: RealServer, tmp_path: Path
) -> None:
    tokens = token_file(tmp_path)
    token = TOKENS[ClientRole.OPERATOR]
    # Behind a balancer, browsers know both by one name.
    headers = {"Origin": "https://npcs.example.org", "Host": "npcs.example.org"}
    named = {"token_file": tokens, "allow_hosts": ["npcs.example.org"]}
    async with gateway(bus, **named) as one, gateway(bus, **named) as two:
        async with httpx2.AsyncClient(timeout=60, headers=headers) as http:
            said = await http.post(f"{one.url}/api/login", json={"token": token})
            assert said.status_code == 200, said.text
            cookie = said.headers["set-cookie"].partition(";")[0]
            mine = {**headers, "Cookie": cookie}
            for service in (one, two):
                me = await http.get(f"{service.url}/api/me", headers=mine)
                assert (me.json()["role"], me.json()["logged_in"]) == ("operator", True)
            await http.post(f"{two.url}/api/logout", json={}, headers=mine)
            me = await http.get(f"{two.url}/api/me", headers=mine)
            assert me.json()["logged_in"] is False
    other = tmp_path / "other"
    other.mkdir()
    file = token_file(other)
    file.write_text(file.read_text().replace(token, f"{token}-of-another"))
    async with (
        gateway(bus, token_file=file) as another,
        httpx2.AsyncClient(timeout=60) as http,
    ):
        me = await http.get(f"{another.url}/api/me", headers={"Cookie": cookie})
        assert me.json()["logged_in"] is False


async def test_over_http_it_is_the_same(bus: RealServer, database: str) -> None:
    async with gateway(bus) as service, httpx2.AsyncClient(timeout=60) as http:
        path = f"{service.url}/api/sessions/table/npcs/Bo/say"
        async with worker(bus, database) as one:
            await _known(bus, one.name)
            said = await http.post(path, json={"text": "Hail"})
            assert said.status_code == 200
            assert "event: TurnDone" in said.text
            unknown = await http.post(path.replace("Bo", "Zed"), json={"text": "Hail"})
            assert unknown.status_code == 404
            assert "no NPC 'Zed', there is Bo, Ann" in unknown.text
        ready = await http.get(f"{service.url}/readyz")
        assert ready.json() == {"status": "ready"}
        assert (await http.get(f"{service.url}/operator")).status_code == 200
        assert (await http.get(f"{service.url}/table")).status_code == 200


async def _known(bus: RealServer, worker: str) -> None:
    async with client(bus) as runtime:
        await until(lambda: worker in [x.worker for x in runtime.workers])
