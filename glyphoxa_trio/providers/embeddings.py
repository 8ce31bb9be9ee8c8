"""Embeddings: vectors that stand for the meaning of texts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

from glyphoxa_trio.errors import GlyphoxaError


class EmbeddingError(GlyphoxaError):
    """The texts could not be embedded; the message says why."""


class TextsRefused(EmbeddingError):
    """The model does not take these texts, but may take others: one is too long."""


class Embedder(Protocol):
    """A model that embeds texts."""

    @property
    def model(self) -> str:
        """The name of the model; vectors of different names cannot be compared."""
        ...

    async def embed(self, texts: Sequence[str]) -> list[tuple[float, ...]]:
        """Return a vector for each text, all of one length, in their order.

        Raises:
          EmbeddingError: they could not be embedded.
        """
        ...


def checked(vectors: Sequence[Any], number: int) -> list[tuple[float, ...]]:
    """Return the vectors of a model, if they are those of so many texts.

    Raises:
      EmbeddingError: there are more or fewer, or they are no vectors of one length with
        finite numbers.
    """
    if len(vectors) != number:
        raise EmbeddingError(f"{len(vectors)} vectors for {number} texts")
    made: list[tuple[float, ...]] = []
    for vector in vectors:
        if not isinstance(vector, list) or not vector:
            raise EmbeddingError("an embedding is not a list of numbers")
        if not all(type(x) in (int, float) for x in vector):
            raise EmbeddingError("an embedding has something else than numbers in it")
        try:
            numbers = tuple(map(float, vector))
        except OverflowError:
            numbers = (math.inf,)
        if not all(map(math.isfinite, numbers)):
            raise EmbeddingError("an embedding has a number that is not finite")
        if made and len(made[0]) != len(numbers):
            raise EmbeddingError("the embeddings differ in length")
        made.append(numbers)
    return made
