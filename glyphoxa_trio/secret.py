"""A string that never shows itself."""

from __future__ import annotations

import attrs


@attrs.frozen
class Secret:
    """A token, key or password: `reveal` it at the wire and nowhere else."""

    _value: str = attrs.field(repr=False)

    def reveal(self) -> str:
        return self._value

    def __str__(self) -> str:
        return "[secret]"
