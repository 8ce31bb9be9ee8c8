"""Workers and clients on a real nats-server and a real PostgreSQL."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import psycopg
import pytest

import trio

from glyphoxa_trio import Runtime, open_runtime
from glyphoxa_trio.cluster import (
    ClusterError,
    ClusterRefused,
    ClusterWorker,
    RemoteRuntime,
    connect,
    serve,
)
from glyphoxa_trio.cluster.messages import (
    MovedMessage,
    OwnerSilence,
    PingMessage,
    RefusedMessage,
    SayMessage,
)
from glyphoxa_trio.cluster.served_sessions import ServedSessions
from glyphoxa_trio.cluster.wire import Subjects, pack, read
from glyphoxa_trio.memory.postgres import open_postgres
from glyphoxa_trio.nats import open_nats, open_requests
from glyphoxa_trio.npc import Sentence, TextDelta, TurnDone, TurnEvent
from glyphoxa_trio.npc.events import TurnEnd
from glyphoxa_trio.npc.identity import SessionKey
from glyphoxa_trio.providers.llm import LLMRequest

from ..memory.postgres.server import Server, the_server
from ..nats.server import RealServer, a_server
from ..npc.support import HANG, ScriptedLLM
from ..runtime.test_snapshots import tools, with_room
from ..runtime.test_turn_keeper import silent

LIMIT = 60.0


KILLED_OR_STOPPED = [
    signal.SIGKILL,
    pytest.param(signal.SIGSTOP, marks=pytest.mark.long),
]


@pytest.fixture(scope="module")
def bus() -> Generator[RealServer]:
    with a_server() as server:
        yield server


@pytest.fixture(scope="module")
def postgres() -> Generator[Server]:
    with the_server() as server:
        yield server


@pytest.fixture
def database(postgres: Server) -> Generator[str]:
    with postgres.database() as address:
        yield address


def think(request: LLMRequest) -> list[Any]:
    said = request.messages[-1].content
    if "hang" in said:
        return ["Well.\n", HANG]
    if "half" in said:
        return ["Half of a pair: \ud83d. ", "And on."]
    if "novel" in said:
        return [f"{n} " for n in range(600)]
    told = " ".join(str(x.content) for x in request.messages[1:-1])
    return [f"You said: {said}. ", f"Before: {told[-60:]}."]


@asynccontextmanager
async def worker(
    bus: RealServer, database: str, **more: Any
) -> AsyncGenerator[tuple[Runtime, ClusterWorker]]:
    async with (
        open_postgres(database) as store,
        open_runtime(
            silent(with_room(1000)), llm=ScriptedLLM(think), tools=tools(), memory=store
        ) as runtime,
        open_nats(bus.url) as nats,
        serve(runtime, nats, **more) as worker,
    ):
        yield runtime, worker


@asynccontextmanager
async def client(bus: RealServer) -> AsyncGenerator[RemoteRuntime]:
    with trio.fail_after(LIMIT):
        async with open_nats(bus.url) as nats, connect(nats) as runtime:
            yield runtime


async def said(runtime: RemoteRuntime, text: str, session: str = "table") -> TurnDone:
    async with runtime.session(session).npc("Bo").say(text) as turn:
        done = await turn.finish()
        assert done.end is TurnEnd.COMPLETED, done
        assert turn.delivered == done.text.strip()
        return done


async def kept(database: str, turns: int) -> list[str]:
    """Return what the journal has, once it has so many answers: a busy machine may not
    have written the last one when its end is told."""
    while True:  # until the limit of the test
        with psycopg.connect(database) as connection:
            rows = connection.execute(
                "select kind from glyphoxa.entry e union all"
                " select speaker from glyphoxa.line"
            ).fetchall()
        kinds = sorted(x for (x,) in rows if x != "snapshot")
        if kinds.count("Bo") >= turns:
            return kinds
        await trio.sleep(0.02)


@pytest.mark.border
async def test_a_client_speaks_with_a_session_of_a_worker(
    bus: RealServer, database: str
) -> None:
    async with worker(bus, database) as (_, one), client(bus) as runtime:
        done = await said(runtime, "hail")
        assert done.text.startswith("You said: hail.")
        again = await said(runtime, "and now")
        assert "hail" in again.text
        assert runtime.owner("table") == (one.name, 1)
        assert one.sessions == 1
        assert [x.worker for x in runtime.workers] == [one.name]
        with pytest.raises(ClusterRefused, match="no NPC 'Zed'"):
            async with runtime.npc("Zed").say("hail"):
                pass
        assert await said(runtime, "still there", "another")


async def test_a_turn_that_is_over_is_written_with_all_that_was_heard(
    bus: RealServer, database: str
) -> None:
    async with worker(bus, database), client(bus) as runtime:
        for at in range(4):
            await said(runtime, "hail", f"table {at}")
            # Nothing is corrected later.
            assert await kept(database, at + 1) == sorted(
                ["turn", "player", "Bo"] * (at + 1)
            )


async def test_the_end_of_a_turn_tells_if_it_is_written(
    bus: RealServer, database: str
) -> None:
    async with worker(bus, database), client(bus) as runtime:
        while (await said(runtime, "hail")).kept is not True:
            pass  # this machine is busy: it is written later
        with psycopg.connect(database) as connection:
            connection.execute("lock table glyphoxa.session in exclusive mode")
            assert (await said(runtime, "and now")).kept is False
        while (await said(runtime, "at last")).kept is not True:
            pass
        async with runtime.session("table").npc("Bo").say("hang", within=0.5) as turn:
            assert isinstance((await turn.finish()).kept, bool)


@pytest.mark.long
async def test_whoever_has_no_session_says_who_has_it(
    bus: RealServer, database: str
) -> None:
    async with (
        worker(bus, database) as (_, one),
        client(bus) as first,
        worker(bus, database) as (_, two),
        client(bus) as second,
    ):
        for at in range(4):
            await said(first, "hail", f"table {at}")
            done = await said(second, "and now", f"table {at}")
            assert "hail" in done.text
            assert first.owner(f"table {at}") == second.owner(f"table {at}")
        assert one.sessions + two.sessions == 4


async def test_a_turn_is_interrupted_from_afar(bus: RealServer, database: str) -> None:
    async with worker(bus, database), client(bus) as runtime:
        bo = runtime.session("table").npc("Bo")
        async with bo.say("hang") as turn:
            async for event in turn:
                if isinstance(event, Sentence):
                    turn.interrupt("enough")
            assert turn.done is not None
            assert turn.done.end is TurnEnd.INTERRUPTED
            assert turn.delivered == "Well."
        async with bo.say("hang") as turn:
            await anext(turn)  # whoever leaves interrupts, too
        assert "Well." in (await said(runtime, "what did you say")).text


@pytest.mark.long
async def test_a_time_is_over_at_the_worker_as_well(
    bus: RealServer, database: str
) -> None:
    async with worker(bus, database), client(bus) as runtime:
        await said(runtime, "hail")
        async with runtime.session("table").npc("Bo").say("hang", within=0.5) as turn:
            done = await turn.finish()
        assert done.end is TurnEnd.INTERRUPTED


async def test_a_client_that_reads_slowly_slows_nobody_down(
    bus: RealServer, database: str
) -> None:
    async with worker(bus, database) as (runtime, _), client(bus) as far:
        over = trio.Event()

        def note(event: TurnEvent) -> None:
            if isinstance(event, TurnDone):
                over.set()

        with runtime.events.tap(note):
            async with far.npc("Bo").say("novel", events="all") as turn:
                first = await anext(turn)
                await over.wait()  # while nothing is read
                rest = [event async for event in turn]
        deltas = [x for x in (first, *rest) if isinstance(x, TextDelta)]
        assert len(deltas) == 600
        assert turn._listener.stream.statistics().peak <= 257  # no more was granted
        assert isinstance(rest[-1], TurnDone)
        assert rest[-1].text == "".join(x.text for x in deltas).strip()


@pytest.mark.long
async def test_a_worker_without_room_and_a_client_without_workers(
    bus: RealServer, database: str
) -> None:
    async with client(bus) as runtime:
        with pytest.raises(ClusterRefused, match="unavailable"):
            async with runtime.npc("Bo").say("hail", within=0.3):
                pass
        async with worker(bus, database, most=1), worker(bus, database, tenants=["a"]):
            await said(runtime, "hail", "one")
            with pytest.raises(ClusterRefused, match=r"shed|wrong_tenant|unavailable"):
                async with runtime.session("two").npc("Bo").say("hail", within=1.0):
                    pass
            await said(runtime, "hail", "one")


async def test_messages_that_are_none_are_counted(
    bus: RealServer, database: str
) -> None:
    async with worker(bus, database) as (_, one), client(bus) as runtime:
        async with open_nats(bus.url) as nats:
            subject = Subjects("default").worker(one.name)
            for bad in (b"", b"{}", b'{"type":"beat"}', b'{"type":"say","npc":7}'):
                await nats.publish(subject, bad, reply="_INBOX.x")
            newer = b'{"type":"say","v":2,"id":"u1"}'
            odd = SayMessage(
                id="u2", session="a\nb", npc="Bo", text="hail", remaining_ms=9000
            )
            with open_requests(nats) as requests:
                answer = await requests.ask(subject, newer, within=5)
                assert b"newer_version" in answer.payload
                answer = await requests.ask(subject, pack(odd), within=5)
                assert b"unavailable" in answer.payload  # no such session can be
            await nats.publish(subject, pack(PingMessage()))
            await nats.flush(within=5)
        await said(runtime, "hail")
        assert one.counts == {"invalid": 4, "newer": 1, "without_reply": 1}


async def test_a_worker_that_did_not_drain_is_fenced_when_its_program_ends(
    bus: RealServer, database: str
) -> None:
    async with client(bus) as runtime, open_postgres(database) as store:
        async with (
            open_runtime(
                silent(with_room(1000)), llm=ScriptedLLM(think), memory=store
            ) as own,
            open_nats(bus.url) as nats,
        ):
            async with serve(own, nats) as first:
                await said(runtime, "hail")
            assert runtime.owner("table") == (first.name, 1)
            async with worker(bus, database):
                assert "hail" in (await said(runtime, "and now")).text
                # The first one, or, on a busy machine, its missing beats, said so.
                assert runtime.counts.keys() & set(OwnerSilence)


async def test_a_worker_that_is_told_of_a_newer_epoch_gives_its_session_up(
    bus: RealServer, database: str
) -> None:
    async with (
        worker(bus, database) as (here, one),
        client(bus) as runtime,
        open_nats(bus.url) as nats,
    ):
        await said(runtime, "hail")
        assert runtime.owner("table") == (one.name, 1)
        subject = Subjects("default").worker(one.name)
        say = SayMessage(
            id="u2", session="table", npc="Bo", text="hm", remaining_ms=9e3, least=2
        )
        with open_requests(nats) as requests:
            # Another process has it. This worker would learn that at its next write.
            async with open_postgres(database) as other:
                key = here.campaign_of("table")
                taken = await other.journal.claim("", "table", key, steal_from=1)
                answer = read(
                    (await requests.ask(subject, pack(say), within=5)).payload
                )
                assert isinstance(answer, RefusedMessage)
                assert (answer.reason, answer.epoch) == ("fenced", 1)
                assert one.sessions == 0
                answer = read(
                    (await requests.ask(subject, pack(say), within=5)).payload
                )
                assert isinstance(answer, MovedMessage)
                assert (answer.worker, answer.epoch) == (other.holder.id, taken.epoch)
        assert "hail" in (await said(runtime, "and now")).text
        assert runtime.owner("table") == (one.name, 3)


@pytest.mark.long
async def test_without_a_bus_no_caller_waits_for_ever(database: str) -> None:
    with a_server() as own:
        async with worker(own, database), client(own) as runtime:
            await said(runtime, "hail")
            async with runtime.session("table").npc("Bo").say("hang") as turn:
                own.kill()
                assert (await turn.finish()).end is TurnEnd.LOST
            with pytest.raises(ClusterRefused, match="unavailable"):
                async with runtime.npc("Bo").say("hail", within=0.3):
                    pass
            own.start()
            assert "hail" in (await said(runtime, "and now")).text


@pytest.mark.long
async def test_words_that_no_message_can_have_end_one_turn_and_no_worker(
    bus: RealServer, database: str
) -> None:
    async with worker(bus, database), client(bus) as runtime:
        async with runtime.session("odd").npc("Bo").say("half", within=1.0) as turn:
            assert (await turn.finish()).end is TurnEnd.LOST
        await said(runtime, "hail")


async def test_a_worker_needs_memory(bus: RealServer) -> None:
    async with open_runtime(with_room(10), llm=ScriptedLLM(think)) as runtime:
        async with open_nats(bus.url) as nats:
            with pytest.raises(ClusterError, match=r"memory\.store"):
                async with serve(runtime, nats):
                    pass


# ------------------------------------------------------- processes that are killed


@attrs.define(eq=False)
class Process:
    """A worker as a process."""

    process: trio.Process
    name: str

    def signal(self, which: signal.Signals) -> None:
        self.process.send_signal(which)


@attrs.define(eq=False)
class Processes:
    bus: RealServer
    database: str
    ledger: Path
    nursery: trio.Nursery
    started: list[Process] = attrs.field(factory=list)

    async def start(self) -> Process:
        process = await trio.lowlevel.open_process(
            [
                *(sys.executable, "-m", "tests.cluster.worker_process"),
                *(self.bus.url, self.database, str(self.ledger)),
            ],
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        one = Process(process, "")
        self.started.append(one)
        with trio.fail_after(LIMIT):
            while "\n" not in one.name:
                read = await process.stdout.receive_some()
                assert read, "the worker has ended"
                one.name += read.decode()
        one.name = one.name.strip()
        return one

    def named(self, name: str) -> Process:
        return next(x for x in self.started if x.name == name)

    @property
    def paid(self) -> list[str]:
        return self.ledger.read_text().split() if self.ledger.exists() else []


@pytest.fixture
async def processes(
    bus: RealServer, database: str, tmp_path: Path
) -> AsyncGenerator[Processes]:
    async with trio.open_nursery() as nursery:
        ours = Processes(bus, database, tmp_path / "ledger", nursery)
        try:
            await ours.start()
            await ours.start()
            yield ours
        finally:
            for one in ours.started:
                one.process.kill()
                await one.process.wait()


async def owner_of(runtime: RemoteRuntime, processes: Processes) -> Process:
    found = runtime.owner("table")
    assert found is not None
    return processes.named(found[0])


@pytest.mark.border
@pytest.mark.parametrize("how", KILLED_OR_STOPPED)
async def test_a_session_goes_on_elsewhere(
    processes: Processes, bus: RealServer, how: signal.Signals
) -> None:
    async with client(bus) as runtime:
        assert (await said(runtime, "hail")).text == "Heard 1: hail."
        await kept(processes.database, 1)
        owner = await owner_of(runtime, processes)
        owner.signal(how)
        assert (await said(runtime, "and now")).text == "Heard 2: hail."
        assert runtime.owner("table") != (owner.name, 1)
        if how is signal.SIGSTOP:
            await kept(processes.database, 2)
            owner.signal(signal.SIGCONT)  # it wakes, and is refused
            assert (await said(runtime, "once more")).text == "Heard 3: hail."


@pytest.mark.long
@pytest.mark.parametrize("how", KILLED_OR_STOPPED)
async def test_a_turn_whose_worker_is_lost_ends(
    processes: Processes, bus: RealServer, how: signal.Signals
) -> None:
    async with client(bus) as runtime:
        await said(runtime, "hail")
        await kept(processes.database, 1)
        owner = await owner_of(runtime, processes)
        async with runtime.session("table").npc("Bo").say("a story") as turn:
            async for event in turn:
                if isinstance(event, Sentence) and "2" in event.text:
                    owner.signal(how)
        assert turn.done is not None
        assert turn.done.end is TurnEnd.LOST
        assert turn.done.text.startswith("Sentence 0. Sentence 1. Sentence 2.")
        assert (await said(runtime, "and now")).text == "Heard 2: hail."


@pytest.mark.border
@pytest.mark.parametrize("how", KILLED_OR_STOPPED)
async def test_no_effect_is_run_twice(
    processes: Processes, bus: RealServer, how: signal.Signals
) -> None:
    async with client(bus) as runtime:
        await said(runtime, "hail")
        owner = await owner_of(runtime, processes)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(kill_when_paid, processes, owner, how)
            async with runtime.session("table").npc("Bo").say("pay Ann") as turn:
                done = await turn.finish()
        assert done.end is TurnEnd.LOST
        told = (await said(runtime, "and now")).text
        assert told.startswith("Heard ")
        if how is signal.SIGSTOP:
            owner.signal(signal.SIGCONT)
            await said(runtime, "once more")
        assert processes.paid == ["Ann"]


async def kill_when_paid(
    processes: Processes, owner: Process, how: signal.Signals
) -> None:
    while not processes.paid:  # noqa: ASYNC110 - another process writes it
        await trio.sleep(0.01)
    owner.signal(how)


@pytest.mark.long
async def test_a_worker_with_many_sessions_begins_to_drain_with_few_of_them(
    bus: RealServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks: list[int] = []
    end = ServedSessions.end

    async def counted(self: ServedSessions, key: SessionKey, *, write: bool) -> None:
        nursery = trio.lowlevel.current_task().parent_nursery
        assert nursery is not None
        tasks.append(len(nursery.child_tasks))
        await end(self, key, write=write)

    monkeypatch.setattr(ServedSessions, "end", counted)
    monkeypatch.setattr("glyphoxa_trio.cluster.worker._RELEASES", 4)
    async with client(bus) as runtime:
        async with worker(bus, database) as (_, one):
            for number in range(20):
                await said(runtime, "hail", f"table {number}")
            await one.drained()
        assert len(tasks) == 20
        assert max(tasks) < 15
        async with worker(bus, database):
            for number in range(20):
                done = await said(runtime, "and now", f"table {number}")
                assert "hail" in done.text


@pytest.mark.border
async def test_a_worker_that_drains_is_noticed_by_nobody(
    processes: Processes, bus: RealServer
) -> None:
    async with client(bus) as runtime:
        await said(runtime, "hail")
        owner = await owner_of(runtime, processes)
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def _() -> None:
                async with runtime.session("table").npc("Bo").say("slowly") as turn:
                    assert (await turn.finish()).end is TurnEnd.COMPLETED

            await trio.sleep(0.5)
            owner.signal(signal.SIGTERM)
        # At once, so perhaps there, before the session is given back; then elsewhere.
        assert (await said(runtime, "and now")).text == "Heard 3: hail."
        assert await owner.process.wait() == 0
        assert (await said(runtime, "once more")).text == "Heard 4: hail."
        assert runtime.owner("table") != (owner.name, 1)


def permissions_of_the_docs() -> str:
    page = Path("docs/cluster-operations.md").read_text()
    return page.partition("```text\n")[2].partition("```")[0]


@pytest.mark.border
async def test_a_bus_with_the_permissions_of_the_docs(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("WORKER", "GAME", "OPERATOR"):
        monkeypatch.setenv(f"{name}_PASSWORD", f"{name.lower()}-secret")
    file = tmp_path / "nats.conf"
    file.write_text(permissions_of_the_docs())
    with a_server(config=file) as own:

        def address(user: str) -> str:
            return own.url.replace("//", f"//{user}:{user}-secret@")

        async with (
            open_postgres(database) as store,
            open_runtime(
                silent(with_room(1000)), llm=ScriptedLLM(think), memory=store
            ) as runtime,
            open_nats(address("worker")) as nats,
            serve(runtime, nats) as one,
            open_nats(address("game")) as game,
            connect(game) as far,
            open_nats(address("operator")) as operator,
            connect(operator) as orders,
        ):
            with trio.fail_after(LIMIT):
                await said(far, "hail")
                assert await far.sessions() == ()  # it may not ask
                assert await far.drain(one.name) is False
                (listed,) = await orders.sessions()
                assert [x.session for x in listed.sessions] == ["table"]
                assert "hail" in (await said(far, "and now")).text
                assert await orders.drain(one.name) is True
                await one.drained()
