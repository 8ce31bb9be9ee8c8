"""The client for Godot, as far as that can be checked without Godot: its scripts are
parsed, linted and formatted, and the names that they use exist."""

from __future__ import annotations

import configparser
import json
import re
from pathlib import Path

import pytest
from gdtoolkit.formatter import check_formatting_safety, format_code
from gdtoolkit.linter import lint_code
from gdtoolkit.parser import parser

ROOT = Path(__file__).parents[2]
CLIENT = ROOT / "clients" / "godot"
ADDON = CLIENT / "addons" / "glyphoxa"
README = re.findall(
    r"```gdscript\n(.*?)```", (CLIENT / "README.md").read_text(), re.DOTALL
)
SCRIPTS = {
    **{path.name: path.read_text() for path in ADDON.glob("*.gd")},
    **{f"README.md {at}": code for at, code in enumerate(README, 1)},
}
LINE = 100  # gdtoolkit's own

# WebSocketPeer and PacketPeer, by the documentation of Godot 4.
SOCKET = {
    *("connect_to_url", "poll", "close", "send", "send_text", "was_string_packet"),
    *("get_ready_state", "get_close_code", "get_close_reason"),
    *("get_available_packet_count", "get_packet"),
    *("inbound_buffer_size", "outbound_buffer_size"),
}
STATES = {"STATE_CONNECTING", "STATE_OPEN", "STATE_CLOSING", "STATE_CLOSED"}


def test_there_are_scripts() -> None:
    names = {"plugin.gd", "glyphoxa_client.gd", "glyphoxa_answer.gd", "README.md 1"}
    assert SCRIPTS.keys() == names


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_is_parsed_linted_and_formatted(name: str) -> None:
    code = SCRIPTS[name]
    parser.parse(code)
    assert not lint_code(code)
    formatted = format_code(code, LINE)
    assert formatted == code
    check_formatting_safety(code, formatted, LINE)


def test_the_plugin_names_its_script() -> None:
    found = configparser.ConfigParser()
    found.read(ADDON / "plugin.cfg")
    plugin = found["plugin"]
    assert {"name", "description", "author", "version", "script"} == plugin.keys()
    assert (ADDON / plugin["script"].strip('"')).exists()


def used(pattern: str, *names: str) -> set[str]:
    code = "\n".join(SCRIPTS[name] for name in names or SCRIPTS)
    return {*re.findall(pattern, code, re.MULTILINE)}


def defined(name: str) -> set[str]:
    """The functions, signals and variables of a script that others may use."""
    return used(r"^(?:func|signal|var) ([a-z]\w*)", name)


def test_what_the_scripts_ask_of_a_socket_godot_has() -> None:
    asked = used(r"\b_socket\.(\w+)")
    assert {"poll", "get_packet"} <= asked <= SOCKET
    assert used(r"WebSocketPeer\.(STATE_\w+)") <= STATES
    assert used(r"\bJSON\.(\w+)") == {"stringify", "parse_string"}


def test_what_the_scripts_ask_of_each_other_they_have() -> None:
    answer, client = defined("glyphoxa_answer.gd"), defined("glyphoxa_client.gd")
    assert {"next", "done", "changed"} <= answer
    asked = used(r"(?:\banswer|_answers\[(?:id|event\[\"id\"\])\])\.(\w+)")
    assert {"put", "end", "next"} <= asked <= answer
    asked = used(r"\b_?client\.(\w+)")
    assert {"tell", "say"} <= asked <= client


def test_the_requests_are_those_of_the_protocol() -> None:
    schema = json.loads((ROOT / "docs" / "gateway.schema.json").read_text())["$defs"]
    kinds = {
        name: shape["properties"]
        for shape in schema.values()
        for name in [shape.get("properties", {}).get("type", {}).get("const")]
        if name
    }
    sent = used(r'(?:"type": |request\(|_begin\()"(\w+)"', "glyphoxa_client.gd")
    sent |= used(r'"type": "(\w+)"', "glyphoxa_answer.gd")
    assert len(sent - {"error"}) > 10
    assert sent <= kinds.keys()
    calls = re.findall(
        r'(?:request|_begin)\("(\w+)", (?:_with\(options, )?\{(.*?)\}',
        SCRIPTS["glyphoxa_client.gd"],
    )
    assert len(calls) > 4
    for kind, fields in calls:
        assert {*re.findall(r'"(\w+)":', fields)} <= kinds[kind].keys(), kind
