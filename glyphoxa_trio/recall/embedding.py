"""The embedding of what is in memory, in the background, and of queries.

    async with embedder_of(config) as embedder:
        embedding = Embedding(memory, embedder)
        nursery.start_soon(embedding.run)
        ...
        embedding.wake()  # an evening has ended

When the configured model changes, everything is embedded again. A query is embedded by
the new model from the beginning, and finds what that one has embedded so far;
`SearchOutcome` says how much that is.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

import attrs

import trio

from glyphoxa_trio.config.memory import EmbeddingsConfig
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.extras import ExtraMissing
from glyphoxa_trio.memory.contract import FoundChunk, Memory
from glyphoxa_trio.memory.visibility import CampaignKey, Viewer
from glyphoxa_trio.providers.embeddings import Embedder, EmbeddingError, TextsRefused

BATCH: Final = 16  # chunks
POLL: Final = 60.0  # seconds; another process may have ended an evening
# Seconds after an error: the first pause, and the longest.
PAUSE: Final = 1.0
LONGEST: Final = 300.0
WITHIN: Final = 0.3  # seconds for a query
_GAP: Final = 0.1  # seconds between two looks whether turns are running
_PATIENCE: Final = 5.0  # seconds that turns may hold up a batch
_MOST_QUERIES: Final = 256  # that are remembered
_SHORT: Final = 1000  # characters
_PLAIN: Final = "Hello"


@attrs.frozen
class SearchOutcome:
    """What was found by its meaning, and how complete the index is: ``done`` of ``all``
    chunks are embedded."""

    chunks: tuple[FoundChunk, ...]
    done: int
    all: int


@attrs.define(eq=False)
class Embedding:
    """Keeps the semantic index complete; see the module.

    Args:
      idle: returns True while no turn is running: batches wait for that, if not for
        ever.
      warn: called once when embedding fails, and when it works again.
    """

    memory: Memory
    embedder: Embedder
    idle: Callable[[], bool] = lambda: True
    warn: Callable[[str], None] = lambda _: None
    _counts: tuple[int, int] = attrs.field(default=(0, 0), init=False)
    _woken: trio.Event = attrs.field(factory=trio.Event, init=False)
    _alone: bool = attrs.field(default=False, init=False)
    _fails: bool = attrs.field(default=False, init=False)
    _rests_until: float = attrs.field(default=float("-inf"), init=False)
    _queries: OrderedDict[str, tuple[float, ...]] = attrs.field(
        factory=OrderedDict, init=False
    )

    def progress(self) -> tuple[int, int]:
        """Return how many chunks are embedded, and how many there are, as far as `run`
        has seen."""
        return self._counts

    def wake(self) -> None:
        """Have `run` look for chunks now."""
        self._woken.set()

    async def run(self) -> None:
        """Embed what is pending, until cancelled. Returns if an extra is missing."""
        pause = PAUSE
        while True:
            self._woken = trio.Event()
            try:
                more = await self._batch()
            except ExtraMissing as error:
                self.warn(str(error))
                return
            except GlyphoxaError as error:
                if not self._fails:
                    self.warn(f"what was said cannot be embedded: {error}")
                self._fails = True
                await trio.sleep(pause)
                pause = min(2 * pause, LONGEST)
                continue
            if self._fails and more:
                self._fails = False
                self.warn("what was said is embedded again")
            pause = PAUSE
            if not more:
                with trio.move_on_after(POLL):
                    await self._woken.wait()

    async def search(
        self,
        campaign: CampaignKey,
        viewer: Viewer,
        text: str,
        *,
        limit: int = 10,
        within: float = WITHIN,
    ) -> SearchOutcome | None:
        """Return what is most similar to a text; None if that cannot be told now.

        Raises:
          ExtraMissing: see `SemanticIndex`.
        """
        made = await self.embed_query(text, within)
        if made is None:
            return None
        chunks = await self.memory.index.search(campaign, viewer, *made, limit=limit)
        return SearchOutcome(chunks, *await self.memory.index.progress(made[0]))

    async def embed_query(
        self, text: str, within: float = WITHIN
    ) -> tuple[str, Sequence[float]] | None:
        """Return the model and the vector of a query.

        Returns None if there is no vector within so many seconds. After that, and after
        an error, queries are not tried for a moment.
        """
        model = self.embedder.model
        if (known := self._queries.get(text)) is not None:
            self._queries.move_to_end(text)
            await trio.lowlevel.checkpoint()
            return model, known
        if trio.current_time() < self._rests_until:
            await trio.lowlevel.checkpoint()
            return None
        try:
            with trio.fail_after(within):
                (vector,) = await self.embedder.embed([text])
        except TextsRefused:  # others may be taken
            return None
        except (EmbeddingError, trio.TooSlowError):
            self._rests_until = trio.current_time() + PAUSE
            return None
        self._queries[text] = vector
        if len(self._queries) > _MOST_QUERIES:
            self._queries.popitem(last=False)
        return model, vector

    async def _batch(self) -> bool:
        """Embed a batch. Return False if nothing was pending."""
        index, model = self.memory.index, self.embedder.model
        with trio.move_on_after(_PATIENCE):
            while not self.idle():  # noqa: ASYNC110  a turn tells nobody of its end
                await trio.sleep(_GAP)
        pending = await index.pending(model, limit=BATCH)
        if pending:
            vectors = await self._vectors([chunk.text for _, chunk in pending])
            ids = (chunk.id for _, chunk in pending)
            await index.add(model, list(zip(ids, vectors, strict=True)))
        elif not self._alone:
            await index.drop_other_models(model)
            self._alone = True
        self._counts = await index.progress(model)
        return bool(pending)

    async def _vectors(self, texts: list[str]) -> list[tuple[float, ...]]:
        found = await self._each(texts)
        if None in found:
            # If it refuses these as well, it refuses everything, and so this raises.
            (like,) = await self.embedder.embed([_PLAIN])
            # They are similar to nothing, and not tried for ever.
            return [x or (0.0,) * len(like) for x in found]
        return [x for x in found if x is not None]

    async def _each(self, texts: list[str]) -> list[tuple[float, ...] | None]:
        """Embed texts: one that the model refuses by itself, or by its beginning if it
        is long. None stands for one that it refuses then, too."""
        try:
            return [*await self.embedder.embed(texts)]
        except TextsRefused:
            if len(texts) > 1:
                half = len(texts) // 2
                return [
                    *await self._each(texts[:half]),
                    *await self._each(texts[half:]),
                ]
            if len(texts[0]) > _SHORT:
                return await self._each([texts[0][:_SHORT]])
            return [None]


@asynccontextmanager
async def embedder_of(config: EmbeddingsConfig) -> AsyncIterator[Embedder]:
    """Open the configured model of embeddings until the block is left.

    Raises:
      ExtraMissing: the libraries of a local model are not installed.
      ValueError: for an address or a key that no request can carry.
    """
    if config.path is not None:
        from glyphoxa_trio.providers.embeddings_local import LocalEmbedder

        embedder: HttpEmbedder | LocalEmbedder = LocalEmbedder(config.path)
    else:
        from glyphoxa_trio.providers.embeddings_http import HttpEmbedder

        assert config.base_url is not None  # as the configuration has checked
        assert config.model is not None
        embedder = HttpEmbedder(
            name=config.model,
            base_url=config.base_url,
            api_key=config.api_key,
            dimensions=config.dimensions,
        )
    try:
        yield embedder
    finally:
        with trio.move_on_after(1, shield=True):
            await embedder.aclose()
