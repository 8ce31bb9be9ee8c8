"""The commands of the README, in its order, and what a reader has to have for them."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import attrs

ROOT: Final = Path(__file__).parents[2]

_FENCE: Final = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
_INLINE: Final = re.compile(r"`((?:[A-Z_]+=\S+ )?(?:make|glyphoxa) [^`]*)`")
_OPTIONAL: Final = re.compile(r" \[[^\]]*\]")

SKIPPED: Final = {
    "make test": "this is it",
    "make border": "it is a part of CI by itself",
    "pip install .": "tests/packaging installs the wheel",
    "make peers": "it installs",
    "make newcomer": "it is this",
    "make conformance": "it is a part of CI by itself",
    "make bench": "it measures, on a quiet machine",
    "make docs": "it is a part of CI by itself",
    "make pictures": "tests/site draws them",
    "make mutants": "five minutes",
    "make hostile": "many minutes",
    "make model": "it builds a server of models",
    ".venv/bin/glyphoxa play config/tavern.yaml --model ollama:llama3.2": (
        "it needs Ollama"
    ),
    ".venv/bin/glyphoxa serve web --searxng http://localhost:8888": "it needs SearXNG",
    "glyphoxa replay": "it is named and no more; the table has it with its file",
    "glyphoxa serve NAME": "its servers are run one by one",
    "glyphoxa run CONFIG": "it serves until it is told to stop; tests/cli/test_run.py",
    "glyphoxa talk CONFIG": "it needs a microphone; tests/cli/test_talk.py",
    "glyphoxa discord CONFIG": (
        "it needs a bot of Discord; tests/frameworks/test_discord.py"
    ),
    "glyphoxa cluster worker CONFIG": "so does it; tests/cluster/test_command.py",
    "glyphoxa cluster dev CONFIG": "it needs nats-server: tests/cluster",
    "glyphoxa play --cluster URL": "it needs workers; tests/cluster/test_command.py",
}
"""What is not run, and why."""

# What stands for something else in the table of commands.
_MEANT: Final = {
    "CONFIG": "config/tavern.yaml",
    "NPC": "Greymantle",
    "TEXT": "What does blinded mean?",
    "FILE": "evening.jsonl",
    "my_tools.py": "docs/examples/custom_tool.py",
}
_SPELT_OUT: Final = {
    "glyphoxa leaderboard CONFIG": (
        "glyphoxa leaderboard CONFIG",
        "glyphoxa telemetry CONFIG",
    ),
    "glyphoxa mcp add NAME -- CMD ARGS…": (
        "glyphoxa mcp add till -- python config/servers/ledger.py",
        "glyphoxa mcp list",
        "glyphoxa mcp test till",
        "glyphoxa mcp remove till",
    ),
    "glyphoxa memory import CONFIG FILE…": (
        "glyphoxa memory import CONFIG docs/examples/world.yaml",
        "glyphoxa memory show CONFIG",
        "glyphoxa memory search CONFIG dragon",
        "glyphoxa memory review CONFIG",
    ),
    "glyphoxa mcp approve TOOL": ("glyphoxa mcp approve ledger.open_tab",),
    # An evening to look at has to be there.
    "glyphoxa replay FILE": (
        "glyphoxa play CONFIG --record FILE",
        "glyphoxa replay FILE",
        "glyphoxa replay FILE --config CONFIG",
    ),
}

# While nothing runs, there is nobody to be asked.
_NOBODY_THERE: Final = {
    "glyphoxa status": 1,
    "glyphoxa reload": 2,
    "glyphoxa mcp approve TOOL": 2,
}


# Who we are, for those who want to know it: docs/atis.md.
_ITS_READER: Final = {"atis": ("METNO_USER_AGENT", "reader/1.0 reader@tavern.example")}


@attrs.frozen
class Command:
    """One command as the README has it, and the words to be run."""

    printed: str
    words: tuple[str, ...]
    env: tuple[tuple[str, str], ...] = ()

    @property
    def serves(self) -> bool:
        return "serve" in self.words

    @property
    def plays(self) -> bool:
        return "play" in self.words or "demo" in self.words

    @property
    def status(self) -> int:
        return _NOBODY_THERE.get(self.printed, 0)


def commands() -> list[str]:
    """Every command of the README as printed: the blocks and what is in the text."""
    text = (ROOT / "README.md").read_text()
    found: list[tuple[int, str]] = []
    for fence in _FENCE.finditer(text):
        found += [(fence.start(), line) for line in fence[1].splitlines() if line]
    plain = _FENCE.sub(lambda fence: " " * len(fence[0]), text)
    found += [(inline.start(), inline[1]) for inline in _INLINE.finditer(plain)]
    found.sort(key=lambda one: one[0])  # as read
    return list(dict.fromkeys(_OPTIONAL.sub("", line) for _, line in found))


def walk() -> list[Command]:
    """What a reader types, in order, and nothing twice that comes to the same."""
    all_ = [command for line in commands() for command in spelt_out(line)]
    return list({(one.words, one.env): one for one in all_[::-1]}.values())[::-1]


def spelt_out(printed: str) -> list[Command]:
    """What a reader types for it; none for what is skipped."""
    if printed in SKIPPED:
        return []
    return [_command(printed, line) for line in _SPELT_OUT.get(printed, (printed,))]


def _command(printed: str, line: str) -> Command:
    words = shlex.split(line)
    env: list[tuple[str, str]] = []
    while "=" in words[0]:
        name, _, value = words.pop(0).partition("=")
        env.append((name, value))
    env += [_ITS_READER[word] for word in words if word in _ITS_READER]
    words = [_MEANT.get(word, word) for word in words]
    if words[0] == "glyphoxa":
        words[0] = ".venv/bin/glyphoxa"
    return Command(printed, tuple(words), tuple(env))


def unpack(folder: Path) -> None:
    """A fresh copy of the project, with the environment that is installed already."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    for name in listed.stdout.splitlines():
        if not name.startswith(("tests/", "benchmarks/")) and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    (folder / ".git").mkdir()  # no .mcp.json further up belongs to this project
    (folder / ".venv").mkdir()
    (folder / ".venv" / "bin").symlink_to(Path(sys.executable).parent)
    for stamp in (".runs", ".tests", ".develops"):  # make installs nothing
        (folder / ".venv" / stamp).touch()
    _own_things(folder)


def _own_things(folder: Path) -> None:
    """What the README takes for the reader's own."""
    (folder / "tables.yaml").write_text("rumours: [The well is dry., It is haunted.]\n")
    rules = '[{"index": "tipsy", "name": "Tipsy", "desc": ["You sway."]}]'
    (folder / "my-rules.json").write_text(rules)
    (folder / "notes").mkdir()
    (folder / "music" / "calm").mkdir(parents=True)
