"""Embeddings over HTTP: a real server on loopback, judged by the vendor's types.

Sockets are real, so nothing is timed; each test has an absolute end.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from openai.types import CreateEmbeddingResponse
from openai.types.embedding_create_params import EmbeddingCreateParams
from pydantic import TypeAdapter

import trio
from trio.testing import MockClock

from glyphoxa_trio.providers import embeddings_http
from glyphoxa_trio.providers.embeddings import EmbeddingError, TextsRefused
from glyphoxa_trio.providers.embeddings_http import MOST_TEXTS, HttpEmbedder
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.testing.http_server import (
    CloseConnection,
    HttpServer,
    NoAnswer,
    RawBytes,
    ReceivedRequest,
    Reply,
    StatusReply,
    open_http_server,
)

KEY = "sk-very-secret"
JUDGE = TypeAdapter(EmbeddingCreateParams)


def answer(*vectors: Any) -> StatusReply:
    """The vendor's answer; the order of its items is not that of the texts."""
    data = [
        {"object": "embedding", "index": n, "embedding": vector}
        for n, vector in enumerate(vectors)
    ]
    body = {
        "object": "list",
        "data": data[::-1],
        "model": "small",
        "usage": {"prompt_tokens": 1, "total_tokens": 1},
    }
    return StatusReply(200, body=body)


def honest(request: ReceivedRequest) -> Reply:
    """Vectors that tell which text they are of."""
    texts = request.message["input"]
    reply = answer(*([float(len(x)), 1] for x in texts))
    CreateEmbeddingResponse.model_validate(reply.body, strict=True)
    return reply


@asynccontextmanager
async def asked(
    reply: Callable[[ReceivedRequest], Reply] | Reply, **more: Any
) -> AsyncIterator[tuple[HttpServer, HttpEmbedder]]:
    respond = reply if callable(reply) else lambda _: reply
    with trio.fail_after(30):
        async with open_http_server(respond) as server:
            given: dict[str, Any] = {"name": "small", "api_key": Secret(KEY), **more}
            embedder = HttpEmbedder(base_url=f"{server.origin}/v1/", **given)
            try:
                yield server, embedder
            finally:
                await embedder.aclose()


async def test_texts_become_vectors_in_their_order() -> None:
    texts = ["a", "bb", "Ä\ud800", ""]
    async with asked(honest, dimensions=2) as (server, embedder):
        assert await embedder.embed(texts) == [(1, 1), (2, 1), (2, 1), (0, 1)]
        assert await embedder.embed(["ccc"]) == [(3, 1)]
        assert await embedder.embed([]) == []
        assert server.connections == 1
    first = server.requests[0]
    assert (first.method, first.path) == ("POST", "/v1/embeddings")
    assert first.headers["authorization"] == f"Bearer {KEY}"
    body = json.loads(first.body)
    JUDGE.validate_python(body, strict=True)
    assert body == {
        "model": "small",
        "input": ["a", "bb", "Ä\ud800", ""],
        "dimensions": 2,
        "encoding_format": "float",
    }


async def test_many_texts_are_several_requests() -> None:
    texts = ["x" * n for n in range(2 * MOST_TEXTS + 1)]
    async with asked(honest, api_key=None) as (server, embedder):
        found = await embedder.embed(texts)
    assert [x for x, _ in found] == list(range(len(texts)))
    assert len(server.requests) == 3
    assert "authorization" not in server.requests[0].headers
    assert "dimensions" not in json.loads(server.requests[0].body)


def test_models_that_cannot_be_compared_have_different_names() -> None:
    def named(**more: Any) -> str:
        return HttpEmbedder(name="small", base_url="http://x/v1", **more).model

    assert (named(), named(dimensions=256)) == ("small", "small/256")


NESTED = b"[" * 100_000


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (answer([1.0]), "no embeddings of 2 texts"),
        (answer([1.0], [1.0], [1.0]), "3 vectors for 2 texts"),
        (answer([1.0], [1.0, 2.0]), "differ in length"),
        (answer([], []), "not a list of numbers"),
        (answer([1.0], "AACAPw=="), "not a list of numbers"),
        (answer([1.0], [True]), "something else than numbers"),
        (answer([1.0], [None]), "something else than numbers"),
        (answer([1.0], [float("nan")]), "not finite"),
        (answer([1.0], [10**400]), "not finite"),
        (StatusReply(200, body={"data": {}}), "no embeddings"),
        (StatusReply(200, body={"data": [1, 2]}), "no embeddings"),
        (StatusReply(200, body=[]), "no embeddings"),
        (StatusReply(200, body=NESTED), "no embeddings"),
        (StatusReply(503, body={"error": {"message": f"no {KEY}"}}), r"503: no \[sec"),
        (StatusReply(429, {"retry-after": "9"}, {"error": "slow"}), "429: slow"),
        (StatusReply(401, body={"error": {"message": KEY}}), "401"),
        (StatusReply(307, {"location": "http://127.0.0.1:1/"}), "redirects"),
        (CloseConnection(), "127.0.0.1"),
        (RawBytes(b"hello\r\n\r\n"), "127.0.0.1"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
async def test_an_answer_that_is_none_is_an_error_without_the_key(
    reply: Reply, why: str
) -> None:
    async with asked(reply) as (_, embedder):
        with pytest.raises(EmbeddingError, match=why) as caught:
            await embedder.embed(["a", "b"])
        assert not isinstance(caught.value, TextsRefused)
        assert KEY not in str(caught.value)
        assert len(str(caught.value)) < 1000
        assert KEY not in repr(embedder)


@pytest.mark.parametrize("status", [400, 413, 422])
async def test_texts_that_the_server_refuses_are_told_from_other_errors(
    status: int,
) -> None:
    reply = StatusReply(status, body={"error": {"message": "too long"}})
    async with asked(reply) as (_, embedder):
        with pytest.raises(TextsRefused, match="too long"):
            await embedder.embed(["a"])


async def test_vectors_of_two_requests_have_one_length() -> None:
    def changing(request: ReceivedRequest) -> Reply:
        size = 1 + ("x" in request.message["input"])
        return answer(*([1.0] * size for _ in request.message["input"]))

    async with asked(changing) as (_, embedder):
        with pytest.raises(EmbeddingError, match="differ in length"):
            await embedder.embed(["a"] * MOST_TEXTS + ["x"])


async def test_an_answer_without_end_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embeddings_http, "MAX_ANSWER", 20_000)
    async with asked(answer([1.0] * 9_000)) as (_, embedder):
        with pytest.raises(EmbeddingError, match="too large"):
            await embedder.embed(["a"])


async def test_waiting_ends_and_leaving_hangs_up(mock_clock: MockClock) -> None:
    async with asked(NoAnswer(), timeout=20) as (server, embedder):

        async def wait() -> None:
            with pytest.raises(EmbeddingError, match="no embeddings after 20 s"):
                await embedder.embed(["a"])

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await server.wait(lambda: len(server.requests) == 1)
            mock_clock.jump(20)
        await server.wait(lambda: server.hangups == 1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(embedder.embed, ["a"])
            await server.wait(lambda: len(server.requests) == 2)
            nursery.cancel_scope.cancel()
        await server.wait(lambda: server.hangups == 2)


@pytest.mark.parametrize("url", ["ftp://x", "http://u:p@x/v1", "http://x/v1?k=7"])
def test_an_address_that_no_request_can_carry_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="base_url"):
        HttpEmbedder(name="small", base_url=url)
