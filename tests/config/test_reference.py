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
from glyphoxa_trio.config.servers import McpConfig, McpDefaults, ServerSpec
from glyphoxa_trio.tools.tier import Tier

REFERENCE = Path(__file__).parents[2] / "config" / "reference.yaml"
TEXT = REFERENCE.read_text(encoding="utf-8")
EVERYTHING = re.sub(r"^( *)#(?=[\w.]+:)", r"\1", TEXT, flags=re.MULTILINE)


def plain(text: str) -> Any:
    data, repeated = read_text(text, source=REFERENCE)
    assert not repeated
    return data


def absent(kind: Any, instances: list[Any], path: str) -> list[str]:
    """The file keys below ``kind`` that none of its instances shows."""
    if get_origin(kind) is tuple:
        kind = get_args(kind)[0]
        instances = [item for items in instances for item in items]
    elif get_origin(kind) is Mapping:
        kind = get_args(kind)[1]
        instances = [item for items in instances for item in items.values()]
    if not attrs.has(kind):
        return []
    missing: list[str] = []
    for name, key in layout(kind).items():
        shown = [instance[name] for instance in instances if name in instance]
        shown = [item for item in shown if item is not None]
        if not shown:
            missing.append(f"{path}.{name}")
        else:
            missing += absent(key.kind, shown, f"{path}.{name}")
    return missing


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
    assert absent(Config, [plain(EVERYTHING)], "") == [".agent"]
    assert re.search(r"^# .*`agent:`", TEXT, re.MULTILINE)


def test_the_completeness_check_sees_a_key_that_is_gone() -> None:
    data = plain(EVERYTHING)
    del data["turn"]["silence_ms"]
    del data["mcp"]["servers"][0]["restart"]["backoff_ms"]
    del data["mcp"]["servers"][0]["tools"]["balance"]["probe"]
    assert set(absent(Config, [data], "")) == {
        ".agent",
        ".mcp.servers.restart.backoff_ms",
        ".mcp.servers.tools.probe",
        ".turn.silence_ms",
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
        kind = layout(Config)[section].kind
        left_out = absent(kind, [data[section]], section)
        assert left_out in ([], ["builtin.files.base"])


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
