"""Removes the configuration's secrets and control characters from log texts.

The rooms below do not log secrets already; this is a second check, for texts that
come from others: a server's error, its stderr.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from glyphoxa_trio.config import Config
from glyphoxa_trio.config.secrecy import secrets_in
from glyphoxa_trio.secret import Mask

_LONGEST_TEXT: Final = 2_000  # characters of one field


@attrs.frozen
class Redaction:
    """Cleans the fields of a record."""

    mask: Mask = attrs.field(factory=Mask)

    @classmethod
    def of(cls, *configs: Config) -> Redaction:
        """For everything secret in these configurations, wherever it stands."""
        return cls(Mask.of(secrets_in(configs)))

    def clean(self, value: Any) -> Any:
        """The value without secrets and control characters, and not endless."""
        match value:
            case str():
                return self._text(value)
            case Mapping():
                return {self._text(str(k)): self.clean(v) for k, v in value.items()}
            case list() | tuple():
                return [self.clean(item) for item in value]
            case _:
                return value

    def _text(self, text: str) -> str:
        text = self.mask.text(text)
        if not text.isprintable():
            text = "".join(x if x.isprintable() else " " for x in text).strip()
        return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]} …"
