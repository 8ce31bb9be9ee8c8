"""The files of deploy/, as far as they can be checked without what they are for."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from glyphoxa_trio.cli.app import app

DEPLOY = Path(__file__).parents[2] / "deploy"


def options_of_run() -> set[str]:
    from typer.main import get_command

    command = get_command(app).commands["run"]  # type: ignore[attr-defined]
    return {name for x in command.params for name in (*x.opts, *x.secondary_opts)}


@pytest.mark.parametrize("name", ["glyphoxa.service", "Dockerfile", "compose.yaml"])
def test_options_that_are_used_exist(name: str) -> None:
    text = (DEPLOY / name).read_text()
    lines = [x for x in text.splitlines() if "glyphoxa run" in x or "CMD [" in x]
    used = set(re.findall(r"--[a-z][\w-]+", " ".join(lines)))
    assert used <= options_of_run()


@pytest.mark.border
def test_the_unit_is_one_for_systemd(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze")
    text = (DEPLOY / "glyphoxa.service").read_text()
    unit = tmp_path / "glyphoxa.service"
    unit.write_text(text.replace("/opt/glyphoxa/bin/glyphoxa", "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_compose_file_names_files_that_are_there() -> None:
    found = YAML(typ="safe").load(DEPLOY / "compose.yaml")
    (service,) = found["services"].values()
    build = service["build"]
    assert (DEPLOY / build["context"] / build["dockerfile"]).is_file()
    assert set(service["secrets"]) == set(found["secrets"])
