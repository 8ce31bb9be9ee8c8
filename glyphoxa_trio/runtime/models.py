"""The models of a configuration, made when somebody needs them.

Providers are imported when the configuration asks for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from typing import Literal
from urllib.parse import urlsplit

import attrs

from glyphoxa_trio.config import (
    ConfigError,
    LlmConfig,
    ModelConfig,
    NpcConfig,
    Provider,
)
from glyphoxa_trio.config.voices import Engine
from glyphoxa_trio.providers.chain import Candidate, Chain, ModelStatistics
from glyphoxa_trio.providers.llm import LLM


@attrs.define(eq=False)
class Models:
    """One model for all NPCs, but for those that name another; each has the same
    fallbacks behind it, and what is known of those is known to all.

    Args:
      given: an embedder's, in place of the configured ones.
      stack: where links end.
      heard: put in front of each, to listen.
      warn: told of models that fail, if another one is asked for them.
    """

    _given: LLM | None
    _config: LlmConfig
    _stack: AsyncExitStack
    _heard: Callable[[LLM], LLM] = lambda llm: llm
    _warn: Callable[[str], None] = lambda _: None
    _made: dict[str | None, LLM] = attrs.field(factory=dict, init=False)
    _fast: dict[str, LLM] = attrs.field(factory=dict, init=False)
    _first: list[Candidate] = attrs.field(factory=list, init=False)
    _fallbacks: list[Candidate] | None = attrs.field(default=None, init=False)

    def for_npc(self, model: str | None) -> LLM:
        if self._given is not None:
            model = None  # it speaks for all
        if model not in self._made:
            made = self._make(model) if self._given is None else self._given
            self._made[model] = self._heard(made)
        return self._made[model]

    def opening(self, npc: NpcConfig) -> LLM | None:
        """The model that opens for this NPC, if another one does than goes on.

        Alone: whoever would be asked in its place is the one that goes on.
        """
        model = npc.fast_model
        if npc.engine is not Engine.SENTENCE_CASCADE or model is None:
            return None
        if self._given is not None:
            return self.for_npc(None)
        if model not in self._fast:
            link = self._link(self._config, model, "llm")
            self._fast[model] = self._heard(link)
        return self._fast[model]

    def statistics(self) -> tuple[ModelStatistics, ...]:
        """Of every model that may have been asked, if there are fallbacks."""
        return tuple(x.statistics() for x in (*self._first, *(self._fallbacks or ())))

    def _make(self, model: str | None) -> LLM:
        config = self._config
        name = model or config.model
        first = self._link(config, name, "llm")
        if not config.fallbacks:
            return first
        if self._fallbacks is None:
            self._fallbacks = list(self._made_fallbacks())
        candidate = self._candidate(first, name, [x.name for x in self._fallbacks])
        self._first.append(candidate)
        return Chain([candidate, *self._fallbacks])

    def _made_fallbacks(self) -> Iterator[Candidate]:
        names: list[str] = []
        for at, config in enumerate(self._config.fallbacks):
            link = self._link(config, config.model, f"llm.fallbacks[{at}]")
            candidate = self._candidate(link, config.model, names)
            names.append(candidate.name)
            yield candidate

    def _candidate(self, link: LLM, model: str | None, taken: list[str]) -> Candidate:
        """Two of one name are told apart by where they are."""
        name = link.label if model is None or model in taken else model
        return Candidate(name, link, self._warn)

    def _link(self, config: ModelConfig, model: str | None, place: str) -> LLM:
        try:
            match config.provider:
                case Provider.OFFLINE:
                    from glyphoxa_trio.providers.offline import Offline

                    return Offline()
                case Provider.CHAT_COMPLETIONS:
                    return self._chat_completions(config, model or "")
                case Provider.ANTHROPIC:
                    return self._anthropic(config, model or "")
        except ValueError as error:  # an address or a key that no request can carry
            raise ConfigError(f"{error} @ {place}") from None

    def _chat_completions(self, config: ModelConfig, model: str) -> LLM:
        from glyphoxa_trio.providers.chat_completions import ChatCompletions, Options

        link = ChatCompletions(
            model=model,
            base_url=config.base_url or "",
            api_key=config.api_key,
            options=Options(
                temperature=config.temperature,
                max_tokens=config.max_tokens,
                max_tokens_field=_max_tokens_field(config.base_url or ""),
                extra=dict(config.extra),
            ),
        )
        self._stack.push_async_callback(link.aclose)
        return link

    def _anthropic(self, config: ModelConfig, model: str) -> LLM:
        from glyphoxa_trio.providers.anthropic import VENDOR, Anthropic, Options

        options = Options(temperature=config.temperature, extra=dict(config.extra))
        if config.max_tokens is not None:
            options = attrs.evolve(options, max_tokens=config.max_tokens)
        link = Anthropic(
            model=model,
            base_url=config.base_url or VENDOR,
            api_key=config.api_key,
            options=options,
        )
        self._stack.push_async_callback(link.aclose)
        return link


def _max_tokens_field(
    base_url: str,
) -> Literal["max_completion_tokens", "max_tokens"]:
    """The vendor has renamed the field; the servers that follow it have not all."""
    vendor = urlsplit(base_url).hostname == "api.openai.com"
    return "max_completion_tokens" if vendor else "max_tokens"
