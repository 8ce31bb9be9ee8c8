"""A model that is loaded when it is asked, on a clock of its own."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import httpx2
import pytest

import trio
from trio.testing import MockClock

from glyphoxa_trio.config import ModelConfig, Provider
from glyphoxa_trio.providers.chat_completions import ChatCompletions
from glyphoxa_trio.providers.line import IDLE, PAUSE, SILENT, Loading
from glyphoxa_trio.providers.llm import (
    ErrorKind,
    LLMError,
    LLMRequest,
    Message,
    TextChunk,
    Waiting,
)
from glyphoxa_trio.runtime.models import link_of

COLD = LLMError(ErrorKind.OVERLOADED, "Loading model", status=503)
BROKEN = LLMError(ErrorKind.OVERLOADED, "no memory", status=500)
GONE = LLMError(ErrorKind.UNREACHABLE, "nobody")


class Server:
    """Answers each request as is its turn, after a second."""

    def __init__(self, nursery: trio.Nursery, *answers: Exception | None) -> None:
        self.answers = list(answers)
        self.asked: list[float] = []
        self.told: list[str] = []
        self.loading = Loading(
            nursery=nursery, ask=self.ask, label="m", tell=self.tell, within=60
        )

    async def ask(self) -> None:
        self.asked.append(trio.current_time())
        await trio.sleep(1)
        answer = self.answers.pop(0) if self.answers else None
        if answer is not None:
            raise answer

    def tell(self, text: str) -> None:
        self.told.append(text)
        raise RuntimeError("whoever listens is broken")


async def until_loaded(loading: Loading) -> float:
    begun = trio.current_time()
    await loading.wait()
    return trio.current_time() - begun


async def test_a_failed_attempt_is_made_again_when_somebody_asks(
    autojump_clock: MockClock,
) -> None:
    async with trio.open_nursery() as nursery:
        server = Server(nursery, BROKEN, ValueError("ours"))
        assert await until_loaded(server.loading) == 1
        assert not server.loading.begin()  # a pause, in which the turns say what it is
        await trio.sleep(PAUSE)
        assert await until_loaded(server.loading) == 1
        await trio.sleep(PAUSE)
        assert await until_loaded(server.loading) == 1
        await trio.sleep(IDLE - 1)
        assert not server.loading.begin()  # now it is loaded
        await trio.sleep(1)
        assert server.loading.begin()


async def test_a_server_that_says_it_is_loading_is_waited_for(
    autojump_clock: MockClock,
) -> None:
    async with trio.open_nursery() as nursery:
        server = Server(nursery, COLD, COLD)
        assert await until_loaded(server.loading) == 3 + 2 * PAUSE
    assert server.told == [
        "m is being loaded …",
        f"m is ready, after {3 + 2 * PAUSE} s",
    ]


async def test_nobody_waits_for_a_server_that_is_not_there(
    autojump_clock: MockClock,
) -> None:
    async with trio.open_nursery() as nursery:
        server = Server(nursery, GONE, GONE)
        assert await until_loaded(server.loading) == 1
        await trio.sleep(2 * PAUSE + 1.5)  # it has been started, and loads
        assert server.loading.begin()
        assert await until_loaded(server.loading) == 0.5
    assert len(server.asked) == 3


async def test_what_takes_too_long_is_not_taken_for_loaded(
    autojump_clock: MockClock,
) -> None:
    async with trio.open_nursery() as nursery:
        server = Server(nursery, *[COLD] * 30)
        assert await until_loaded(server.loading) == 60
        await trio.sleep(PAUSE)
        assert server.loading.begin()
        nursery.cancel_scope.cancel()


# A server nearby that may be of the kind that loads


class Nearby:
    """Loads its model while a request is open, and begins anew if that is closed."""

    def __init__(self, cold: float, *, refuses: bool = False) -> None:
        self.cold = cold
        self.refuses = refuses  # with 503, while it loads all the same
        self.since: float | None = None
        self.asked: list[str] = []

    async def answer(self, request: httpx2.Request) -> httpx2.Response:
        body = json.loads(request.content)
        self.asked.append(body["messages"][-1]["content"])
        if self.refuses:
            self.since = self.since or trio.current_time()
            if trio.current_time() < self.since + self.cold:
                return httpx2.Response(503, json={"error": {"message": "Loading"}})
        elif self.cold:
            await trio.sleep(self.cold)
            self.cold = 0.0
        chunk = {"choices": [{"delta": {"content": "Hi."}, "finish_reason": "stop"}]}
        text = f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n"
        return httpx2.Response(
            200, text=text, headers={"content-type": "text/event-stream"}
        )


@asynccontextmanager
async def near(
    server: Nearby, *, ahead: bool = False
) -> AsyncIterator[tuple[ChatCompletions, list[str]]]:
    transport = httpx2.MockTransport(server.answer)
    told: list[str] = []
    async with (
        httpx2.AsyncClient(transport=transport) as client,
        trio.open_nursery() as nursery,
    ):
        link = ChatCompletions(
            model="m",
            base_url="http://127.0.0.1:9/v1",
            client=client,
            loads_within=60,
            loads_ahead=ahead,
        )
        link.keep_loaded(nursery, told.append)
        yield link, told
        nursery.cancel_scope.cancel("the test is over")


async def turn(link: ChatCompletions, patience: float) -> tuple[list[object], float]:
    """The events of a turn with this patience, and how long it took."""
    request = LLMRequest(messages=(Message(role="user", content="Well met."),))
    begun = trio.current_time()
    heard: list[object] = []
    with trio.move_on_after(patience):
        async with link.stream(request) as events:
            async for event in events:
                heard.append(event)  # noqa: PERF401 those before the end count
    return heard, trio.current_time() - begun


async def test_the_first_turn_at_a_server_nearby_may_load_its_model(
    autojump_clock: MockClock,
) -> None:
    server = Nearby(8)
    async with near(server) as (link, told):
        assert server.asked == []  # nothing is asked ahead
        heard, took = await turn(link, 30)
        assert heard[0] == Waiting(whole=True)  # so only the turn's time limits it
        assert (heard[1], took) == (TextChunk("Hi."), 8)
        (text,) = told
        assert text.endswith("has sent nothing for 2 s: perhaps it is being loaded …")
        heard, _ = await turn(link, 30)
        assert heard[0] == TextChunk("Hi.")  # a model that has answered is loaded
    assert server.asked == ["Well met."] * 2


async def test_a_load_that_a_turn_gives_up_goes_on(autojump_clock: MockClock) -> None:
    server = Nearby(8)
    async with near(server) as (link, told):
        assert (await turn(link, 5))[0] == [Waiting(whole=True)]
        heard, took = await turn(link, 30)
        assert heard[0] == Waiting("it is being loaded")
        assert (heard[2], took) == (TextChunk("Hi."), 8)
        assert told[1] == "m at http://127.0.0.1:9/v1 is ready, after 8.0 s"
    assert server.asked == ["Well met.", "Hello", "Well met."]


async def test_a_player_who_interrupts_at_once_loads_nothing(
    autojump_clock: MockClock,
) -> None:
    server = Nearby(8)
    async with near(server) as (link, told):
        await turn(link, SILENT / 2)
        await trio.sleep(60)
    assert (server.asked, told) == (["Well met."], [])


async def test_a_turn_waits_for_a_server_that_says_it_is_loading(
    autojump_clock: MockClock,
) -> None:
    server = Nearby(8, refuses=True)
    async with near(server) as (link, _):
        heard, took = await turn(link, 30)
        assert Waiting("it is being loaded") in heard
        assert TextChunk("Hi.") in heard
        assert took < 8 + 2 * PAUSE
    assert set(server.asked) == {"Hello", "Well met."}


@pytest.mark.parametrize(
    ("address", "near"),
    [
        ("http://127.0.0.1:11434/v1", True),
        ("http://[::1]:8080/v1", True),
        ("http://192.168.7.9:1234/v1", True),
        ("http://ollama:11434/v1", True),
        ("http://host.docker.internal:11434/v1", True),
        ("https://api.example.com/v1", False),
        ("http://8.8.8.8/v1", False),
    ],
)
def test_only_a_server_of_ones_own_may_load(address: str, near: bool) -> None:
    config = ModelConfig(
        provider=Provider.CHAT_COMPLETIONS, model="m", base_url=address
    )
    link = link_of(config)
    assert isinstance(link, ChatCompletions)
    assert (link.loads_within is not None, link.loads_ahead) == (near, False)
    never = link_of(attrs.evolve(config, warm=False))
    assert isinstance(never, ChatCompletions)
    assert never.loads_within is None
