"""The language models of a configuration, made when they are first needed.

Providers are imported only when the configuration asks for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from typing import Literal, TypeVar
from urllib.parse import urlsplit

import attrs

import trio

from glyphoxa_trio.config import (
    ConfigError,
    LlmConfig,
    ModelConfig,
    NpcConfig,
    Provider,
)
from glyphoxa_trio.config.addresses import address_remedy
from glyphoxa_trio.config.presets import TokensField
from glyphoxa_trio.config.servers import is_near
from glyphoxa_trio.config.voices import Engine
from glyphoxa_trio.providers.at_endpoint import AtEndpoint
from glyphoxa_trio.providers.chain import Chain, ModelCandidate, ModelStatistics
from glyphoxa_trio.providers.line import RequestSlots
from glyphoxa_trio.providers.llm import LLM
from glyphoxa_trio.providers.remedies import Advice
from glyphoxa_trio.providers.schemas.forms import SchemaForm

Given = TypeVar("Given")


@attrs.define(eq=False)
class Models:
    """The models that NPCs speak with: the default one, and one for each other name in
    use.

    Each has the same fallbacks behind it. The state of a fallback (failing, recovered)
    is shared by all.

    Args:
      given: an embedder's model, in place of all configured ones.
      stack: closes the connections.
      loads: the nursery in which local models are loaded ahead; None loads none.
      heard: wraps each model; a recording listens there.
      warn: told of models that fail and are replaced by a fallback.
    """

    _given: LLM | None
    _config: LlmConfig
    _stack: AsyncExitStack
    _loads: trio.Nursery | None = None
    _heard: Callable[[LLM], LLM] = lambda llm: llm
    _warn: Callable[[str], None] = lambda _: None
    _lines: dict[str, RequestSlots] = attrs.field(
        factory=dict, init=False
    )  # by address
    _links: list[tuple[ModelConfig, bool, LLM]] = attrs.field(factory=list, init=False)
    _made: dict[str | None, LLM] = attrs.field(factory=dict, init=False)
    _fast: dict[str, LLM] = attrs.field(factory=dict, init=False)
    _first: list[ModelCandidate[LLM]] = attrs.field(factory=list, init=False)
    _fallbacks: list[ModelCandidate[LLM]] | None = attrs.field(default=None, init=False)

    @property
    def crowded(self) -> bool:
        """True if a request waits for a place at the server of a model."""
        return any(line.waiting for line in self._lines.values())

    def for_npc(self, model: str | None) -> LLM:
        """Return the model of that name, made at the first call; None is the default
        model.

        Raises:
          ConfigError: for an address or a key that no request can carry.
        """
        if self._given is not None:
            model = None  # one for all NPCs
        if model not in self._made:
            made = self._make(model) if self._given is None else self._given
            self._made[model] = self._heard(made)
        return self._made[model]

    def opening(self, npc: NpcConfig) -> LLM | None:
        """Return the fast model that begins this NPC's answers; None if it has none.

        It has no fallbacks: if it fails, the model that would continue answers alone.
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

    def stands_in(self, npc: NpcConfig) -> bool:
        """Return True if the offline stand-in would answer for this NPC."""
        return self.is_stand_in(npc.model)

    def is_stand_in(self, model: str | None) -> bool:
        """Return True if the model of this name is the offline stand-in, or may be."""
        config: ModelConfig = self._config
        if model is not None and model != config.model:
            config = self._config.at(model)
        all_ = (config, *self._config.fallbacks)
        return self._given is None and any(x.provider is Provider.OFFLINE for x in all_)

    def statistics(self) -> tuple[ModelStatistics, ...]:
        """Return the statistics of every model that may have been asked, if there are
        fallbacks."""
        return tuple(x.statistics() for x in (*self._first, *(self._fallbacks or ())))

    def _make(self, model: str | None) -> LLM:
        config = self._config
        name = model or config.model
        first = self._link(config, name, "llm", patient=not config.fallbacks)
        if not config.fallbacks:
            return first
        if self._fallbacks is None:
            self._fallbacks = list(self._made_fallbacks())
        candidate = self._candidate(first, name, [x.name for x in self._fallbacks])
        self._first.append(candidate)
        return Chain([candidate, *self._fallbacks])

    def _made_fallbacks(self) -> Iterator[ModelCandidate[LLM]]:
        names: list[str] = []
        for at, config in enumerate(self._config.fallbacks):
            last = config is self._config.fallbacks[-1]
            place = f"llm.fallbacks[{at}]"
            link = self._link(config, config.model, place, patient=last)
            candidate = self._candidate(link, config.model, names)
            names.append(candidate.name)
            yield candidate

    def _candidate(
        self, link: LLM, model: str | None, taken: list[str]
    ) -> ModelCandidate[LLM]:
        """Return a candidate of the chain; two of one name are told apart by their
        addresses."""
        name = link.label if model is None or model in taken else model
        return ModelCandidate(name, link, self._warn)

    def _link(
        self,
        config: ModelConfig,
        model: str | None,
        place: str,
        *,
        patient: bool = True,
    ) -> LLM:
        """Return the connection for a configuration; equal configurations share one."""
        try:
            if model is not None and model != config.model:
                config = config.at(model)
            for like, alike, link in self._links:
                if like == config and alike == patient:
                    return link
            line = self._line(config)
            link = link_of(config, warn=self._warn, patient=patient, line=line)
            self._links.append((config, patient, link))
        except ValueError as error:  # an address or a key that no request can carry
            raise ConfigError(f"{error} @ {place}") from None
        if isinstance(link, AtEndpoint):
            self._stack.push_async_callback(link.aclose)
            if self._loads is not None:
                link.keep_loaded(self._loads, self._warn)
        return link

    def _line(self, config: ModelConfig) -> RequestSlots:
        """Return the request slots of a server.

        Their number is the smallest that is configured for its address, else its
        preset's.
        """
        address = config.address.rstrip("/")
        if address not in self._lines:
            all_ = (config, self._config, *self._config.fallbacks)
            said = [x.places for x in all_ if x.address.rstrip("/") == address]
            places = min((x for x in said if x), default=config.preset.places)
            self._lines[address] = RequestSlots(places=places)
        return self._lines[address]


def link_of(
    config: ModelConfig,
    *,
    warn: Callable[[str], None] = lambda _: None,
    patient: bool = True,
    line: RequestSlots | None = None,
) -> LLM:
    """Return the model of a configuration; the caller closes one that is at an
    endpoint.

    Args:
      patient: retry when its server is busy for a moment, since there is no other model
        to ask.
      line: the request slots of its server; None makes some for this model alone.

    Raises:
      ValueError: for an address or a key that no request can carry.
    """
    preset = config.preset
    line = line or RequestSlots(places=config.places or preset.places)
    if config.provider is Provider.OFFLINE:
        from glyphoxa_trio.providers.offline import Offline

        return Offline()
    if config.provider is Provider.ANTHROPIC:
        return _anthropic(config, warn, patient, line)
    from glyphoxa_trio.providers.chat_completions import ChatCompletions, RequestOptions

    options = RequestOptions(
        temperature=config.temperature,
        max_tokens=config.max_tokens,
        max_tokens_field=_max_tokens_field(config),
        tool_choice=_given(config.tool_choice, preset.tool_choice),
        stream_options=_given(config.stream_options, preset.stream_options),
        parallel_tool_calls=_given(
            config.parallel_tool_calls, preset.parallel_tool_calls
        ),
        name_field=_given(config.name_field, preset.name_field),
        tools=config.tools is not False,
        context_tokens=config.context,
        schemas=_schemas(config),
        extra=dict(config.extra),
    )
    return ChatCompletions(
        # A server with one model takes any name.
        model=config.model or "default",
        base_url=config.address,
        api_key=config.api_key,
        options=options,
        thinks=config.thinks,
        warn=warn,
        advice=_advice(config),
        line=line,
        loads_within=_loads_within(config),
        loads_ahead=_loads_ahead(config),
        patient=patient,
    )


def _anthropic(
    config: ModelConfig, warn: Callable[[str], None], patient: bool, line: RequestSlots
) -> LLM:
    from glyphoxa_trio.providers.anthropic import Anthropic, RequestOptions

    options = RequestOptions(
        temperature=config.temperature,
        extra=dict(config.extra),
        context_tokens=config.context,
        tool_choice=_given(config.tool_choice, True),
        tools=config.tools is not False,
    )
    if config.max_tokens is not None:
        options = attrs.evolve(options, max_tokens=config.max_tokens)
    return Anthropic(
        model=config.model or "",
        base_url=config.address,
        api_key=config.api_key,
        options=options,
        warn=warn,
        advice=_advice(config),
        line=line,
        loads_within=_loads_within(config),
        loads_ahead=_loads_ahead(config),
        patient=patient,
    )


def _advice(config: ModelConfig) -> Advice:
    preset = config.preset
    return Advice(
        start=preset.start,
        fetch=preset.fetch,
        key=preset.key,
        address=address_remedy(config.address, config.provider),
    )


def _loads_within(config: ModelConfig) -> float | None:
    may_load = _loads_ahead(config) or (config.warm is None and is_near(config.address))
    return config.cold_start if may_load else None


def _loads_ahead(config: ModelConfig) -> bool:
    return config.preset.local if config.warm is None else config.warm


def _given(value: Given | None, preset: Given) -> Given:
    return preset if value is None else value


def _schemas(config: ModelConfig) -> SchemaForm:
    """Return the form of tools: Google's, also behind a proxy that passes them on."""
    host = urlsplit(config.address).hostname or ""
    google = config.provider is Provider.GEMINI or host.endswith(".googleapis.com")
    named = "gemini" in (config.model or "").lower()
    return SchemaForm.GEMINI if google or named else SchemaForm.PLAIN


def _max_tokens_field(
    config: ModelConfig,
) -> Literal["max_completion_tokens", "max_tokens"]:
    """Return the field's name: the vendor renamed it, and not all compatible servers
    did."""
    field = config.max_tokens_field or config.preset.max_tokens_field
    vendor = urlsplit(config.address).hostname == "api.openai.com"
    if config.max_tokens_field is None and vendor:
        return "max_completion_tokens"
    return "max_tokens" if field is TokensField.MAX_TOKENS else "max_completion_tokens"
