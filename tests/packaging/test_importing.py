"""``from glyphoxa_trio import open_runtime`` is quick, because it imports six files.
The rest is imported when the function is called, in a thread, before the first turn;
benchmarks/import_time.py has the times."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from glyphoxa_trio.lazy import lazy_names

ROOT = Path(__file__).parents[2]
LAZY = ["glyphoxa_trio", "glyphoxa_trio.runtime"]


def run(program: str, *arguments: str) -> list[str]:
    """What a program prints that runs in a process of its own, by lines."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.border
def test_open_runtime_is_imported_with_six_files_and_no_library() -> None:
    loaded = run(
        "import sys, trio; before = set(sys.modules);"
        "from glyphoxa_trio import open_runtime;"
        "print(*sorted(set(sys.modules) - before), sep='\\n')"
    )
    assert loaded == [
        "glyphoxa_trio",
        "glyphoxa_trio.errors",
        "glyphoxa_trio.lazy",
        "glyphoxa_trio.renamed",
        "glyphoxa_trio.runtime",
        "glyphoxa_trio.runtime.opening",
    ]


OPENED = """
import sys, threading
import trio
from glyphoxa_trio import open_runtime

on_the_loop = []

class Watch:
    def find_spec(self, name, path=None, target=None):
        if threading.current_thread() is threading.main_thread():
            on_the_loop.append(name.partition(".")[0])

def config():
    from glyphoxa_trio import Config
    from glyphoxa_trio.config import NpcConfig
    return Config(npcs=(NpcConfig(name="Bo", tools=("roll",)),))

async def main():
    sys.meta_path.insert(0, Watch())
    async with open_runtime(*sys.argv[1:] or [config]) as runtime:
        assert {"jsonschema_rs", "glyphoxa_trio.runtime.wiring"} <= set(sys.modules)
        print("on the loop:", *sorted({"glyphoxa_trio", *on_the_loop}))
        await runtime.wait_ready(within=60)  # on a busy machine servers are late
        before = set(sys.modules)
        async with runtime.npc(runtime.npcs[0].name).say("roll 2d6+3") as turn:
            done = await turn.finish()
        print("in the first turn:", *set(sys.modules) - before)
        print(len(done.outcomes))

trio.run(main)
"""


@pytest.mark.border
@pytest.mark.parametrize(
    "config",
    [
        [],
        pytest.param([str(ROOT / "config" / "tavern.yaml")], marks=pytest.mark.long),
    ],
    ids=["in code", "a file with a server"],
)
def test_the_first_turn_imports_nothing_and_opening_it_nothing_heavy_on_the_loop(
    config: list[str],
) -> None:
    on_the_loop, in_the_turn, outcomes = run(OPENED, *config)
    assert in_the_turn == "in the first turn:"
    assert outcomes == "1"
    # Built-in tools, and what anyio itself puts off until it knows that it is on trio.
    names = set(on_the_loop.removeprefix("on the loop: ").split())
    small = {"glyphoxa_trio", "platformdirs", "anyio"}
    assert names - sys.stdlib_module_names <= small


@pytest.mark.border
def test_a_test_with_a_clock_that_jumps_can_set_a_deadline() -> None:
    """The clock does not know of threads: waiting for one would be for ever."""
    opened = run(
        """
import trio, trio.testing
from glyphoxa_trio import open_runtime

def config():
    from glyphoxa_trio import Config
    from glyphoxa_trio.config import NpcConfig
    return Config(npcs=(NpcConfig(name="Bo"),))

async def main():
    with trio.fail_after(5):
        async with open_runtime(config()) as runtime:
            print(runtime.npcs[0].name)

trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
"""
    )
    assert opened == ["Bo"]


@pytest.mark.parametrize("package", LAZY)
def test_every_public_name_is_imported_when_it_is_used(package: str) -> None:
    module = import_module(package)
    assert set(module.__all__) <= set(dir(module))
    for name in module.__all__:
        assert getattr(module, name) is not None


@pytest.mark.parametrize("package", LAZY)
def test_a_name_that_is_not_there_is_an_attribute_error(package: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{package}' has no .* 'nothing'"):
        _ = import_module(package).nothing
    with pytest.raises(ImportError, match="cannot import name 'nothing'"):
        exec(f"from {package} import nothing")


def test_an_error_in_the_module_is_not_taken_for_a_missing_name() -> None:
    getattr_of, _ = lazy_names("glyphoxa_trio", {"run": "testing.no_such_module"})
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        getattr_of("run")
