"""What comes in over HTTP and what is answered, without sockets, on virtual time."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio.secret import Secret
from glyphoxa_trio.servers.http.limits import LOCAL_HOSTS, Access

from .driver import Exchange, Peer, Served, open_served
from .notes import Notes

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2024-11-05",
        "clientInfo": {"name": "test-client", "version": "0.1.0"},
    },
}
BODY = json.dumps(INITIALIZE).encode()
SESSION = "mcp-session-id"


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture
async def served(notes: Notes) -> AsyncIterator[Served]:
    async with open_served(notes.offer()) as served:
        yield served


async def test_the_client_of_the_seed_is_understood(
    served: Served, autojump_clock: MockClock
) -> None:
    # F8, F9, F12, F14
    peer = served.peer(jar=True)
    hello = await peer.ask("POST", BODY)
    assert (hello.status, hello.headers["content-type"]) == (200, "application/json")
    assert hello.json["result"]["protocolVersion"] == "2024-11-05"
    cookie = hello.headers["set-cookie"].split("; ")
    assert cookie[0].startswith("mcp_session=")
    assert sorted(cookie[1:]) == ["HttpOnly", "Path=/", "SameSite=Strict"]
    ready = await peer.notify("initialized")
    assert (ready.status, ready.body) == (202, b"")
    listed = await peer.ask("POST", peer.request("tools/list"))
    assert listed.headers["content-type"] == "application/json"
    assert [tool["name"] for tool in listed.json["result"]["tools"]][:2] == [
        "write_note",
        "echo",
    ]
    assert "set-cookie" not in listed.headers


async def test_a_client_that_takes_streams_is_answered_in_one(
    served: Served, autojump_clock: MockClock
) -> None:
    peer = await served.greeted()
    asked = await peer.ask(
        "POST", peer.request("tools/call", {"name": "echo", "arguments": {"word": "a"}})
    )
    assert asked.headers["content-type"] == "text/event-stream"
    (beginning, nothing), (_, answer) = asked.events
    assert beginning  # to come back to
    assert nothing is None
    assert answer["result"]["structuredContent"] == {"said": "a"}


@pytest.mark.parametrize(
    "params",
    [{}, {"protocolVersion": 7}, {"protocolVersion": "2025-06-18", "clientInfo": 1}],
)
@pytest.mark.parametrize("accept", ["*/*", "application/json, text/event-stream"])
async def test_who_fails_to_introduce_himself_gets_no_session(
    served: Served, params: dict[str, Any], accept: str, autojump_clock: MockClock
) -> None:
    peer = served.peer()
    refused = await peer.ask("POST", peer.request("initialize", params), accept=accept)
    assert refused.answer["error"]["code"] == -32602
    assert "set-cookie" not in refused.headers
    assert "mcp-session-id" not in refused.headers
    assert len(served.service.sessions) == 0


async def test_a_notification_that_is_called_initialize_opens_nothing(
    served: Served, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    peer = await served.greeted()
    assert (await peer.notify("initialize", INITIALIZE["params"])).status == 202
    assert (await peer.ask("POST", peer.request("ping"))).status == 200
    stranger = await served.peer().notify("initialize", INITIALIZE["params"])
    assert stranger.status == 400
    assert caplog.records == []


async def test_a_first_get_opens_a_session_that_waits_for_its_initialize(
    served: Served, notes: Notes, autojump_clock: MockClock
) -> None:
    # F9, F10
    peer = served.peer(jar=True)
    async with trio.open_nursery() as nursery:
        stream = peer.begin(nursery, "GET", accept="text/event-stream")
        await stream.until()
        assert stream.status == 200
        cookie = stream.headers["set-cookie"].partition(";")[0]
        peer.headers["cookie"] = cookie
        hello = await peer.ask("POST", BODY)
        # Whoever waited may be another client, whose cookie was planted here: it hears
        # nothing of this session, and who may comes back with the new cookie.
        assert hello.headers["set-cookie"].partition(";")[0] != cookie
        assert (await peer.notify("initialized")).status == 202
        await stream.until_done()
        assert stream.messages == []
        stranger = served.peer(headers={"cookie": cookie})
        again = stranger.begin(nursery, "GET", accept="text/event-stream")
        await again.until()
        stream = peer.begin(nursery, "GET", accept="text/event-stream")
        await stream.until()
        notes.write("dragon", "asleep")
        await stream.until(1)
        assert stream.messages[0]["method"] == "notifications/resources/list_changed"
        assert again.messages == []
        again.leave()
        stream.leave()
        await wait_all_tasks_blocked()
        assert len(served.service.sessions) == 1
        nursery.cancel_scope.cancel()


async def test_a_get_that_nobody_introduces_leaves_nothing(
    served: Served, autojump_clock: MockClock
) -> None:
    async with trio.open_nursery() as nursery:
        stream = served.peer().begin(nursery, "GET")
        await stream.until()
        assert len(served.service.sessions) == 1
        stream.leave()
    assert len(served.service.sessions) == 0


async def test_changes_reach_those_who_asked_for_them(
    served: Served, notes: Notes, autojump_clock: MockClock
) -> None:
    notes.write("dragon", "asleep")
    one, other = await served.greeted(), await served.greeted()
    await one.ask("POST", one.request("resources/subscribe", {"uri": "note://dragon"}))
    async with trio.open_nursery() as nursery:
        streams = [peer.begin(nursery, "GET") for peer in (one, other)]
        for stream in streams:
            await stream.until()
        await other.call("write_note", name="dragon", text="awake")
        await streams[0].until(1)
        assert streams[0].messages == [
            {
                "jsonrpc": "2.0",
                "method": "notifications/resources/updated",
                "params": {"uri": "note://dragon"},
            }
        ]
        await wait_all_tasks_blocked()
        assert streams[1].messages == []
        nursery.cancel_scope.cancel()


async def test_changes_reach_those_who_listen_without_a_session(
    served: Served, notes: Notes, autojump_clock: MockClock
) -> None:
    peer = served.peer(headers=dict(MODERN))
    async with trio.open_nursery() as nursery:
        wanted = {"resourcesListChanged": True, "resourceSubscriptions": ["note://a"]}
        stream = peer.begin(
            nursery,
            "POST",
            modern(peer, "subscriptions/listen", {"notifications": wanted}),
            accept="application/json, text/event-stream",
            mcp_method="subscriptions/listen",
        )
        await stream.until(1)
        notes.write("a", "1")
        await stream.until(3)
        assert [message["method"] for message in stream.messages] == [
            "notifications/subscriptions/acknowledged",
            "notifications/resources/updated",
            "notifications/resources/list_changed",
        ]
        stream.leave()


MODERN = {"mcp-protocol-version": "2026-07-28"}


def modern(peer: Peer, method: str, params: dict[str, Any] | None = None) -> bytes:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    return peer.request(method, {**(params or {}), "_meta": meta})


async def test_a_request_that_speaks_for_itself_has_no_session(
    served: Served, notes: Notes, autojump_clock: MockClock
) -> None:
    notes.write("a", "1")
    peer = served.peer(headers=dict(MODERN))
    read = await peer.ask(
        "POST",
        modern(peer, "resources/read", {"uri": "note://a"}),
        mcp_method="resources/read",
        mcp_name="note://a",
    )
    assert (read.status, read.headers["content-type"]) == (200, "application/json")
    result = read.json["result"]
    assert (result["resultType"], result["contents"][0]["text"]) == ("complete", "1")
    assert notes.callers == [""]
    assert "set-cookie" not in read.headers
    assert len(served.service.sessions) == 0


async def test_tools_are_told_whose_session_it_is(
    served: Served, notes: Notes, autojump_clock: MockClock
) -> None:
    notes.write("a", "1")
    peers = [await served.greeted() for _ in range(2)]
    for peer in peers:
        await peer.ask("POST", peer.request("resources/read", {"uri": "note://a"}))
    assert notes.callers == [peer.headers["mcp-session-id"] for peer in peers]


async def test_a_session_that_is_deleted_is_gone_and_said_to_be(
    served: Served, notes: Notes, autojump_clock: MockClock
) -> None:
    peer = await served.greeted()
    number = peer.headers["mcp-session-id"]
    deleted = await peer.ask("DELETE")
    assert deleted.status == 200
    assert "Max-Age=0" in deleted.headers["set-cookie"]
    assert notes.gone == [number]
    assert (await peer.ask("POST", peer.request("ping"))).status == 404
    assert (await peer.ask("GET")).status == 404
    assert (await peer.ask("DELETE")).status == 404


async def test_a_session_that_nobody_uses_ends_after_its_time(
    served: Served, notes: Notes, autojump_clock: MockClock
) -> None:
    peer = await served.greeted()
    await trio.sleep(1799)
    assert (await peer.call("echo", word="still here"))["result"]
    await trio.sleep(1799)
    assert len(served.service.sessions) == 1
    await trio.sleep(2)
    assert len(served.service.sessions) == 0
    assert notes.gone == [peer.headers["mcp-session-id"]]


async def test_an_open_stream_keeps_a_session(
    served: Served, notes: Notes, autojump_clock: MockClock
) -> None:
    peer = await served.greeted()
    async with trio.open_nursery() as nursery:
        stream = peer.begin(nursery, "GET")
        await trio.sleep(5000)
        assert notes.gone == []
        stream.leave()
    await trio.sleep(1801)
    assert len(notes.gone) == 1


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", -32700),
        (b"{", -32700),
        (b"[" * 200_000, -32700),
        (b'{"a":' * 100_000, -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":NaN}}', -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"\\ud800"}}', -32700),
        (
            b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":' + b"9" * 5000,
            -32700,
        ),
        (b"\xff\xfe\x00", -32700),
        (b"[]", -32600),
        (b"7", -32600),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600),
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":"_GET_stream","method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":7}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', -32600),
        (b'{"jsonrpc":"2.0","id":1}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"result":{},"error":{}}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"error":{"code":"x"}}', -32600),
    ],
)
async def test_what_is_no_message_is_a_400(
    served: Served, body: bytes, code: int, autojump_clock: MockClock
) -> None:
    before = trio.current_time()
    for peer in (served.peer(), await served.greeted()):
        refused = await peer.ask("POST", body)
        assert (refused.status, refused.json["error"]["code"]) == (400, code)
        assert "set-cookie" not in refused.headers
    assert trio.current_time() == before


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "application/jsonx"}, 415),
        ({"content-type": None}, 415),
        ({"content-encoding": "gzip"}, 415),
        ({"accept": "text/html"}, 406),
        ({"host": "evil.example"}, 421),
        ({"host": "evil.example:8081"}, 421),
        ({"host": None}, 421),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"content-length": "99999999"}, 413),
        ({"content-length": "-1"}, 400),
        ({"mcp-session-id": "nobody's"}, 404),
        ({"mcp-session-id": None}, 400),
        ({"cookie": "mcp_session=nobody", "mcp-session-id": None}, 404),
        ({"cookie": 'mcp_session="\\', "mcp-session-id": None}, 400),
        ({"mcp-protocol-version": "1999-01-01"}, 400),
        ({"content-type": "application/json; charset=utf-8"}, 200),
        ({"content-encoding": "identity"}, 200),
        ({"accept": "application/json"}, 200),
        ({"accept": "text/event-stream"}, 200),
        ({"accept": None}, 200),
        ({"origin": "http://localhost:3000"}, 200),
        ({"host": "[::1]:9000"}, 200),
        ({"host": "127.0.0.1"}, 200),
    ],
)
async def test_headers_decide_whether_a_request_is_served(
    served: Served,
    headers: dict[str, str | None],
    status: int,
    autojump_clock: MockClock,
) -> None:
    peer = await served.greeted()
    named = {name.replace("-", "_"): text for name, text in headers.items()}
    answered = await peer.ask("POST", peer.request("ping"), **named)
    assert answered.status == status, answered.body


async def test_of_two_hosts_none_is_believed(
    served: Served, autojump_clock: MockClock
) -> None:
    refused = await served.peer().ask(
        "POST", BODY, headers=[(b"host", b"localhost"), (b"host", b"evil.example")]
    )
    assert refused.status == 400


async def test_other_methods_are_told_which_there_are(
    served: Served, autojump_clock: MockClock
) -> None:
    for method in ("PUT", "OPTIONS", "PATCH", "HEAD"):
        refused = await served.peer().ask(method)
        assert refused.status == 405
        assert refused.headers["allow"] == "GET, POST, DELETE"


async def test_a_slash_at_the_end_is_no_other_place_and_others_are_none(
    served: Served, autojump_clock: MockClock
) -> None:
    peer = await served.greeted()
    assert (await peer.ask("POST", peer.request("ping"), path="/mcp/")).status == 200
    piece = {"type": "http.request", "body": b" " * 65536, "more_body": True}
    last = {"type": "http.request", "body": b"", "more_body": False}
    for path in ("/", "/mcp/health", "/mcp/other", "/mcp//"):
        exchange, scope = peer.exchange("POST", [*[piece] * 40, last], path=path)
        await peer.play(exchange, scope)
        assert exchange.status == (405 if path == "/mcp/health" else 404)
        assert exchange.pieces == []


async def test_headers_without_end_are_refused(
    served: Served, autojump_clock: MockClock
) -> None:
    many = {f"x-{number}": "" for number in range(100)}
    for headers in ({"x-long": "x" * 20_000}, many):
        named = {name.replace("-", "_"): text for name, text in headers.items()}
        assert (await served.peer().ask("POST", BODY, **named)).status == 431


async def test_a_body_that_is_too_long_is_read_and_refused(
    served: Served, autojump_clock: MockClock
) -> None:
    piece = {"type": "http.request", "body": b" " * 65536, "more_body": True}
    last = {"type": "http.request", "body": b"", "more_body": False}
    exchange, scope = served.peer().exchange("POST", [*[piece] * 40, last])
    await served.peer().play(exchange, scope)
    assert exchange.status == 413
    assert exchange.pieces == []


async def test_a_body_that_does_not_come_is_waited_for_ten_seconds(
    served: Served, autojump_clock: MockClock
) -> None:
    piece = {"type": "http.request", "body": b"{", "more_body": True}
    before = trio.current_time()
    refused = await served.peer().ask("POST", [piece])
    assert refused.status == 408
    # And two more, that whoever is refused may still talk.
    assert trio.current_time() - before == 12.0


async def test_who_leaves_in_the_middle_of_a_body_is_not_answered(
    served: Served, autojump_clock: MockClock
) -> None:
    piece = {"type": "http.request", "body": b"{", "more_body": True}
    left = await served.peer().ask("POST", [piece, {"type": "http.disconnect"}])
    assert left.status == 0


async def test_an_id_is_that_of_one_request_at_a_time(
    served: Served, notes: Notes, autojump_clock: MockClock
) -> None:
    peer = await served.greeted()
    wait = peer.request("tools/call", {"name": "wait", "arguments": {}}, id="7")
    async with trio.open_nursery() as nursery:
        first = peer.begin(nursery, "POST", wait)
        await wait_all_tasks_blocked()
        again = await peer.ask("POST", peer.request("ping", id=7))
        assert again.status == 400
        notes.released.set()
    assert first.answer["result"]["content"][0]["text"] == "let go"
    assert (await peer.ask("POST", peer.request("ping", id=7))).status == 200


async def test_a_session_runs_so_many_requests_and_no_more(
    notes: Notes, autojump_clock: MockClock
) -> None:
    async with open_served(notes.offer(), running=3) as served:
        peer = await served.greeted()
        wait = {"name": "wait", "arguments": {}}
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                peer.begin(nursery, "POST", peer.request("tools/call", wait))
            await wait_all_tasks_blocked()
            more = await peer.ask("POST", peer.request("ping"))
            assert (more.status, more.headers["retry-after"]) == (429, "1")
            other = await served.greeted()
            assert (await other.ask("POST", other.request("ping"))).status == 200
            notes.released.set()
        assert (await peer.ask("POST", peer.request("ping"))).status == 200


async def test_calls_beyond_the_rate_are_put_off(
    notes: Notes, autojump_clock: MockClock
) -> None:
    async with open_served(notes.offer(), rate=2.0) as served:
        peer = await served.greeted()  # two calls, of which one opened the session
        assert (await peer.ask("POST", peer.request("ping"))).status == 200
        late = await peer.ask("POST", peer.request("ping"))
        assert (late.status, late.headers["retry-after"]) == (429, "1")
        await trio.sleep(0.5)
        assert (await peer.ask("POST", peer.request("ping"))).status == 200
        assert (await peer.ask("POST", peer.request("ping"))).status == 429
        # Another session is no other client, and neither is a call without one.
        served_again = await served.peer().ask("POST", BODY)
        assert served_again.status == 200
        other = served.peer(headers={"mcp-session-id": served_again.headers[SESSION]})
        assert (await other.ask("POST", other.request("ping"))).status == 429
        alone = served.peer(headers=dict(MODERN), address="127.0.0.2")
        statuses = [
            (
                await alone.ask(
                    "POST", modern(alone, "tools/list"), mcp_method="tools/list"
                )
            ).status
            for _ in range(3)
        ]
        assert statuses == [200, 200, 429]


async def test_sessions_beyond_the_bound_are_put_off(
    notes: Notes, autojump_clock: MockClock
) -> None:
    async with open_served(notes.offer(), sessions=2) as served:
        peers = [await served.greeted() for _ in range(2)]
        async with trio.open_nursery() as nursery:
            streams = [peer.begin(nursery, "GET") for peer in peers]
            for stream in streams:
                await stream.until()
            full = await served.peer().ask("POST", BODY)
            assert (full.status, full.headers["retry-after"]) == (503, "30")
            assert "set-cookie" not in full.headers
            assert (await served.peer().ask("GET")).status == 503
            await peers[0].ask("DELETE")
            await served.greeted()
            nursery.cancel_scope.cancel()


async def test_who_was_away_longest_makes_room(
    notes: Notes, autojump_clock: MockClock
) -> None:
    async with open_served(notes.offer(), sessions=3) as served:
        peers = []
        for _ in range(3):
            peers.append(await served.greeted())
            await trio.sleep(1)
        await peers[0].ask("POST", peers[0].request("ping"))
        await served.greeted()
        pings = [(await x.ask("POST", x.request("ping"))).status for x in peers]
        assert pings == [200, 404, 200]


async def test_one_client_cannot_take_all_sessions(
    notes: Notes, autojump_clock: MockClock
) -> None:
    async with open_served(notes.offer(), sessions=8) as served:
        quiet = await served.greeted(address="127.0.0.2")
        for _ in range(40):
            await trio.sleep(1)
            await served.greeted()
        assert len(served.service.sessions) == 7
        assert (await quiet.ask("POST", quiet.request("ping"))).status == 200
        await served.greeted(address="127.0.0.3")


async def test_sessions_are_free_and_calls_are_not(
    notes: Notes, autojump_clock: MockClock
) -> None:
    through = 0
    async with open_served(notes.offer(), rate=5.0) as served:
        until = trio.current_time() + 2
        while trio.current_time() < until:
            peer = served.peer()
            opened = await peer.ask("POST", BODY)
            if opened.status == 200:
                peer.headers["mcp-session-id"] = opened.headers[SESSION]
                called = await peer.ask("POST", peer.request("ping"))
                through += called.status == 200
            await trio.sleep(0.01)
    assert 5 <= through <= 15  # five at once, and five a second


async def test_a_token_has_one_rate_wherever_it_is_shown(
    notes: Notes, autojump_clock: MockClock
) -> None:
    access = Access(hosts=LOCAL_HOSTS, tokens=(Secret("tick"), Secret("tock")))
    async with open_served(notes.offer(), access=access, rate=3.0) as served:
        for number, token in enumerate(("tick", "tock")):
            peers = []
            for host in range(6):
                peers.append(
                    await served.greeted(
                        headers={"authorization": f"Bearer {token}"},
                        address=f"10.0.{number}.{host}",
                    )
                )
                await trio.sleep(1)
            answers = [await x.ask("POST", x.request("ping")) for x in peers]
            assert [x.status for x in answers] == [200, 200, 200, 429, 429, 429]


async def test_health_is_for_those_who_may_come(
    served: Served, autojump_clock: MockClock
) -> None:
    peer = served.peer()
    for named, status in (
        ({"host": "evil.example"}, 421),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "http://localhost:3000"}, 200),
    ):
        found = await peer.ask("GET", path="/mcp/health", **named)
        assert found.status == status
        assert (status == 200) == (b"ready" in found.body)


async def test_only_who_shows_a_token_comes_in_and_only_to_his_own_sessions(
    notes: Notes, autojump_clock: MockClock
) -> None:
    access = Access(hosts=LOCAL_HOSTS, tokens=(Secret("tick"), Secret("tock")))
    async with open_served(notes.offer(), access=access) as served:
        stranger = await served.peer().ask("POST", BODY)
        assert stranger.status == 401
        assert stranger.headers["www-authenticate"] == 'Bearer realm="glyphoxa"'
        wrong = await served.peer().ask("POST", BODY, authorization="Bearer tic")
        assert wrong.status == 401
        assert 'error="invalid_token"' in wrong.headers["www-authenticate"]
        one = await served.greeted(headers={"authorization": "Bearer tick"})
        assert (await one.ask("POST", one.request("ping"))).status == 200
        for method in ("POST", "GET", "DELETE"):
            stolen = await one.ask(
                method, one.request("ping"), authorization="Bearer tock"
            )
            assert stolen.status == 404
        assert len(served.service.sessions) == 1
        health = await served.peer().ask("GET", path="/mcp/health")
        assert health.status == 200


async def test_health_says_whether_there_is_somebody_to_talk_to(
    notes: Notes, autojump_clock: MockClock
) -> None:
    # F11
    async with open_served(notes.offer()) as served:
        service, served.gate.service = served.gate.service, None
        early = await served.peer().ask("GET", path="/mcp/health")
        assert (early.status, early.json) == (503, {"status": "starting"})
        assert (await served.peer().ask("POST", BODY)).status == 503
        served.gate.service = service
        ready = await served.peer().ask("GET", path="/mcp/health")
        assert (ready.status, ready.json) == (200, {"status": "ready"})
        served.service.shim.draining = True
        late = await served.peer().ask("GET", path="/mcp/health")
        assert (late.status, late.json) == (503, {"status": "stopping"})


async def test_who_lost_the_connection_is_sent_what_was_missed(
    served: Served, notes: Notes, autojump_clock: MockClock
) -> None:
    peer = await served.greeted()
    async with trio.open_nursery() as nursery:
        wait = peer.request("tools/call", {"name": "wait", "arguments": {}})
        lost = peer.begin(nursery, "POST", wait)
        await wait_all_tasks_blocked()
        ((last, _),) = lost.events
        lost.leave()
        await wait_all_tasks_blocked()
        early = peer.begin(nursery, "GET", last_event_id=last)  # before the answer
        await wait_all_tasks_blocked()
        early.leave()
        notes.released.set()
        await wait_all_tasks_blocked()
        again = await peer.ask("GET", last_event_id=last)  # after it
        assert again.answer["result"]["content"][0]["text"] == "let go"
    assert notes.finished == 1


async def test_who_comes_back_before_the_answer_gets_it_when_it_comes(
    served: Served, notes: Notes, autojump_clock: MockClock
) -> None:
    peer = await served.greeted()
    async with trio.open_nursery() as nursery:
        wait = peer.request("tools/call", {"name": "wait", "arguments": {}})
        lost = peer.begin(nursery, "POST", wait)
        await wait_all_tasks_blocked()
        ((last, _),) = lost.events
        # The old connection is dead, but nobody has noticed.
        back = peer.begin(nursery, "GET", last_event_id=last)
        await wait_all_tasks_blocked()
        assert lost.done
        notes.released.set()
    assert back.answer["result"]["content"][0]["text"] == "let go"
    assert lost.messages == []


async def test_a_stream_of_changes_is_taken_up_where_it_broke(
    served: Served, notes: Notes, autojump_clock: MockClock
) -> None:
    peer = await served.greeted()
    async with trio.open_nursery() as nursery:
        first = peer.begin(nursery, "GET")
        await first.until()
        notes.write("a", "1")
        await first.until(1)
        ((last, _),) = first.events
        assert (await peer.ask("GET")).status == 409  # one stream is all
        first.leave()
        await wait_all_tasks_blocked()
        notes.write("b", "2")
        await wait_all_tasks_blocked()
        second = peer.begin(nursery, "GET", last_event_id=last)
        await second.until(1)
        notes.write("c", "3")
        await second.until(2)
        assert (await peer.ask("GET")).status == 409
        assert (await peer.ask("GET", last_event_id="999999")).status == 400
        assert (await peer.ask("GET", last_event_id="x")).status == 400
        third = peer.begin(nursery, "GET", last_event_id=second.events[0][0])
        await third.until(1)
        await wait_all_tasks_blocked()
        assert second.done
        assert third.events == second.events[1:]
        third.leave()
    await peer.ask("DELETE")
    assert served.service.sessions.log.bytes == 0


async def test_nobody_hears_what_was_sent_to_others(
    served: Served, notes: Notes, autojump_clock: MockClock
) -> None:
    one, other = await served.greeted(), await served.greeted()
    said = await one.ask(
        "POST", one.request("tools/call", {"name": "echo", "arguments": {"word": "s"}})
    )
    stolen = await other.ask("GET", last_event_id=said.events[0][0])
    assert stolen.status == 400


async def test_cancelled_is_answered_as_cancelled(
    served: Served, notes: Notes, autojump_clock: MockClock
) -> None:
    peer = await served.greeted()
    async with trio.open_nursery() as nursery:
        wait = peer.request("tools/call", {"name": "wait", "arguments": {}}, id=50)
        asked = peer.begin(nursery, "POST", wait)
        await wait_all_tasks_blocked()
        await peer.notify("notifications/cancelled", {"requestId": 50})
    assert asked.answer["error"]["code"] == -32800
    assert (notes.begun, notes.finished) == (1, 0)


async def test_deleted_in_the_middle_is_an_end_for_those_who_wait(
    served: Served, notes: Notes, autojump_clock: MockClock
) -> None:
    peer = await served.greeted()
    wait = {"name": "wait", "arguments": {}}
    async with trio.open_nursery() as nursery:
        streaming = peer.begin(nursery, "POST", peer.request("tools/call", wait))
        plain = peer.begin(
            nursery, "POST", peer.request("tools/call", wait), accept="*/*"
        )
        await wait_all_tasks_blocked()
        assert (await peer.ask("DELETE")).status == 200
    assert streaming.done
    assert plain.status == 404
    assert served.service.shim.running.count == 0


CONFER = {
    "name": "confer",
    "arguments": {"question": "Really?"},
    "_meta": {"progressToken": "p"},
}


async def test_a_tool_may_ask_its_caller_in_the_stream_of_the_call(
    served: Served, autojump_clock: MockClock
) -> None:
    peer = served.peer()
    await peer.greet(elicitation={})
    async with trio.open_nursery() as nursery:
        asked = peer.begin(nursery, "POST", peer.request("tools/call", CONFER))
        await asked.until(2)
        progress, question = asked.messages
        assert progress["params"] == {
            "progressToken": "p",
            "progress": 1,
            "total": 2,
            "message": "asking",
        }
        assert question["params"]["message"] == "Really?"
        said = {"action": "accept", "content": {}}
        reply = {"jsonrpc": "2.0", "id": question["id"], "result": said}
        assert (await peer.ask("POST", json.dumps(reply).encode())).status == 202
    (answer,) = [message for message in asked.messages if "result" in message]
    assert answer["result"]["structuredContent"] == said


@pytest.mark.parametrize(
    ("accept", "capabilities", "why"),
    [
        ("*/*", {"elicitation": {}}, "the client accepts no event stream"),
        (None, {}, "the client has no elicitation"),
    ],
)
async def test_who_cannot_be_asked_is_not_waited_for(
    served: Served,
    accept: str | None,
    capabilities: dict[str, Any],
    why: str,
    autojump_clock: MockClock,
) -> None:
    peer = served.peer()
    await peer.greet(**capabilities)
    named = {} if accept is None else {"accept": accept}
    asked = await peer.ask("POST", peer.request("tools/call", CONFER), **named)
    messages = [asked.json] if accept else asked.messages
    assert messages[-1]["result"]["isError"]
    assert trio.current_time() == 0.0


async def test_deleted_behind_a_notification_is_nobodys_fault(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    # A client that is told 202 may end its session before the SDK has taken it in.
    peer = await served.greeted()
    told = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"})
    notified, scope = peer.exchange("POST", told.encode())
    notified.stalled = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(peer.play, notified, scope)
        await wait_all_tasks_blocked()
        assert (await peer.ask("DELETE")).status == 200
        notified.stalled.set()
    assert notified.status == 202
    assert notified.done
    assert not caplog.records


async def drained(served: Served, exchange: Exchange) -> float:
    begun = trio.current_time()
    await served.service.drain()
    assert exchange.done
    return trio.current_time() - begun


async def test_stopping_lets_what_runs_finish(
    served: Served, notes: Notes, autojump_clock: MockClock
) -> None:
    peer = await served.greeted()
    async with trio.open_nursery() as nursery:
        stream = peer.begin(nursery, "GET")
        nap = {"name": "sleep", "arguments": {"seconds": 3}}
        asked = peer.begin(nursery, "POST", peer.request("tools/call", nap))
        await wait_all_tasks_blocked()
        nursery.start_soon(drained, served, asked)
        await wait_all_tasks_blocked()
        assert stream.done
        assert not asked.done
        refused = await peer.ask("POST", peer.request("ping"))
        assert (refused.status, refused.headers["retry-after"]) == (503, "5")
        assert (await served.peer().ask("POST", BODY)).status == 503
        before = trio.current_time()
        await asked.until_done()
        assert trio.current_time() - before == 3.0
    assert asked.answer["result"]["content"][0]["text"] == "slept"
    assert notes.gone == [peer.headers["mcp-session-id"]]


async def test_stopping_cuts_what_does_not_finish_and_says_so(
    served: Served, notes: Notes, autojump_clock: MockClock
) -> None:
    peer = await served.greeted()
    async with trio.open_nursery() as nursery:
        wait = {"name": "wait", "arguments": {}}
        plain = peer.begin(
            nursery, "POST", peer.request("tools/call", wait), accept="*/*"
        )
        asked = peer.begin(nursery, "POST", peer.request("tools/call", wait))
        await wait_all_tasks_blocked()
        assert await drained(served, asked) == 5.0
    for exchange in (plain, asked):
        assert exchange.answer["error"] == {
            "code": -32000,
            "message": "Connection closed",
        }
    assert len(notes.gone) == 1
    assert notes.finished == 0


async def test_stopping_ends_those_who_listen(
    served: Served, autojump_clock: MockClock
) -> None:
    peer = served.peer(headers={**MODERN, "accept": "*/*, text/event-stream"})
    wanted = {"notifications": {"resourcesListChanged": True}}
    async with trio.open_nursery() as nursery:
        stream = peer.begin(
            nursery,
            "POST",
            modern(peer, "subscriptions/listen", wanted),
            mcp_method="subscriptions/listen",
        )
        await stream.until(1)
        await served.service.drain()
        await stream.until_done()
    assert "result" in stream.messages[-1]
