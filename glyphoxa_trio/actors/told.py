"""Callbacks of an embedder, called so that their errors affect nothing else.

`tell` is for callbacks whose result is not needed: a tap, an `on_warning`. Their
exceptions go to the log, once for each callback.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from glyphoxa_trio.errors import said

_log = logging.getLogger(__name__)
_MOST: Final = 256
_failed: set[str] = set()


def tell(callback: Callable[..., object], *args: Any) -> None:
    """Call it. Any exception it raises is caught, except for a Ctrl-C."""
    try:
        callback(*args)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # border: the embedder's code
        name = getattr(callback, "__qualname__", type(callback).__qualname__)
        if name not in _failed and len(_failed) < _MOST:
            _failed.add(name)
            _log.error(
                "the callback %s failed; it is called again, but its later errors are"
                " not logged: %s",
                name,
                said(error),
            )


def careful(callback: Callable[..., object] | None) -> Callable[..., None] | None:
    """Return the callback as one that never raises."""
    if callback is None:
        return None

    def told(*args: Any) -> None:
        tell(callback, *args)

    return told
