"""A model2vec model in a folder of this machine as an `Embedder`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import attrs

import trio

from glyphoxa_trio.errors import said
from glyphoxa_trio.extras import require

from .embeddings import EmbeddingError, checked

# Characters of a text that are embedded.
_LONGEST: Final = 20_000
_FILES: Final = ("config.json", "model.safetensors", "tokenizer.json")


@attrs.define(eq=False)
class LocalEmbedder:
    """A model in a folder, which is loaded when it is first used. It works in a thread,
    on one request at a time, and never uses the network.

    Raises:
      ExtraMissing: the libraries for it are not installed.
    """

    path: Path
    _loaded: Any = attrs.field(default=None, init=False, repr=False)
    _seat: trio.CapacityLimiter = attrs.field(
        factory=lambda: trio.CapacityLimiter(1), init=False, repr=False
    )

    def __attrs_post_init__(self) -> None:
        require("a model of embeddings in a folder", "embeddings")

    @property
    def model(self) -> str:
        """The name of the folder: another model belongs in another one."""
        return self.path.resolve().name

    async def embed(self, texts: Sequence[str]) -> list[tuple[float, ...]]:
        """Return a vector for each text; see `Embedder.embed`.

        When it is cancelled, its thread goes on in the background until it is done.

        Raises:
          EmbeddingError: the folder has no such model, or it fails.
        """
        if not texts:
            return []
        found = await trio.to_thread.run_sync(
            self._embed, list(texts), abandon_on_cancel=True, limiter=self._seat
        )
        return checked(found, len(texts))

    async def aclose(self) -> None:
        """Give up the memory of the model."""
        await trio.lowlevel.checkpoint()
        self._loaded = None

    def _embed(self, texts: list[str]) -> list[Any]:
        model = self._loaded or self._load()
        # Half of a surrogate pair is no text for a tokenizer.
        whole = [text[:_LONGEST].encode("utf-8", "replace").decode() for text in texts]
        try:
            vectors = model.encode(whole, use_multiprocessing=False)
            return list(vectors.tolist())
        # Border to foreign code: a model may fail in any way.
        except Exception as error:
            raise EmbeddingError(f"{self.path}: {said(error)}") from error

    def _load(self) -> Any:
        # Without these files the library would look for the model in the network.
        for name in _FILES:
            if not (self.path / name).is_file():
                raise EmbeddingError(
                    f"{self.path}: there is no {name} in it: path must be the folder"
                    " of a model2vec model"
                )
        try:
            from model2vec import StaticModel

            self._loaded = StaticModel.from_pretrained(self.path)
        # Border to foreign code again.
        except Exception as error:
            raise EmbeddingError(
                f"{self.path}: the model cannot be loaded: {said(error)}"
            ) from error
        return self._loaded
