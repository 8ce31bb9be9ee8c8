"""Embeddings by a model in a folder: a tiny one, made here. Threads are real."""

from __future__ import annotations

import json
import math
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest

import trio

from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.extras import LIBRARIES, ExtraMissing
from glyphoxa_trio.providers.embeddings import EmbeddingError
from glyphoxa_trio.providers.embeddings_local import LocalEmbedder

WORDS = {"[PAD]": (0, 0), "[UNK]": (0, 0), "sword": (1, 0), "blade": (0.9, 0.1)}
WORDS |= {"cheese": (0, 1)}


@pytest.fixture(name="folder")
def tiny_model(tmp_path: Path) -> Path:
    numpy = pytest.importorskip("numpy")
    tokenizers = pytest.importorskip("tokenizers")
    safetensors = pytest.importorskip("safetensors.numpy")
    folder = tmp_path / "tiny"
    folder.mkdir()
    known = {word: n for n, word in enumerate(WORDS)}
    model = tokenizers.models.WordLevel(known, unk_token="[UNK]")
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    vectors = numpy.array(list(WORDS.values()), dtype="float32")
    safetensors.save_file({"embeddings": vectors}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({"normalize": False}))
    return folder


def similarity(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    product = math.hypot(*one) * math.hypot(*other)
    return sum(x * y for x, y in zip(one, other, strict=True)) / product


async def test_similar_words_are_near_and_no_network_is_used(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    embedder = LocalEmbedder(folder)
    assert embedder.model == "tiny"
    sword, blade, cheese = await embedder.embed(["sword", "a blade", "cheese"])
    assert similarity(sword, blade) > 0.9 > 0.1 > similarity(sword, cheese)
    assert await embedder.embed([]) == []
    strange = ["", "\ud800 sword", "sword " * 9999, "\0"]
    found = await embedder.embed(strange)
    assert [len(x) for x in found] == [2] * 4
    await embedder.aclose()
    assert await embedder.embed(["sword"]) == [sword]


async def test_several_at_once_take_turns(folder: Path) -> None:
    embedder = LocalEmbedder(folder)
    found = []

    async def one(text: str) -> None:
        found.append((text, await embedder.embed([text])))

    async with trio.open_nursery() as nursery:
        for text in [*WORDS] * 4:
            nursery.start_soon(one, text)
    assert len(found) == 20
    for text, (vector,) in found:
        assert vector == pytest.approx(WORDS[text])


@pytest.mark.parametrize(
    "name", ["config.json", "model.safetensors", "tokenizer.json", ""]
)
async def test_a_folder_without_a_model_is_an_error_that_names_it(
    folder: Path, name: str
) -> None:
    shutil.rmtree(folder) if not name else (folder / name).unlink()
    with pytest.raises(EmbeddingError, match=r"tiny: there is no .* model2vec"):
        await LocalEmbedder(folder).embed(["sword"])


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
async def test_a_damaged_model_is_an_error_that_names_it(
    folder: Path, name: str
) -> None:
    (folder / name).write_bytes(b"\0{nothing")
    embedder = LocalEmbedder(folder)
    for _ in range(2):
        with pytest.raises(GlyphoxaError, match="tiny: the model cannot be loaded"):
            await embedder.embed(["sword"])


def test_without_the_libraries_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in LIBRARIES["embeddings"]:
        monkeypatch.setitem(__import__("sys").modules, name, None)
    with pytest.raises(ExtraMissing, match=r"glyphoxa-trio\[embeddings\]"):
        LocalEmbedder(Path("tiny"))
