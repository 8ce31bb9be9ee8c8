"""The client in C#, compiled and run by mono: what Unity's runtime descends from."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trio_websocket import ConnectionClosed, WebSocketRequest, serve_websocket

import trio

from glyphoxa_trio.config import NpcConfig
from glyphoxa_trio.npc import TurnDone, TurnEnd
from glyphoxa_trio.providers.llm import LLMRequest
from glyphoxa_trio.providers.speech import Began, Final
from glyphoxa_trio.service import ClientRole
from glyphoxa_trio.service.limits import ServiceLimits
from glyphoxa_trio.service.options import service_options

from ..npc.support import HANG
from ..npc.voices import FakeRecognizer, FakeSynthesizer, audio_of
from .support import CONFIG, TOKENS, serving, token_file, until

pytestmark = pytest.mark.border

CLIENT = Path(__file__).parents[2] / "clients" / "csharp"
SPEAK = Path(__file__).with_name("Speak.cs")


@pytest.fixture(scope="module")
def mono() -> None:
    """For tests under mono. With ``GLYPHOXA_MONO=required``, as in CI, they fail
    without it instead of being skipped."""
    if shutil.which("mcs") and shutil.which("mono"):
        return
    missing = "mono is not installed (apt install mono-mcs mono-runtime)"
    if os.environ.get("GLYPHOXA_MONO") == "required":
        pytest.fail(missing)
    pytest.skip(missing)


def compiled(into: Path, *programs: Path, main: str = "") -> list[str]:
    """Compile programs with the client; return the command that runs them."""
    found = [*map(str, (CLIENT / "Runtime").glob("*.cs")), *map(str, programs)]
    command = ["mcs", "-langversion:7", "-warnaserror", f"-out:{into}", *found]
    if main:
        command.append(f"-main:{main}")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return ["mono", "--debug", str(into)]


@pytest.fixture(scope="module")
def speak(mono: None, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return compiled(tmp_path_factory.mktemp("mono") / "speak.exe", SPEAK)


@attrs.frozen
class Program:
    """A program that runs under mono, and what it complained about."""

    process: trio.Process
    complaints: IO[bytes]

    async def said(self, line: str) -> None:
        assert self.process.stdin is not None
        await self.process.stdin.send_all(f"{line}\n".encode())

    async def printed(self, lines: int) -> str:
        """Read so many lines, or all that come before its end."""
        read = b""
        assert self.process.stdout is not None
        with trio.fail_after(40):
            while read.count(b"\n") < lines and (
                some := await self.process.stdout.receive_some()
            ):
                read += some
        return read.decode()

    async def ended(self) -> None:
        """Wait for its end, after its last line.

        At its exit mono 6.8 aborts its own thread of timers, which may fail; and on
        busy cores about one mono in a hundred does not come to the end of it, with all
        threads idle.
        """
        with trio.move_on_after(10):
            await self.process.wait()
        status = self.process.returncode
        if status is None:
            self.process.kill()
        self.complaints.seek(0)
        told = self.complaints.read().decode()
        assert "Glyphoxa" not in told, told
        assert status in {0, None} or "System.Threading.ThreadAbortException" in told, (
            told
        )


@asynccontextmanager
async def started(command: list[str]) -> AsyncGenerator[Program]:
    with TemporaryFile() as complaints:
        run = partial(
            trio.run_process,
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            check=False,
        )
        async with trio.open_nursery() as nursery:
            program = Program(await nursery.start(run), complaints)
            yield program
            await program.ended()


async def ran(command: list[str], lines: int = 1) -> str:
    """Run a program that prints so many lines, and return them."""
    async with started(command) as program:
        return await program.printed(lines)


def answer(request: LLMRequest) -> list[Any]:
    last = request.messages[-1].content
    said = f"You said {last}. "
    return [f"{said}\n", HANG] if last == "hang" else [said, "So it is."]


async def test_a_program_speaks(speak: list[str], tmp_path: Path) -> None:
    options = service_options(http="127.0.0.1:0", token_file=token_file(tmp_path))
    async with serving(answer, options=options) as served:
        token = TOKENS[ClientRole.GAME_MASTER]
        assert await ran([*speak, "talk", served.ws, token]) == "all is well\n"
        heard = [x.content for x in served.llm.requests[-1].messages]
        assert not any("You said x" in text for text in heard)


WORDS = ("The door is locked.", "Go away.")


async def test_a_program_hears_and_is_heard(speak: list[str]) -> None:
    def talk(request: LLMRequest) -> list[Any]:
        return [" ".join(WORDS)]

    ears, mouth = FakeRecognizer(rate=8000), FakeSynthesizer()
    ended: list[TurnDone] = []
    heard: list[str] = []
    async with serving(talk, recognizer=ears, synthesizer=mouth) as served:

        async def run() -> None:
            heard.append(await ran([*speak, "voice", served.ws], 2))

        with served.runtime.events.tap(
            lambda x: ended.append(x) if isinstance(x, TurnDone) else None
        ):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(run)
                await until(lambda: bool(ears.listeners))
                await until(lambda: len(ears.listeners[0].heard) == 400)
                ears.listeners[0].tell(Began(), Final("knock knock"))
        past = [x.content for x in served.llm.requests[1].messages]
        assert WORDS[0] in past  # 1.9 s of what was played
        assert not any(WORDS[1] in text for text in past)
    spoken = sum(len(audio_of(sentence)) for sentence in WORDS)
    assert heard == [f"heard {spoken}\nall is well\n"]
    assert [x.end for x in ended] == [TurnEnd.COMPLETED] * 3


@pytest.mark.alone
async def test_a_program_shows_that_it_lives_until_the_service_stops(
    speak: list[str],
) -> None:
    limits = ServiceLimits(heartbeat=1.5)
    words: list[str] = []
    async with trio.open_nursery() as nursery:
        async with serving(answer, limits=limits) as served:
            here = trio.Event()

            async def stay() -> None:
                async with started([*speak, "stay", served.ws]) as program:
                    words.append(await program.printed(1))
                    here.set()
                    words.append(await program.printed(1))

            nursery.start_soon(stay)
            await here.wait()
    assert words == ["here\n", "all is well\n"]


async def test_a_program_that_leaves_says_goodbye_after_its_last_words(
    speak: list[str],
) -> None:
    heard: list[Any] = []

    async def hear(request: WebSocketRequest) -> None:
        socket = await request.accept()
        assert json.loads(await socket.get_message())["type"] == "hello"
        await socket.send_message('{"type": "welcome", "role": "anybody"}')
        with pytest.raises(ConnectionClosed) as closed:
            while True:
                heard.append(json.loads(await socket.get_message())["text"])
        assert closed.value.reason is not None
        heard.append(closed.value.reason.code)

    async with trio.open_nursery() as nursery:
        serve = partial(serve_websocket, hear, "127.0.0.1", 0, ssl_context=None)
        server = await nursery.start(serve)
        url = f"ws://127.0.0.1:{server.port}/ws"
        assert await ran([*speak, "leave", url]) == "all is well\n"
        await until(lambda: len(heard) == 2)
        nursery.cancel_scope.cancel()
    assert heard == ["The last words.", 1000]


def values() -> st.SearchStrategy[Any]:
    plain = (
        st.none()
        | st.booleans()
        | st.integers(-(2**63), 2**63 - 1)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(st.characters(exclude_categories=["Cs"]))
    )
    return st.recursive(
        plain, lambda x: st.lists(x) | st.dictionaries(st.text("abcdefgé\n"), x)
    )


@pytest.fixture(scope="module")
def echo(speak: list[str]) -> Iterator[Callable[[str], str]]:
    """Have a line of JSON read and written again, by one process for all."""
    with subprocess.Popen(
        [*speak, "json"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:

        def answered(line: str) -> str:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(f"{line}\n")
            process.stdin.flush()
            return process.stdout.readline().removesuffix("\n")

        yield answered
        process.communicate(timeout=20)


def same(one: Any, other: Any) -> bool:
    """Compare values of JSON; mono reads some floats by one bit wrong."""
    match one, other:
        case float(), int() | float():
            return math.isclose(one, other, rel_tol=1e-15, abs_tol=5e-324)
        case int(), float():
            return same(other, one)
        case list(), list():
            return len(one) == len(other) and all(map(same, one, other))
        case dict(), dict():
            return one.keys() == other.keys() and all(
                same(one[key], other[key]) for key in one
            )
    return bool(one == other)


@given(value=values(), escaped=st.booleans())
def test_what_is_read_is_what_is_written(
    echo: Callable[[str], str], value: Any, escaped: bool
) -> None:
    assert same(json.loads(echo(json.dumps(value, ensure_ascii=escaped))), value)


@pytest.mark.parametrize(
    "line",
    [
        *("", "[1,]", "{1:2}", '{"a"}', "[1 2]", '"a', r'"\x"', r'"\u12g4"', "tru"),
        *("1 2", "1.2.3", "-", "{,}", "[" * 200, '"\t"', "nul", "]", "1e400"),
    ],
)
def test_what_is_no_json_is_refused(echo: Callable[[str], str], line: str) -> None:
    assert echo(line) == "wrong"


# `UnityEngine`, as far as the README needs it, and a main thread that starts a script.
STAND_IN = """
namespace UnityEngine
{
    public class MonoBehaviour { }
    public static class Debug
    {
        public static void Log(object told) { System.Console.WriteLine(told); }
    }
}
internal static class Scene
{
    private static void Call(object script, string method)
    {
        const System.Reflection.BindingFlags any = (System.Reflection.BindingFlags)52;
        script.GetType().GetMethod(method, any).Invoke(script, null);
    }

    private static void Main()
    {
        var script = new Innkeeper();
        Call(script, "Start");
        System.Console.ReadLine();
        Call(script, "OnDestroy");
    }
}
"""

# The other program, with a last line.
ENDING = """
internal static class Ending
{
    private static void Main()
    {
        const System.Reflection.BindingFlags any = (System.Reflection.BindingFlags)56;
        typeof(Program).GetMethod("Main", any).Invoke(null, null);
        System.Console.WriteLine("the end");
    }
}
"""


def programs_of_the_readme(url: str, into: Path) -> list[Path]:
    page = (CLIENT / "README.md").read_text()
    written = []
    for at, code in enumerate(re.findall(r"```csharp\n(.*?)```", page, re.DOTALL)):
        assert "ws://127.0.0.1:8080/ws" in code
        file = into / f"{at}.cs"
        file.write_text(code.replace("ws://127.0.0.1:8080/ws", url))
        written.append(file)
    return written


async def test_the_programs_of_the_readme_speak(mono: None, tmp_path: Path) -> None:
    tavern = attrs.evolve(CONFIG, npcs=(NpcConfig(name="Bartok"),))
    (tmp_path / "ending.cs").write_text(ENDING)
    (tmp_path / "unity.cs").write_text(STAND_IN)
    async with serving(answer, config=tavern) as served:
        console, unity = programs_of_the_readme(served.ws, tmp_path)
        heard = "You said An ale!.\nSo it is.\n"
        exe = tmp_path / "console.exe"
        command = compiled(exe, console, tmp_path / "ending.cs", main="Ending")
        assert await ran(command, 3) == f"{heard}the end\n"
        command = compiled(tmp_path / "unity.exe", unity, tmp_path / "unity.cs")
        async with started(command) as program:
            assert await program.printed(2) == heard
            await program.said("")


async def test_a_scene_may_end_in_the_middle_of_an_answer(
    mono: None, tmp_path: Path
) -> None:
    def talk(request: LLMRequest) -> list[Any]:
        return ["Wait. ", "I ", HANG]

    tavern = attrs.evolve(CONFIG, npcs=(NpcConfig(name="Bartok"),))
    (tmp_path / "unity.cs").write_text(STAND_IN)
    async with serving(talk, config=tavern) as served:
        _, unity = programs_of_the_readme(served.ws, tmp_path)
        command = compiled(tmp_path / "unity.exe", unity, tmp_path / "unity.cs")
        async with started(command) as program:
            assert await program.printed(1) == "Wait.\n"
            await program.said("")
            told = "the connection is closed: it was closed here\n"
            assert await program.printed(1) == told


def test_unity_takes_the_package() -> None:
    """In a package from git, Unity ignores a file without its ``.meta``."""
    json.loads((CLIENT / "Runtime" / "Glyphoxa.asmdef").read_text())
    package = json.loads((CLIENT / "package.json").read_text())
    assert package["name"] == package["name"].lower()
    paths = {x for x in CLIENT.rglob("*") if x.suffix != ".meta"}
    metas = {Path(f"{path}.meta") for path in paths}
    assert metas == {*CLIENT.rglob("*.meta")}
    found = [
        re.findall(r"^guid: ([0-9a-f]{32})$", x.read_text(), re.MULTILINE)
        for x in metas
    ]
    assert len({guid for guids in found for guid in guids}) == len(metas)
