"""``glyphoxa`` as an operator has it export traces: by variables, in a real process."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from glyphoxa_client import connect

import trio

from glyphoxa_trio.cli import traces
from glyphoxa_trio.cli.traces import exporters_of, open_traces
from glyphoxa_trio.testing.model_server import SayText, open_model_server

from ..observability.otlp import Collector
from .support import COMMAND, terminal
from .test_run import address, configured

LIMIT = 60.0  # seconds; no test that passes comes near it
CONFIG = """
npcs:
  - name: Bart
llm:
  provider: offline
calibration:
  at_start: false
"""


async def play(folder: Path, **variables: str) -> CompletedProcess[bytes]:
    """Say something to Bart, and leave."""
    config = folder / "glyphoxa.yaml"
    await trio.Path(config).write_text(CONFIG)
    command = [str(COMMAND), "play", str(config)]
    environment = {x: y for x, y in os.environ.items() if not x.startswith("OTEL_")}
    with trio.fail_after(LIMIT):
        return await trio.run_process(
            command,
            stdin=b"Good evening!\n",
            env={**environment, **variables},
            capture_stdout=True,
            capture_stderr=True,
            check=False,
        )


@pytest.mark.border
async def test_play_exports_its_turns_where_the_variables_say(tmp_path: Path) -> None:
    async with Collector.open() as collector:
        origin = collector.url.removesuffix("/v1/traces")
        done = await play(
            tmp_path,
            OTEL_EXPORTER_OTLP_ENDPOINT=origin,
            OTEL_RESOURCE_ATTRIBUTES="deployment.environment=cellar",
        )
    assert done.returncode == 0, done.stderr
    turn = collector.one("invoke_agent Bart", "glyphoxa")
    (chat,) = (x for x in collector.spans if x.name.startswith("chat "))
    assert (chat.parent, chat.trace) == (turn.id, turn.trace)


@pytest.mark.border
async def test_run_exports_the_turns_of_its_clients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        Collector.open() as collector,
        open_model_server([SayText("Well met.")]) as model,
    ):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", collector.url)
        monkeypatch.setenv("OTEL_SERVICE_NAME", "inn")
        config = configured(tmp_path, model.base_url)
        with terminal("run", config, "--http", "127.0.0.1:0") as shown:
            url = await trio.to_thread.run_sync(address, shown)
            async with connect(f"{url.replace('http', 'ws', 1)}/ws") as client:
                async with client.say("Hail", npc="Bo") as turn:
                    await turn.finish()
            shown.process.send_signal(signal.SIGTERM)
            assert await trio.to_thread.run_sync(lambda: shown.ends()) == 0
    turn_, chat = collector.one("invoke_agent Bo", "inn"), collector.one("chat m")
    assert chat.parent == turn_.id


async def test_without_the_variables_nothing_of_it_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begin(*_: object) -> None:
        raise AssertionError("nobody asked for it")

    monkeypatch.setattr(traces, "_begin", begin)
    for name in list(os.environ):
        if name.startswith("OTEL_"):
            monkeypatch.delenv(name)
    async with open_traces(begin):
        pass


@pytest.mark.border
async def test_a_collector_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    done = await play(
        tmp_path,
        OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9",
        OTEL_EXPORTER_OTLP_TIMEOUT="1",
    )
    assert done.returncode == 0
    lines = done.stderr.decode().splitlines()
    assert sum("traces:" in line for line in lines) <= 1, lines
    assert "Traceback" not in done.stderr.decode()


async def test_the_extra_is_named_where_it_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp")
    monkeypatch.setattr(traces, "installed", lambda extra: False)
    told: list[str] = []
    async with open_traces(told.append):
        pass
    assert told == [
        "the export of traces needs the extra `otel`: pip install 'glyphoxa-trio[otel]'"
    ]


@pytest.mark.parametrize(
    ("variables", "names"),
    [
        ({}, ()),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, ("otlp",)),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://x"}, ("otlp",)),
        ({"OTEL_TRACES_EXPORTER": "otlp, console"}, ("otlp", "console")),
        (
            {
                "OTEL_TRACES_EXPORTER": "none",
                "OTEL_EXPORTER_OTLP_ENDPOINT": "http://x",
            },
            (),
        ),
        ({"OTEL_TRACES_EXPORTER": "otlp", "OTEL_SDK_DISABLED": "true"}, ()),
    ],
)
def test_what_the_variables_ask_for(
    variables: dict[str, str], names: tuple[str, ...]
) -> None:
    assert exporters_of(variables) == names
