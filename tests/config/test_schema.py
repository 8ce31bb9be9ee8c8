"""The JSON Schema: true of every file we ship, and as strict as the loader in types,
choices and keys."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glyphoxa_trio.config import Config, ConfigError, parse, read_text
from glyphoxa_trio.config.layout import layout
from glyphoxa_trio.config.model import NpcConfig
from glyphoxa_trio.config.schema import schema_of_config

CONFIG = Path(__file__).parents[2] / "config"
REFERENCE = (CONFIG / "reference.yaml").read_text(encoding="utf-8")
EVERYTHING = re.sub(r"^( *)#(?=[\w.]+:)", r"\1", REFERENCE, flags=re.MULTILINE)
SCHEMA = schema_of_config(REFERENCE)
VALIDATOR = jsonschema.Draft7Validator(SCHEMA)
# Not configurations of a runtime.
OTHERS = {"atis.example.yaml", "simulation.yaml"}
FILES = sorted(x for x in CONFIG.glob("**/*.yaml") if x.name not in OTHERS)


def data_of(text: str) -> Any:
    return read_text(text, source=CONFIG / "reference.yaml")[0]


def is_valid(data: Any) -> bool:
    return bool(VALIDATOR.is_valid(data))


def test_the_schema_is_one() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    assert json.loads(json.dumps(SCHEMA)) == SCHEMA


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_configuration_of_ours_fits(path: Path) -> None:
    assert [*VALIDATOR.iter_errors(data_of(path.read_text(encoding="utf-8")))] == []


def test_the_reference_fits_with_every_key_switched_on() -> None:
    assert [*VALIDATOR.iter_errors(data_of(EVERYTHING))] == []


def test_every_key_of_the_loader_is_in_it() -> None:
    for kind in (Config, NpcConfig):
        there = SCHEMA["definitions"][kind.__name__]["properties"]
        assert there.keys() == layout(kind).keys()


def test_keys_are_described_in_the_words_of_the_reference() -> None:
    npc = SCHEMA["definitions"]["NpcConfig"]["properties"]
    assert npc["greeting"]["description"].startswith("Said when a conversation opens.")
    described = [
        "description" in schema
        for one in SCHEMA["definitions"].values()
        for schema in one["properties"].values()
    ]
    assert sum(described) > len(described) / 2


@pytest.mark.parametrize(
    "data",
    [
        {"npcs": [{"name": "Bo", "budget_tier": "quick"}]},
        {"npcs": [{"name": "Bo", "budgettier": "fast"}]},
        {"npcs": [{"name": ""}]},
        {"npcs": [{"greeting": "Hello"}]},
        {"npcs": {"Bo": {}}},
        {"npcs": [{"name": "Bo", "tools": "dice"}]},
        {"npcs": [{"name": "Bo", "personality": ["gruff"]}]},
        {"npcs": [{"name": 7}]},
        {"turn": {"max_rounds": 0}},
        {"turn": {"silence_ms": "5000"}},
        {"llm": {"provider": "olama"}},
        {"mcp": {"servers": [{"name": "a", "command": []}]}},
        {"mcp": {"servers": {"a": {"command": "x", "timeout_ms": -1}}}},
        {"tools": {"roll": {"min_tier": "slow"}}},
        {"tools": [{"min_tier": "fast"}]},
        {"unknown": 1},
        [],
    ],
    ids=json.dumps,
)
def test_what_the_loader_refuses_by_its_shape_the_schema_refuses(data: Any) -> None:
    with pytest.raises(ConfigError):
        parse(data, source=CONFIG / "x.yaml", env={})
    assert not is_valid(data)


@pytest.mark.parametrize(
    "data",
    [
        {"npcs": [{"name": "Bo", "budget_tier": "DEEP", "tools": None}]},
        {"npcs": [{"name": "Bo", "budget_tier": "${TIER}"}], "llm": None},
        {"mcp": {"servers": {"a": {"command": "x y", "transport": "stdio"}}}},
        {"mcp": {"servers": [{"name": "a", "url": "https://a/", "transport": "http"}]}},
        {"tools": [{"name": "roll", "min_tier": "fast"}]},
        {"turn": {"silence_ms": 5000.5, "history": 0}},
        {},
    ],
    ids=json.dumps,
)
def test_what_the_loader_takes_the_schema_takes(data: Any) -> None:
    parse(data, source=CONFIG / "x.yaml", env={"TIER": "fast"})
    assert is_valid(data)


# Mutations of the reference: each place, with each kind of wrong value.

WHOLE = data_of(EVERYTHING)
# With every setting switched on some contradict each other, but none by its shape.
VARIABLES = dict.fromkeys(re.findall(r"\$\{(\w+)", EVERYTHING), "set")
WRONG: tuple[Any, ...] = (
    True,
    "quick and dirty",
    7.5,
    -1,
    [],
    ["a", 1],
    {"no": 1},
    None,
)
SHAPE = re.compile(
    r"expected (?:text|a list|a mapping|a number|a whole number|true or false|one of)"
    r"|unknown key|is missing|must not be empty|must not be negative|must be more than"
)


def places(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(data, dict):
        for key, item in data.items():
            yield from places(item, (*path, key))
    elif isinstance(data, list):
        for at, item in enumerate(data):
            yield from places(item, (*path, at))


def refused(data: Any) -> tuple[str, ...]:
    try:
        parse(data, source=CONFIG / "reference.yaml", env=VARIABLES)
    except ConfigError as error:
        return error.problems
    return ()


PLACES = [path for path in places(WHOLE) if path]


@settings(max_examples=250, deadline=None)
@given(
    path=st.sampled_from(PLACES),
    wrong=st.sampled_from(WRONG),
    key=st.sampled_from(["value", "unknown key", "left out"]),
)
def test_a_mutation_that_the_loader_refuses_by_its_shape_the_schema_refuses(
    path: tuple[Any, ...], wrong: Any, key: str
) -> None:
    data = copy.deepcopy(WHOLE)
    *above, last = path
    around = data
    for step in above:
        around = around[step]
    if key == "value":
        around[last] = wrong
    elif key == "left out":
        del around[last]
    elif isinstance(around[last], dict):
        around[last]["no_such_key"] = 1
    problems = refused(data)
    if not problems:
        assert is_valid(data), [x.message for x in VALIDATOR.iter_errors(data)]
    elif any(map(SHAPE.search, problems)):
        assert not is_valid(data), problems
