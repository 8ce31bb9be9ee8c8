"""No command writes over a file of the user's, unless it is told to."""

from __future__ import annotations

from pathlib import Path

import pytest

from glyphoxa_trio.cli.app import run_app


@pytest.mark.parametrize(
    ("words", "file"),
    [
        ("play {config} --record {folder}/kept", "kept"),
        ("ask {config} Bo hello --record {folder}/kept", "kept"),
        ("talk {config} --file-out {folder}/kept", "kept"),
        ("verify {config} --save {folder}", "verify-broken-promise-bo.jsonl"),
        ("simulate {config} --pictures {folder}", "tiers.svg"),
    ],
)
def test_a_file_that_is_there_is_left_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: str, file: str
) -> None:
    config, kept = tmp_path / "npcs.yaml", tmp_path / file
    config.write_text("npcs: [{name: Bo}]")
    kept.write_text("of yesterday")
    line = words.format(config=config, folder=tmp_path)
    assert run_app(line.split()) == 2
    assert kept.read_text() == "of yesterday"
    told = capsys.readouterr().err
    assert f"{kept}: it exists, and was left as it is" in told
    assert "--force" in told


@pytest.mark.parametrize("group", ["memory", "mcp", "sessions", "measurements"])
def test_a_group_without_a_command_prints_its_help_and_nothing_else(
    capsys: pytest.CaptureFixture[str], group: str
) -> None:
    assert run_app([group]) == 2
    shown = capsys.readouterr()
    assert f"glyphoxa {group}" in shown.out + shown.err
    assert "glyphoxa " + group + ":" not in shown.err
