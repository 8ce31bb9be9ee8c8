"""Clients with a handshake and without one, and what each is told of changes.

In memory and on virtual time. Which way a connection goes, its first request says.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trio
import trio.testing

from glyphoxa_trio import tool
from glyphoxa_trio.servers.definition import Changed, ServerDefinition
from glyphoxa_trio.servers.dispatch import ClientRequest
from glyphoxa_trio.servers.listening import MOST_LISTENERS
from glyphoxa_trio.servers.peer import GRACE
from glyphoxa_trio.servers.pending_notifications import PendingNotifications

from .support import ENVELOPE, STATELESS, LineClient, Notes, served

SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
INFO = {"name": "t", "version": "1.0"}
STAMP = {"io.modelcontextprotocol/serverInfo": INFO}


@tool(group="t", read_only=True)
async def whoami() -> str:
    """Nobody."""
    return "nobody"


async def session(request: ClientRequest) -> dict[str, Any]:
    await request.log("info", "who?")
    return {"session": request.client.session, "version": request.client.version}


def offer(notes: Notes | None = None) -> ServerDefinition:
    methods = {"session": session}
    return ServerDefinition(name="t", tools=(whoami,), resources=notes, methods=methods)


async def ask(
    client: LineClient, method: str, ident: Any = 1, /, **params: Any
) -> dict[str, Any]:
    return await client.ask(method, ident, _meta=ENVELOPE, **params)


async def test_without_a_handshake_each_answer_says_who_answers() -> None:
    async with served(offer()) as client:
        answer = await ask(client, "server/discover")
        assert answer["result"] == {
            "resultType": "complete",
            "supportedVersions": [STATELESS],
            "capabilities": {"tools": {}},
            "ttlMs": 300_000,
            "cacheScope": "public",
            "_meta": STAMP,
        }
        listed = (await ask(client, "tools/list", 2))["result"]
        assert [entry["name"] for entry in listed["tools"]] == ["whoami"]
        assert (listed["resultType"], listed["ttlMs"]) == ("complete", 300_000)
        called = (await ask(client, "tools/call", 3, name="whoami"))["result"]
        assert called == {
            "resultType": "complete",
            "content": [{"type": "text", "text": "nobody"}],
            "_meta": STAMP,
        }


async def test_without_a_handshake_requests_have_nothing_to_do_with_each_other() -> (
    None
):
    async with served(offer()) as client:
        said = (await ask(client, "session"))["result"]
        assert (said["session"], said["version"]) == ("", STATELESS)


async def test_without_a_handshake_a_request_asks_for_its_own_log() -> None:
    async with served(offer()) as client:
        level = {"io.modelcontextprotocol/logLevel": "debug"}
        await client.send("session", 1, _meta=ENVELOPE | level)
        assert (await client.read())["params"] == {"level": "info", "data": "who?"}
        assert (await client.read())["id"] == 1


@pytest.mark.parametrize(
    "method",
    ["ping", "logging/setLevel", "resources/subscribe", "tools/dance"],
)
async def test_what_there_is_only_with_a_handshake_is_gone(method: str) -> None:
    async with served(offer(Notes())) as client:
        answer = await ask(client, method, uri="note://a", level="info")
        assert answer["error"]["code"] == -32601


@pytest.mark.parametrize(
    ("meta", "code"),
    [
        ({}, -32602),
        ({"io.modelcontextprotocol/protocolVersion": STATELESS}, -32602),
        (ENVELOPE | {"io.modelcontextprotocol/protocolVersion": 7}, -32602),
        (ENVELOPE | {"io.modelcontextprotocol/clientCapabilities": 7}, -32602),
        (ENVELOPE | {"io.modelcontextprotocol/protocolVersion": "2031-1-1"}, -32022),
        (None, -32602),
        ("x", -32602),
    ],
)
async def test_each_request_must_say_who_asks(meta: Any, code: int) -> None:
    async with served(offer()) as client:
        await ask(client, "tools/list")
        answer = await client.ask("tools/list", 2, _meta=meta)
        assert answer["error"]["code"] == code
        if code == -32022:
            assert answer["error"]["data"] == {
                "supported": [STATELESS],
                "requested": "2031-1-1",
            }


async def test_the_two_ways_are_not_mixed() -> None:
    async with served(offer()) as client:
        await ask(client, "tools/list")
        answer = await client.ask("initialize", 2, protocolVersion="2025-11-25")
        assert answer["error"]["code"] == -32022
    async with served(offer()) as client:
        await client.shake_hands()
        assert (await ask(client, "tools/list", 2))["error"]["code"] == -32600
        assert (await client.ask("server/discover", 3))["error"]["code"] == -32601
        assert (await client.ask("subscriptions/listen", 4))["error"]["code"] == -32601


async def test_resources_are_read_page_by_page() -> None:
    notes = Notes({"a": "A", "b": "B", "c": "C"})
    async with served(offer(notes)) as client:
        assert (await client.shake_hands())["capabilities"]["resources"] == {
            "subscribe": True,
            "listChanged": True,
        }
        first = (await client.ask("resources/list"))["result"]
        assert [entry["uri"] for entry in first["resources"]] == [
            "note://a",
            "note://b",
        ]
        after = first["nextCursor"]
        last = (await client.ask("resources/list", 2, cursor=after))["result"]
        assert [entry["uri"] for entry in last["resources"]] == ["note://c"]
        assert "nextCursor" not in last
        wrong = await client.ask("resources/list", 3, cursor="zzz")
        assert wrong["error"]["code"] == -32602
        read = (await client.ask("resources/read", 4, uri="note://a"))["result"]
        assert read["contents"][0]["text"] == "A"


@pytest.mark.parametrize(("stateless", "code"), [(False, -32002), (True, -32602)])
async def test_what_is_not_there_has_the_code_of_its_time(
    stateless: bool, code: int
) -> None:
    async with served(offer(Notes())) as client:
        meta = ENVELOPE if stateless else {}
        if not stateless:
            await client.shake_hands()
        answer = await client.ask("resources/read", 1, uri="note://x", _meta=meta)
        assert answer["error"]["code"] == code
        assert answer["error"]["data"] == {"code": "NotFound", "uri": "note://x"}


async def test_who_subscribed_is_told_of_changes() -> None:
    notes = Notes({"a": "A"})
    async with served(offer(notes)) as client:
        await client.shake_hands()
        await client.ask("resources/subscribe", 1, uri="note://a")
        notes.put("b", "B")
        assert (await client.read())["method"] == "notifications/resources/list_changed"
        notes.put("b", "C")  # nobody asked for that one
        notes.put("a", "D")
        assert await client.read() == {
            "jsonrpc": "2.0",
            "method": "notifications/resources/updated",
            "params": {"uri": "note://a"},
        }
        await client.ask("resources/unsubscribe", 2, uri="note://a")
        notes.put("a", "E")
        assert (await client.ask("ping", 3))["result"] == {}


async def test_without_a_handshake_a_request_listens_until_it_is_taken_back() -> None:
    notes = Notes({"a": "A"})
    async with served(offer(notes)) as client:
        wanted = {
            "resourceSubscriptions": ["note://a"],
            "resourcesListChanged": True,
            "toolsListChanged": True,  # which never happens here, so it is not promised
        }
        params = {"_meta": ENVELOPE, "notifications": wanted}
        await client.send("subscriptions/listen", "s", **params)
        acknowledged = await client.read()
        assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
        assert acknowledged["params"] == {
            "notifications": {
                "resourceSubscriptions": ["note://a"],
                "resourcesListChanged": True,
            },
            "_meta": {SUBSCRIPTION: "s"},
        }
        notes.put("b", "B")
        assert (await client.read())["params"] == {"_meta": {SUBSCRIPTION: "s"}}
        notes.put("a", "B")
        assert (await client.read())["params"] == {
            "uri": "note://a",
            "_meta": {SUBSCRIPTION: "s"},
        }
        await client.send("notifications/cancelled", requestId="s")
        await trio.testing.wait_all_tasks_blocked()
        notes.put("a", "C")
        assert (await ask(client, "tools/list", 2))["id"] == 2


async def test_who_listens_is_told_that_it_is_over(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with served(offer(Notes())) as client:
        await client.send("subscriptions/listen", 5, _meta=ENVELOPE, notifications={})
        await client.read()
        await client.hang_up()
        last = await client.read()
        assert last["id"] == 5
        assert last["result"]["_meta"] == {SUBSCRIPTION: 5, **STAMP}
    assert trio.current_time() < GRACE


@pytest.mark.parametrize(
    "wanted",
    [
        None,
        [],
        {"resourceSubscriptions": "note://a"},
        {"resourceSubscriptions": [3]},
        {"resourceSubscriptions": ["x"] * 300},
    ],
)
async def test_what_is_listened_for_must_make_sense(wanted: Any) -> None:
    async with served(offer(Notes())) as client:
        answer = await ask(client, "subscriptions/listen", notifications=wanted)
        assert answer["error"]["code"] == -32602


async def test_listening_has_a_bound_and_needs_something_to_hear() -> None:
    async with served(offer()) as client:
        answer = await ask(client, "subscriptions/listen", notifications={})
        assert answer["error"]["code"] == -32601
    async with served(offer(Notes())) as client:
        for ident in range(MOST_LISTENERS):
            await client.send(
                "subscriptions/listen", ident, _meta=ENVELOPE, notifications={}
            )
            await client.read()
        answer = await ask(client, "subscriptions/listen", 99, notifications={})
        assert answer["error"]["code"] == -32603


async def test_a_client_that_reads_slowly_hears_of_each_change_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    notes = Notes({"a": "A"})
    async with served(offer(notes), lockstep=True) as client:
        await client.shake_hands()
        await client.ask("resources/subscribe", 1, uri="note://a")
        for number in range(10_000):
            notes.put("a", str(number))
            if number % 1000 == 0:
                await trio.testing.wait_all_tasks_blocked()
        told = 0
        with trio.move_on_after(60):
            while True:
                assert (await client.read())["params"] == {"uri": "note://a"}
                told += 1
        assert 1 <= told <= 1 + 1024  # what is written waits within the outbox's bound
        assert notes.texts["a"] == "9999"


URIS = st.sampled_from(["a", "b", "c"])


@given(
    st.sets(URIS),
    st.booleans(),
    st.lists(st.none() | URIS | st.just("take")),
)
def test_a_change_is_never_lost_and_waits_once(
    wanted: set[str], lists: bool, steps: list[str | None]
) -> None:
    untold = PendingNotifications(wanted, lists)
    model: set[str | None] = set()
    for step in [*steps, "take"]:
        if step == "take":
            told = {params.get("uri") for _, params in untold.take()}
            assert told == model
            assert not untold
            model = set()
        else:
            untold.note(Changed(step))
            if step in wanted or (step is None and lists):
                model.add(step)
        assert bool(untold) == bool(model)
