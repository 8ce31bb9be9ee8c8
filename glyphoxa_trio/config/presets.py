"""Presets of the servers that models run on, by the names that people call them.

A preset fills in what a configuration does not say: the address, how requests are
worded, how many of them are made at once. Each of these keys can be given beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import attrs


class Provider(StrEnum):
    """The model server that is asked, or the protocol that it speaks."""

    OFFLINE = "offline"
    CHAT_COMPLETIONS = "chat_completions"
    ANTHROPIC = "anthropic"
    OLLAMA = "ollama"
    LLAMACPP = "llamacpp"
    VLLM = "vllm"
    LMSTUDIO = "lmstudio"
    OPENROUTER = "openrouter"
    OPENAI = "openai"
    GEMINI = "gemini"
    DEEPSEEK = "deepseek"
    XAI = "xai"
    MISTRAL = "mistral"
    GROQ = "groq"
    MOONSHOT = "moonshot"


class TokensField(StrEnum):
    """In which field a server is told how long an answer may be."""

    MAX_TOKENS = "max_tokens"
    MAX_COMPLETION_TOKENS = "max_completion_tokens"


@attrs.frozen(kw_only=True)
class Preset:
    """The preset of one kind of server.

    Args:
      base_url: where it usually is; None if there is no usual place.
      local: it runs on a machine of one's own, and loads a model when it is asked.
      key: the variable that its key is usually in.
      places: how many requests it is given at once.
      context_tokens: how long a conversation may be, if the configuration does not say.
      start: how it is started.
      fetch: how it gets a model, with ``{model}`` in place of the name.
      needs_model: it has more than one, and has to be told which.
    """

    base_url: str | None = None
    local: bool = False
    key: str = ""
    places: int = 64
    context_tokens: int | None = None
    max_tokens_field: TokensField = TokensField.MAX_TOKENS
    tool_choice: bool = True
    stream_options: bool = True
    parallel_tool_calls: bool | None = None
    name_field: bool = False
    start: str = ""
    fetch: str = ""
    needs_model: bool = True


PRESETS: Final[Mapping[Provider, Preset]] = {
    Provider.OFFLINE: Preset(needs_model=False),
    Provider.CHAT_COMPLETIONS: Preset(),
    Provider.ANTHROPIC: Preset(
        base_url="https://api.anthropic.com/v1",
        key="ANTHROPIC_API_KEY",
        context_tokens=200_000,
    ),
    # It silently cuts a text that is too long, and its endpoint of this protocol has no
    # field for the length: what it has by default is all that can be relied on. It
    # works on one request at a time, unless OLLAMA_NUM_PARALLEL says more.
    Provider.OLLAMA: Preset(
        base_url="http://127.0.0.1:11434/v1",
        local=True,
        places=1,
        context_tokens=4096,
        tool_choice=False,
        start="ollama serve",
        fetch="ollama pull {model}",
    ),
    # It answers with whatever model it was started with, and with -np so many at once.
    Provider.LLAMACPP: Preset(
        base_url="http://127.0.0.1:8080/v1",
        local=True,
        places=4,
        start="llama-server --jinja -np 4 -m MODEL.gguf",
        needs_model=False,
    ),
    Provider.VLLM: Preset(
        base_url="http://127.0.0.1:8000/v1",
        local=True,
        places=64,
        # Without these flags it refuses every request that has tools.
        start=("vllm serve MODEL --enable-auto-tool-choice --tool-call-parser PARSER"),
    ),
    Provider.LMSTUDIO: Preset(
        base_url="http://127.0.0.1:1234/v1",
        local=True,
        places=4,
        context_tokens=4096,
        tool_choice=False,
        start="lms server start",
        fetch="lms get {model}",
    ),
    Provider.OPENROUTER: Preset(
        base_url="https://openrouter.ai/api/v1", key="OPENROUTER_API_KEY"
    ),
    Provider.OPENAI: Preset(
        base_url="https://api.openai.com/v1",
        key="OPENAI_API_KEY",
        context_tokens=128_000,
        max_tokens_field=TokensField.MAX_COMPLETION_TOKENS,
    ),
    # Its endpoint of this protocol; a field that it does not know costs the request.
    Provider.GEMINI: Preset(
        base_url="https://generativelanguage.googleapis.com/v1beta/openai",
        key="GEMINI_API_KEY",
        context_tokens=1_000_000,
    ),
    Provider.DEEPSEEK: Preset(
        base_url="https://api.deepseek.com/v1",
        key="DEEPSEEK_API_KEY",
        context_tokens=128_000,
    ),
    Provider.XAI: Preset(
        base_url="https://api.x.ai/v1", key="XAI_API_KEY", context_tokens=131_072
    ),
    # It sends usage without being asked, and refuses the field that asks for it.
    Provider.MISTRAL: Preset(
        base_url="https://api.mistral.ai/v1",
        key="MISTRAL_API_KEY",
        context_tokens=128_000,
        stream_options=False,
    ),
    Provider.GROQ: Preset(
        base_url="https://api.groq.com/openai/v1",
        key="GROQ_API_KEY",
        context_tokens=131_072,
        max_tokens_field=TokensField.MAX_COMPLETION_TOKENS,
    ),
    Provider.MOONSHOT: Preset(
        base_url="https://api.moonshot.ai/v1",
        key="MOONSHOT_API_KEY",
        context_tokens=131_072,
    ),
}


def named(text: str) -> tuple[Provider | None, str]:
    """``ollama:llama3.2:3b`` as a provider and the model there; None if it names none.

    A model's own name may have a colon, and then none of these before it.
    """
    first, colon, rest = text.partition(":")
    try:
        found = Provider(first) if colon and rest else None
    except ValueError:
        found = None
    return (None, text) if found in (None, Provider.OFFLINE) else (found, rest)
