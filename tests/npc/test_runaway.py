"""Models without an end, busy ones and cold ones, over real HTTP."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio import open_runtime
from glyphoxa_trio.config import (
    Config,
    LlmConfig,
    ModelConfig,
    NpcConfig,
    Provider,
    TurnConfig,
)
from glyphoxa_trio.config.voices import CascadeMode, Engine
from glyphoxa_trio.npc import Fallback, FellBack, ModelFailed, Sentence
from glyphoxa_trio.providers import line
from glyphoxa_trio.providers.llm import ErrorKind
from glyphoxa_trio.runtime import Runtime
from glyphoxa_trio.testing import http_server
from glyphoxa_trio.testing.http_server import (
    LateReply,
    ReceivedRequest,
    StatusReply,
    open_http_server,
)
from glyphoxa_trio.testing.model_server import (
    Fail,
    Pause,
    Reply,
    SayText,
    Script,
    open_model_server,
)
from glyphoxa_trio.tools.tier import Tier

from .support import ask

pytestmark = pytest.mark.border

TORRENT = Path(__file__).parents[2] / "benchmarks" / "servers" / "torrent.py"
SSE = {"content-type": "text/event-stream"}
HI = b"""data: {"choices": [{"delta": {"content": "Hi."}, "finish_reason": "stop"}]}

"""
KINDS = (
    *("flood", "drip", "arguments"),
    *(
        pytest.param(kind, marks=pytest.mark.long)
        for kind in ("unbroken", "chunks", "thoughts", "comments")
    ),
)


@pytest.fixture(scope="module")
def torrent() -> Iterator[str]:
    """The address of a server whose answers have no end, in a process of its own."""
    server = subprocess.Popen(
        [sys.executable, TORRENT], stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        yield f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
    finally:
        server.kill()
        server.communicate()


def npcs(count: int) -> tuple[NpcConfig, ...]:
    return tuple(NpcConfig(name=f"N{n}", personality="Kind.") for n in range(count))


def model(base_url: str, name: str = "scripted", **keys: Any) -> LlmConfig:
    provider = keys.pop("provider", Provider.CHAT_COMPLETIONS)
    return LlmConfig(provider=provider, base_url=base_url, model=name, **keys)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_model_without_an_end_ends_with_its_time(
    kind: str, torrent: str
) -> None:  # before, no limit stopped any of the fast ones
    turn = TurnConfig(model_total=0.5, max_answer=10**9)
    config = Config(llm=model(torrent, kind), npcs=npcs(1), turn=turn)
    async with open_runtime(config) as runtime:
        with trio.fail_after(60):
            heard = await ask(runtime.npc("N0"))
    failed = heard.only(ModelFailed)
    assert failed.kind in (ErrorKind.TURN, ErrorKind.MALFORMED)  # too many arguments


@pytest.mark.parametrize(
    "kind",
    [
        *("flood", "drip"),
        *(
            pytest.param(kind, marks=pytest.mark.long)
            for kind in ("unbroken", "chunks")
        ),
    ],
)
async def test_an_answer_has_a_longest_length(kind: str, torrent: str) -> None:
    turn = TurnConfig(max_answer=300)
    config = Config(llm=model(torrent, kind), npcs=npcs(1), turn=turn)
    async with open_runtime(config) as runtime:
        with trio.fail_after(60):
            heard = await ask(runtime.npc("N0"))
    failed = heard.only(ModelFailed)
    assert failed.kind is ErrorKind.TOO_LONG
    assert "turn.max_answer" in failed.detail
    assert 290 <= len(heard.done.text) <= 300
    assert heard.of(FellBack) == []  # what it said is the answer


async def test_an_answer_may_be_just_as_long() -> None:
    script: list[Reply] = [SayText(pieces=("x" * 30,))]
    async with served(script, turn=TurnConfig(max_answer=30)) as runtime:
        heard = await ask(runtime.npc("N0"))
    assert heard.of(ModelFailed) == []
    assert heard.done.text == "x" * 30


@asynccontextmanager
async def served(
    script: Script,
    *,
    count: int = 1,
    turn: TurnConfig | None = None,
    **keys: Any,
) -> AsyncIterator[Runtime]:
    async with open_model_server(script) as server:
        config = Config(
            llm=model(server.base_url, **keys),
            npcs=npcs(count),
            turn=turn or TurnConfig(),
        )
        async with open_runtime(config) as runtime:
            yield runtime


# Places


async def all_ask(runtime: Runtime, count: int) -> list[Any]:
    heard: list[Any] = []

    async def one(number: int) -> None:
        heard.append(await ask(runtime.npc(f"N{number}")))

    async with trio.open_nursery() as nursery:
        for number in range(count):
            nursery.start_soon(one, number)
    return heard


@pytest.mark.long
async def test_a_hundred_npcs_at_a_slow_server_all_get_their_turn() -> None:
    # Four tenths of a second before the first word, and only five at once: eight
    # seconds for all. The last would long have been taken for silent.
    turn = TurnConfig(first_token=5.0, model_total=60.0)
    script: list[Reply] = [[Pause(0.4), SayText("Here you are.")]]
    async with served(script, count=100, turn=turn, places=5) as runtime:
        heard = await all_ask(runtime, 100)
    assert [each.of(ModelFailed) for each in heard] == [[]] * 100
    assert {each.done.text for each in heard} == {"Here you are."}


async def test_who_gets_no_place_in_its_time_is_told_why() -> None:
    # The first keeps the place for a minute; those who come later have a second.
    asked = trio.Event()

    def script(body: Any) -> Reply:
        asked.set()
        return [Pause(60), SayText("Yes.")]

    long, short = TurnConfig(model_total=60.0), TurnConfig(model_total=1.0)
    heard: list[Any] = []

    async def wait_for(runtime: Runtime, name: str) -> None:
        heard.append(await ask(runtime.npc(name)))

    async with served(script, count=3, turn=long, places=1) as runtime:
        async with trio.open_nursery() as first:
            first.start_soon(ask, runtime.npc("N0"))
            await asked.wait()
            await runtime.reload(attrs.evolve(runtime.config, turn=short), now=True)
            async with trio.open_nursery() as later:
                later.start_soon(wait_for, runtime, "N1")
                later.start_soon(wait_for, runtime, "N2")
            first.cancel_scope.cancel("seen")
    failed = [each.only(ModelFailed) for each in heard]
    for failure in failed:
        assert failure.kind is ErrorKind.TURN
    assert all(
        "its only place is taken (places sets their number)" in x.detail for x in failed
    ), failed


async def test_when_too_many_wait_the_next_is_told_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(line, "MOST_WAITING", 2)
    script: list[Reply] = [[Pause(0.3), SayText("Yes.")]]
    async with served(script, count=6, places=1) as runtime:
        heard = await all_ask(runtime, 6)
    failed = [each.only(ModelFailed) for each in heard if each.of(ModelFailed)]
    assert len(failed) == 3
    for failure in failed:
        assert failure.kind is ErrorKind.OVERLOADED
        assert "2 requests wait for it already" in failure.detail


async def test_places_go_in_order_and_none_is_lost(autojump_clock: MockClock) -> None:
    places = line.RequestSlots(places=2)
    entered: list[int] = []

    async def one(number: int, stay: float) -> None:
        if places.enter_nowait():
            await places.enter()
        entered.append(number)
        try:
            await trio.sleep(stay)
        finally:
            places.leave()

    async with trio.open_nursery() as nursery:
        for number in range(5):
            nursery.start_soon(one, number, 0.05 + 0.04 * number)
            await wait_all_tasks_blocked()
        with trio.move_on_after(0.01):  # whoever leaves the line leaves no gap
            assert places.enter_nowait()
            await places.enter()
    assert entered == [0, 1, 2, 3, 4]
    assert places.enter_nowait() == places.enter_nowait() == ""
    assert places.enter_nowait()


# Servers that are busy for a moment


async def test_a_short_wait_that_a_server_asks_for_is_waited() -> None:
    busy = Fail(429, headers={"retry-after": "0.2"})
    async with served([busy, SayText("Now.")]) as runtime:
        heard = await ask(runtime.npc("N0"))
    assert (heard.of(ModelFailed), heard.done.text) == ([], "Now.")


async def test_a_long_wait_is_not() -> None:
    busy = Fail(429, headers={"retry-after": "30"})
    async with served([busy, SayText("Now.")]) as runtime:
        heard = await ask(runtime.npc("N0"))
    assert heard.only(ModelFailed).kind is ErrorKind.RATE_LIMITED


# Models that do not stream


@pytest.mark.alone
@pytest.mark.parametrize(
    "fallback", [False, pytest.param(True, marks=pytest.mark.long)]
)
async def test_an_answer_in_one_piece_has_the_time_of_a_whole_answer(
    fallback: bool,
) -> None:
    whole = {"choices": [{"message": {"content": "Hi."}, "finish_reason": "stop"}]}
    streams: list[bool] = []

    def answer(asked: ReceivedRequest) -> http_server.Reply:
        streams.append(asked.message["stream"])
        if streams[-1]:
            return StatusReply(200, SSE, b"")
        return LateReply(1.2, StatusReply(200, {}, whole))

    async with (
        open_http_server(answer) as server,
        open_model_server([SayText("I.")]) as up,
    ):
        other = ModelConfig(
            provider=Provider.CHAT_COMPLETIONS, base_url=up.base_url, model="other"
        )
        llm = model(f"{server.origin}/v1", fallbacks=(other,) if fallback else ())
        turn = TurnConfig(first_token=0.8, model_total=40.0)
        npc = NpcConfig(name="N0", tools=("dice",), budget_tier=Tier.DEEP)
        async with open_runtime(Config(llm=llm, npcs=(npc,), turn=turn)) as runtime:
            for _ in range(3):
                heard = await ask(runtime.npc("N0"))
                # With somebody else to ask, it has its share of the time.
                assert heard.done.text == ("I." if fallback else "Hi.")
    if not fallback:
        assert streams == [True, False, True, False, False]


# Cold models


async def loaded(
    script: Callable[[Any], Reply], turn: TurnConfig
) -> tuple[list[Any], int, list[str]]:
    """What three turns heard at once and later, hangups, and warnings."""
    async with open_model_server(script) as server:
        llm = model(server.base_url, provider=Provider.OLLAMA)
        config = Config(llm=llm, npcs=npcs(2), turn=turn)
        async with open_runtime(config) as runtime:
            first = await ask(runtime.npc("N0"))
            with trio.fail_after(60):
                while len(runtime.warnings) < 2:  # noqa: ASYNC110 it has no event
                    await trio.sleep(0.02)
            # Whoever comes later has all the time that a busy machine needs.
            patient = TurnConfig(first_token=30.0, model_total=60.0)
            await runtime.reload(attrs.evolve(config, turn=patient), now=True)
            second = await ask(runtime.npc("N1"))
            told = [warning.text for warning in runtime.warnings]
        return [first, second], server.hangups, told


async def test_a_model_that_is_loading_is_not_hung_up_on() -> None:
    asked: list[Any] = []

    def script(body: Any) -> Reply:
        asked.append(body)
        return [Pause(1.5), SayText("Hi.")] if len(asked) == 1 else SayText("Hi.")

    # The turn's time is over long before the model is there.
    turn = TurnConfig(first_token=0.3, model_total=0.4)
    heard, hangups, told = await loaded(script, turn)
    assert "it is being loaded" in heard[0].only(ModelFailed).detail
    assert heard[0].only(FellBack).reason is Fallback.MODEL_FAILED
    assert (heard[1].of(ModelFailed), heard[1].only(Sentence).text) == ([], "Hi.")
    assert "is being loaded" in told[0]
    assert "is ready, after" in told[1]
    assert len(asked) == 2  # nobody's words were sent while it loaded
    assert hangups <= 1  # of the request that loads it, when its first word was there


async def test_a_server_that_is_loading_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(line, "PAUSE", 0.2)
    loading = {"message": "Loading model", "type": "unavailable_error", "code": 503}
    asked: list[str] = []

    def script(body: Any) -> Reply:  # as llama-server does until it is ready
        asked.append(body["messages"][-1]["content"])
        return Fail(503, {"error": loading}) if len(asked) < 4 else SayText("Hi.")

    heard, _, _ = await loaded(script, TurnConfig(first_token=30.0, model_total=60.0))
    assert [each.of(ModelFailed) for each in heard] == [[], []]
    assert asked[:4] == ["Hello"] * 4  # no turn's request was refused


@pytest.mark.parametrize(
    ("failure", "requests"),
    [(StatusReply(500), 1), (StatusReply(200, SSE), 2)],  # asked again in one piece
    ids=["500", "nothing"],
)
async def test_a_model_that_could_not_be_loaded_is_loaded_anew(
    monkeypatch: pytest.MonkeyPatch, failure: StatusReply, requests: int
) -> None:
    monkeypatch.setattr(line, "PAUSE", 0.01)
    asked: list[str] = []

    def answer(request: ReceivedRequest) -> http_server.Reply:
        asked.append(request.message["messages"][-1]["content"])
        return failure if len(asked) <= 2 * requests else StatusReply(200, SSE, HI)

    async with open_http_server(answer) as server:
        llm = model(f"{server.origin}/v1", provider=Provider.OLLAMA)
        async with open_runtime(Config(llm=llm, npcs=npcs(1))) as runtime:
            for _ in range(2):
                await ask(runtime.npc("N0"))
                await trio.sleep(0.05)
    hello = [True] * requests + [False] * requests + [True, False]
    assert [text == "Hello" for text in asked] == hello


async def test_models_at_one_server_share_its_places_and_are_loaded_once() -> None:
    now, most, hellos = 0, 0, 0

    async def answer(request: ReceivedRequest) -> http_server.Reply:
        nonlocal now, most, hellos
        if request.message["messages"][-1]["content"] == "Hello":
            hellos += 1
            return StatusReply(200, SSE, HI)
        now += 1
        most = max(most, now)
        await trio.sleep(0.05)
        now -= 1
        return StatusReply(200, SSE, HI)

    async with open_http_server(answer) as server:
        llm = model(
            f"{server.origin}/v1", provider=Provider.OLLAMA, name="big", places=1
        )
        names = ("big", "ollama:big", "small", None)
        every = tuple(
            NpcConfig(
                name=f"N{n}",
                model=name,
                engine=Engine.SENTENCE_CASCADE,
                fast_model="small",
                cascade_mode=CascadeMode.ALWAYS,
            )
            for n, name in enumerate(names)
        )
        async with open_runtime(Config(llm=llm, npcs=every)) as runtime:
            heard = await all_ask(runtime, len(names))
    assert [each.of(ModelFailed) for each in heard] == [[]] * len(names)
    assert (most, hellos) == (1, 2)


async def test_a_turn_waits_for_a_model_that_loads() -> None:
    asked: list[Any] = []

    def script(body: Any) -> Reply:
        asked.append(body)
        return [Pause(1.0), SayText("Hi.")] if len(asked) == 1 else SayText("Hi.")

    heard, _, _ = await loaded(script, TurnConfig(first_token=0.5, model_total=60.0))
    assert [each.of(ModelFailed) for each in heard] == [[], []]
