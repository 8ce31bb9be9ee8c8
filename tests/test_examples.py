"""The examples run, as they stand, and the README shows what they say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "docs" / "examples").glob("*.py"))

SAYS = {
    "bare_host.py": [r"shown in a FAST turn: gaze roll roll_table", r"(?m)^timeout "],
    "custom_tool.py": [r"In .*it is cool, overcast with arcane lightning\."],
    "talk.py": [
        r"(?m)^Ann: what does blinded mean$",
        r"(?m)^Greymantle: Blinded: ",
        r"(?m)^\d+\.\d s of speech in answer\.wav$",
    ],
    "bot_cog.py": [r"(?m)^Ann: !ask Grey ", r"(?m)^Greymantle the Sage: Blinded: "],
    "scene.py": [
        r"Bartok the Barkeep: 2d6 comes to \d+\.",
        r"Greymantle the Sage: Blinded: ",
        r"Greymantle the Sage: Prone: ",
        r"Ysolde the Seer: The bell tolls\.\nYsolde the Seer: Run!",
    ],
    "embed.py": [r"Blinded: ", r"\[tools: 0\.\d+ s of 1\.5 s\]"],
}

NEED_ESPEAK = {"talk.py"}


def test_every_example_is_expected_to_say_something() -> None:
    assert {path.name for path in EXAMPLES} == SAYS.keys()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_runs(
    path: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if path.name in NEED_ESPEAK:
        request.getfixturevalue("espeak")
    # From elsewhere: nothing may depend on the working directory.
    ran = subprocess.run(
        [sys.executable, path],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    for pattern in SAYS[path.name]:
        assert re.search(pattern, ran.stdout), ran.stdout


def test_the_readmes_programs_are_the_examples() -> None:
    """Every Python block of the README stands in an example, word for word."""
    readme = (ROOT / "README.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    assert blocks
    sources = [path.read_text() for path in EXAMPLES]
    for block in blocks:
        assert any(block.strip() in source for source in sources), block


def test_the_readmes_files_and_commands_are_there() -> None:
    readme = (ROOT / "README.md").read_text()
    for target in re.findall(r"\]\(([^)#:]+)\)", readme):
        assert (ROOT / target).exists(), target
    makefile = (ROOT / "Makefile").read_text()
    for verb in re.findall(r"(?m)^make (\w+)", readme):
        assert re.search(rf"(?m)^{verb}:", makefile), verb
