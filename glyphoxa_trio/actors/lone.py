"""A single error raised inside a resource's block, taken out of its groups."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def lone_errors() -> Generator[None]:
    """Take a single exception out of the groups that nurseries wrap around it.

    For resources that open nurseries of their own: their user should not have to know
    how many. Several exceptions at once stay a group.
    """
    try:
        yield
    except BaseExceptionGroup as group:
        lone = _lone(group)
        if lone is None:
            raise
        raise lone from lone.__cause__


def _lone(group: BaseExceptionGroup[BaseException]) -> BaseException | None:
    if len(group.exceptions) != 1:
        return None
    (only,) = group.exceptions
    return _lone(only) if isinstance(only, BaseExceptionGroup) else only
