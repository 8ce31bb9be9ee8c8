"""Imports that take long, in a thread.

A library that only some features need is imported when it is used. In a coroutine that
would hold the event loop, and with it every turn; so it is loaded first.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from functools import partial
from importlib import import_module

import trio


async def load(*names: str) -> None:
    """Import these modules in a thread, unless they are there.

    A module that is not installed is left out: the import that follows reports it. If
    cancelled, the import under way is waited for.
    """
    if absent := [name for name in names if not _is_there(name)]:
        await trio.to_thread.run_sync(partial(_import, absent))


def _is_there(name: str) -> bool:
    module = sys.modules.get(name)
    # Another thread may be importing it; to import it here would wait for that.
    return module is not None and not getattr(module.__spec__, "_initializing", False)


def _import(names: list[str]) -> None:
    for name in names:
        with suppress(ImportError):
            import_module(name)
