"""The family itself: how its servers are named, started and refused."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import attrs
import pytest

from glyphoxa_trio.config import ServerSpec
from glyphoxa_trio.testing import hostile
from glyphoxa_trio.testing.hostile.family import COMMON

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "hostile-servers.md"


def test_every_behaviour_says_what_it_does_and_what_a_user_sees_of_it() -> None:
    page = PAGE.read_text()
    listed = re.findall(r"^\| `(\w+)", page, re.MULTILINE)
    assert sorted(listed) == sorted(hostile.BEHAVIOURS)
    for behaviour in hostile.BEHAVIOURS.values():
        assert behaviour.says.endswith(".")
        assert behaviour.run.__kwdefaults__ == (behaviour.options or None)


def test_options_and_fields_of_a_spec_have_no_name_in_common() -> None:
    fields = {field.name for field in attrs.fields(ServerSpec)}
    for behaviour in hostile.BEHAVIOURS.values():
        assert not fields & {*behaviour.options, *COMMON}, behaviour.name


def test_a_server_is_a_spec_with_the_options_of_both() -> None:
    spec = hostile.server("answers_late", ms=300, timeout=0.1)
    assert (spec.name, spec.timeout) == ("answers_late", 0.1)
    assert spec.command[-2:] == ("answers_late", "ms=300")
    assert hostile.server("good", name="other").name == "other"


@pytest.mark.parametrize(
    ("behaviour", "options", "why"),
    [
        ("polite", {}, "no behaviour 'polite', there is answers_at_length"),
        ("good", {"ms": 3}, "good has no option 'ms', but journal, writes"),
        ("answers_late", {"ms": "soon"}, "ms is a whole number, got 'soon'"),
        ("asks", {"what": "way"}, "asks: what is one of ping, roots"),
    ],
)
def test_what_is_not_known_is_refused_with_what_is(
    behaviour: str, options: dict[str, object], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        hostile.command(behaviour, **options)


def ask(command: tuple[str, ...]) -> dict[str, object]:
    question = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    done = subprocess.run(
        command,
        input=json.dumps(question) + "\n",
        capture_output=True,
        text=True,
        timeout=20,
        check=True,
    )
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


@pytest.mark.border
def test_a_server_imports_nothing_but_a_little_of_the_standard_library() -> None:
    first, *flags = hostile.command("good")
    done = subprocess.run(
        [first, "-X", "importtime", *flags],
        input="",
        capture_output=True,
        text=True,
        timeout=20,
        check=True,
    )
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    heavy = {"trio", "attr", "attrs", "glyphoxa_trio", "inspect", "asyncio", "site"}
    assert "hostile.wire" in imported
    assert not heavy & imported


@pytest.mark.border
def test_the_command_line_and_the_function_start_the_same_server() -> None:
    module = (sys.executable, "-m", "glyphoxa_trio.testing.hostile", "lists_twice")
    assert ask(module) == ask(hostile.command("lists_twice"))


@pytest.mark.border
def test_the_command_line_lists_the_family_and_refuses_strangers() -> None:
    module = [sys.executable, "-m", "glyphoxa_trio.testing.hostile"]
    listed = subprocess.run(module, capture_output=True, text=True, check=True)
    names = [line.split()[0] for line in listed.stdout.splitlines()]
    assert sorted(names) == sorted(hostile.BEHAVIOURS)
    refused = subprocess.run(
        [*module, "polite"], capture_output=True, text=True, check=False
    )
    assert refused.returncode == 1
    assert "no behaviour 'polite'" in refused.stderr


@pytest.mark.border
def test_a_server_started_by_hand_refuses_what_it_does_not_know() -> None:
    *command, _ = hostile.command("good")
    refused = subprocess.run(
        [*command, "asks", "what=way"], capture_output=True, text=True, check=False
    )
    assert refused.returncode == 2
    assert "asks: what is one of" in refused.stderr


@pytest.mark.border
def test_the_journal_has_what_was_written_and_bad_may_count_as_a_writer(
    tmp_path: Path,
) -> None:
    journal = tmp_path / "journal"
    answer = ask(hostile.command("good", journal=journal, writes=1))
    result = answer["result"]
    assert isinstance(result, dict)
    hints = {t["name"]: t["annotations"]["readOnlyHint"] for t in result["tools"]}
    assert hints == {"echo": True, "write": False, "bad": False}
    call = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "write", "arguments": {"id": "a"}},
    }
    subprocess.run(
        hostile.command("good", journal=journal),
        input=(json.dumps(call) + "\n") * 2,
        capture_output=True,
        text=True,
        timeout=20,
        check=True,
    )
    assert journal.read_text() == "a\na\n"
