"""Packages whose names are imported when they are first used.

A package's ``__init__`` says for type checkers and editors where each name is, in an
ordinary import, and for everything else by `lazy_names`, with the same names:

    if TYPE_CHECKING:
        from .opening import open_runtime
    else:
        __getattr__, __dir__ = lazy_names(__name__, {"open_runtime": "opening"})
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    package: str,
    modules: Mapping[str, str],
    *,
    otherwise: Callable[[str], Any] | None = None,
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` for a package.

    Args:
      package: its ``__name__``.
      modules: the module below it that each name is imported from.
      otherwise: what answers other names, such as `renamed.renamed`.
    """

    def __getattr__(name: str) -> Any:
        if name not in modules and otherwise is not None:
            return otherwise(name)
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{modules[name]}"), name)
        setattr(sys.modules[package], name, value)  # the next time it is there
        return value

    def __dir__() -> list[str]:
        return sorted({*modules, *vars(sys.modules[package])})

    return __getattr__, __dir__
