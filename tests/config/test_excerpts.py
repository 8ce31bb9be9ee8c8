"""Errors of YAML: the line with a caret, the likely cause, and no secret."""

from __future__ import annotations

from pathlib import PurePath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.config import ConfigError, load_text

SOURCE = PurePath("npcs.yaml")
HEAD = "npcs:\n  - name: Bo\n"


def told(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_text(text, source=SOURCE, env={})
    return str(caught.value)


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        (
            "    personality: A gruff man: he hates elves",
            "a colon and a space in a text",
        ),
        ("    greeting: Note: closed", "put the text in quotes, as in greeting:"),
        ("    greeting: 'It's late'", "an apostrophe ends a text in single quotes"),
        ('    greeting: "He said "hi" twice"', 'a " ends a text in double quotes'),
        ("\tgreeting: hi", "a tab: indent with spaces"),
        ("     greeting: hi", "the indentation: keys of one entry begin in the same"),
        ("   greeting: hi", "as name in the line above"),
        ("    greeting: @you", "a text that begins with @ has to be in quotes"),
        ("    tools: *", "a text that begins with * or & has to be in quotes"),
        ("    greeting: !stop it", "a text that begins with ! has to be in quotes"),
        ("    greeting: {hi} there", "a text that begins with [ or {"),
    ],
)
def test_a_broken_line_is_shown_with_the_remedy(line: str, cause: str) -> None:
    problem, shown, caret, likely = told(f"{HEAD}{line}\n").split("\n")
    assert problem.startswith("is not YAML: ")
    assert problem.endswith("@ npcs.yaml")
    assert shown == f"  3 | {line.replace(chr(9), ' ')}"
    column = int(problem.partition("column ")[2].partition(" ")[0])
    assert caret.index("^") == len("  3 | ") + column - 1
    assert likely.startswith("  likely: ")
    assert cause in likely


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (f"{HEAD}    greeting: 'hi\n    tools: []\n", "a quote is opened above"),
        (
            f"{HEAD}    tools: [a, b\n    greeting: hi\n",
            "a bracket above is not closed",
        ),
        ("npcs:\n  - name:Bo\n    greeting: hi\n", "a space is missing after name:"),
        (f"{HEAD}    tools:\n      - *.read\n", 'in quotes, as in "*.read"'),
        (f'{HEAD}    greeting: "hi\n    tools: ["roll"]\n', "a quote is opened above"),
        (f"{HEAD}    greeting:hi\n    tools: [roll]\n", "missing after greeting:"),
        ("npcs:\n  - name: Bo  tools: []\n", "the second key on its own line"),
    ],
)
def test_what_is_wrong_above_the_line_is_said_too(text: str, cause: str) -> None:
    assert cause in told(text)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (
            "    tools: roll, roll_table",
            "expected a list, got text; write tools: [roll, roll_table] @ .tools",
        ),
        (
            "    personality: [gruff, old]",
            (
                "expected text, got a list; write one text, or several lines below"
                " personality: | @ .personality"
            ),
        ),
        (
            "    secret_knowledge: the ring",
            (
                "expected a list, got text; write each line of secret_knowledge below"
                " it, after a dash: - … @ .secret_knowledge"
            ),
        ),
        (
            "    budget_tier: quick",
            "expected one of fast, standard, deep, got 'quick' @ .budget_tier",
        ),
        (
            "    persona: gruff",
            "unknown key 'persona', did you mean 'personality'? @ ",
        ),
    ],
)
def test_a_problem_of_a_value_tells_the_line_and_the_npc(
    line: str, problem: str
) -> None:
    what, _, place = problem.partition(" @ ")
    said = f"{what}, line 3, of 'Bo' @ npcs.yaml.npcs[0]{place}"
    assert told(f"{HEAD}{line}\n") == said


def test_advice_is_in_the_language_of_the_file() -> None:
    with pytest.raises(ConfigError) as caught:
        load_text('[[npcs]]\nname = "Bo"\ntools = "roll"\n', source=PurePath("n.toml"))
    assert str(caught.value) == "expected a list, got text @ n.toml.npcs[0].tools"


def test_an_entry_of_a_list_is_not_called_a_key() -> None:
    assert told(f"{HEAD}    fallback: [[a]]\n").startswith(
        "expected text, got a list, line 3, of 'Bo' @ "
    )


def test_a_misspelt_choice_has_the_nearest() -> None:
    assert "got 'olama'; did you mean ollama?, line 2 @" in told(
        "llm:\n  provider: olama\n  model: x\n"
    )
    assert "write each NPC as - name: NAME" in told("npcs:\n  Bo:\n    tools: []\n")


BREAKS = (
    "{}: x",
    "'{}' x",
    '"{}" "x',
    "*{}",
    "!{}",
    "@{}",
    "{}\n\t x: y",
    "[{}",
    "{{{}",
)
KEYS = (
    "llm:\n  api_key: ",
    "llm:\n  base_url: ",
    "llm:\n  model: x\n  api_key: ",
    "mcp:\n  servers:\n    a:\n      env:\n        NAME: ",
    "mcp:\n  servers:\n    - name: a\n      headers:\n        name: ",
    "mcp:\n  servers:\n  - name: a\n    auth:\n      token: ",
    "mcp:\n  servers:\n    - name: a\n      command: ",
    "mcp:\n  servers:\n    - name: a\n      args:\n      - ",
    "mcp:\n  servers:\n    - name: a\n      env: {greeting: ",
    "unknown: ",
    # Behind a key whose line is shown.
    "llm:\n  model: gpt  api_key: ",
    "mcp:\n  servers:\n    - name: world  token: ",
    "npcs:\n  - name: Bo  DB_PASSWORD=",
    "mcp:\n  servers:\n    - {name: x, command: y, env: {OWN: ",
    "mcp:\n  servers:\n    - name: x  command: y --password ",
)


@pytest.mark.parametrize("above", KEYS)
def test_a_line_that_names_a_secret_is_not_shown(above: str) -> None:
    assert "hunter2pass" not in told(f"{above}hunter2pass: x\n\t x: y\n")


@given(
    above=st.sampled_from(KEYS),
    broken=st.sampled_from(BREAKS),
    secret=st.text("abcXYZ-_+/=", min_size=6, max_size=30).map(lambda x: f"5{x}"),
)
def test_no_secret_is_shown(above: str, broken: str, secret: str) -> None:
    problems: tuple[str, ...] = ()
    try:
        load_text(above + broken.format(secret) + "\n", source=SOURCE, env={})
    except ConfigError as error:
        problems = error.problems
    assert secret[:5] not in "\n".join(problems)


def test_an_address_with_a_password_is_not_shown_even_in_a_greeting() -> None:
    assert "hunter2" not in told(f"{HEAD}    greeting: x: https://bo:hunter2@host/\n")
