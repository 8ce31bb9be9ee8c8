"""Plugin of pytest: the order of tests, what each came to, what quick ones may do.

``--outcomes FILE`` writes a line of JSON for each test that ended: its id, ``passed``,
``failed`` or ``skipped``, and the text of a failure. `tests.rings` reads them.
``--shuffle SEED`` runs the files, and the tests of each file, in another order.

A test that uses the fixture of another program is marked as `border`. One of the quick
ring that starts a process fails: it is either marked as one of the few that may
(`process`), or belongs to another ring.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Generator
from itertools import groupby
from pathlib import Path

import pytest

# What is tested with one of these programs belongs to the border ring.
_PROGRAMS = frozenset(
    {
        *("bus", "chromium", "database", "espeak", "mono", "mpv", "node", "own_server"),
        *("portaudio", "postgres", "postgres_server", "primary"),
    }
)
_STARTS = frozenset({"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn"})
_WHERE_PROCESSES_MAY_START = ("border", "long", "process")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("rings")
    group.addoption("--outcomes", metavar="FILE", help="write what each test came to")
    group.addoption("--shuffle", metavar="SEED", help="run in another order")


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):  # its controller hears of all tests
        return
    if file := config.getoption("outcomes"):
        config.pluginmanager.register(_Outcomes(Path(file)))


class _Outcomes:
    """Writes at once, so that what was known is not lost with the process."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        # A set-up or an end is told only if something is wrong with it.
        if report.when != "call" and report.passed:
            return
        line = {
            "test": report.nodeid,
            "outcome": report.outcome,
            "text": report.longreprtext if report.failed else "",
        }
        with self._file.open("a") as file:
            file.write(json.dumps(line) + "\n")


@pytest.hookimpl(tryfirst=True)  # before pytest selects by marks
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    for item in items:
        if not _PROGRAMS.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker("border")
    seed = config.getoption("shuffle")
    if seed is None:
        return
    files = [list(tests) for _, tests in groupby(items, key=lambda item: item.path)]
    chance = random.Random(seed)  # every worker makes the same order
    chance.shuffle(files)
    for tests in files:
        chance.shuffle(tests)
    items[:] = [item for tests in files for item in tests]


_running: list[pytest.Item] = []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    if any(item.get_closest_marker(mark) for mark in _WHERE_PROCESSES_MAY_START):
        return (yield)
    _running[:] = [item]
    try:
        return (yield)
    finally:
        _running.clear()


def _refuse_processes(event: str, _: tuple[object, ...]) -> None:
    if event in _STARTS and _running and os.getpid() == _PROCESS:
        pytest.fail(
            f"{_running[0].nodeid} is quick and starts a process: "
            "mark it as border or long, or do without"
        )


_PROCESS = os.getpid()
sys.addaudithook(_refuse_processes)
