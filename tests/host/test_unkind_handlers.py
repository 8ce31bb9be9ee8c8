"""Whatever a handler raises or returns costs its own call: the host, and a tool beside
it, go on. Real handlers of the real host; nothing here depends on time."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import trio

from glyphoxa_trio import tool
from glyphoxa_trio.host import open_host
from glyphoxa_trio.tools.definition import CallContext, Tool, ToolDefinition, ToolError
from glyphoxa_trio.tools.outcome import Media, Status, ToolResult


class Mute(Exception):
    """An error that cannot be printed."""

    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


class MuteNo(ToolError):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Rude(BaseException):
    """Of nobody's business, and no `Exception`."""

    def __str__(self) -> str:
        raise SystemExit(7)

    __repr__ = __str__


class TwoFaced(Exception):
    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise RuntimeError("no class")


def group() -> BaseException:
    return BaseExceptionGroup("both", [Mute(), SystemExit(1), GeneratorExit(), Rude()])


@tool(read_only=True)
async def well() -> str:
    """Answer."""
    return "well"


ERRORS = [
    Mute,
    MuteNo,
    Rude,
    TwoFaced,
    group,
    SystemExit,
    GeneratorExit,
    asyncio.CancelledError,
    StopIteration,
    StopAsyncIteration,
    RecursionError,
    MemoryError,
]


@pytest.mark.parametrize("make", ERRORS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("how", ["async", "thread", "bare"])
async def test_whatever_a_handler_raises_costs_its_own_call(
    make: Any, how: str
) -> None:
    """Found: an error whose `__str__` fails, or no `Exception`, ended the host."""

    async def later() -> str:
        await trio.lowlevel.checkpoint()
        raise make()

    def at_once(*_: Any) -> Any:
        raise make()

    made = {
        "async": tool(read_only=True, name="unkind")(later),
        "thread": tool(read_only=True, name="unkind", parameters={"type": "object"})(
            at_once
        ),
        "bare": Tool(
            definition=ToolDefinition(name="unkind", read_only=True), handler=at_once
        ),
    }[how]
    async with open_host() as host:
        host.register(made, well)
        with trio.fail_after(20):
            end = await host.execute("custom.unkind")
            assert end.status in (Status.CRASHED, Status.TOOL_ERROR)
            assert end.message
            assert (await host.execute("custom.well")).ok


async def test_a_cancellation_that_nobody_asked_for_is_an_error() -> None:
    kept: list[BaseException] = []

    @tool(read_only=True)
    async def keeper() -> str:
        """Keep a cancellation, and raise it again outside of its scope."""
        with trio.CancelScope() as scope:
            scope.cancel("to see one")
            try:
                await trio.lowlevel.checkpoint()
            except trio.Cancelled as error:
                kept.append(error)
        raise kept[0]

    async with open_host() as host:
        host.register(keeper, well)
        assert (await host.execute("custom.keeper")).status is Status.CRASHED
        assert (await host.execute("custom.well")).ok


class Hostile(dict[str, Any]):
    """Looks like an object, and fails whoever looks."""

    def _fail(self, *_: Any) -> Any:
        raise SystemExit("looked at")

    __eq__ = __hash__ = __bool__ = __len__ = __iter__ = __repr__ = _fail  # type: ignore
    items = keys = values = _fail


class Endless(dict[str, Any]):
    def items(self) -> Any:
        def forever() -> Iterator[tuple[str, int]]:
            number = 0
            while True:
                number += 1
                yield str(number), number

        return forever()


def cyclic() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


def deep() -> Any:
    value: Any = 1
    for _ in range(100_000):
        value = [value]
    return value


RESULTS: dict[str, Callable[[], Any]] = {
    "object": object,
    "hostile": lambda: {"a": Hostile(b=1)},
    "endless": lambda: Endless(a=1),
    "cyclic": cyclic,
    "deep": deep,
    "digits": lambda: 1 << 10**8,
    "string": lambda: "x" * (17 << 20),
    "wide": lambda: [0] * 300_000,
    "in_a_result": lambda: ToolResult(structured={"a": object()}),
    "no_text": lambda: ToolResult(text=(Hostile(),)),  # type: ignore[arg-type]
    "no_media": lambda: ToolResult(media=(object(),)),  # type: ignore[arg-type]
    "cyclic_result": lambda: ToolResult(structured=cyclic()),
    "nan": lambda: {"a": float("nan")},
}


@pytest.mark.parametrize("name", RESULTS)
async def test_whatever_a_handler_returns_costs_its_own_call(name: str) -> None:
    """Found: results that fail or never end while they are looked at."""
    definition = ToolDefinition(name="unkind", read_only=True, cacheable=60)

    async def handler(arguments: Any, context: CallContext) -> Any:
        return RESULTS[name]()

    async with open_host() as host:
        host.register(Tool(definition=definition, handler=handler), well)
        with trio.fail_after(30):
            end = await host.execute("custom.unkind")
            if end.ok:  # it was told what is in it, by its own type
                assert end.data in ({"a": {"b": 1}}, {"a": 1})
            else:
                assert end.status is Status.CRASHED
            assert (await host.execute("custom.well")).ok


async def test_what_is_returned_is_copied_so_it_cannot_change_later() -> None:
    shared: dict[Any, Any] = {"list": [1, 2], 3: (True, None)}

    @tool(read_only=True, cacheable_seconds=60)
    async def lend() -> dict[str, Any]:
        """Give away what it goes on to change."""
        return shared

    async with open_host() as host:
        host.register(lend)
        first = await host.execute("custom.lend")
        shared["list"].append(object())
        again = await host.execute("custom.lend")
    assert first.data == again.data == {"list": [1, 2], "3": [True, None]}


async def test_pictures_pass_as_they_are() -> None:
    picture = Media("image/png", b"png")

    @tool(read_only=True)
    async def paint() -> ToolResult:
        """Paint."""
        return ToolResult(text=("Here.",), media=(picture,), structured={"a": 1})

    async with open_host() as host:
        host.register(paint)
        end = await host.execute("custom.paint")
    assert end.media == (picture,)
    assert end.data["structured"] == {"a": 1}


@pytest.mark.parametrize("error", [Mute, MuteNo, Rude])
async def test_a_probe_of_it_costs_the_calibrator_nothing(error: Any) -> None:
    @tool(read_only=True)
    async def unkind() -> str:
        """Fail."""
        raise error()

    async with open_host() as host:
        host.register(unkind, well)
        with trio.fail_after(20):
            found = await host.calibrate(within=10)
        by_key = {probed.key: probed for probed in found}
        assert by_key["custom.unkind"].note
        assert by_key["custom.well"].samples == 5
        assert not by_key["custom.well"].note


async def test_a_no_may_be_as_long_as_a_model_can_read() -> None:
    @tool(read_only=True)
    async def verbose() -> str:
        """Say no at length."""
        raise ToolError("no " * 1000)

    async with open_host() as host:
        host.register(verbose)
        end = await host.execute("custom.verbose")
    assert (end.status, len(end.message)) == (Status.TOOL_ERROR, 3000)


PROGRAM = """
import time
import trio
from glyphoxa_trio import tool
from glyphoxa_trio.host import open_host

@tool(read_only=True)
async def busy() -> str:
    "Have no end."
    print("begun", flush=True)
    {work}

async def main():
    async with open_host() as host:
        host.register(busy)
        await host.execute("custom.busy")

try:
    trio.run(main)
except BaseException as error:
    while isinstance(error, BaseExceptionGroup):
        (error,) = error.exceptions
    print(type(error).__name__, flush=True)
"""


@pytest.mark.border
@pytest.mark.parametrize("work", ["await trio.sleep_forever()", "while True: pass"])
def test_a_ctrl_c_ends_the_program_also_in_a_handler(work: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM.replace("{work}", work)],
        stdout=subprocess.PIPE,
        text=True,
    ) as program:
        assert program.stdout is not None
        try:
            assert program.stdout.readline() == "begun\n"
            program.send_signal(signal.SIGINT)
            ended = program.communicate(timeout=30)[0].splitlines()
            assert ended[-1] == "KeyboardInterrupt"
        finally:
            program.kill()
