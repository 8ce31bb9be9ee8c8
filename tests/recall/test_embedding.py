"""The index is kept complete in the background, and queries do not wait for long."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest

import trio
from trio.testing import MockClock

from glyphoxa_trio.config.memory import EmbeddingsConfig
from glyphoxa_trio.extras import ExtraMissing
from glyphoxa_trio.memory.in_memory import InMemory
from glyphoxa_trio.memory.knowledge import Fact
from glyphoxa_trio.memory.visibility import CampaignKey, Reach, Viewer
from glyphoxa_trio.providers.embeddings import EmbeddingError, TextsRefused
from glyphoxa_trio.providers.embeddings_http import HttpEmbedder
from glyphoxa_trio.providers.embeddings_local import LocalEmbedder
from glyphoxa_trio.recall.embedding import (
    BATCH,
    PAUSE,
    POLL,
    Embedding,
    SearchOutcome,
    embedder_of,
)
from glyphoxa_trio.secret import Secret

KEY = CampaignKey("mines")
MOIRA = Viewer("Moira")


def meaning(text: str) -> tuple[float, ...]:
    return float(len(text)), 1.0


@attrs.define
class Scripted:
    """A model of the length of texts."""

    model: str = "lengths"
    takes: float = 0.0
    fails: Exception | None = None
    refuses: Callable[[str], bool] = lambda _: False
    asked: list[list[str]] = attrs.field(factory=list)

    async def embed(self, texts: Sequence[str]) -> list[tuple[float, ...]]:
        self.asked.append(list(texts))
        await trio.sleep(self.takes)
        if self.fails is not None:
            raise self.fails
        if any(map(self.refuses, texts)):
            raise TextsRefused("too long")
        return [meaning(x) for x in texts]


async def told(memory: InMemory, *texts: str, reach: Reach | None = None) -> None:
    facts = [Fact(text=x, reach=reach or Reach()) for x in texts]
    await memory.graph.put(KEY, facts=facts)


@asynccontextmanager
async def running(
    memory: InMemory, model: Scripted, **more: Any
) -> AsyncIterator[tuple[Embedding, list[str]]]:
    warned: list[str] = []
    embedding = Embedding(memory, model, warn=warned.append, **more)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(embedding.run)
        yield embedding, warned
        nursery.cancel_scope.cancel("the test is over")


async def test_what_is_pending_is_embedded_in_batches_and_then_it_waits(
    autojump_clock: MockClock,
) -> None:
    memory, model = InMemory(), Scripted(takes=1.0)
    await told(memory, *map(str, range(2 * BATCH + 1)))
    async with running(memory, model) as (embedding, warned):
        assert embedding.progress() == (0, 0)
        await trio.sleep(1.5)
        assert embedding.progress() == (BATCH, 2 * BATCH + 1)
        await trio.sleep(10)
        assert embedding.progress() == (2 * BATCH + 1, 2 * BATCH + 1)
        assert [len(x) for x in model.asked] == [BATCH, BATCH, 1]
        await told(memory, "new")
        embedding.wake()
        await trio.sleep(1.5)
        assert model.asked[3:] == [["new"]]
        await told(memory, "newer")  # by a process that wakes nobody
        await trio.sleep(POLL + 2)
        assert model.asked[4:] == [["newer"]]
        assert warned == []


async def test_a_wake_while_it_works_is_not_lost(autojump_clock: MockClock) -> None:
    memory, model = InMemory(), Scripted(takes=1.0)
    await told(memory, "one")
    async with running(memory, model) as (embedding, _):
        await trio.sleep(0.5)
        await told(memory, "two")
        embedding.wake()
        await trio.sleep(2)
        assert embedding.progress() == (2, 2)


async def test_turns_come_first_but_not_for_ever(autojump_clock: MockClock) -> None:
    memory, model, busy = InMemory(), Scripted(), True
    await told(memory, "a")
    async with running(memory, model, idle=lambda: not busy):
        await trio.sleep(2)
        assert model.asked == []
        busy = False
        await trio.sleep(0.2)
        assert model.asked == [["a"]]
        busy = True
        await told(memory, "b")
        await trio.sleep(POLL + 6)
        assert model.asked == [["a"], ["b"]]


async def test_errors_are_told_once_and_tried_again_later_and_later(
    autojump_clock: MockClock,
) -> None:
    memory = InMemory()
    model = Scripted(fails=EmbeddingError("http://x: down"))
    await told(memory, "a")
    async with running(memory, model) as (embedding, warned):
        await trio.sleep(PAUSE / 2)
        assert len(model.asked) == 1
        await trio.sleep(3600)
        # After 1, 2, 4 ... seconds, and then every five minutes.
        assert 15 < len(model.asked) < 25
        assert warned == ["what was said cannot be embedded: http://x: down"]
        model.fails = None
        await trio.sleep(301)
        assert embedding.progress() == (1, 1)
        assert warned[1:] == ["what was said is embedded again"]


async def test_a_text_that_the_model_refuses_does_not_hold_up_the_others(
    autojump_clock: MockClock,
) -> None:
    memory = InMemory()
    model = Scripted(refuses=lambda x: "bad" in x or len(x) > 2000)
    long = "x" * 3000
    await told(memory, *map(str, range(9)), "bad", long)
    async with running(memory, model) as (embedding, warned):
        await trio.sleep(1)
        assert embedding.progress() == (11, 11)
        found = await embedding.search(KEY, MOIRA, "x" * 1000, limit=11)
        assert found is not None
        scores = {x.chunk.text: x.score for x in found.chunks}
        assert scores[long] == pytest.approx(1)
        assert scores["bad"] == 0
        assert warned == []


async def test_a_server_that_refuses_everything_spoils_nothing(
    autojump_clock: MockClock,
) -> None:
    memory, model = InMemory(), Scripted(refuses=lambda _: True)
    await told(memory, "a")
    async with running(memory, model) as (embedding, warned):
        await trio.sleep(10)
        assert await memory.index.progress("lengths") == (0, 1)
        assert warned == ["what was said cannot be embedded: too long"]
        model.refuses = lambda _: False
        await trio.sleep(60)
        assert embedding.progress() == (1, 1)


async def test_after_a_change_of_model_all_is_embedded_again(
    autojump_clock: MockClock,
) -> None:
    memory = InMemory()
    await told(memory, *map(str, range(BATCH + 1)))
    async with running(memory, Scripted("old")):
        await trio.sleep(1)
    assert await memory.index.progress("old") == (BATCH + 1, BATCH + 1)
    model = Scripted("new", takes=1.0)
    async with running(memory, model) as (embedding, _):
        await trio.sleep(1.5)
        model.takes = 0.1
        found = await embedding.search(KEY, MOIRA, "x", within=5)
        assert found is not None
        # Found is only what the new model has embedded, and the answer says so.
        assert (len(found.chunks), found.done, found.all) == (10, BATCH, BATCH + 1)
        assert await memory.index.progress("old") == (BATCH + 1, BATCH + 1)
        await trio.sleep(5)
        assert embedding.progress() == (BATCH + 1, BATCH + 1)
        assert await memory.index.progress("old") == (0, BATCH + 1)


async def test_a_search_finds_what_its_viewer_may_know(
    autojump_clock: MockClock,
) -> None:
    memory = InMemory()
    await told(memory, "abc")
    await told(memory, "abcd", reach=Reach.of("Bartok"))
    async with running(memory, Scripted()) as (embedding, _):
        await trio.sleep(1)
        found = await embedding.search(KEY, MOIRA, "xyz", limit=5)
        assert isinstance(found, SearchOutcome)
        assert [x.chunk.text for x in found.chunks] == ["abc"]
        assert (found.done, found.all) == (2, 2)


async def test_a_slow_model_does_not_hold_a_query(autojump_clock: MockClock) -> None:
    model = Scripted(takes=10.0)
    embedding = Embedding(InMemory(), model)
    began = trio.current_time()
    assert await embedding.embed_query("dragon", within=0.25) is None
    assert trio.current_time() - began == 0.25
    # The next one is not even tried, until a moment has passed.
    assert await embedding.embed_query("dragon", within=0.25) is None
    assert await embedding.search(KEY, MOIRA, "dragon") is None
    assert trio.current_time() - began == 0.25
    assert len(model.asked) == 1
    await trio.sleep(PAUSE)
    model.takes = 0.1
    assert await embedding.embed_query("dragon") == ("lengths", (6.0, 1.0))


async def test_a_query_is_remembered_and_not_more_than_256_are(
    autojump_clock: MockClock,
) -> None:
    model = Scripted()
    embedding = Embedding(InMemory(), model)
    for text in ("a", "b", "a"):
        assert await embedding.embed_query(text) == ("lengths", (1.0, 1.0))
    assert model.asked == [["a"], ["b"]]
    for n in range(255):
        await embedding.embed_query(f"query {n}")
        await embedding.embed_query("a")
    assert model.asked.count(["a"]) == 1
    await embedding.embed_query("b")
    assert model.asked.count(["b"]) == 2


async def test_a_query_that_is_refused_does_not_stop_the_others(
    autojump_clock: MockClock,
) -> None:
    embedding = Embedding(InMemory(), Scripted(refuses=lambda x: len(x) > 5))
    assert await embedding.embed_query("too long") is None
    assert await embedding.embed_query("short") == ("lengths", (5.0, 1.0))
    broken = Embedding(InMemory(), Scripted(fails=EmbeddingError("no")))
    assert await broken.embed_query("short") is None


async def test_without_the_extra_it_says_so_and_ends(
    autojump_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    memory, warned = InMemory(), list[str]()

    async def pending(*_: Any, **__: Any) -> None:
        raise ExtraMissing("search by meaning needs the extra `memory`")

    monkeypatch.setattr(type(memory.index), "pending", pending)
    with trio.fail_after(1):
        await Embedding(memory, Scripted(), warn=warned.append).run()
    assert warned == ["search by meaning needs the extra `memory`"]


async def test_the_configuration_names_the_model(tmp_path: Path) -> None:
    at = EmbeddingsConfig(
        base_url="http://x/v1", model="m", api_key=Secret("k"), dimensions=8
    )
    async with embedder_of(at) as embedder:
        assert isinstance(embedder, HttpEmbedder)
        assert (embedder.model, embedder.base_url) == ("m/8", "http://x/v1")
        assert embedder.api_key == Secret("k")
    async with embedder_of(EmbeddingsConfig(path=tmp_path / "m2v")) as embedder:
        assert isinstance(embedder, LocalEmbedder)
        assert embedder.model == "m2v"
