"""What is configured of the groups of tools that come with the package."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from .fields import Text


def _sides(_: Any, __: attrs.Attribute[Any], tables: Mapping[str, Any]) -> None:
    if empty := [repr(name) for name, lines in tables.items() if not lines]:
        raise ValueError(f"a table without a line cannot be rolled: {', '.join(empty)}")


@attrs.frozen(kw_only=True)
class DiceConfig:
    """The group ``dice``. ``tables`` are random tables by name, a line a side."""

    enabled: bool = True
    tables: Mapping[str, tuple[Text, ...]] = attrs.field(factory=dict, validator=_sides)


@attrs.frozen(kw_only=True)
class RulesConfig:
    """The group ``rules``. ``datasets`` are files of rules beside our own (D21)."""

    enabled: bool = True
    datasets: tuple[Path, ...] = ()


@attrs.frozen(kw_only=True)
class FilesConfig:
    """The group ``files``: there only when ``base``, its sandbox, is given (D23)."""

    enabled: bool = True
    base: Path | None = None

    @property
    def served(self) -> bool:
        return self.enabled and self.base is not None


@attrs.frozen(kw_only=True)
class DualityConfig:
    """The group ``duality``, for those who play with Hope and Fear."""

    enabled: bool = False


@attrs.frozen(kw_only=True)
class BuiltinConfig:
    """The groups of tools that come with the package."""

    dice: DiceConfig = DiceConfig()
    rules: RulesConfig = RulesConfig()
    files: FilesConfig = FilesConfig()
    duality: DualityConfig = DualityConfig()
