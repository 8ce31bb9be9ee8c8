"""The keys for the models that speak."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

import attrs

from glyphoxa_trio.secret import Secret

from .fields import above_zero, if_given, not_negative
from .problems import ConfigError
from .servers import web_address


class Provider(StrEnum):
    OFFLINE = "offline"
    CHAT_COMPLETIONS = "chat_completions"
    ANTHROPIC = "anthropic"


_NEEDS: Final = {
    Provider.OFFLINE: (),
    Provider.CHAT_COMPLETIONS: ("model", "base_url"),
    Provider.ANTHROPIC: ("model",),
}


def _provider(value: Provider | str) -> Provider:
    try:
        return Provider(value)
    except ValueError:
        known = ", ".join(Provider)
        raise ConfigError(
            f"provider: expected one of {known}, got {value!r}; OpenAI, Ollama and most"
            " others are reached with chat_completions and a base_url"
        ) from None


@attrs.frozen(kw_only=True)
class ModelConfig:
    """A model. ``extra`` is put into each request as it stands.

    Raises:
      ConfigError: if the provider needs what is not given.
    """

    provider: Provider = attrs.field(converter=_provider)
    model: str | None = None
    base_url: str | None = attrs.field(default=None, validator=if_given(web_address))
    api_key: Secret | None = None
    temperature: float | None = attrs.field(
        default=None, validator=if_given(not_negative)
    )
    max_tokens: int | None = attrs.field(default=None, validator=if_given(above_zero))
    extra: Mapping[str, Any] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        missing = [key for key in _NEEDS[self.provider] if not getattr(self, key)]
        if missing:
            raise ConfigError(*(f"{self.provider} needs {key}" for key in missing))


@attrs.frozen(kw_only=True)
class LlmConfig(ModelConfig):
    """The model that speaks, and in order those that are asked when it fails."""

    provider: Provider = attrs.field(default=Provider.OFFLINE, converter=_provider)
    fallbacks: tuple[ModelConfig, ...] = ()
