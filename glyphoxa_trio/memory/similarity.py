"""Vectors that are compared by their direction. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .errors import QueryRefused


def unit(vector: Sequence[float]) -> list[float]:
    """Return the vector with the length 1; one of zeros stays as it is.

    Raises:
      QueryRefused: it has no numbers, or one that is not finite.
    """
    if not vector or not all(map(math.isfinite, vector)):
        raise QueryRefused("a vector needs finite numbers, one or more")
    most = max(map(abs, vector))
    if not most:
        return list(vector)
    # Divided first, so that no square is too large or too small.
    scaled = [x / most for x in vector]
    length = math.hypot(*scaled)
    return [x / length for x in scaled]
