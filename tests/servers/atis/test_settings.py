"""The operator's file: what it may say, and what becomes of a new version."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import trio

from glyphoxa_trio.config import ConfigError, load_as
from glyphoxa_trio.servers.atis.config_file import ConfigFile
from glyphoxa_trio.servers.atis.settings import AtisConfig

EXAMPLE = Path(__file__).parents[3] / "config" / "atis.example.yaml"


def problems(folder: Path, text: str) -> list[str]:
    path = folder / "atis.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as failed:
        load_as(path, AtisConfig)
    return list(failed.value.problems)


def test_the_example_is_usable() -> None:
    config = load_as(EXAMPLE, AtisConfig)
    assert config.defaults.explicit_not_available
    assert {"ENGM", "ENBR"} <= config.aerodromes.keys()
    assert config.aerodrome("ENGM").runways == ("01L", "19R")


def test_an_aerodrome_goes_before_the_defaults() -> None:
    config = load_as(EXAMPLE, AtisConfig)
    assert config.aerodrome("ENGM").information == "auto"
    assert config.aerodrome("ENBR").information == "Q"
    assert config.aerodrome("ENBR").explicit_not_available is False
    assert config.aerodrome("KSEA").name == ""
    assert config.aerodrome("KSEA").explicit_not_available is True


def test_every_mistake_is_named_with_its_place(tmp_path: Path) -> None:
    assert problems(
        tmp_path,
        """\
defaults:
  information: k
  language: "?"
  letters: small
  pressure: bar
  stale_after_minutes: 0
  colour: blue
aerodromes:
  ENGM:
    name: "two\\nlines"
    runways: ["41L"]
    frequency: 118.3
    advisories: ["", Fine.]
  ENBR: {frequency: "9", advisories: Birds.}
""",
    ) == [
        "unknown key 'colour' @ atis.yaml.defaults",
        "expected one of phonetic, plain, got 'small' @ atis.yaml.defaults.letters",
        (
            "expected one of reported, hectopascals, inches, both, got 'bar'"
            " @ atis.yaml.defaults.pressure"
        ),
        (
            "'k' is not a letter; write auto, none, or one from A to Z"
            " @ atis.yaml.defaults.information"
        ),
        "'?' is not a language, such as en or en-GB @ atis.yaml.defaults.language",
        "must be more than 0 @ atis.yaml.defaults.stale_after_minutes",
        (
            "has a character that cannot be spoken, such as a line break"
            " @ atis.yaml.aerodromes.ENGM.name"
        ),
        "'41L' is not a runway, such as 01L @ atis.yaml.aerodromes.ENGM.runways",
        (
            "expected text, got 118.3; put it in quotes"
            " @ atis.yaml.aerodromes.ENGM.frequency"
        ),
        "must not be empty @ atis.yaml.aerodromes.ENGM.advisories[0]",
        "'9' is not a frequency, such as 118.300 @ atis.yaml.aerodromes.ENBR.frequency",
        (
            "expected a list, got text; write each line of advisories below it, after a"
            " dash: - … @ atis.yaml.aerodromes.ENBR.advisories"
        ),
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("aerodromes: {engm: {}}", "'engm': an aerodrome is named by the four"),
        ("aerodromes: {ENGM: {}, ENGM: {}}", "key 'ENGM' is there twice, line 1"),
        (
            "defaults: {stale_after_minutes: 9, refuse_after_minutes: 8}",
            "refuse_after_minutes is less than stale_after_minutes",
        ),
        ("aerodromes: [", "is not YAML: "),
        (f"aerodromes: {{ENGM: {{advisories: [{'a' * 301}]}}}}", "is longer than 300"),
        ('aerodromes: {ENGM: {advisories: ["a\\u202eb"]}}', "cannot be spoken"),
    ],
)
def test_one_mistake(tmp_path: Path, text: str, problem: str) -> None:
    (found,) = problems(tmp_path, text)
    assert problem in found
    assert "@ atis.yaml" in found


def test_an_empty_file_is_the_defaults(tmp_path: Path) -> None:
    path = tmp_path / "atis.yaml"
    path.write_text("# nothing yet\n")
    assert load_as(path, AtisConfig) == AtisConfig()


# A file that changes; real files, and no waiting: the next question reads it.


def replaced(path: Path, text: str) -> None:
    """As editors do it: another file in its place."""
    beside = path.with_suffix(".new")
    beside.write_text(text)
    os.replace(beside, path)


async def test_a_new_version_is_read_before_the_next_answer(tmp_path: Path) -> None:
    path = tmp_path / "atis.yaml"
    path.write_text("aerodromes: {ENGM: {name: Oslo}}")
    warned: list[str] = []
    settings = ConfigFile(path, lambda what, why: warned.append(what % why))
    with trio.fail_after(20):
        settings.open()
        assert (await settings.current()).aerodrome("ENGM").name == "Oslo"
        replaced(path, "aerodromes: {ENGM: {name: Gardermoen}}")
        assert (await settings.current()).aerodrome("ENGM").name == "Gardermoen"
    assert (warned, settings.problem) == ([], "")


@pytest.mark.parametrize(
    ("broken", "problem"),
    [
        ("aerodromes: {ENGM: {nme: Oslo}}", "unknown key 'nme', did you mean 'name'?"),
        ("aerodromes: {ENGM", "is not YAML"),
        (None, "cannot be read: No such file or directory"),
    ],
)
async def test_a_broken_version_changes_nothing_and_is_told_once(
    tmp_path: Path, broken: str | None, problem: str
) -> None:
    path = tmp_path / "atis.yaml"
    path.write_text("aerodromes: {ENGM: {name: Oslo}}")
    warned: list[str] = []
    settings = ConfigFile(path, lambda what, why: warned.append(what % why))
    with trio.fail_after(20):
        settings.open()
        if broken is None:
            path.unlink()
        else:
            replaced(path, broken)
        for _ in range(3):
            assert (await settings.current()).aerodrome("ENGM").name == "Oslo"
        (told,) = warned
        assert problem in told
        assert told.endswith("; the previous version stays in use")
        assert problem in settings.problem
        replaced(path, "aerodromes: {ENGM: {name: Gardermoen}}")
        assert (await settings.current()).aerodrome("ENGM").name == "Gardermoen"
        assert (len(warned), settings.problem) == (1, "")


def test_a_file_that_is_broken_at_the_start_is_an_error(tmp_path: Path) -> None:
    settings = ConfigFile(tmp_path / "none.yaml", lambda what, why: None)
    with pytest.raises(ConfigError, match="cannot be read"):
        settings.open()


async def test_without_a_file_there_are_the_defaults() -> None:
    settings = ConfigFile(None, lambda what, why: None)
    settings.open()
    assert await settings.current() == AtisConfig()
