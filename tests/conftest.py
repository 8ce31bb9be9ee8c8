"""Fixtures of all tests: hypothesis profiles, chosen by ``HYPOTHESIS_PROFILE``, and an
empty state folder for each: what one run remembers must not help another."""

from __future__ import annotations

import gc
import itertools
import os
import shutil
import signal
from collections.abc import Callable, Generator
from contextlib import suppress
from ctypes.util import find_library
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

import trio

from glyphoxa_trio.certificates import trusted

pytest_plugins = ("tests.outcomes",)

# What quick and border try is the same in every run, so that one of them fails only
# if something was changed. To look for what nobody has seen is what the long ring does.
settings.register_profile("quick", max_examples=20, deadline=None, derandomize=True)
settings.register_profile(
    "border",
    max_examples=50,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "long",
    max_examples=int(os.environ.get("EXAMPLES", "2000")),
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
# For `make steady`, each of whose passes has a seed of its own.
settings.register_profile(
    "seeded",
    max_examples=20,
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
# For `make mutants`: enough to see that something is wrong, and no more.
settings.register_profile(
    "hunt",
    max_examples=int(os.environ.get("HUNT_EXAMPLES", "200")),
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

# A shell starts what it runs in the background with Ctrl-C ignored, and every program
# that a test starts would inherit that, also those that are to be interrupted.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep what the suite itself is made of out of the way of Python's collector.

    Thirteen thousand tests and all that they import are two million objects. A full
    collection looks at each of them, which takes a second, and many tests ask for one.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        freeze()


def freeze() -> None:
    """Whoever unfreezes, calls this in the end."""
    gc.collect()
    gc.freeze()


class _Failures:
    """Says at once what failed. Else it is only told at the end, half an hour later."""

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self._terminal = terminal

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            # The letters of the tests before it end without a line's end.
            self._terminal.write_line(f"\nfailed ({report.when}): {report.nodeid}")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None:  # a worker has none
        config.pluginmanager.register(_Failures(terminal))


@pytest.fixture(autouse=True, scope="session")
def certificates_are_read() -> None:
    """A virtual clock does not wait for a thread: it would run to the next deadline
    while the first test with a client has the machine's certificates read."""
    trio.run(trusted)


@pytest.fixture(autouse=True)
def state_folder(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Path:
    folder = tmp_path_factory.getbasetemp() / "state" / str(next(_numbers))
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    return folder


_numbers = itertools.count()


@pytest.fixture
def espeak() -> None:
    """For tests with real speech. With ``GLYPHOXA_ESPEAK=required``, as in CI, they
    fail without the program instead of being skipped."""
    if shutil.which("espeak-ng"):
        return
    missing = "espeak-ng is not installed (apt install espeak-ng)"
    if os.environ.get("GLYPHOXA_ESPEAK") == "required":
        pytest.fail(missing)
    pytest.skip(missing)


@pytest.fixture
def portaudio(tmp_path: Path) -> dict[str, str]:
    """An environment in which PortAudio has two devices that nobody hears, ``quiet``
    and the default. With ``GLYPHOXA_PORTAUDIO=required``, as in CI, tests fail without
    the library instead of being skipped."""
    if find_library("portaudio") is None:
        missing = "PortAudio is not installed (apt install libportaudio2)"
        if os.environ.get("GLYPHOXA_PORTAUDIO") == "required":
            pytest.fail(missing)
        pytest.skip(missing)
    devices = tmp_path / "asound.conf"
    devices.write_text(
        "pcm.!default { type null }\n"
        'pcm.quiet { type null hint { show on description "quiet" } }\n'
    )
    return {"ALSA_CONFIG_PATH": str(devices)}


def _children() -> set[int]:
    """The processes that we started, dead or alive, until they are waited for."""
    children: set[int] = set()
    for task in Path(f"/proc/{os.getpid()}/task").iterdir():
        with suppress(OSError):  # a thread that has ended
            children.update(map(int, (task / "children").read_text().split()))
    return children


@pytest.fixture
def no_children() -> Callable[[], bool]:
    """Whether none is left of those that were started since."""
    before = _children()
    return lambda: _children() <= before


@pytest.fixture
def mpv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests with real playback, which nobody hears. With
    ``GLYPHOXA_MPV=required``, as in CI, they fail without the program."""
    if shutil.which("mpv"):
        home = tmp_path / "mpv"
        home.mkdir()
        (home / "mpv.conf").write_text("ao=null\n")
        monkeypatch.setenv("MPV_HOME", str(home))
        return
    missing = "mpv is not installed (apt install mpv)"
    if os.environ.get("GLYPHOXA_MPV") == "required":
        pytest.fail(missing)
    pytest.skip(missing)
