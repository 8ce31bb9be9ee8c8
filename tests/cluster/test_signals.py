"""The signals of workers and gateways, scraped as Prometheus would scrape them."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from glyphoxa_client import connect as connect_page
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

import trio

from glyphoxa_trio import open_runtime
from glyphoxa_trio.cluster import ClusterWorker, RemoteRuntime, serve
from glyphoxa_trio.cluster.messages import RefusalReason, SayMessage, SilentOwner
from glyphoxa_trio.cluster.monitoring import open_worker_probes
from glyphoxa_trio.cluster.signals import (
    SHED_OVER,
    WAKES,
    ClaimResult,
    WorkerSignals,
)
from glyphoxa_trio.cluster.wire import Subjects, pack
from glyphoxa_trio.memory.postgres import open_postgres
from glyphoxa_trio.nats import open_nats, open_requests
from glyphoxa_trio.npc.events import TurnEnd
from glyphoxa_trio.service import ClientRole
from glyphoxa_trio.service.options import probes_options

from ..cli.support import run
from ..nats.server import RealServer, a_server
from ..npc.support import ScriptedLLM
from ..runtime.test_snapshots import with_room
from ..runtime.test_turn_keeper import silent
from ..service.support import TOKENS, token_file, until
from .test_cluster import bus, client, database, postgres, said, think
from .test_command import CONFIG, a_worker
from .test_gateway import gateway, ws

__all__ = ["bus", "database", "postgres"]

Found = dict[tuple[str, frozenset[tuple[str, str]]], float]


class Scrape:
    """The values of one scrape."""

    def __init__(self, text: str) -> None:
        self.kinds: dict[str, str] = {}
        self.found: Found = {}
        for family in text_string_to_metric_families(text):
            self.kinds[family.name] = family.type
            for sample in family.samples:
                labels = frozenset(sample.labels.items())
                self.found[sample.name, labels] = sample.value

    def __call__(self, name: str, **labels: str) -> float:
        return self.found[f"glyphoxa_cluster_{name}", frozenset(labels.items())]


async def scraped(url: str) -> Scrape:
    async with httpx2.AsyncClient(timeout=60) as http:
        answer = await http.get(f"{url}/metrics")
        assert answer.status_code == 200, answer.text
        return Scrape(answer.text)


@asynccontextmanager
async def watched_worker(
    bus: RealServer, database: str
) -> AsyncGenerator[tuple[ClusterWorker, str]]:
    """A worker, and the address of its probes."""
    async with (
        open_postgres(database) as store,
        open_runtime(
            silent(with_room(1000)), llm=ScriptedLLM(think), memory=store
        ) as runtime,
        open_nats(bus.url) as nats,
        serve(runtime, nats) as worker,
        open_worker_probes(runtime, worker, probes_options("127.0.0.1:0")) as url,
    ):
        yield worker, url


async def known(runtime: RemoteRuntime, *names: str) -> None:
    await until(lambda: {x.worker for x in runtime.workers} == {*names})


async def send(bus: RealServer, worker: ClusterWorker, said: SayMessage) -> None:
    """Send a message to a worker, and wait for its first answer."""
    async with open_nats(bus.url) as nats:
        with open_requests(nats) as requests:
            subject = Subjects("default").worker(worker.name)
            await requests.ask(subject, pack(said), within=5)


async def steal(bus: RealServer, thief: ClusterWorker, victim: ClusterWorker) -> None:
    """Have a worker take the session from another one, as a client that found that one
    silent would."""
    taken = SayMessage(
        id="stolen",
        session="table",
        npc="Bo",
        text="hail",
        remaining_ms=9000,
        silent=SilentOwner(worker=victim.name, epoch=1, why="no_pong"),
    )
    while not thief.signals.claimed:  # a worker that stood still refuses
        await send(bus, thief, taken)
        await trio.sleep(0.1)
    await until(lambda: thief.signals.turns.total() > 0)


@pytest.mark.long
async def test_a_workers_values_move_with_its_turns_and_with_a_theft(
    bus: RealServer, database: str
) -> None:
    async with watched_worker(bus, database) as (one, first):
        async with client(bus) as runtime:
            await known(runtime, one.name)
            before = await scraped(first)
            assert before("sessions") == before("turns_total", end="completed") == 0
            for _ in range(3):
                await said(runtime, "hail")
            await until(lambda: one.signals.turns[TurnEnd.COMPLETED] == 3)
            async with watched_worker(bus, database) as (two, second):
                now = await scraped(first)
                assert now("sessions") == 1
                assert now("room") in (0, 9999)  # 0 if it stood still, as when busy
                assert now("turns_total", end="completed") == 3
                assert now("claims_total", result="free") == 1
                assert now("restores_total") == now("fenced_total") == 0
                assert now("bus_connected") == 1
                assert now("loop_late_seconds_count") > 0
                assert now("loop_late_seconds_bucket", le="+Inf") > 0
                assert 0 <= now("journal_lag_seconds") < 5
                await steal(bus, two, one)
                taken = await scraped(second)
                assert taken("claims_total", result="taken") == 1
                assert taken("restores_total") == 1
                assert taken("claims_total", result="free") == 0
                # The first one learns of it by its next write, which is refused.
                async with runtime.session("table").npc("Bo").say("and now") as turn:
                    assert (await turn.finish()).end is TurnEnd.LOST
                await until(lambda: one.signals.fenced == 1)
                lost = await scraped(first)
                assert (lost("fenced_total"), lost("sessions")) == (1, 0)
                assert lost("turns_total", end="lost") == 1
                # The same is told to whoever asks for the status.
                await until(lambda: any(x.fenced for x in runtime.workers))
                beats = {x.worker: x for x in runtime.workers}
                assert (beats[one.name].claims, beats[one.name].fenced) == (1, 1)
                assert (beats[two.name].claims, beats[two.name].restores) == (1, 1)


async def test_what_is_shed_is_a_share_and_names_follow_the_conventions(
    bus: RealServer, database: str
) -> None:
    with trio.fail_after(60):
        await _what_is_shed(bus, database)


async def _what_is_shed(bus: RealServer, database: str) -> None:
    async with watched_worker(bus, database) as (one, url):
        while not one.signals.refusals[RefusalReason.SHED]:  # or it stood still
            await send(bus, one, SayMessage(id="late", npc="Bo", remaining_ms=10))
        now = await scraped(url)
        assert now("refusals_total", reason="shed") == 1
        assert now("shed_ratio") == 1
        assert now("refusals_total", reason="fenced") == 0
        info = {"worker": one.name, "deployment": "default"}
        (labels,) = [
            dict(labels) for name, labels in now.found if name.endswith("worker_info")
        ]
        assert labels.items() >= info.items()
        # Beside them are those of the runtime, and of the process.
        assert now.found["glyphoxa_turns_running", frozenset()] == 0
        assert now.found["process_cpu_seconds_total", frozenset()] > 0
        for name, kind in now.kinds.items():
            if name.startswith("glyphoxa_cluster"):
                samples = {x for x, _ in now.found if x.startswith(name)}
                total = f"{name}_total" in samples
                assert (kind == "counter") == total or not samples, name


@pytest.mark.border
async def test_a_worker_is_ready_until_it_drains_or_has_no_bus(database: str) -> None:
    with a_server() as own, trio.fail_after(60):
        async with watched_worker(own, database) as (one, url):
            async with httpx2.AsyncClient(timeout=60) as http:

                async def becomes(status: int, what: str) -> None:
                    found: dict[str, str] = {}
                    while found != {"status": what}:  # it may stand still meanwhile
                        answer = await http.get(f"{url}/readyz")
                        found = answer.json()
                    assert answer.status_code == status

                await becomes(200, "ready")
                own.kill()
                await until(lambda: not one.connected)
                await becomes(503, "no_bus")
                assert (await scraped(url))("bus_connected") == 0
                own.start()
                await until(lambda: one.connected)
                await one.drained()
                await becomes(503, "draining")
                assert (await scraped(url))("draining") == 1
                assert (await http.get(f"{url}/healthz")).status_code == 200
                assert (await http.get(f"{url}/ws")).status_code == 404


@pytest.mark.long
async def test_a_gateway_shows_its_own(
    bus: RealServer, database: str, tmp_path: Path
) -> None:
    tokens = token_file(tmp_path)
    async with gateway(bus, token_file=tokens, probes="127.0.0.1:0") as service:
        assert (await scraped(service.probes_url))("workers") == 0
        async with watched_worker(bus, database):
            token = TOKENS[ClientRole.GAME_MASTER]
            async with connect_page(ws(service), token=token) as page:
                async with page.say("hail", npc="Bo", session="one") as turn:
                    assert (await turn.finish())["end"] == "completed"
                now = await scraped(service.probes_url)
            assert (now("workers"), now("gateway_connections")) == (1, 1)
            assert now("gateway_turns_running") == 0
            assert now("workers_room") <= 10_000
            assert now("gateway_faults_total", reason="no_pong") == 0
        assert (await scraped(service.url))("bus_connected") == 1


@pytest.mark.long
def test_the_command_serves_them_and_the_status_has_them(tmp_path: Path) -> None:
    config = tmp_path / "inn.yaml"
    config.write_text(CONFIG)
    with a_server() as bus:
        with a_worker(config, bus, "--probes", "127.0.0.1:0") as process:
            assert process.stderr is not None
            line = process.stderr.readline()
            assert line.startswith("glyphoxa: health and metrics at http://127.0.0.1:")
            done = run("cluster", "say", "t", "Bo", "hail", "--nats", bus.url)
            assert done.returncode == 0, done.stderr
            now = Scrape(httpx2.get(f"{line.split()[-1]}/metrics", timeout=60).text)
            assert now("claims_total", result="free") == 1
            shown = run("cluster", "status", "--nats", bus.url, "--json")
            (row,) = json.loads(shown.stdout)["workers"]
            assert row["claims"] == row["sessions"] == 1
            assert row["late_p99_ms"] > 0
            table = run("cluster", "status", "--nats", bus.url).stdout
            assert "0%" in table
    wrong = run("cluster", "worker", str(config), "--probes", "here")
    assert wrong.returncode == 2
    assert "--probes" in wrong.stderr


# ------------------------------------------------------------------- counted alone


@given(st.lists(st.floats(0, 10), min_size=1, max_size=2 * WAKES))
def test_99_of_100_steps_are_no_later_than_the_p99(late: list[float]) -> None:
    signals = WorkerSignals()
    for one in late:
        signals.woke(one, still=False)
    last = late[-WAKES:]
    assert sum(x <= signals.late_p99 for x in last) >= 0.99 * len(last)
    assert sum(x < signals.late_p99 for x in last) < 0.99 * len(last)
    assert sum(signals.late.counts) == len(late)


def test_the_share_that_was_shed_is_that_of_the_last_minute() -> None:
    signals = WorkerSignals()
    assert signals.shed == 0
    for _ in range(3):
        signals.turn_ended(TurnEnd.COMPLETED)
    signals.refused(RefusalReason.SHED)
    signals.refused(RefusalReason.QUOTA)  # of the tenant, not of the machine
    assert signals.shed == 0.25
    for _ in range(SHED_OVER - 1):
        signals.beat()
    assert signals.shed == 0.25
    signals.turn_ended(TurnEnd.SHED)
    assert signals.shed == 0.4
    for _ in range(2):
        signals.beat()
    assert signals.shed == 1  # of one turn; the others are longer ago
    for _ in range(SHED_OVER):
        signals.beat()
    assert signals.shed == 0


def test_standing_still_is_counted_once_each_time() -> None:
    signals = WorkerSignals()
    for still in (False, True, True, False, True):
        signals.woke(0.0, still=still)
    assert signals.stood_still == 2
    signals.claim_ended(ClaimResult.FREE, 1)
    signals.claim_ended(ClaimResult.TAKEN, 2)
    signals.claim_ended(ClaimResult.ELSEWHERE)
    assert (signals.claimed, signals.restores) == (2, 1)
