"""Old names of objects that embedders import, kept for one version.

A module says ``__getattr__ = renamed(__name__, Voice="VoiceStyle")``: the old name
still works there, and warns. The names that stay are listed in CHANGELOG.md.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any


def renamed(module: str, level: int = 3, /, **names: str) -> Callable[[str], Any]:
    """Return a module's ``__getattr__`` that answers old names with the new objects.

    Args:
      module: the module's ``__name__``.
      level: how many frames above the warning the user of the old name is.
      names: the new name in that module, by old name.
    """

    def get(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        _warn(f"{module}.{name}", f"{module}.{names[name]}", level)
        return getattr(sys.modules[module], names[name])

    return get


def renamed_method(old: str, new: str) -> Callable[..., Any]:
    """Return a method that warns, and calls the one of the ``new`` name."""

    def method(self: object, *args: Any, **kwargs: Any) -> Any:
        kind = type(self).__name__
        _warn(f"{kind}.{old}", f"{kind}.{new}", level=3)
        return getattr(self, new)(*args, **kwargs)

    method.__name__ = old
    method.__doc__ = f"Deprecated: the old name of `{new}`."
    return method


def _warn(old: str, new: str, level: int) -> None:
    text = f"{old} is called {new} now; the old name goes with the next minor version"
    warnings.warn(text, DeprecationWarning, stacklevel=level)
