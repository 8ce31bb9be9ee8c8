"""``glyphoxa cluster``: workers as they are started, with a file for a memory."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from glyphoxa_client import GlyphoxaClosed, connect
from psycopg.conninfo import conninfo_to_dict

import trio

from glyphoxa_trio.cli.app import run_app as main

from ..cli.support import COMMAND, LIMIT, environment, run
from ..memory.postgres.server import the_server
from ..nats.server import PROGRAM, RealServer, a_server, free_port

pytestmark = pytest.mark.border

CONFIG = """
llm: {provider: offline}
memory: {store: ./inn.db}
npcs:
  - {name: Bo, personality: A host.}
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "inn.yaml"
    path.write_text(CONFIG)
    return path


@contextmanager
def a_worker(
    config: Path, bus: RealServer, *more: str, npcs: int = 1
) -> Generator[subprocess.Popen[str]]:
    words = [str(COMMAND), "cluster", "worker", str(config), "--nats", bus.url, *more]
    with subprocess.Popen(
        words,
        env=environment(),
        cwd=config.parent,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stderr is not None
            for line in process.stderr:
                if f"serves {npcs} NPC" in line:
                    break
            yield process
        finally:
            process.kill()


@pytest.mark.long
def test_a_conversation_goes_on_when_its_worker_is_killed(config: Path) -> None:
    with a_server() as bus, ExitStack() as stack:

        def said(text: str) -> tuple[list[dict[str, Any]], int]:
            """Say it until it is not lost; return the events, and how often it was.

            A worker that stands still for 0.4 s, on a busy machine, loses a turn.
            """
            for lost in range(3):
                done = run(*say, text, "--nats", bus.url, "--json")
                events = [json.loads(line) for line in done.stdout.splitlines()]
                if done.returncode == 0:
                    return events, lost
                assert events[-1]["end"] == "lost", done.stderr
            raise AssertionError(done.stderr)

        say = ("cluster", "say", "t", "Bo")
        workers = [stack.enter_context(a_worker(config, bus)) for _ in range(2)]
        before, lost = said("Good evening!")
        assert 1 <= before[-1]["turn"] <= 1 + lost
        shown = run("cluster", "status", "--nats", bus.url, "--json")
        rows = json.loads(shown.stdout)["workers"]
        assert sorted(row.get("sessions", 0) for row in rows) == [0, 1]
        (owner,) = [row["where"] for row in rows if row.get("sessions")]
        (killed,) = [x for x in workers if f"process {x.pid} " in owner]
        killed.kill()
        killed.wait()
        events, lost = said("And now?")
        assert events[-1]["event"] == "TurnDone"
        next_ = before[-1]["turn"] + 1  # of the same conversation
        assert next_ <= events[-1]["turn"] <= next_ + lost
        assert "serves" in run("cluster", "status", "--nats", bus.url).stdout
        (other,) = [x for x in workers if x is not killed]
        other.send_signal(signal.SIGTERM)
        assert other.wait(30) == 0
        assert run("cluster", "status", "--nats", bus.url).returncode == 1


def test_an_address_that_is_none_is_named() -> None:
    done = run("cluster", "status", "--nats", "http://example.org")
    assert done.returncode == 2
    assert done.stderr.startswith("glyphoxa: --nats: ")


@pytest.mark.long
def test_an_operator_finds_sessions_and_drains_their_worker(config: Path) -> None:
    with a_server() as bus, a_worker(config, bus) as process:

        def ask(*words: str, status: int = 0) -> subprocess.CompletedProcess[str]:
            done = run("cluster", *words, "--nats", bus.url)
            assert done.returncode == status, done.stderr
            return done

        ask("say", "t", "Bo", "hail")
        ask("say", "t", "Bo", "hail", "--tenant", "studio")
        found = json.loads(ask("sessions", "--json").stdout)
        assert (found["more"], found["silent"]) == (0, [])
        rows = [(x["session"], x["tenant"], x["epoch"]) for x in found["sessions"]]
        assert rows == [("t", "", 1), ("t", "studio", 1)]
        only = json.loads(ask("sessions", "--json", "--tenant", "studio").stdout)
        assert [x["tenant"] for x in only["sessions"]] == ["studio"]
        place = json.loads(ask("where", "t", "--json").stdout)
        assert f"process {process.pid} " in place["where"]
        name = place["worker"]
        assert name in ask("where", "t", "--tenant", "studio").stdout
        assert "kept in the store" in ask("where", "u", status=1).stderr

        assert f"there is {name}" in ask("drain", "nobody", status=2).stderr
        drained = ask("drain", name[:4], "--within", "5")
        assert f"{name} has no sessions" in drained.stdout
        assert process.wait(LIMIT) == 0  # it leaves by itself
        assert "no worker has a session" in ask("sessions").stderr


@pytest.mark.long
def test_play_talks_to_the_npcs_of_workers(config: Path) -> None:
    config.write_text(f"{CONFIG}  - {{name: Old Ida, personality: A cook.}}\n")
    lines = "Hail!\n/as ida Come in.\n/mute Bo\n/who\n/where\n/tools\n@Ida Hail!\n"
    with a_server() as bus, a_worker(config, bus, npcs=2) as process:
        words = ("play", "--cluster", bus.url, "--session", "inn")
        done = run(*words, lines=lines)
        assert done.returncode == 0, done.stderr
        shown = done.stdout.splitlines()
        assert any(
            x.startswith("Bo: I am the offline stand-in for Bo, ") for x in shown
        )
        assert "Old Ida: Come in." in shown
        assert "Bo says nothing now" in shown
        assert "→ Bo (fast, muted)" in shown
        assert f"process {process.pid} " in done.stdout
        assert "/tools needs the process that has the NPCs" in shown
        assert any(
            x.startswith("Old Ida: I am the offline stand-in for Old Ida, ")
            for x in shown
        )
        done = run(*words, "Bart", lines=lines)
        assert (done.returncode, done.stdout) == (2, "")
        assert "no NPC 'Bart', there is Bo, Old Ida" in done.stderr


def test_play_says_what_it_cannot_do_from_afar() -> None:
    done = run("play", "--cluster", "nats://127.0.0.1", "--watch")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--watch: is for the process that has the NPCs" in done.stderr
    done = run("play", "one.yaml", "two.yaml")
    assert done.returncode == 2
    assert "give one configuration" in done.stderr


def test_init_makes_the_tables_once() -> None:
    with the_server() as server, server.database() as parameters:
        address = f"postgresql:///?{urlencode(conninfo_to_dict(parameters))}"
        done = run("cluster", "init", "--store", address)
        assert done.returncode == 0, done.stderr
        assert "has the tables now" in done.stdout
        done = run("cluster", "init", env={"GLYPHOXA_STORE": address})
        assert "nothing was changed" in done.stdout


def test_a_database_that_cannot_be_reached_is_a_line() -> None:
    store = f"postgresql://me:secret@127.0.0.1:{free_port()}/game"
    done = run("cluster", "init", "--store", store)
    assert (done.returncode, done.stdout) == (2, "")
    assert "the database game at 127.0.0.1" in done.stderr
    assert "secret" not in done.stderr
    done = run("cluster", "init", "--store", "./inn.db")
    assert done.returncode == 2
    assert "postgresql://" in done.stderr


class Developed:
    """``glyphoxa cluster dev``, to which lines are said, and what it shows."""

    def __init__(self, config: Path) -> None:
        self.process = subprocess.Popen(
            [str(COMMAND), "cluster", "dev", str(config)],
            env=environment(),
            cwd=config.parent,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.shown: list[str] = []
        self.limit = threading.Timer(LIMIT, self.process.kill)
        self.limit.start()

    def say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def expect(self, pattern: str) -> str:
        """Return the first group in the next line that matches."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.shown.append(line)
            if found := re.search(pattern, line):
                return found[1]
        raise AssertionError(f"no {pattern!r} in {self.shown}")

    def begins(self) -> None:
        """Return once all of it serves."""
        self.address = self.expect(r"--nats (\S+)")

    def processes(self) -> set[int]:
        """Return the processes that it has shown."""
        return {int(x) for x in re.findall(r"process (\d+):", "".join(self.shown))}

    def end(self) -> None:
        self.limit.cancel()
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def developed(config: Path) -> Generator[Developed]:
    if PROGRAM is None:
        pytest.skip("nats-server is not installed")
    one = Developed(config)
    yield one
    one.end()


def alive(pids: set[int]) -> set[int]:
    found = set()
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, 0)
            found.add(pid)
    return found


@pytest.mark.long
def test_dev_goes_on_when_its_worker_is_killed(developed: Developed) -> None:
    developed.begins()
    developed.say("Good evening!")
    developed.expect("(stand-in for Bo)")
    developed.say("/where")
    owner = int(developed.expect(r"process (\d+) on .* epoch 1"))
    assert owner in developed.processes()
    os.kill(owner, signal.SIGKILL)
    developed.expect(rf"process {owner} (was ended by SIGKILL; another one begins)")
    developed.say("And now?")
    developed.expect("(Bo: )")
    developed.say("/where")
    assert int(developed.expect(r"process (\d+) on .* epoch 2")) != owner
    bus = ("--nats", developed.address)
    said = run("cluster", "say", "dev", "Bo", "Hm.", "--json", *bus)
    assert json.loads(said.stdout.splitlines()[-1])["turn"] == 3
    rest, _ = developed.process.communicate()  # the end of the input
    assert developed.process.returncode == 0, rest
    developed.shown.append(rest)
    assert len(developed.processes()) >= 3
    assert alive(developed.processes()) == set()


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tethers processes")
def test_dev_leaves_no_orphans_when_it_is_killed(developed: Developed) -> None:
    developed.begins()
    assert len(developed.processes()) == 3
    assert alive(developed.processes()) == developed.processes()
    developed.process.kill()
    until = time.monotonic() + 5.0
    while (left := alive(developed.processes())) and time.monotonic() < until:
        time.sleep(0.02)
    assert left == set()


def test_dev_says_what_it_lacks(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text(CONFIG.replace("./inn.db", '"off"'))
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    assert main(["cluster", "dev", str(config)]) == 2
    assert "apt install nats-server" in capsys.readouterr().err
    monkeypatch.setattr("shutil.which", lambda *_, **__: "/bin/false")
    assert main(["cluster", "dev", str(config)]) == 2
    assert "memory.store is off" in capsys.readouterr().err
    config.write_text(CONFIG)
    assert main(["cluster", "dev", str(config)]) == 2
    assert "nats-server does not start" in capsys.readouterr().err


@pytest.mark.long
def test_what_cannot_be_is_said_in_a_line(config: Path) -> None:
    nowhere = f"nats://127.0.0.1:{free_port()}"
    done = run("cluster", "say", "t", "Bo", "hail", "--nats", nowhere)
    assert done.returncode == 2
    assert "127.0.0.1" in done.stderr
    with a_server() as bus:
        done = run("cluster", "say", "t", "Bo", "hail", "--nats", bus.url, "--within=1")
        assert (done.returncode, done.stdout) == (2, "")
        assert "there is no worker yet" in done.stderr
        assert "no worker has taken it in time" in done.stderr
        config.write_text(CONFIG.replace("./inn.db", '"off"'))
        done = run("cluster", "worker", config, "--nats", bus.url)
        assert done.returncode == 2
        assert "memory.store" in done.stderr


def test_what_is_to_be_installed_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "msgspec", None)  # as if it were not installed
    assert main(["cluster", "status"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("glyphoxa: glyphoxa cluster needs the extra `cluster`: pip")


@pytest.mark.long
def test_a_worker_says_where_audio_is(config: Path) -> None:
    with a_server() as bus, a_worker(config, bus, "--media", "127.0.0.1:0") as process:
        assert process.stderr is not None
        told = process.stderr.readline()
        url = re.search(r"audio of its NPCs is at (ws://127\.0\.0\.1:\d+/ws)$", told)
        assert url, told

        async def connected() -> tuple[int, str]:
            assert url is not None
            with pytest.raises(GlyphoxaClosed) as closed:
                async with connect(url[1], token="of-somebody-else"):
                    pytest.fail("it was let in")
            return closed.value.code, closed.value.reason

        assert trio.run(connected) == (4001, "the token is not valid")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--media", "0.0.0.0:9000"], "needs --tls-cert"),
        (["--media-url", "wss://here"], "needs --media"),
    ],
)
def test_a_bad_address_of_audio_is_refused(
    config: Path, words: list[str], why: str
) -> None:
    done = run("cluster", "worker", str(config), *words)
    assert done.returncode == 2
    assert why in " ".join(done.stderr.replace("│", " ").split())
