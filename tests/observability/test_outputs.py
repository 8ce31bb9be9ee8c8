"""The two outputs that are made here, line by line, and structlog's own."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from typing import Any

import pytest
import structlog

from glyphoxa_trio.observability import json_lines, key_values
from glyphoxa_trio.observability.outputs import configured

FIELDS: dict[str, Any] = {
    "at": "2031-05-01T12:00:00.000+00:00",
    "tool": "roll",
    "limit": None,
    "cached": False,
    "duration_ms": 3,
    "lines": ["a b", 'c"d'],
}


def test_json_lines_are_json_lines() -> None:
    file = io.StringIO()
    output = json_lines(file)
    output.debug("probe", **FIELDS)
    output.error("tool_call", **FIELDS)
    lines = [json.loads(line) for line in file.getvalue().splitlines()]
    assert lines == [
        {**FIELDS, "event": "probe", "level": "debug"},
        {**FIELDS, "event": "tool_call", "level": "error"},
    ]


def test_key_values_begin_with_when_and_what() -> None:
    file = io.StringIO()
    key_values(file).warning("tool_call", **FIELDS)
    assert file.getvalue() == (
        "at=2031-05-01T12:00:00.000+00:00 level=warning event=tool_call tool=roll"
        " limit= cached=false duration_ms=3 lines=\"['a b', 'c\\\"d']\"\n"
    )


def test_whoever_has_configured_structlog_has_chosen_the_output() -> None:
    seen: list[Any] = []

    def keep(_: Any, level: str, fields: Any) -> Any:
        seen.append((level, dict(fields)))
        raise structlog.DropEvent

    structlog.configure(processors=[keep])
    try:
        configured().info("turn", at="now", turn=1)
    finally:
        structlog.reset_defaults()
    assert seen == [("info", {"event": "turn", "at": "now", "turn": 1})]


def test_the_outputs_change_nobodys_configuration() -> None:
    json_lines(io.StringIO()).info("turn")
    key_values(io.StringIO()).info("turn")
    assert not structlog.is_configured()


@pytest.mark.border
def test_importing_the_room_does_not_import_structlog() -> None:
    code = "import sys, glyphoxa_trio.observability; print('structlog' in sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert loaded.stdout == "False\n"
