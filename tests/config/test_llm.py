"""The keys for models: providers, fallbacks, and what each of them needs."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

import attrs
import pytest

from glyphoxa_trio.config import (
    Config,
    ConfigError,
    LlmConfig,
    ModelConfig,
    Provider,
    parse,
)
from glyphoxa_trio.observability.redaction import Redaction
from glyphoxa_trio.secret import Secret


def read(**llm: Any) -> LlmConfig:
    env = {"KEY": "sk-of-the-other"}
    config: Config = parse({"llm": llm}, source=PurePath("t.yaml"), env=env)
    return config.llm


def problem(**llm: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        read(**llm)
    return str(caught.value)


def test_anthropic_needs_a_model_and_knows_where_it_is() -> None:
    assert read(provider="anthropic", model="m") == LlmConfig(
        provider=Provider.ANTHROPIC, model="m"
    )
    assert problem(provider="anthropic") == "anthropic needs model @ t.yaml.llm"


def test_fallbacks_are_models_in_order() -> None:
    llm = read(
        fallbacks=[
            {"provider": "anthropic", "model": "m", "api_key": "${KEY}"},
            {"provider": "offline"},
        ]
    )
    assert llm.fallbacks == (
        ModelConfig(
            provider=Provider.ANTHROPIC, model="m", api_key=Secret("sk-of-the-other")
        ),
        ModelConfig(provider=Provider.OFFLINE),
    )
    assert llm.provider is Provider.OFFLINE


@pytest.mark.parametrize(
    ("fallback", "said"),
    [
        ({"model": "m"}, "provider is missing @ t.yaml.llm.fallbacks[0]"),
        (
            {"provider": "chat_completions", "model": "m"},
            "chat_completions needs base_url @ t.yaml.llm.fallbacks[0]",
        ),
        (
            {"provider": "offline", "fallbacks": []},
            "unknown key 'fallbacks' @ t.yaml.llm.fallbacks[0]",
        ),
        (
            {"provider": "anthropic", "model": "m", "max_tokens": 0},
            "must be more than 0 @ t.yaml.llm.fallbacks[0].max_tokens",
        ),
    ],
)
def test_a_fallback_is_whole_in_itself(fallback: dict[str, Any], said: str) -> None:
    assert problem(fallbacks=[fallback]) == said


def test_the_key_of_a_fallback_is_a_secret_like_any_other() -> None:
    llm = read(fallbacks=[{"provider": "anthropic", "model": "m", "api_key": "${KEY}"}])
    assert "sk-of-the-other" not in repr(llm)
    redaction = Redaction.of(attrs.evolve(Config(), llm=llm))
    assert redaction.clean("it said sk-of-the-other") == "it said [secret]"
