"""The model of a command line, in place of the configured one."""

from __future__ import annotations

import os
from typing import Any, Final

import attrs

from glyphoxa_trio.secret import Secret

from .llm import LlmConfig
from .model import Config
from .presets import PRESETS, Provider, named
from .problems import ConfigError

_ANY_KEY: Final = "OPENAI_API_KEY"  # of a server without a preset
_SAID: Final = (
    *("provider", "model", "base_url", "api_key", "temperature"),
    *("max_tokens", "extra", "fallbacks"),
)


def _of_the_server(field: attrs.Attribute[Any], _: object) -> bool:
    return field.name not in _SAID


@attrs.frozen
class Model:
    """The model of the command line, in place of the configured one and its fallbacks.

    ``provider:name`` is one of that preset. Else it is at the configured server, in its
    protocol; another address is that of a server of chat completions.
    """

    name: str | None = None
    base_url: str | None = None

    def applied_to(self, config: Config) -> Config:
        """The configuration with this model for every NPC.

        Raises:
          ConfigError: for an address that is none.
        """
        if self.name is None:
            return config
        given = config.llm
        provider, name = named(self.name)
        elsewhere = self.base_url not in (None, given.base_url)
        if provider is None:
            provider = given.provider
            if provider is Provider.OFFLINE or elsewhere:
                provider = Provider.CHAT_COMPLETIONS
        another = given.provider not in (provider, Provider.OFFLINE)
        base_url = self.base_url or (None if another else given.base_url)
        if provider is Provider.CHAT_COMPLETIONS and base_url is None:
            provider = Provider.OPENAI
        variable = PRESETS[provider].key
        if provider is Provider.CHAT_COMPLETIONS:
            variable = _ANY_KEY
        key = os.environ.get("GLYPHOXA_API_KEY") or os.environ.get(variable)
        # A configured key is for the configured server, and for no other.
        configured = None if elsewhere or another else given.api_key
        same = {} if another else attrs.asdict(given, filter=_of_the_server)
        try:
            llm = LlmConfig(
                **same,
                provider=provider,
                model=name,
                base_url=base_url,
                api_key=Secret(key) if key else configured,
                temperature=given.temperature,
                max_tokens=given.max_tokens,
                extra={} if another else given.extra,
            )
        except ValueError as error:
            raise ConfigError(f"{error} @ --base-url") from None
        # --model is for every NPC, also for one that has models of its own.
        npcs = tuple(
            attrs.evolve(npc, model=None, fast_model=None) for npc in config.npcs
        )
        return attrs.evolve(config, llm=llm, npcs=npcs)
