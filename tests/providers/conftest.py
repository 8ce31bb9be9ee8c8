"""What tests of programs share: whether one of theirs is left."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest


def _children() -> set[int]:
    """The processes that we started, dead or alive, until they are waited for."""
    children: set[int] = set()
    for task in Path(f"/proc/{os.getpid()}/task").iterdir():
        with suppress(OSError):  # a thread that has ended
            children.update(map(int, (task / "children").read_text().split()))
    return children


@pytest.fixture
def no_children() -> Callable[[], bool]:
    """Whether none is left of those that were started since."""
    before = _children()
    return lambda: _children() <= before
