"""The built wheel, installed alone into a fresh environment, does what it says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import attrs
import pytest

from glyphoxa_trio.cli.starter import init, shipped
from glyphoxa_trio.extras import LIBRARIES

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


def _pip(*words: str) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", *words]
    subprocess.run(command, check=True, timeout=600, cwd=ROOT)


def _pip_into(folder: Path, what: str) -> None:
    into = ("--python", str(folder / "python"))
    _pip(*into, "install", "-c", "constraints.txt", what)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("wheel")
    _pip("wheel", ".", "--no-deps", "-w", str(folder / "dist"))
    (wheel,) = (folder / "dist").glob("*.whl")
    venv = folder / "venv"
    # Without a pip of its own: to install it takes as long as to install all the rest.
    bare = [sys.executable, "-m", "venv", "--without-pip", str(venv)]
    subprocess.run(bare, check=True, timeout=120)
    _pip_into(venv / "bin", str(wheel))
    place = folder / "somewhere"
    place.mkdir()
    return Installed(venv / "bin", place)


@pytest.mark.long
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


@pytest.mark.long
def test_the_libraries_of_extras_and_of_tests_are_not_installed_with_it(
    installed: Installed,
) -> None:
    extras = {library for libraries in LIBRARIES.values() for library in libraries}
    names = sorted({*extras, "pytest", "ruff", "mypy"})
    code = f"""
from importlib.util import find_spec

def is_there(name):
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # the package that it would be part of
        return False

print(*[name for name in {names} if is_there(name)])
"""
    assert installed.run("python", "-c", code).stdout == "\n"


NPC = "npcs: [{name: Bo, tools: [dice]}]\n"


@pytest.mark.long
@pytest.mark.parametrize(
    ("extra", "command", "config"),
    [
        ("verify", "verify npcs.yaml", NPC),
        ("pictures", "simulate npcs.yaml --pictures drawn", NPC),
        ("tools", "serve images", ""),
        ("tools", "serve web", ""),
        ("tools", "serve atis", ""),
        ("tools", "play npcs.yaml", f"{NPC}builtin: {{images: {{enabled: true}}}}"),
        ("tools", "play npcs.yaml", f"{NPC}builtin: {{web: {{enabled: true}}}}"),
        (
            "voice",
            "play npcs.yaml",
            f"{NPC}speech: {{recognition: {{provider: pocketsphinx}}}}",
        ),
    ],
    ids=["verify", "pictures", "images", "web", "atis", "drawing", "pages", "hearing"],
)
def test_a_command_that_needs_an_extra_says_how_to_install_it(
    installed: Installed, extra: str, command: str, config: str
) -> None:
    (installed.folder / "npcs.yaml").write_text(config)
    done = installed.run("glyphoxa", *command.split())
    assert f"pip install 'glyphoxa-trio[{extra}]'" in done.stderr, done
    assert "Traceback" not in done.stderr
    assert done.returncode == 2, done


VERIFIES = """
from glyphoxa_trio import Config
from glyphoxa_trio.simulation.verify import VerifyInputs, verify
run = lambda: verify(Config(), VerifyInputs())
"""
CONVERTS = """
from glyphoxa_trio.providers.audio import Resampler
run = lambda: Resampler(48000, 16000)
"""
LISTENS = """
from glyphoxa_trio.providers.endpointing import Endpointing
run = Endpointing().detector
"""
TELLS_VOICES = """
from glyphoxa_trio.providers import endpointing
endpointing.detector = lambda: None  # of the extra voice, as if it were there
run = endpointing.Endpointing(silero=True).detector
"""
DRAWS = """
from pathlib import Path
from glyphoxa_trio.simulation.pictures import draw
from glyphoxa_trio.tools.tier import DEFAULT_LIMITS
run = lambda: draw([], Path("drawn"), limits=DEFAULT_LIMITS)
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("extra", "program"),
    [
        ("verify", VERIFIES),
        ("voice", CONVERTS),
        ("voice", LISTENS),
        ("vad", TELLS_VOICES),
        ("pictures", DRAWS),
    ],
    ids=["verify", "other rates", "detector", "silero", "pictures"],
)
def test_in_code_a_missing_extra_is_an_error_of_this_package(
    installed: Installed, extra: str, program: str
) -> None:
    code = f"""
from glyphoxa_trio import GlyphoxaError
{program}
try:
    run()
except GlyphoxaError as error:
    print(error)
"""
    done = installed.run("python", "-c", code)
    assert f"pip install 'glyphoxa-trio[{extra}]'" in done.stdout, done


@pytest.mark.long
def test_its_dependencies_can_be_resolved_for_later_pythons(
    installed: Installed, tmp_path: Path
) -> None:
    """Only resolved, from wheels for that Python; nothing is run with it. pip takes a
    marker's ``python_version`` for that of the Python which pip itself runs on."""
    (wheel,) = (installed.folder.parent / "dist").glob("*.whl")
    resolving = {
        python: subprocess.Popen(
            [
                *(sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"),
                *("install", "--dry-run", "--ignore-installed"),
                *("--python-version", python, "--only-binary=:all:"),
                *("--target", str(tmp_path / python)),
                *("--report", str(tmp_path / f"{python}.json")),
                f"{wheel}[verify]",
            ],
            stderr=subprocess.PIPE,
            text=True,
        )
        for python in ("3.12", "3.13", "3.14")
    }
    for python, process in resolving.items():
        _, complaint = process.communicate(timeout=300)
        assert process.returncode == 0, f"{python}: {complaint}"
        report = json.loads((tmp_path / f"{python}.json").read_text())
        found = {one["metadata"]["name"].lower() for one in report["install"]}
        assert {"glyphoxa-trio", "trio", "mcp", "apsw", "hypothesis"} <= found


@pytest.mark.long
def test_the_commands_of_the_readme_work_with_what_it_installs(
    installed: Installed,
) -> None:
    """`make demo` installs the extra ``verify``: here by the line that the command
    says if it is missing, for a wheel that is there."""
    folder = installed.run(
        "python", "-c", "import glyphoxa_trio as g; print(g.__path__[0])"
    )
    config = Path(folder.stdout.strip()) / "shipped"
    spoken = installed.run(
        *("glyphoxa", "play", str(config / "realtime.yaml"), "--stand-in"),
        said="roll 2d6+3 for me\n",
    )
    assert "dice.roll" in spoken.stdout, spoken
    simulated = installed.run(
        *("glyphoxa", "simulate", str(config / "tavern.yaml"), "--turns", "20"),
        *("--script", str(config / "simulation.yaml")),
    )
    assert simulated.returncode == 0, simulated
    _pip_into(installed.bin, VERIFY)
    verified = installed.run(
        *("glyphoxa", "verify", str(config / "tavern.yaml"), "--evenings", "3")
    )
    assert "What can be reached" in verified.stdout, verified
    assert verified.returncode == 0, verified


VERIFY = "glyphoxa-trio[verify]"


@pytest.mark.long
def test_the_wheel_is_typed_and_is_the_same_when_built_from_the_sources(
    installed: Installed, tmp_path: Path
) -> None:
    from hatchling.builders.sdist import SdistBuilder

    (built,) = (installed.folder.parent / "dist").glob("*.whl")
    names = contents(built)
    assert names["glyphoxa_trio/py.typed"] == b""
    assert b"Version: 0.1.0\n" in names["glyphoxa_trio-0.1.0.dist-info/METADATA"]

    (archive,) = SdistBuilder(str(ROOT)).build(directory=str(tmp_path))
    # In an environment of its own the first was built: that one has all that it needs.
    again_ = ("--no-deps", "--no-build-isolation", "-w", str(tmp_path / "again"))
    _pip("wheel", archive, *again_)
    (again,) = (tmp_path / "again").glob("*.whl")
    assert contents(again) == names


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as packed:
        return {name: packed.read(name) for name in packed.namelist()}


@pytest.mark.long
def test_the_source_distribution_has_what_make_needs(tmp_path: Path) -> None:
    from hatchling.builders.sdist import SdistBuilder

    (archive,) = SdistBuilder(str(ROOT)).build(directory=str(tmp_path))
    with tarfile.open(archive) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    assert {"Makefile", "constraints.txt", "LICENSE", ".ci/run"} <= names
    assert {"CHANGELOG.md", "CONTRIBUTING.md", "docs/architecture.md"} <= names
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


@pytest.mark.border
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
