"""The keys for the models that speak."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

import attrs

from glyphoxa_trio.secret import Secret
from glyphoxa_trio.tools.naming import nearest

from .fields import InMs, above_zero, if_given, not_negative
from .presets import PRESETS, Preset, Provider, TokensField, named
from .problems import ConfigError
from .servers import web_address

SHORTEST: Final = 512  # tokens; a prompt alone is longer

_NOT_ITS_WIRE: Final = (
    "max_tokens_field",
    "stream_options",
    "parallel_tool_calls",
    "name_field",
    "thinks",
)


def _provider(value: Provider | str) -> Provider:
    try:
        return Provider(value)
    except ValueError:
        near = nearest(str(value), [*Provider], n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ConfigError(
            f"provider: expected one of {', '.join(Provider)}, got {value!r}{hint}."
            " Any other server of the chat completions protocol is chat_completions"
            " with a base_url"
        ) from None


def _long_enough(_: Any, attribute: Any, value: int) -> None:
    if value < SHORTEST:
        raise ConfigError(f"{attribute.name}: at least {SHORTEST}, got {value}")


@attrs.frozen(kw_only=True)
class ModelConfig:
    """A model. ``extra`` is put into each request as it stands.

    A None means the value of the provider's preset (`presets`).

    Args:
      context_tokens: how long a conversation may be, its answer included.
      thinks: answers begin with a thought that only a closing tag ends.
      places: how many requests it gets at once; the others wait in line.
      warm: have it loaded at the start, and again after a long silence.
      cold_start: how long loading it may take.

    Raises:
      ConfigError: if the provider lacks a setting that it needs.
    """

    provider: Provider = attrs.field(converter=_provider)
    model: str | None = None
    base_url: str | None = attrs.field(default=None, validator=if_given(web_address))
    api_key: Secret | None = None
    temperature: float | None = attrs.field(
        default=None, validator=if_given(not_negative)
    )
    max_tokens: int | None = attrs.field(default=None, validator=if_given(above_zero))
    context_tokens: int | None = attrs.field(
        default=None, validator=if_given(_long_enough)
    )
    max_tokens_field: TokensField | None = None
    tool_choice: bool | None = None
    stream_options: bool | None = None
    parallel_tool_calls: bool | None = None
    name_field: bool | None = None
    tools: bool | None = None
    thinks: bool | None = None
    places: int | None = attrs.field(default=None, validator=if_given(above_zero))
    warm: bool | None = None
    cold_start: InMs = attrs.field(default=300.0, validator=above_zero)
    extra: Mapping[str, Any] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        preset = self.preset
        missing = []
        if preset.needs_model and not self.model:
            missing.append("model")
        if self.provider is Provider.CHAT_COMPLETIONS and not self.base_url:
            missing.append("base_url")
        if self.provider is Provider.ANTHROPIC:
            idle = [key for key in _NOT_ITS_WIRE if getattr(self, key) is not None]
            if idle:
                raise ConfigError(*(f"anthropic has no {key}" for key in idle))
        if missing:
            raise ConfigError(*(f"{self.provider} needs {key}" for key in missing))

    @property
    def preset(self) -> Preset:
        """The preset of its kind of server."""
        return PRESETS[self.provider]

    @property
    def address(self) -> str:
        """The address of its server; empty if it has none."""
        return self.base_url or self.preset.base_url or ""

    @property
    def context(self) -> int | None:
        """The tokens that a conversation may have; None if that is unknown."""
        return self.context_tokens or self.preset.context_tokens

    def at(self, name: str) -> ModelConfig:
        """Another model as NPCs name it: of this server, or ``provider:model``.

        The key is for its own server, so the other one's is read from its variable.
        """
        provider, model = named(name)
        if provider in (None, self.provider):
            return attrs.evolve(self, model=name if provider is None else model)
        assert provider is not None
        key = os.environ.get(PRESETS[provider].key) if PRESETS[provider].key else None
        return ModelConfig(
            provider=provider,
            model=model,
            api_key=Secret(key) if key else None,
            temperature=self.temperature,
            max_tokens=self.max_tokens,
        )


@attrs.frozen(kw_only=True)
class LlmConfig(ModelConfig):
    """The model that speaks, and in order those that are asked when it fails."""

    provider: Provider = attrs.field(default=Provider.OFFLINE, converter=_provider)
    fallbacks: tuple[ModelConfig, ...] = ()
