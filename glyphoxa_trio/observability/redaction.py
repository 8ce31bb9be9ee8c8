"""What must not be in a log: the configuration's secrets, and what steers screens.

The rooms below keep their secrets to themselves already; this is the second
lock, for a text that somebody else has written: a server's error, its stderr.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import attrs

from glyphoxa_trio.config import Config
from glyphoxa_trio.secret import Secret

_SHORTEST: Final = 6  # hiding anything shorter would blot out plain words
_LONGEST_TEXT: Final = 2_000  # characters of one field


@attrs.frozen
class Redaction:
    """Cleans the fields of a record. ``secrets`` come longest first."""

    secrets: tuple[str, ...] = ()

    @classmethod
    def of(cls, *configs: Config) -> Redaction:
        """For everything secret in these configurations, wherever it stands."""
        found = {
            part
            for config in configs
            for text in _secrets_in(config)
            # A key of several lines reaches a log line by line.
            for part in (text, *text.splitlines())
            if len(part) >= _SHORTEST
        }
        # What contains another secret is hidden whole.
        return cls(tuple(sorted(found, key=lambda part: (-len(part), part))))

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
        for secret in self.secrets:
            text = text.replace(secret, "[secret]")
        if not text.isprintable():
            text = "".join(x if x.isprintable() else " " for x in text).strip()
        return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]} …"


def _secrets_in(value: Any) -> Iterator[str]:
    match value:
        case Secret():
            yield value.reveal()
        case Mapping():
            for item in value.values():
                yield from _secrets_in(item)
        case list() | tuple():
            for item in value:
                yield from _secrets_in(item)
        case _ if attrs.has(type(value)):
            for field in attrs.fields(type(value)):
                item = getattr(value, field.name)
                yield from _secrets_in(item)
                if field.name.endswith("url") and isinstance(item, str):
                    yield from _secrets_of_address(item)


def _secrets_of_address(url: str) -> Iterator[str]:
    """An address may hold a key: as its password, or in its query."""
    parts = urlsplit(url)
    if parts.password:
        yield parts.password
    for _, value in parse_qsl(parts.query):
        yield value
