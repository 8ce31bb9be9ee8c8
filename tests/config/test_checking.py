"""A `Config` that a program made is looked at as a file is (D14)."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.config import (
    CalibrationConfig,
    Config,
    ConfigError,
    LlmConfig,
    McpConfig,
    McpDefaults,
    ModelConfig,
    NpcConfig,
    Provider,
    ServerSpec,
    ToolOverride,
    TrustConfig,
    TurnConfig,
    load_config,
)
from glyphoxa_trio.config.checking import checked
from glyphoxa_trio.config.voices import Engine, VoiceConfig
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.tools.gate import TrustMode
from glyphoxa_trio.tools.tier import Tier

CONFIGS = sorted((Path(__file__).parents[2] / "config").glob("*.yaml"))
Anything = Any  # what a type checker would have refused


def problems(config: object) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        checked(config)
    return caught.value.problems


def npc(**more: Anything) -> Config:
    fields: dict[str, Anything] = {"name": "Bo", **more}
    return Config(npcs=(NpcConfig(**fields),))


@pytest.mark.parametrize("name", ["tavern.yaml", "reference.yaml", "campaign.yaml"])
def test_what_comes_from_a_file_stays_the_same_object(name: str) -> None:
    config = load_config(Path(__file__).parents[2] / "config" / name, mcp_json=False)
    assert checked(config) is config


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (
            Config(npcs=cast("Any", [{"name": "Bo"}])),
            "expected a NpcConfig, got a mapping: write NpcConfig(...) @ npcs[0]",
        ),
        (
            npc(tools="stock"),
            "expected a list, got text: write ['stock'] @ npcs[0].tools",
        ),
        (npc(tools=[7]), "expected text, got 7 @ npcs[0].tools[0]"),
        (npc(tools=["", "roll"]), "must not be empty @ npcs[0].tools[0]"),
        (npc(name=["Bo"]), "expected text, got a list @ npcs[0].name"),
        (
            npc(select_tier="no"),
            "expected True or False, got 'no' @ npcs[0].select_tier",
        ),
        (
            npc(engine="loud"),
            "one of cascaded, sentence_cascade, s2s, got 'loud' @ npcs[0].engine",
        ),
        (
            npc(budget_tier="slow"),
            "expected one of fast, standard, deep, got 'slow' @ npcs[0].budget_tier",
        ),
        (npc(budget_tier=2), "expected one of fast, standard, deep, got 2"),
        (npc(trust={"mode": "full"}), "write TrustConfig(...) @ npcs[0].trust"),
        (Config(llm=cast("Any", "gpt")), "expected a LlmConfig, got text: write"),
        (
            Config(turn=TurnConfig(max_rounds=cast("Any", 2.5))),
            "expected a whole number, got 2.5 @ turn.max_rounds",
        ),
        (
            Config(tools=cast("Any", {"dice.roll": {"min_tier": "fast"}})),
            "ToolOverride, got a mapping: write ToolOverride(...) @ tools['dice.roll']",
        ),
        (
            Config(tools=cast("Any", [ToolOverride()])),
            "expected a mapping, got a list @ tools",
        ),
        (
            Config(template_defaults=cast("Any", {"caller_name": None})),
            "expected text, got nothing @ template_defaults.caller_name",
        ),
        (
            Config(calibration=CalibrationConfig(environment=cast("Any", 7))),
            "expected text, got 7 @ calibration.environment",
        ),
        (
            Config(npcs=(NpcConfig(name="Mara"), NpcConfig(name="mara"))),
            "the name 'mara' is taken @ npcs[1].name",
        ),
        (
            Config(
                mcp=McpConfig(
                    servers=tuple(ServerSpec(name="s", command=(x,)) for x in "ab")
                )
            ),
            "the name 's' is taken @ mcp.servers[1].name",
        ),
        (
            Config(
                mcp=McpConfig(
                    servers=(ServerSpec(name="s", command=cast("Any", "x y")),)
                )
            ),
            "expected a list, got text: write ['x y'] @ mcp.servers[0].command",
        ),
    ],
)
def test_what_no_file_could_say_has_its_place_and_its_remedy(
    config: Config, said: str
) -> None:
    (problem,) = problems(config)
    assert said in problem


def test_all_problems_come_at_once() -> None:
    broken = NpcConfig(name="Bo", tools=cast("Any", "dice"), greeting=cast("Any", 1))
    config = Config(npcs=(broken,), llm=cast("Any", None))
    assert [text.partition(" @ ")[2] for text in problems(config)] == [
        "npcs[0].greeting",
        "npcs[0].tools",
        "llm",
    ]


@pytest.mark.parametrize("config", [{"npcs": []}, None, 7, [Config()]])
def test_what_is_no_configuration_is_told_what_would_be_one(config: object) -> None:
    (problem,) = problems(config)
    assert "expected a Config, the path of a file, or a function that makes" in problem
    assert "glyphoxa_trio.config.parse" in problem


def test_what_can_be_meant_one_way_only_is_taken() -> None:
    config = Config(
        npcs=cast(
            "Any",
            [
                NpcConfig(
                    name="Bo",
                    engine=cast("Any", "sentence_cascade"),
                    budget_tier=cast("Any", "deep"),
                    tools=cast("Any", ["dice"]),
                    trust=TrustConfig(mode=cast("Any", "full")),
                    voice=VoiceConfig(speed=2),
                )
            ],
        ),
        llm=LlmConfig(api_key=cast("Any", "sk-1")),
        mcp=McpConfig(state_dir=cast("Any", "/state")),
    )
    made = checked(config)
    (bo,) = made.npcs
    assert bo.engine is Engine.SENTENCE_CASCADE
    assert bo.budget_tier is Tier.DEEP
    assert bo.tools == ("dice",)
    assert bo.trust is not None
    assert bo.trust.mode is TrustMode.FULL
    assert made.llm.api_key == Secret("sk-1")
    assert made.mcp.state_dir == Path("/state")
    assert checked(made) is made


def test_a_secret_that_is_none_is_not_shown() -> None:
    (problem,) = problems(Config(llm=LlmConfig(api_key=cast("Any", ["sk-77-secret"]))))
    assert "expected a Secret, got a list @ llm.api_key" in problem
    assert "77" not in problem


def test_a_provider_may_be_its_name_and_is_refused_where_it_is_written() -> None:
    made = LlmConfig(provider="chat_completions", model="m", base_url="http://l/v1")
    assert made.provider is Provider.CHAT_COMPLETIONS
    for kind in (LlmConfig, ModelConfig):
        with pytest.raises(ConfigError, match=r"got 'oolama'; did you mean ollama\?"):
            kind(provider="oolama", model="m")


def test_a_number_out_of_range_names_its_field() -> None:
    with pytest.raises(ValueError, match=r"^McpDefaults.timeout must be more than 0$"):
        McpDefaults(timeout=0)
    with pytest.raises(
        ValueError, match=r"^McpDefaults.timeout expected a number, got"
    ):
        McpDefaults(timeout=cast("Any", "5"))
    with pytest.raises(ValueError, match=r"^NpcConfig.name must not be empty$"):
        NpcConfig(name=" ")


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@given(st.sampled_from(["npcs", "llm", "mcp", "tools", "tiers", "cost", "s2s"]), ODD)
def test_nothing_odd_gets_past_it_as_another_error(field: str, value: Any) -> None:
    with suppress(ConfigError):
        made = checked(Config(**{field: value}))
        assert checked(made) is made
