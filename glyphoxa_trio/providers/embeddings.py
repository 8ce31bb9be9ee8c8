"""Embeddings: vectors that stand for the meaning of texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from glyphoxa_trio.errors import GlyphoxaError


class EmbeddingError(GlyphoxaError):
    """The texts could not be embedded; the message says why."""


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
