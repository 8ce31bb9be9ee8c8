"""A model that is loaded when it is asked, on a clock of its own."""

from __future__ import annotations

import trio
from trio.testing import MockClock

from glyphoxa_trio.providers.line import IDLE, PAUSE, Loading
from glyphoxa_trio.providers.llm import ErrorKind, LLMError

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
