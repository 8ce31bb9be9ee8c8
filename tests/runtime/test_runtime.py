"""`open_runtime` as an embedder uses it: everything wired, servers as processes."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest

import trio
from trio.testing import wait_all_tasks_blocked

from glyphoxa_trio import (
    CallContext,
    Config,
    ConfigError,
    Runtime,
    Tier,
    open_runtime,
    tool,
)
from glyphoxa_trio.config import (
    CalibrationConfig,
    FilesConfig,
    LlmConfig,
    McpConfig,
    NpcConfig,
    Provider,
    RestartConfig,
    ServerSpec,
    ToolOverride,
    TrustConfig,
)
from glyphoxa_trio.config.builtin import BuiltinConfig
from glyphoxa_trio.host import Probed
from glyphoxa_trio.mcp import ServerState, ServerWarning
from glyphoxa_trio.mcp.server_pool import ServerPoolError
from glyphoxa_trio.npc import (
    ApprovalRequest,
    FanOutDone,
    Sentence,
    ToolStarted,
    TurnDone,
    TurnEnd,
    TurnEvent,
)
from glyphoxa_trio.providers.chat_completions import ChatCompletions
from glyphoxa_trio.runtime import RuntimeClosed, UnknownNpc
from glyphoxa_trio.testing.model_server import Hang, open_model_server
from glyphoxa_trio.tools.naming import NameCollision, NamingStyle
from glyphoxa_trio.tools.outcome import Outcome, Status
from glyphoxa_trio.tools.tier import TierLimits

from ..cli.support import SEER, is_dead, reports

LIMIT = 60.0  # seconds; no test that passes comes near it

UNMEASURED = CalibrationConfig(at_start=False)
PATIENT = TierLimits(
    fast_ceiling=LIMIT, standard_ceiling=LIMIT, deep_ceiling=LIMIT
)  # no ceiling ends what a test wants to end itself


def seer(*habits: str, name: str = "seer", told: str = "-", **more: Any) -> ServerSpec:
    more.setdefault("restart", RestartConfig(backoff=0.01))
    return ServerSpec(name=name, command=("python", str(SEER), told, *habits), **more)


def config(*tools: str, servers: tuple[ServerSpec, ...] = (), **more: Any) -> Config:
    """One NPC, Bo, with these tools; nothing is measured unless a test says so."""
    more.setdefault("npcs", (NpcConfig(name="Bo", tools=tools),))
    more.setdefault("mcp", McpConfig(servers=servers))
    return Config(**{"calibration": UNMEASURED, "tiers": PATIENT, **more})


@asynccontextmanager
async def opened(chosen: Config, **more: Any) -> AsyncGenerator[Runtime]:
    with trio.fail_after(LIMIT):
        async with open_runtime(chosen, **{"wait_for_servers": LIMIT, **more}) as one:
            yield one


async def say(runtime: Runtime, text: str, npc: str = "Bo") -> TurnDone:
    async with runtime.npc(npc).say(text) as turn:
        return await turn.finish()


async def dead(pid: int) -> None:
    """Wait for a process to end, without holding anybody up."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        await trio.lowlevel.wait_readable(handle)
    finally:
        os.close(handle)


def pid_of(runtime: Runtime, name: str) -> int:
    (pid,) = [row.pid for row in runtime.servers() if row.name == name]
    assert pid is not None
    return pid


@tool(estimated_duration_ms=10, max_duration_ms=50, read_only=True)
async def weather(place: str) -> str:
    """The weather at a place."""
    return f"Arcane lightning over {place}."


# --------------------------------------------------------------- using it


async def test_the_shortest_program_there_is(tmp_path: Path) -> None:
    path = tmp_path / "table.yaml"
    path.write_text("npcs: [{name: Greymantle the Sage, tools: [roll, rules]}]")
    heard: list[str] = []
    async with open_runtime(str(path)) as runtime:
        async with runtime.npc("Greymantle").say("Roll 2d6+3!") as turn:
            async for event in turn:
                match event:
                    case Sentence(text=text):
                        heard.append(text)
                    case FanOutDone(budget=budget):
                        assert budget == 0.5
        assert turn.done is not None
        assert turn.delivered == " ".join(heard)
        assert heard[0].startswith("2d6+3 comes to ")


async def test_an_npc_is_found_by_the_unique_beginning_of_its_name() -> None:
    names = ("Bo", "Bobo", "Ysolde the Seer", "Ysolde's Cat")
    chosen = config(npcs=tuple(NpcConfig(name=name) for name in names))
    async with opened(chosen) as runtime:
        assert runtime.npc("bo").name == "Bo"  # in full, whoever else begins so
        assert runtime.npc("BOB").name == "Bobo"
        assert runtime.npc(" ysolde the ").name == "Ysolde the Seer"
        assert runtime.npc("bo") is runtime.npc("Bo")  # one session each
        for wrong, near in {
            "Ysolde": "Ysolde the Seer, Ysolde's Cat",
            "Bobbo": "Bobo",
            "Greymantle": ", ".join(names),
            "": ", ".join(names),
        }.items():
            with pytest.raises(UnknownNpc) as caught:
                runtime.npc(wrong)
            assert str(caught.value) == f"no NPC {wrong!r}, there is {near}"


async def test_a_tool_of_ones_own_is_a_function_and_a_name_in_a_list() -> None:
    assert await weather("Luskan") == "Arcane lightning over Luskan."
    async with opened(config("weather"), tools=[weather]) as runtime:
        done = await say(runtime, "How is the weather in Luskan?")
    assert done.text == "Arcane lightning over Luskan."
    (outcome,) = done.outcomes
    assert outcome.tool == "custom.weather"


async def test_a_tool_comes_and_goes_while_the_npc_talks() -> None:
    async with opened(config("custom.*")) as runtime:
        before = await say(runtime, "How is the weather in Luskan?")
        assert before.outcomes == ()
        runtime.register(weather)
        during = await say(runtime, "How is the weather in Luskan?")
        assert [outcome.status for outcome in during.outcomes] == [Status.OK]
        assert runtime.deregister("custom.weather") == ("custom.weather",)
        after = await say(runtime, "How is the weather in Luskan?")
        assert after.outcomes == ()


async def test_a_name_that_is_taken_changes_nothing() -> None:
    @tool(group="custom", name="roll")
    async def impostor() -> None: ...

    async with opened(config("dice")) as runtime:
        before = runtime.host.snapshot
        with pytest.raises(NameCollision, match=r"dice\.roll and custom\.roll"):
            runtime.register(impostor)
        assert runtime.host.snapshot is before
    with pytest.raises(NameCollision):
        async with opened(config("dice"), tools=[impostor]):
            pytest.fail("opened")


async def test_everything_that_happens_is_published() -> None:
    async with opened(config("dice")) as runtime:
        with runtime.events.subscribe() as published:
            seen: list[TurnEvent] = []
            async with runtime.npc("Bo").say("roll 1d4") as turn:
                seen = [event async for event in turn]
            assert seen
            assert [await anext(published) for _ in seen] == seen


@pytest.mark.border
async def test_two_runtimes_in_one_process_know_nothing_of_each_other() -> None:
    async with opened(config("custom.*", servers=(seer(),))) as one:
        async with opened(config("custom.*", servers=(seer(),))) as other:
            assert await other.wait_ready(within=30)  # its tools are known already
            one.register(weather)
            assert "custom.weather" not in other.host.snapshot.by_key
            assert pid_of(one, "seer") != pid_of(other, "seer")
            survivor = pid_of(one, "seer")
        await say(one, "How is the weather in Luskan?")
        assert not is_dead(survivor, within=0)
    assert is_dead(survivor)


# ------------------------------------------------- what is wrong is told early


async def test_a_grant_of_nothing_is_refused_before_a_process_is_started(
    tmp_path: Path,
) -> None:
    with reports(tmp_path) as told:
        servers = (seer(told=str(told.path)),)
        with pytest.raises(ConfigError) as caught:
            async with opened(config("dice.rol", "dise", servers=servers)):
                pytest.fail("opened")
        await wait_all_tasks_blocked()
        assert told.silent()
    first, second = caught.value.problems
    assert first.startswith("no tool 'dice.rol', did you mean dice.roll or")
    assert second.startswith("no tool 'dise', did you mean dice")


@pytest.mark.border
async def test_a_grant_that_a_ready_server_does_not_keep_is_refused() -> None:
    # D14: an error where the source is reachable
    chosen = config("seer.whisper", "seer.wisper", servers=(seer(),))
    with pytest.raises(ConfigError, match=r"no tool 'seer\.wisper', did you mean seer"):
        async with opened(chosen):
            pytest.fail("opened")


@pytest.mark.border
async def test_a_grant_of_an_absent_server_is_a_problem_and_no_error() -> None:
    servers = (
        seer("exits", name="exits", restart=RestartConfig(enabled=False)),
        seer(tools={"whisper": ToolOverride(expose_as="murmur")}),
    )
    told: list[ServerWarning] = []
    chosen = config("exits.x", "murmur", "dice", "lore.*", servers=servers)
    async with opened(chosen, on_warning=told.append) as runtime:
        assert [(x.pattern, x.error) for x in runtime.problems()] == [
            ("exits.x", False),
            ("lore.*", False),
        ]
        assert not await runtime.wait_ready(within=0)
        states = {row.name: row.state for row in runtime.servers()}
        assert states == {"exits": ServerState.FAILED, "seer": ServerState.READY}
        assert list(runtime.warnings) == told
        assert {warning.server for warning in told} == {"exits"}
        assert "the crystal is cracked" in told[0].text
        done = await say(runtime, "roll 1d4")  # without it
        assert done.end is TurnEnd.COMPLETED


async def test_servers_that_are_switched_off_are_absent_not_wrong() -> None:
    mcp = McpConfig(enabled=False, servers=(seer(),))
    async with opened(config("seer.whisper", mcp=mcp)) as runtime:
        assert runtime.servers() == ()
        assert [problem.error for problem in runtime.problems()] == [False]


@pytest.mark.border
async def test_under_bare_names_a_grant_waits_for_any_server() -> None:
    mcp = McpConfig(naming=NamingStyle.BARE, servers=(seer(),))
    async with opened(config("whisper", mcp=mcp)) as runtime:
        assert runtime.problems() == []
        done = await say(runtime, "whisper")
        assert [outcome.tool for outcome in done.outcomes] == ["seer.whisper"]


async def test_overrides_hold_for_built_in_tools() -> None:
    tools = {
        "dice.roll": ToolOverride(min_tier=Tier.STANDARD),
        "roll_table": ToolOverride(expose_as="consult_table"),
    }
    async with opened(config("dice", tools=tools)) as runtime:
        exposed = runtime.host.snapshot.by_exposed
        assert exposed["consult_table"].key == "dice.roll_table"
        assert exposed["roll"].estimate.tier is Tier.STANDARD
        fast = [listing.exposed for listing in runtime.host.tools(Tier.FAST)]
        assert "consult_table" in fast
        assert "roll" not in fast


async def test_overrides_of_nothing_and_shadowed_groups_come_together() -> None:
    tools = {
        "dice.rol": ToolOverride(min_tier=Tier.DEEP),
        "dice.roll": ToolOverride(read_only=False, cacheable=5.0),
    }
    servers = (seer(name="rules"), seer(name="custom"))
    with pytest.raises(ConfigError) as caught:
        async with opened(config(tools=tools, servers=servers), tools=[weather]):
            pytest.fail("opened")
    contradiction, unknown, *shadowed = caught.value.problems
    assert contradiction.endswith("@ tools.dice.roll")
    assert unknown.startswith("no built-in tool 'dice.rol', did you mean dice.roll or")
    assert shadowed == [
        "'rules' is a group of built-in tools @ mcp.servers",
        "'custom' is a group of built-in tools @ mcp.servers",
    ]


async def test_an_address_that_no_request_can_carry_is_a_problem() -> None:
    llm = LlmConfig(
        provider=Provider.CHAT_COMPLETIONS,
        model="m",
        base_url="http://user:pass@localhost/v1",
    )
    with pytest.raises(ConfigError, match="no credentials") as caught:
        async with opened(config(llm=llm)):
            pytest.fail("opened")
    assert "pass@" not in str(caught.value)


# -------------------------------------------------- servers, while it runs


@pytest.mark.border
async def test_a_server_is_added_used_and_removed_while_the_npc_talks() -> None:
    chosen = config("seer.*", trust=TrustConfig(allow_tools=("seer.*",)))
    async with opened(chosen) as runtime:
        assert (await say(runtime, "whisper")).outcomes == ()
        runtime.add_server(seer("stubborn"))
        with pytest.raises(ServerPoolError):
            runtime.add_server(seer())
        assert await runtime.wait_ready(within=LIMIT)
        done = await say(runtime, "whisper")
        assert [(x.tool, x.ok) for x in done.outcomes] == [("seer.whisper", True)]
        pid = pid_of(runtime, "seer")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(runtime.remove_server, "seer")
            await wait_all_tasks_blocked()
            # Gone at once, though its process resists for a while (D16).
            assert "seer.whisper" not in runtime.host.snapshot.by_key
            assert not is_dead(pid, within=0)
            assert (await say(runtime, "whisper")).outcomes == ()
        assert is_dead(pid)
        assert runtime.servers() == ()
        assert "seer.whisper" not in runtime.host.snapshot.by_key
        with pytest.raises(ServerPoolError):
            await runtime.remove_server("seer")
        with pytest.raises(ServerPoolError):
            await runtime.remove_server("dice")  # a group, but no server
        assert "dice.roll" in runtime.host.snapshot.by_key


@pytest.mark.border
async def test_neither_a_server_nor_a_tool_takes_the_place_of_the_other() -> None:
    @tool(group="seer")
    async def impostor() -> None: ...

    async with opened(config("dice", servers=(seer(),))) as runtime:
        with pytest.raises(ConfigError, match="'dice' is a group of built-in tools"):
            runtime.add_server(seer(name="dice"))
        with pytest.raises(NameCollision, match=r"'seer' is a server's name"):
            runtime.register(impostor)
        assert {row.name for row in runtime.servers()} == {"seer"}
        assert "seer.impostor" not in runtime.host.snapshot.by_key


@pytest.mark.border
@pytest.mark.parametrize("late", ["one", "two"])
async def test_two_tools_of_servers_with_one_name_are_left_out_whoever_starts_first(
    late: str,
) -> None:  # A8, N16
    names = ("one", "two") if late == "two" else ("two", "one")
    mcp = McpConfig(naming=NamingStyle.BARE)
    trust = TrustConfig(allow_tools=("one.*", "two.*"))
    chosen = config("one.*", "two.*", "dice", mcp=mcp, trust=trust)
    async with opened(chosen) as runtime:
        for name in names:
            runtime.add_server(seer(name=name, allow=("whisper",)))
            assert await runtime.wait_ready(within=LIMIT)
        (warning,) = runtime.warnings
        said = "one.whisper and two.whisper would both be exposed as 'whisper'"
        assert warning.text.startswith(said)
        assert "expose_as" in warning.text
        listed = {x.key for x in runtime.host.snapshot.listings}
        assert "dice.roll" in listed
        assert "whisper" not in runtime.host.snapshot.by_exposed
        (problem,) = runtime.problems()  # and none for each of the two grants
        assert problem.error
        assert said in str(problem)
        # The next life of one of them is told of no second time.
        os.kill(pid_of(runtime, late), signal.SIGKILL)
        while not any(row.restarts for row in runtime.servers()):
            await trio.lowlevel.checkpoint()
        assert await runtime.wait_ready(within=LIMIT)
        texts = [one.text for one in runtime.warnings]
        assert texts == [warning.text, "was ended by SIGKILL"]
        assert {x.key for x in runtime.host.snapshot.listings} == listed
        # One goes, and the other one has its name.
        await runtime.remove_server(late)
        assert not any(problem.error for problem in runtime.problems())
        # A1: a server's tool is called as ours is, in one breath
        done = await say(runtime, "whisper and roll 1d4")
        assert {x.tool for x in done.outcomes} == {f"{names[0]}.whisper", "dice.roll"}
        assert [x for x in done.outcomes if not x.ok] == []


@pytest.mark.parametrize("base", ["state", "state/notes", "."])
async def test_what_is_kept_for_the_next_run_is_not_theirs_to_write(
    tmp_path: Path, base: str
) -> None:
    mcp = McpConfig(state_dir=tmp_path / "state")
    builtin = BuiltinConfig(files=FilesConfig(base=tmp_path / base))
    with pytest.raises(ConfigError, match=r"state must not be theirs to write"):
        async with opened(config("dice", mcp=mcp, builtin=builtin)):
            raise AssertionError("it opened")


@pytest.mark.border
async def test_a_collision_does_not_keep_a_runtime_from_opening() -> None:
    whisper = ("whisper",)
    servers = (seer(name="one", allow=whisper), seer(name="two", allow=whisper))
    mcp = McpConfig(naming=NamingStyle.BARE, servers=servers)
    async with opened(config("whisper", mcp=mcp)) as runtime:
        (problem,) = runtime.problems()
        assert problem.error


@pytest.mark.border
async def test_a_server_that_takes_a_name_of_ours_loses_that_tool_alone() -> None:
    mcp = McpConfig(naming=NamingStyle.BARE, servers=(seer("grows"),))
    told: trio.MemorySendChannel[ServerWarning]
    told, warnings = trio.open_memory_channel(10)
    chosen = config("whisper", "vanish", "dice", mcp=mcp)
    async with opened(chosen, on_warning=told.send_nowait) as runtime:
        await say(runtime, "whisper")  # after it, it offers a second "roll"
        warning = await warnings.receive()
        assert "seer.roll would be exposed as 'roll'" in warning.text
        assert "the name of dice.roll" in warning.text
        assert "seer.whisper" in runtime.host.snapshot.by_key
        assert runtime.host.snapshot.by_exposed["roll"].key == "dice.roll"


@pytest.mark.border
async def test_an_approver_decides_about_what_nobody_approved() -> None:
    asked: list[ApprovalRequest] = []

    async def approver(request: ApprovalRequest) -> bool:
        asked.append(request)
        return len(asked) == 1

    npcs = (NpcConfig(name="Bo", tools=("seer.*",), budget_tier=Tier.DEEP),)
    chosen = config(npcs=npcs, servers=(seer(),))
    async with opened(chosen, approver=approver) as runtime:

        async def whispered() -> Outcome:
            turn = runtime.npc("Bo").say("whisper", tier=Tier.DEEP)
            async with turn:
                (outcome,) = (await turn.finish()).outcomes
            return outcome

        assert (await whispered()).status is Status.OK
        assert (await whispered()).status is Status.DENIED
    assert [(one.npc, one.tool) for one in asked] == [("Bo", "seer.whisper")] * 2


# ------------------------------------------------------------- calibration


@pytest.mark.border
async def test_what_was_granted_and_approved_is_measured_at_the_start() -> None:
    # D9: dice are ours, and whisper is named in full; nobody was granted ponder.
    servers = (seer(allow=("whisper", "ponder", "vanish")),)
    chosen = config("dice", "seer.whisper", "seer.vanish", servers=servers)
    chosen = attrs.evolve(chosen, calibration=CalibrationConfig())
    async with opened(chosen, wait_for_servers=0) as runtime:
        with runtime.host.events.subscribe() as events:
            probed: dict[str, int] = {}
            while not {"dice.roll", "dice.roll_table", "seer.whisper"} <= probed.keys():
                event = await anext(events)
                if isinstance(event, Probed):
                    probed[event.key] = event.samples
        report = await runtime.host.report()
    assert probed == {"dice.roll": 5, "dice.roll_table": 5, "seer.whisper": 5}
    assert report["dice.roll"].samples == report["seer.whisper"].samples == 5
    assert report["seer.whisper"].tier is Tier.FAST


@pytest.mark.border
async def test_nothing_is_called_when_measuring_is_off(tmp_path: Path) -> None:
    with reports(tmp_path) as told:
        servers = (seer(told=str(told.path)),)
        async with opened(config("dice", servers=servers)) as runtime:
            await wait_all_tasks_blocked()
            report = await runtime.host.report()
        assert {estimate.samples for estimate in report.values()} == {0}
        assert told.next().startswith("started")
        said = told.next()
        if said == "cancelled":  # the ping that tells how far away it is
            said = told.next()
        assert said == "stdin closed"  # and nothing in between


# ------------------------------------------------------------- the end of it


@pytest.mark.border
async def test_an_error_inside_the_block_leaves_it_as_it_is() -> None:
    mine = RuntimeError("mine")
    with pytest.raises(RuntimeError) as caught:
        async with opened(config("dice", servers=(seer(),))) as runtime:
            pid = pid_of(runtime, "seer")
            await say(runtime, "roll 1d4")
            raise mine
    assert caught.value is mine
    assert is_dead(pid)


@pytest.mark.border
@pytest.mark.parametrize("habit", ["parent", "stubborn"])
async def test_leaving_interrupts_the_turn_and_ends_every_process(habit: str) -> None:
    ended: list[TurnDone] = []
    published: list[TurnEvent] = []
    running = trio.Event()

    async def listen(runtime: Runtime) -> None:
        async with runtime.npc("Bo").say("ponder") as turn:
            async for event in turn:
                if isinstance(event, ToolStarted):
                    running.set()
            assert turn.done is not None
            ended.append(turn.done)

    async def watch(runtime: Runtime) -> None:
        with runtime.events.subscribe() as events:
            published.extend([event async for event in events])

    async with trio.open_nursery() as nursery:
        async with opened(config("seer.ponder", servers=(seer(habit),))) as runtime:
            nursery.start_soon(watch, runtime)
            nursery.start_soon(listen, runtime)
            await running.wait()
            pid = pid_of(runtime, "seer")
    assert is_dead(pid)
    (done,) = ended
    assert done.end is TurnEnd.INTERRUPTED
    (outcome,) = done.outcomes
    assert outcome.status is Status.CANCELLED
    assert published[-1] == done  # every turn ends in an event, this one too


@pytest.mark.border
async def test_a_handler_that_shields_itself_delays_the_end_only_by_itself() -> None:
    running, released = trio.Event(), trio.Event()

    @tool(estimated_duration_ms=10, read_only=True)
    async def dawdle(context: CallContext) -> None:
        """Does not stop when it is told to."""
        running.set()
        with trio.CancelScope(shield=True):
            await released.wait()

    pid, order = 0, []

    async def release() -> None:
        await dead(pid)  # all the rest has ended without waiting for it
        order.append("server ended")
        released.set()

    async def listen(runtime: Runtime) -> None:
        async with runtime.npc("Bo").say("dawdle") as turn:
            await turn.finish()
        order.append("turn ended")

    async with trio.open_nursery() as nursery:
        chosen = config("dawdle", servers=(seer(),))
        async with opened(chosen, tools=[dawdle]) as runtime:
            pid = pid_of(runtime, "seer")
            nursery.start_soon(listen, runtime)
            await running.wait()
            nursery.start_soon(release)
        order.append("runtime ended")
    assert order == ["turn ended", "server ended", "runtime ended"]


@pytest.mark.border
async def test_cancelling_while_it_opens_leaves_no_process(tmp_path: Path) -> None:
    with reports(tmp_path) as told:
        chosen = config("dice", servers=(seer("mute", told=str(told.path)),))

        async def open_it() -> None:
            async with opened(chosen):
                pytest.fail("opened")

        with trio.fail_after(LIMIT):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(open_it)
                pid = await trio.to_thread.run_sync(told.expect, "started")
                nursery.cancel_scope.cancel()
        assert is_dead(pid)


async def test_connections_are_closed_after_the_turns_that_use_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed: list[str] = []
    close = ChatCompletions.aclose

    async def spy(link: ChatCompletions) -> None:
        closed.append(repr(session))
        await close(link)

    monkeypatch.setattr(ChatCompletions, "aclose", spy)
    ended: list[TurnDone] = []

    async def listen(runtime: Runtime) -> None:
        async with runtime.npc("Bo").say("hello") as turn:
            ended.append(await turn.finish())

    async with open_model_server([Hang()]) as server:
        llm = LlmConfig(
            provider=Provider.CHAT_COMPLETIONS, model="m", base_url=server.base_url
        )
        npcs = (NpcConfig(name="Bo", model="another"),)
        async with trio.open_nursery() as nursery:
            async with opened(config(npcs=npcs, llm=llm)) as runtime:
                assert runtime.llm.label == f"m at {server.base_url}"
                session = runtime.npc("Bo")._door.ref
                nursery.start_soon(listen, runtime)
                await server.wait_requests(1)
        await server.wait_hangups(1)
        assert server.requests[0]["model"] == "another"
    assert [(one.end, one.error) for one in ended] == [(TurnEnd.INTERRUPTED, "")]
    assert closed == ["<Ref npc Bo: stopped, 0 waiting>"] * 2  # both models'


async def test_an_npc_of_a_runtime_that_has_ended_is_refused_in_words() -> None:
    async with opened(config()) as runtime:
        pass
    with pytest.raises(RuntimeClosed, match="closed"):  # nobody spoke to it before
        runtime.npc("Bo")
