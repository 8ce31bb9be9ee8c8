"""Vectors in a memory file: plain tables, compared by functions of sqlite-vec.

A search looks at one bit of each number of all vectors that the viewer may find, and
compares the full vectors of the nearest of them only. That takes a third of the time
that sqlite-vec's own tables take, and unlike there a query can be interrupted, a row
can be removed without the extension, and everything that a viewer may see is a plain
condition.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import apsw

from glyphoxa_trio.extras import ExtraMissing, missing, require
from glyphoxa_trio.memory.similarity import unit

FEATURE: Final = "search by meaning"
EXTRA: Final = "memory"
# How many of the nearest by their bits are compared in full: more of short vectors,
# whose bits say less. If there are no more than these, the search is exact.
_NUMBERS: Final = 600_000
_FEWEST: Final = 400
_MOST: Final = 4_000


def load(connection: apsw.Connection) -> None:
    """Load sqlite-vec into a connection; does nothing where it is not installed."""
    # It is not imported: where NumPy is, it would import that, too.
    found = find_spec("sqlite_vec")
    if found is None or found.origin is None:
        return
    connection.enable_load_extension(True)
    try:
        connection.load_extension(str(Path(found.origin).with_name("vec0")))
    except apsw.ExtensionLoadingError:
        return  # what needs it says so (`extension_needed`)
    finally:
        connection.enable_load_extension(False)


@contextmanager
def extension_needed() -> Iterator[None]:
    """Run statements that use functions of sqlite-vec.

    Raises:
      ExtraMissing: it is not there.
    """
    require(FEATURE, EXTRA)
    try:
        yield
    except apsw.SQLError as error:
        if "no such function: vec_" in str(error):
            raise ExtraMissing(missing(FEATURE, EXTRA)) from error
        raise


def packed(vector: Sequence[float]) -> bytes:
    """Return the vector as it is kept: see the table ``vector``.

    Raises:
      QueryRefused: it has no numbers, or one that is not finite.
    """
    numbers = array("f", unit(vector))
    numbers.extend([0.0] * (-len(numbers) % 8))
    return numbers.tobytes()


def compared(dimensions: int) -> int:
    """Return how many vectors a search compares in full."""
    return min(max(_NUMBERS // dimensions, _FEWEST), _MOST)
