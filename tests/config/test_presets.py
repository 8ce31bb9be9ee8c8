"""Model servers by their names: what a preset fills in, and what overrules it."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import PurePath
from typing import Any

import pytest

from glyphoxa_trio.cli.common import Model
from glyphoxa_trio.config import (
    Config,
    ConfigError,
    LlmConfig,
    ModelConfig,
    NpcConfig,
    Provider,
    parse,
)
from glyphoxa_trio.config.addresses import address_remedy
from glyphoxa_trio.config.presets import PRESETS, named
from glyphoxa_trio.config.voices import Engine
from glyphoxa_trio.providers.anthropic import Anthropic
from glyphoxa_trio.providers.chat_completions import ChatCompletions
from glyphoxa_trio.runtime.models import Models, link_of
from glyphoxa_trio.secret import Secret

LOCAL = [x for x in Provider if PRESETS[x].local]
KNOWN = [x for x in Provider if PRESETS[x].base_url]


def odd(data: dict[str, Any]) -> list[str]:
    """The warnings about a configuration."""
    told: list[str] = []
    parse(data, source=PurePath("npcs.yaml"), env={}, warn=told.append)
    return told


def chat(config: ModelConfig) -> ChatCompletions:
    link = link_of(config)
    assert isinstance(link, ChatCompletions)
    return link


@pytest.mark.parametrize("provider", KNOWN)
def test_a_preset_needs_a_name_and_nothing_else(provider: Provider) -> None:
    config = ModelConfig(provider=provider, model="m")
    link = link_of(config)
    assert isinstance(link, ChatCompletions | Anthropic)
    assert link.base_url == PRESETS[provider].base_url
    assert ("127.0.0.1" in link.base_url) is (provider in LOCAL)


def test_what_is_known_of_servers_is_what_they_do() -> None:
    # One at a time unless it is started otherwise; the flags without which vLLM refuses
    # tools; as many slots at llama-server as places here; Claude's window.
    assert PRESETS[Provider.OLLAMA].places == 1
    assert "--enable-auto-tool-choice" in PRESETS[Provider.VLLM].start
    assert "--tool-call-parser" in PRESETS[Provider.VLLM].start
    assert (
        f"-np {PRESETS[Provider.LLAMACPP].places} " in PRESETS[Provider.LLAMACPP].start
    )
    config = ModelConfig(provider=Provider.ANTHROPIC, model="m")
    link = link_of(config)
    assert isinstance(link, Anthropic)
    assert link.options.context_tokens == 200_000


def test_what_is_said_overrules_the_preset() -> None:
    plain = chat(ModelConfig(provider=Provider.OLLAMA, model="m")).options
    assert (plain.context_tokens, plain.tool_choice) == (4096, False)
    said = chat(
        ModelConfig(
            provider=Provider.OLLAMA,
            model="m",
            base_url="http://10.0.0.2:11434/v1",
            context_tokens=16_384,
            tool_choice=True,
        )
    )
    assert (said.options.context_tokens, said.options.tool_choice) == (16_384, True)
    assert said.base_url == "http://10.0.0.2:11434/v1"


def test_the_length_of_an_answer_is_in_the_field_that_the_server_knows() -> None:
    def field(**keys: Any) -> str:
        return chat(ModelConfig(model="m", **keys)).options.max_tokens_field

    assert field(provider="openai") == "max_completion_tokens"
    assert field(provider="vllm") == "max_tokens"
    vendor = {"provider": "chat_completions", "base_url": "https://api.openai.com/v1"}
    assert field(**vendor) == "max_completion_tokens"


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"provider": "oolama", "model": "m"}, "did you mean ollama?"),
        ({"provider": "llama.cpp", "model": "m"}, "did you mean llamacpp?"),
        ({"provider": "ollama"}, "ollama needs model"),
        ({"provider": "chat_completions", "model": "m"}, "needs base_url"),
        ({"provider": "openai", "model": "m", "context_tokens": 9}, "at least 512"),
        (
            {"provider": "anthropic", "model": "m", "thinks": True},
            "anthropic has no thinks",
        ),
    ],
)
def test_what_is_wrong_names_the_key(keys: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ModelConfig(**keys)
    assert said in str(caught.value)


def test_a_name_with_a_provider_before_it() -> None:
    assert named("ollama:llama3.2:3b") == (Provider.OLLAMA, "llama3.2:3b")
    assert named("llama3.2:3b") == (None, "llama3.2:3b")
    assert named("openai/gpt-5:free") == (None, "openai/gpt-5:free")
    assert named("offline:x") == (None, "offline:x")


def test_the_command_line_takes_one_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GLYPHOXA_API_KEY", raising=False)
    monkeypatch.setenv("GEMINI_API_KEY", "g")
    monkeypatch.setenv("OPENAI_API_KEY", "o")
    given = Config(
        llm=LlmConfig(
            provider=Provider.OPENAI, model="x", api_key=Secret("mine"), tools=False
        )
    )
    llm = Model("gemini:flash").applied_to(given).llm
    assert (llm.provider, llm.model, llm.base_url) == (Provider.GEMINI, "flash", None)
    assert llm.api_key is not None
    assert llm.api_key.reveal() == "g"
    assert llm.tools is None  # that was said of another server
    local = Model("ollama:llama3.2").applied_to(given).llm
    assert local.address == "http://127.0.0.1:11434/v1"
    assert local.api_key is None  # nobody's key is sent there
    here = Model("gpt-5-mini").applied_to(given).llm
    assert (here.provider, here.tools) == (Provider.OPENAI, False)


async def test_a_fast_model_may_be_at_another_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    llm = LlmConfig(provider=Provider.ANTHROPIC, model="c", api_key=Secret("mine"))
    npc = NpcConfig(name="Bo", engine=Engine.SENTENCE_CASCADE, fast_model="ollama:q:1b")
    async with AsyncExitStack() as stack:
        models = Models(None, llm, stack)
        fast = models.opening(npc)
        assert isinstance(fast, ChatCompletions)
        assert (fast.model, fast.api_key) == ("q:1b", None)
        same = models.for_npc("anthropic:d")
        assert isinstance(same, Anthropic)
        assert (same.model, same.api_key) == ("d", llm.api_key)


@pytest.mark.parametrize("provider", KNOWN)
def test_no_preset_and_no_version_is_odd(provider: Provider) -> None:
    address = PRESETS[provider].base_url
    assert address is not None
    for given in (address, f"{address}/", "https://proxy.example.com/team/v1"):
        if provider in (*LOCAL, Provider.ANTHROPIC) or given.startswith(address):
            assert address_remedy(given, provider) == ""


@pytest.mark.parametrize(
    ("provider", "given", "better"),
    [
        ("chat_completions", "http://127.0.0.1:8000", "http://127.0.0.1:8000/v1"),
        ("vllm", "http://gpu:8000/", "http://gpu:8000/v1"),
        ("lmstudio", "http://gpu:1234/v1/models", "http://gpu:1234/v1"),
        ("llamacpp", "http://gpu:8080/v1/chat/completions/", "http://gpu:8080/v1"),
        ("ollama", "http://gpu:11434/api", "http://gpu:11434/v1"),
        ("ollama", "http://gpu/api/generate", "http://gpu/v1"),
        ("openai", "https://api.openai.com", "https://api.openai.com/v1"),
        (
            "openai",
            "https://a.openai.azure.com",
            "https://a.openai.azure.com/openai/v1",
        ),
        ("groq", "https://api.groq.com/v1", "https://api.groq.com/openai/v1"),
        ("openrouter", "https://openrouter.ai/v1", "https://openrouter.ai/api/v1"),
        (
            "gemini",
            "https://generativelanguage.googleapis.com/v1beta/models/g:generateContent",
            "https://generativelanguage.googleapis.com/v1beta/openai",
        ),
        ("anthropic", "https://api.anthropic.com", "https://api.anthropic.com/v1"),
        ("anthropic", "https://a.com/v1/messages", "https://a.com/v1"),
        ("chat_completions", "https://a.com/v1/messages", "anthropic https://a.com/v1"),
        ("deepseek", "https://a.com/anthropic", "anthropic https://a.com/anthropic/v1"),
        (
            "anthropic",
            "https://a.com/v1/chat/completions",
            "chat_completions https://a.com/v1",
        ),
        # Addresses that answer as they stand.
        ("llamacpp", "http://gpu:8080", ""),
        ("deepseek", "https://api.deepseek.com", ""),
        ("chat_completions", "http://gpu:3000/api", ""),
        ("chat_completions", "https://a.com/inference", ""),
    ],
)
def test_an_address_that_is_not_meant_so_names_the_right_one(
    provider: str, given: str, better: str
) -> None:
    llm = {"provider": provider, "model": "m", "base_url": given}
    spare = {"fallbacks": [llm], "provider": "offline"}
    for where, section in (("", llm), (".fallbacks[0]", spare)):
        told = odd({"llm": section})
        if not better:
            assert told == []
            continue
        other, _, address = better.rpartition(" ")
        change = f"provider: {other}, and " if other else ""
        (text,) = told
        remedy = f": write {change}base_url: {address} @ "
        assert remedy in text
        assert text.endswith(f".llm{where}.base_url")
        # The remedy is one that works.
        fixed = llm | {"base_url": address} | ({"provider": other} if other else {})
        assert odd({"llm": fixed}) == []


def test_the_servers_of_speech_images_and_embeddings_have_such_addresses_too() -> None:
    at = "http://gpu:9"
    speech = {"provider": "openai_speech", "model": "m", "voice": "v"}
    hearing = {"provider": "transcriptions", "model": "m"}
    data = {
        "speech": {
            "synthesis": speech | {"base_url": f"{at}/v1/audio/speech"},
            "recognition": hearing | {"base_url": f"{at}/v1/audio/transcriptions"},
        },
        "memory": {"embeddings": {"model": "m", "base_url": f"{at}/v1/embeddings"}},
        "builtin": {"images": {"base_url": at}},
        "s2s": {
            "provider": "openai_realtime",
            "model": "m",
            "api_key": "k",
            "base_url": f"{at}/v1/realtime",
        },
    }
    assert [text.rpartition("base_url: ")[2] for text in odd(data)] == [
        f"{at}/v1 @ npcs.yaml.memory.embeddings.base_url",
        f"{at}/v1 @ npcs.yaml.s2s.base_url",
        f"{at}/v1 @ npcs.yaml.speech.synthesis.base_url",
        f"{at}/v1 @ npcs.yaml.speech.recognition.base_url",
        f"{at}/v1 @ npcs.yaml.builtin.images.base_url",
    ]
