"""Help that teaches, bad words on the command line, and what help does not load."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from .support import environment, run

TEACHES = {
    (): ["FAST 500 ms", "STANDARD 1500 ms", "DEEP 4000 ms", "glyphoxa demo"],
    ("demo",): ["no key", "oracle", "--model"],
    ("init",): ["DIR", "--reference", "test"],
    ("schema",): ["JSON Schema", "yaml-language-server", "init"],
    ("serve",): ["dice", "campaign", "my_tools.py", "Exit status: 0"],
    ("serve", "web"): ["--searxng", "--http-addr", "With --transport http"],
    ("serve", "npc"): ["CONFIG", "--npc", "--game-master", "--answer-within"],
    ("discord",): ["--token-variable", "Game Master", "--guild", "docs/discord.md"],
    ("play",): [
        "Tab completes",
        "--no-history",
        "@Name",
        "Ctrl-C",
        "/help",
        "echo",
        "--model",
        "GLYPHOXA_API_KEY",
        "--cluster",
    ],
    ("talk",): [
        *("--list-devices", "--file-in", "--full-duplex", "silero", "Ctrl-C leaves"),
        *("libportaudio2", "the extra talk", "Exit status: 0", "NPC"),
    ],
    ("ask",): ["--json", "--tier", "NPC", "Exit status: 0", "--base-url", "Ollama"],
    ("tools",): ["--tier", "--npc", "p50 and p99", "what would change it"],
    ("calibrate",): ["--all", "also those that write", "--within", "five times"],
    ("check",): ["Exit status: 0", "at once", "--no-servers"],
    ("status",): ["--json", "--pid", "Exit status: 0"],
    ("reload",): ["--pid", "in force"],
    ("measurements",): ["list", "forget"],
    ("measurements", "list"): ["tool_error", "censored"],
    ("measurements", "forget"): ["--all", "'clock.*'", "started again", "Exit status"],
    ("memory",): ["import", "forget", "postgresql://", "memory file"],
    ("memory", "show"): ["campaigns"],
    ("memory", "search"): ["--npc", "game master", "Exit status: 0"],
    ("memory", "review"): ["--accept", "claim", "Exit status: 0"],
    ("memory", "reveal"): ["number of a fact", "Exit status: 0"],
    ("memory", "import"): ["Foundry", "Roll20", "--dry-run", "or none", "--public"],
    ("memory", "export"): ["-o", "secrets", "memory import"],
    ("memory", "backup"): ["in use", "pg_dump"],
    ("memory", "forget"): [
        "or the name of one who has none",
        "Backups",
        "--yes",
        "Exit status: 0",
    ],
    ("sessions",): ["list", "show", "export", "end"],
    ("sessions", "list"): ["open"],
    ("sessions", "show"): ["--lines", "evenings"],
    ("sessions", "export"): ["memory import"],
    ("sessions", "end"): ["lines are kept", "Exit status: 0"],
    ("cluster",): ["dev", "worker", "status", "say", "drain", "NATS", "PostgreSQL"],
    ("cluster", "worker"): ["--nats", "NATS_URL", "SIGTERM", "Exit status: 0"],
    ("cluster", "gateway"): ["--http", "--token-file", "glyphoxa run"],
    ("cluster", "status"): ["--json", "--deployment", "Exit status: 0"],
    ("cluster", "dev"): ["kill -9", "--workers", "/where", "Exit status: 0"],
    ("cluster", "sessions"): ["--tenant", "--json", "left out", "Exit status: 0"],
    ("cluster", "where"): ["process", "epoch", "--tenant", "Exit status: 0"],
    ("cluster", "drain"): ["--within", "its beginning", "Exit status: 0"],
    ("cluster", "init"): ["--store", "GLYPHOXA_STORE", "Exit status: 0"],
    ("cluster", "say"): ["--within", "wherever that is", "Exit status: 0"],
    ("mcp",): [".mcp.json", "repository", "add", "list", "remove", "test"],
    ("mcp", "add"): ["--url", "--header", "--env", "--replace", " -- npx -y", "${VAR}"],
    ("mcp", "list"): ["--config", "Nothing is started"],
    ("mcp", "remove"): ["Exit status: 0"],
    ("mcp", "test"): ["Exit status: 0", "the time of each step"],
}


@pytest.mark.parametrize("verb", TEACHES, ids=lambda verb: " ".join(verb) or "glyphoxa")
def test_help_teaches(verb: tuple[str, ...]) -> None:
    helped = run(*verb, "--help", env={"COLUMNS": "200"})
    assert helped.returncode == 0
    assert helped.stderr == ""
    for lesson in TEACHES[verb]:
        assert lesson in helped.stdout


def test_every_verb_is_listed_with_one_line() -> None:
    helped = run(env={"COLUMNS": "200"})  # no words at all: the same as --help
    verbs = [
        "play",
        "talk",
        "ask",
        "tools",
        "calibrate",
        "check",
        "status",
        "reload",
        "mcp",
    ]
    verbs += [
        "verify",
        "simulate",
        "replay",
        "leaderboard",
        "telemetry",
        "measurements",
        "memory",
        "sessions",
    ]
    for verb in verbs:
        (line,) = [x for x in helped.stdout.splitlines() if x.startswith(f"│ {verb} ")]
        assert line.rstrip("│ ").endswith(".")


@pytest.mark.border
def test_help_loads_neither_the_protocol_nor_a_client_nor_a_model() -> None:
    """It is the first thing that anybody sees, so it does not take a second."""
    program = (
        "import sys; sys.argv = ['glyphoxa', '--help']\n"
        "from glyphoxa_trio.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print('loaded:', *sorted(x for x in sys.modules if '.' not in x))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=30,
        env=environment(),
        check=True,
    )
    loaded = ran.stdout.rpartition("loaded:")[2].split()
    assert "typer" in loaded
    assert not {"mcp", "mcp_types", "pydantic", "httpx2", "jsonschema_rs"} & set(loaded)
    assert "ruamel" not in loaded


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["pley", "x.yaml"], "No such command 'pley'"),
        (["tools", "x.yaml", "--teir", "deep"], "--tier) (see glyphoxa tools --help)"),
        (["serve", "pigeon"], "no server 'pigeon'; there are dice, "),
        (["serve", "dice", "--http-adr", "x"], "did you mean --http-addr?"),
        (["ask", "x.yaml", "Bo"], "Missing argument"),
        (["tools", "x.yaml", "--tier", "quick"], "fast, standard, deep"),
        (["ask", "x.yaml", "Bo", "hi", "--base-url", "http://h/v1"], "--model"),
        (["ask", "x.yaml", "Bo", "hi"], "cannot be read"),
        (["mcp", "ad", "x"], "No such command 'ad'"),
        (["mcp", "add"], "Missing argument 'NAME'"),
        (["status", "--pid", "x"], "--pid"),
        (["memory", "serch", "x"], "No such command 'serch'"),
        (["sessions", "end", "x.yaml"], "Missing argument 'ID'"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_wrong_word_is_told_and_ends_with_2(words: list[str], said: str) -> None:
    wrong = run(*words, env={"COLUMNS": "200"})
    assert (wrong.returncode, wrong.stdout) == (2, "")
    (line,) = wrong.stderr.splitlines()
    assert said in line
    assert line.startswith("glyphoxa")


def test_init_writes_the_schema_that_schema_prints(tmp_path: Path) -> None:
    made = run("init", tmp_path / "new")
    assert made.returncode == 0, made.stderr
    first = (tmp_path / "new" / "npcs.yaml").read_text().splitlines()[0]
    assert first == "# yaml-language-server: $schema=./glyphoxa.schema.json"
    printed = run("schema").stdout
    assert (tmp_path / "new" / "glyphoxa.schema.json").read_text() == printed
    assert "npcs" in json.loads(printed)["definitions"]["Config"]["properties"]
