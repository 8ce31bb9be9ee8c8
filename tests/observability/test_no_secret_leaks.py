"""No secret in anything that comes out, while everything fails and talks (A39, D15a).

Every place that can hold a secret has one of its own, and real servers repeat what
they were told in results, errors, descriptions, schemas, stderr, redirects, reason
phrases and headers, as it is and encoded. Then everything that came out is searched:
what commands print, logs at DEBUG, events, warnings, status, what is kept on the disk,
recordings, and the requests to the model's vendor. Two values that are said to be no
secrets show that the search would find one.

`GLYPHOXA_LONG=1` runs every command; without it, those of a first evening.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import subprocess
import sys
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import attrs
import pytest

import trio

from glyphoxa_trio import open_runtime
from glyphoxa_trio.config import load_config
from glyphoxa_trio.control.status import status_of
from glyphoxa_trio.mcp import ServerWarning
from glyphoxa_trio.observability import EventLog, json_lines, open_log

from ..cli.support import COMMAND, environment

pytestmark = pytest.mark.border

REPEATER = Path(__file__).parent / "servers" / "repeater.py"
LONG = bool(os.environ.get("GLYPHOXA_LONG"))
LIMIT = 120.0  # seconds; it takes a tenth

HIDDEN = (
    *("by_name", "by_variable", "in_list", "argument", "header", "token", "password"),
    *("query", "client_secret", "issued", "model_key", "fallback_key", "search_key"),
)
SHOWN = ("released", "released_header")

TEXT = """
npcs:
  - name: Bo
    tools: ["pipe.*", "web1.*", "web2.*", "web3.*", "web.search"]
    budget_tier: deep
    select_tier: false
trust: {allow_tools: ["*"]}
turn: {max_calls: 64}
calibration: {at_start: false}


llm:
  provider: chat_completions
  model: one
  base_url: ORIGIN/broken
  api_key: ${MODEL_KEY}
  fallbacks:
    - provider: chat_completions
      model: two
      base_url: ORIGIN/v1
      api_key: ${FALLBACK_KEY}
builtin:
  web:
    enabled: true
    fetch: false
    search: {engine: brave, base_url: "ORIGIN/search", api_key: "${SEARCH_KEY}"}
mcp:
  state_dir: state
  defer_threshold: 100
  servers:
    pipe:
      command: [python, "REPEATER", stdio, "${ARGUMENT}"]
      env:
        SERVICE_KEY: 'BY_NAME'
        PLAIN: ${BY_VARIABLE}
        LUGGAGE: 'IN_LIST'
        SHOWN_KEY: 'RELEASED'
      secrets: [LUGGAGE]
      not_secret: [SHOWN_KEY]
      restart: {backoff_ms: 10}
    web1:
      url: "ORIGIN/mcp?key=QUERY"
      headers: {X-Hidden: "${HEADER}", X-Shown: 'RELEASED_HEADER'}
      auth: {token: "${TOKEN}"}
      not_secret: [X-Shown]
    web2:
      url: "http://jo:PASSWORD@HOST/mcp"
    web3:
      url: "ORIGIN/mcp"
      auth:
        oauth:
          client_id: us
          client_secret: ${CLIENT_SECRET}
          token_url: "ORIGIN/token"
"""


@attrs.frozen
class Scene:
    """A configuration full of secrets, and where what comes out of it goes."""

    config: Path
    env: Mapping[str, str]
    values: Mapping[str, str]
    folder: Path

    def forms(self, name: str) -> Iterator[str]:
        """How a secret may be written; of base64 what no neighbour has a part in."""
        value = self.values[name]
        yield value
        yield quote(value, safe="")
        yield json.dumps(value)[1:-1]
        for before in range(3):
            data = b"x" * before + value.encode()
            yield b64encode(data).decode()[4:-4]
            yield urlsafe_b64encode(data).decode()[4:-4]

    def found(self, texts: Mapping[str, str], *names: str) -> set[tuple[str, str]]:
        """Where which of these values stands in plain sight."""
        return {
            (name, place)
            for place, text in texts.items()
            for name in names
            if any(form in text for form in self.forms(name))
        }


@contextmanager
def scene(folder: Path) -> Iterator[Scene]:
    # What is encoded differently must be in them, and what addresses can hold.
    values = {x: f"{secrets.token_hex(5)}~/{x}+=9" for x in (*HIDDEN, *SHOWN)}
    server = subprocess.Popen(
        [sys.executable, REPEATER, "http", str(folder / "vendor")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"ISSUED": values["issued"]},
    )
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        host = f"127.0.0.1:{int(server.stdout.readline())}"
        text = TEXT.replace("ORIGIN", f"http://{host}").replace("HOST", host)
        text = text.replace("REPEATER", str(REPEATER)).replace("STATE", "state")
        for name in ("by_name", "in_list", "released", "released_header"):
            text = text.replace(f"'{name.upper()}'", f"'{values[name]}'")
        for name in ("password", "query"):
            inner = f":{name.upper()}@" if name == "password" else f"={name.upper()}"
            text = text.replace(
                inner, inner.replace(name.upper(), quote(values[name], safe=""))
            )
        path = folder / "table.yaml"
        path.write_text(text)
        env = {name.upper(): value for name, value in values.items()}
        yield Scene(path, environment(**env), values, folder)
    finally:
        server.stdin.close()
        server.wait(5)
        server.stdout.close()


@attrs.define(eq=False)
class Ear(logging.Handler):
    """Hears every logger at DEBUG, as formatted as it gets."""

    heard: list[str] = attrs.field(factory=list)

    def __attrs_pre_init__(self) -> None:
        super().__init__(logging.DEBUG)

    def emit(self, record: logging.LogRecord) -> None:
        self.heard.append(logging.Formatter().format(record))


@contextmanager
def listening() -> Iterator[Ear]:
    ear, root = Ear(), logging.getLogger()
    level = root.level
    root.addHandler(ear)
    root.setLevel(logging.DEBUG)
    try:
        yield ear
    finally:
        root.removeHandler(ear)
        root.setLevel(level)


def kept(folder: Path) -> dict[str, str]:
    """Every file that is there now."""
    return {
        str(path.relative_to(folder)): path.read_bytes().decode(errors="replace")
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "table.yaml"
    }


async def test_no_secret_leaves_a_runtime(tmp_path: Path) -> None:
    # A39
    events: list[str] = []
    warnings: list[str] = []
    lines: list[str] = []
    log = tmp_path / "log.jsonl"

    def warn(warning: ServerWarning, logged: EventLog) -> None:
        warnings.append(warning.text)
        logged.server_event(warning)

    with scene(tmp_path) as stage, listening() as ear, trio.fail_after(LIMIT):
        config = load_config(stage.config, env=stage.env)
        with log.open("w") as file:
            async with (
                open_log(json_lines(file), texts=True, config=config) as logged,
                open_runtime(
                    config,
                    on_warning=lambda warning: warn(warning, logged),
                    on_server_line=lambda _, line: lines.append(line),
                ) as runtime,
            ):
                logged.follow(runtime)
                assert await runtime.wait_ready(within=30), warnings
                npc = runtime.npc("Bo")
                for _ in range(2):
                    async with npc.say("Tell me all.") as turn:
                        events.extend([repr(event) async for event in turn])
                await runtime.wait_ready(within=30)
                status = json.dumps(
                    status_of(runtime), default=repr, ensure_ascii=False
                )
                tools = repr(runtime.host.snapshot)
        out = {
            "events": "\n".join(events),
            "warnings": "\n".join(warnings),
            "lines": "\n".join(lines),
            "logs": "\n".join(ear.heard),
            "status": status,
            "tools": tools,
            **kept(tmp_path),
        }
    for place in ("events", "warnings", "lines", "logs", "vendor", "log.jsonl"):
        assert out[place], place
    assert stage.found(out, *HIDDEN) == set()
    # The search finds what is no secret, in those very places.
    places = {place for _, place in stage.found(out, *SHOWN)}
    catalogues = {place for place in out if "catalogues" in place}
    assert {"events", "lines", "logs", "tools", "vendor", "log.jsonl"} <= places
    assert catalogues & places
    assert {name for name, _ in stage.found(out, *SHOWN)} == set(SHOWN)


SHORT = (
    ("check", "CONFIG"),
    ("tools", "CONFIG"),
    (
        "ask",
        "CONFIG",
        "Bo",
        "Tell me",
        "--json",
        "--log-json",
        "LOG",
        "--record",
        "REC",
    ),
    ("mcp", "test", "--config", "CONFIG", "pipe"),
    ("mcp", "list", "--config", "CONFIG"),
)
AFTER = (("replay", "REC", "--config", "CONFIG"),)
ALL = (
    ("calibrate", "CONFIG", "--all", "--yes"),
    ("leaderboard", "CONFIG", "--json"),
    ("simulate", "CONFIG", "--online", "--turns", "5"),
    ("verify", "CONFIG", "--online", "--seconds", "5", "--evenings", "2"),
    ("play", "CONFIG"),
    ("telemetry", "CONFIG"),
    ("mcp", "test", "--config", "CONFIG", "web1"),
    ("mcp", "test", "--config", "CONFIG", "web3", "fail"),
)


@pytest.mark.long
async def test_no_command_tells_a_secret(tmp_path: Path) -> None:
    # A39
    out: dict[str, str] = {}
    codes: dict[str, int | None] = {}

    async def run(words: tuple[str, ...]) -> None:
        places = {
            "CONFIG": str(stage.config),
            "LOG": str(tmp_path / "log.jsonl"),
            "REC": str(tmp_path / "recording.jsonl"),
        }
        done = await trio.run_process(
            [str(COMMAND), *(places.get(word, word) for word in words)],
            stdin=b"Tell me.\n/tools\n/servers\n",
            capture_stdout=True,
            capture_stderr=True,
            check=False,
            env=stage.env,
        )
        name = " ".join(words)
        out[name] = (done.stdout + done.stderr).decode(errors="replace")
        codes[name] = done.returncode

    with scene(tmp_path) as stage, trio.fail_after(LIMIT):
        for batch in (SHORT, AFTER, *([ALL] if LONG else [])):
            async with trio.open_nursery() as nursery:
                for words in batch:
                    nursery.start_soon(run, words)
        found = out | kept(tmp_path)
    assert stage.found(found, *HIDDEN) == set()
    for name, text in out.items():
        assert text.strip(), name
        assert "Traceback" not in text, text
    # The search finds what is no secret.
    places = {place for _, place in stage.found(found, *SHOWN)}
    assert {"vendor", "recording.jsonl"} <= places, codes
    assert any(place.startswith("ask") for place in places), codes
