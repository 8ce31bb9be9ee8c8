"""``config/reference.yaml`` is whole, true and loadable.

A line of ``#`` and a key is a setting that is off; ``# `` begins prose. With
every setting switched on the file must load as well.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args, get_origin

import attrs
import pytest

from glyphoxa_trio.config import Config, load_config, load_text, read_text
from glyphoxa_trio.config.layout import layout
from glyphoxa_trio.config.mcp import McpConfig
from glyphoxa_trio.config.servers import McpDefaults, ServerSpec
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.tools.tier import Tier

REFERENCE = Path(__file__).parents[2] / "config" / "reference.yaml"
TEXT = REFERENCE.read_text(encoding="utf-8")
EVERYTHING = re.sub(r"^( *)#(?=[\w.]+:)", r"\1", TEXT, flags=re.MULTILINE)


def plain(text: str) -> Any:
    data, repeated = read_text(text, source=REFERENCE)
    assert not repeated
    return data


def collect(kind: Any, data: Any, shown: dict[type, set[str]]) -> None:
    """Which keys of each class the data shows, with something behind them."""
    if get_origin(kind) is tuple:
        for item in data if isinstance(data, list) else ():
            collect(get_args(kind)[0], item, shown)
    elif get_origin(kind) is Mapping:
        for item in data.values():
            collect(get_args(kind)[1], item, shown)
    elif attrs.has(kind) and kind is not Secret:
        for name, key in layout(kind).items():
            shown.setdefault(kind, set())
            if data.get(name) is not None:
                shown[kind].add(name)
                collect(key.kind, data[name], shown)


def absent(data: Any, kind: Any = Config) -> set[str]:
    """``Class.key`` for every key of the file that the data never shows."""
    shown: dict[type, set[str]] = {}
    collect(kind, data, shown)
    return {
        f"{seen.__name__}.{name}"
        for seen, names in shown.items()
        for name in layout(seen)
        if name not in names
    }


def test_it_loads_without_any_environment() -> None:
    config = load_config(REFERENCE, env={})
    assert [npc.name for npc in config.npcs] == [
        "Greymantle the Sage",
        "Bartok the Barkeep",
    ]


def test_it_loads_with_everything_switched_on() -> None:
    assert EVERYTHING.count("\n") == TEXT.count("\n")
    assert EVERYTHING != TEXT
    config = load_text(EVERYTHING, source=REFERENCE, env={"WORLD_SEARCH_TOKEN": "t"})
    assert config.mcp.servers[1].token is not None


def test_every_key_of_the_model_is_there() -> None:
    # `agent.trust` says the same as `trust`, so the prose has it.
    assert absent(plain(EVERYTHING)) == {"Config.agent"}
    assert re.search(r"^# .*`agent:`", TEXT, re.MULTILINE)


def test_the_completeness_check_sees_a_key_that_is_gone() -> None:
    data = plain(EVERYTHING)
    del data["turn"]["silence_ms"]
    del data["mcp"]["servers"][0]["restart"]["backoff_ms"]
    del data["mcp"]["servers"][0]["tools"]["balance"]["probe"]
    del data["builtin"]
    assert absent(data) == {
        "Config.agent",
        "Config.builtin",
        "RestartConfig.backoff_ms",
        "ToolOverride.probe",
        "TurnConfig.silence_ms",
    }


@pytest.mark.parametrize(
    "section",
    ["llm", "trust", "builtin", "tools", "tiers", "selector", "calibration", "turn"],
)
def test_what_is_on_is_the_default(section: str) -> None:
    assert getattr(load_config(REFERENCE, env={}), section) == getattr(
        Config(), section
    )


def test_the_settings_of_mcp_are_the_defaults() -> None:
    mcp = load_config(REFERENCE, env={}).mcp
    assert attrs.evolve(mcp, servers=()) == McpConfig()
    plainest = ServerSpec(name="x", command=("x",))
    for server in mcp.servers:
        assert server.restart == plainest.restart
        assert (server.timeout, server.start_timeout) == (
            McpDefaults().timeout,
            McpDefaults().start_timeout,
        )


def test_every_setting_that_is_on_in_a_section_is_named_there() -> None:
    # Equal to the default is no proof if the section were empty.
    data = plain(TEXT)
    for section in ("trust", "builtin", "tiers", "turn"):
        left_out = absent(data[section], layout(Config)[section].kind)
        assert left_out <= {
            "FilesConfig.base",
            "ImagesConfig.api_key",
            "ImagesConfig.base_url",
            "ImagesConfig.folder",
            "ImagesConfig.model",
            "MusicConfig.library",
            "MusicConfig.moods",
            "WebConfig.search",
            "WebConfig.user_agent",
        }


def test_its_floors_are_the_seeds_example_table() -> None:  # D1
    config = load_text(EVERYTHING, source=REFERENCE, env={})
    floors: Mapping[str, Tier | None] = {
        name: override.min_tier for name, override in config.tools.items()
    }
    assert floors == {
        "memory.search_sessions": Tier.STANDARD,
        "memory.search_facts": Tier.STANDARD,
        "rules.search_rules": Tier.STANDARD,
        "sessions.get_summary": Tier.STANDARD,
        "sessions.search_history": Tier.STANDARD,
        "images.generate_image": Tier.DEEP,
        "web.search": Tier.DEEP,
        "web.fetch_page": Tier.DEEP,
    }
    assert not load_config(REFERENCE, env={}).tools  # D1: the built-ins carry none
