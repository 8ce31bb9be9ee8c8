"""The built wheel, installed alone into a fresh environment, does what it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import attrs
import pytest

from glyphoxa_trio.cli.starter import init, shipped

ROOT = Path(__file__).parents[2]


@attrs.frozen
class Installed:
    """A fresh environment, in a folder that knows nothing of this clone."""

    bin: Path
    folder: Path

    def run(self, *command: str, said: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.bin / command[0]), *command[1:]],
            cwd=self.folder,
            input=said,
            text=True,
            capture_output=True,
            timeout=120,
            check=False,
            env={
                "PATH": f"{self.bin}:{os.defpath}",
                "HOME": str(self.folder),
                "XDG_DATA_HOME": str(self.folder / "data"),
                "XDG_STATE_HOME": str(self.folder / "state"),
            },
        )


def _pip(python: Path | str, *words: str) -> None:
    command = [str(python), "-m", "pip", "--disable-pip-version-check", "-q", *words]
    subprocess.run(command, check=True, timeout=600, cwd=ROOT)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("wheel")
    _pip(sys.executable, "wheel", ".", "--no-deps", "-w", str(folder / "dist"))
    (wheel,) = (folder / "dist").glob("*.whl")
    venv = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True, timeout=120)
    _pip(venv / "bin" / "python", "install", "-c", "constraints.txt", str(wheel))
    place = folder / "somewhere"
    place.mkdir()
    return Installed(venv / "bin", place)


@pytest.mark.slow
def test_whoever_installs_it_talks_to_the_tavern_and_begins_a_project(
    installed: Installed,
) -> None:
    version = installed.run("glyphoxa", "--version")
    assert re.fullmatch(r"glyphoxa \d+\.\d+\.\d+\n", version.stdout), version

    talked = installed.run("glyphoxa", "demo", said="roll 2d6+3 for me\n")
    assert re.search(r"Bartok the Barkeep: 2d6\+3 comes to \d+\.", talked.stdout)
    assert talked.returncode == 0, talked.stderr

    begun = installed.run("glyphoxa", "init", "watch")
    assert begun.returncode == 0, begun.stderr
    inside = attrs.evolve(installed, folder=installed.folder / "watch")
    checked = inside.run("glyphoxa", "check", "npcs.yaml")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "Mirela the Watch: can use 5 of 5 tools" in checked.stdout
    played = inside.run(
        "glyphoxa", "play", "npcs.yaml", said="look at gate: river, is it open?\n"
    )
    assert "town.look_at_gate" in played.stdout, played.stdout + played.stderr
    tried = inside.run("python", "-c", "import test_my_tools", said="")
    assert "pytest" in tried.stderr  # the test's, and not the package's
    # What the README's commands need, and what is only for tests, are apart.
    for name in ("pytest", "pocketsphinx", "PIL"):
        found = inside.run("python", "-c", f"import {name}")
        assert found.returncode != 0, f"{name} was installed as well"


@pytest.mark.slow
def test_the_source_distribution_has_what_make_needs(tmp_path: Path) -> None:
    from hatchling.builders.sdist import SdistBuilder

    (archive,) = SdistBuilder(str(ROOT)).build(directory=str(tmp_path))
    with tarfile.open(archive) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    assert {"Makefile", "constraints.txt", "LICENSE", ".ci/run"} <= names
    assert {"config/tavern.yaml", "tests/packaging/test_wheel.py"} <= names


def test_nothing_that_is_there_is_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "my_tools.py").write_text("mine")
    assert init(tmp_path, reference=False) == 2
    assert "has my_tools.py already" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["my_tools.py"]
    assert (tmp_path / "my_tools.py").read_text() == "mine"


def test_a_folder_that_cannot_be_written_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert init(tmp_path / "file", reference=False) == 2
    assert f"@ {tmp_path / 'file'}" in capsys.readouterr().err


def test_the_project_that_is_begun_passes_its_own_test(tmp_path: Path) -> None:
    assert init(tmp_path / "watch", reference=False) == 0
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path / "watch",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "2 passed" in ran.stdout, ran.stdout + ran.stderr


def test_the_reference_is_printed_and_nothing_written(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert init(Path(), reference=True) == 0
    assert capsys.readouterr().out == (shipped() / "reference.yaml").read_text()
    assert not list(tmp_path.iterdir())
