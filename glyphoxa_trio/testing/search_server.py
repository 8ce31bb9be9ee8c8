"""Scripted search engines: real HTTP on loopback, strict as SearXNG and Brave are.

    def script(asked: Asked) -> Reply:
        return [Entry("Saltmere", "https://saltmere.example/", "A town by the sea.")]

    async with open_searxng(script) as engine:
        search = Search(engine=SearXNG(), base_url=engine.base_url)
        ...
    assert engine.asked[0].query == "inns of saltmere"

A reply is a list of entries, or anything that `http_server` can answer. A request that
the engine would refuse gets its answer, and takes no reply from the script: another
path, no words, a format that is not enabled, a key that is missing or wrong, too many
results.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

import attrs

from glyphoxa_trio.renamed import renamed

from .http_server import HttpServer, ReceivedRequest, StatusReply, open_http_server
from .http_server import Reply as HttpReply

_MOST_CHARACTERS: Final = 400  # Brave's limit for a question
_MOST_WORDS: Final = 50
_MOST_RESULTS: Final = 20


@attrs.frozen
class SearchEntry:
    """One page that is found. ``text`` may contain HTML tags."""

    title: str
    url: str
    text: str = ""
    engine: str = "wikipedia"


@attrs.frozen
class SearchRequest:
    """A correct question."""

    query: str
    count: int | None
    headers: Mapping[str, str] = attrs.field(repr=False)


Reply = Sequence[SearchEntry] | HttpReply
Script = Callable[[SearchRequest], Reply]


@attrs.define(eq=False)
class SearchServer:
    """A running server, its questions so far, and the reasons of those ``refused``."""

    http: HttpServer
    asked: list[SearchRequest] = attrs.field(factory=list)
    refused: list[str] = attrs.field(factory=list)

    @property
    def base_url(self) -> str:
        return self.http.origin


@asynccontextmanager
async def open_searxng(
    script: Script,
    *,
    formats: Sequence[str] = ("html", "json"),
    answers: Sequence[Any] = (),
    unresponsive: Sequence[Sequence[str]] = (),
) -> AsyncIterator[SearchServer]:
    """Run a SearXNG on a free port of 127.0.0.1 until the block is left.

    Args:
      formats: the formats that its settings allow; the real default lacks ``json``.
      unresponsive: engines that did not answer it, each with a reason.
    """

    def answer(request: ReceivedRequest) -> HttpReply:
        fields = dict(parse_qsl(request.query, keep_blank_values=True))
        kind = fields.get("format", "html")
        why = None
        if request.path not in ("/", "/search"):
            return _refuse(server, StatusReply(404), f"no such path: {request.path}")
        if request.method not in ("GET", "POST"):
            return _refuse(server, StatusReply(405), f"not allowed: {request.method}")
        if kind not in formats:
            why = StatusReply(403, body=b"<title>403 Forbidden</title>")
        elif not fields.get("q", "").strip():
            why = StatusReply(400, body={"error": "No query"})
        if why is not None:
            return _refuse(server, why, f"{why.status} for {request.query}")
        asked = SearchRequest(fields["q"], None, request.headers)
        return _answered(server, script, asked, page)

    def page(asked: SearchRequest, entries: Sequence[SearchEntry]) -> dict[str, Any]:
        return {
            "query": asked.query,
            "number_of_results": 0,
            "results": [
                {
                    "url": entry.url,
                    "title": entry.title,
                    "content": entry.text,
                    "engine": entry.engine,
                    "engines": [entry.engine],
                    "score": 1.0,
                    "category": "general",
                }
                for entry in entries
            ],
            "answers": list(answers),
            "corrections": [],
            "infoboxes": [],
            "suggestions": [],
            "unresponsive_engines": [list(entry) for entry in unresponsive],
        }

    async with open_http_server(answer) as http:
        server = SearchServer(http)
        yield server


@asynccontextmanager
async def open_brave(script: Script, *, key: str) -> AsyncIterator[SearchServer]:
    """Run Brave's web search on a free port of 127.0.0.1 until the block is left."""

    def answer(request: ReceivedRequest) -> HttpReply:
        fields = dict(parse_qsl(request.query, keep_blank_values=True))
        if request.path != "/res/v1/web/search":
            return _refuse(server, StatusReply(404), f"no such path: {request.path}")
        if request.method != "GET":
            return _refuse(server, StatusReply(405), f"not allowed: {request.method}")
        why = _brave_refusal(request, fields, key)
        if why is not None:
            error = {"id": "1", "status": 422, "code": why[0], "detail": why[1]}
            body = {"type": "ErrorResponse", "error": error, "time": 1}
            return _refuse(server, StatusReply(422, body=body), why[1])
        asked = SearchRequest(
            fields["q"], int(fields.get("count", 20)), request.headers
        )
        return _answered(server, script, asked, page)

    def page(asked: SearchRequest, entries: Sequence[SearchEntry]) -> dict[str, Any]:
        found: dict[str, Any] = {"type": "search", "query": {"original": asked.query}}
        if entries:
            found["web"] = {
                "type": "search",
                "results": [
                    {
                        "type": "search_result",
                        "title": entry.title,
                        "url": entry.url,
                        "description": entry.text,
                        "profile": {"name": entry.engine, "url": entry.url},
                    }
                    for entry in entries[: asked.count]
                ],
            }
        return found

    async with open_http_server(answer) as http:
        server = SearchServer(http)
        yield server


def _brave_refusal(
    request: ReceivedRequest, fields: Mapping[str, str], key: str
) -> tuple[str, str] | None:
    """Return code and words of a refusal; the key is checked before the question."""
    given = request.headers.get("x-subscription-token")
    if given is None:
        return "VALIDATION", "x-subscription-token: field required"
    if given != key:
        return (
            "SUBSCRIPTION_TOKEN_INVALID",
            "The provided subscription token is invalid.",
        )
    accept = request.headers.get("accept", "*/*")
    if accept not in ("*/*", "application/json"):
        return "VALIDATION", f"accept: {accept}"
    query = fields.get("q", "")
    if not query.strip():
        return "VALIDATION", "q: field required"
    if len(query) > _MOST_CHARACTERS or len(query.split()) > _MOST_WORDS:
        return "VALIDATION", "q: too long"
    count = fields.get("count", "20")
    if not count.isdecimal() or not 1 <= int(count) <= _MOST_RESULTS:
        return "VALIDATION", f"count: {count}"
    if fields.get("text_decorations", "true") not in ("true", "false", "1", "0"):
        return "VALIDATION", "text_decorations: no boolean"
    return None


def _refuse(server: SearchServer, reply: StatusReply, why: str) -> StatusReply:
    server.refused.append(why)
    return reply


def _answered(
    server: SearchServer,
    script: Script,
    asked: SearchRequest,
    page: Callable[[SearchRequest, Sequence[SearchEntry]], Mapping[str, Any]],
) -> HttpReply:
    server.asked.append(asked)
    reply = script(asked)
    if isinstance(reply, Sequence):
        return StatusReply(body=page(asked, reply))
    return reply


if not TYPE_CHECKING:
    __getattr__ = renamed(__name__, Asked="SearchRequest", Entry="SearchEntry")
