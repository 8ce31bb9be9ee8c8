"""Tokens by OAuth client credentials, from a real token endpoint on loopback.

The clock is virtual although the sockets are real: server and client are in one
process, so when all of it waits nothing is on its way, and time may jump.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from subprocess import PIPE
from typing import Any

import pytest

import trio
from trio.testing import MockClock

from glyphoxa_trio.certificates import trusted
from glyphoxa_trio.config import RestartConfig, ServerSpec
from glyphoxa_trio.config.servers import OAuth
from glyphoxa_trio.mcp import (
    ConnectionFailed,
    ServerSession,
    ServerState,
    open_server_pool,
    sdk,
)
from glyphoxa_trio.mcp.auth import Token, Tokens, open_tokens
from glyphoxa_trio.mcp.discovery import NoToken, challenge_of
from glyphoxa_trio.mcp.masking import Masking
from glyphoxa_trio.mcp.process import LastLines
from glyphoxa_trio.mcp.transport import NeverSent
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.testing.token_server import (
    BASIC,
    POST,
    CloseConnection,
    LateReply,
    NoAnswer,
    RawBytes,
    ReceivedRequest,
    Reply,
    StatusReply,
    TokenServer,
    open_token_server,
)
from glyphoxa_trio.testing.web_server import McpServer, open_mcp_server
from glyphoxa_trio.tools.definition import ToolUnavailable

from .support import SERVERS, Watcher

WEB = "https://tools.example/mcp"  # nobody goes there
SECRET = "a secret"


@pytest.fixture
def clock() -> MockClock:
    trio.run(trusted)  # or a thread reads them while the clock sees nothing to do
    return MockClock(autojump_threshold=0.05)


def oauth(server: TokenServer | None = None, **options: Any) -> OAuth:
    """Credentials that ``server`` knows; without one, where to go is to be found."""
    if server is not None:
        options.setdefault("token_url", server.token_url)
    options.setdefault("client_secret", Secret(SECRET))
    return OAuth(client_id=options.pop("client_id", "sage"), **options)


@asynccontextmanager
async def tokens_of(
    server: TokenServer, *, start_timeout: float = 10, **options: Any
) -> AsyncGenerator[Tokens]:
    given = oauth(server, **options)
    spec = ServerSpec(name="web", url=WEB, oauth=given, start_timeout=start_timeout)
    async with open_tokens(spec, given, Masking.of(spec)) as tokens:
        yield tokens


async def value(tokens: Tokens) -> str:
    token = await tokens.current()
    assert token is not None
    return token.value.reveal()


# ------------------------------------------------------------- getting a token


async def test_a_token_is_fetched_once_for_all_who_ask(clock: MockClock) -> None:
    # G28: one request for 64 calls
    async with open_token_server() as server, tokens_of(server) as tokens:
        seen: list[str] = []

        async def ask() -> None:
            seen.append(await value(tokens))

        async with trio.open_nursery() as nursery:
            for _ in range(64):
                nursery.start_soon(ask)
        assert seen == server.issued * 64
        (grant,) = server.grants
        assert (grant.method, grant.form["grant_type"]) == (BASIC, "client_credentials")


async def test_it_says_which_server_the_token_is_for(clock: MockClock) -> None:
    # RFC 8707, as MCP wants it: without the query, where a key may be
    async with open_token_server(scopes=["a", "b"]) as server:
        given = oauth(server, scopes=("b",))
        spec = ServerSpec(name="web", url=f"{WEB}?key=hidden#part", oauth=given)
        async with open_tokens(spec, given, Masking.of(spec)) as tokens:
            await tokens.current()
        (grant,) = server.grants
        assert (grant.resource, grant.scopes) == (WEB, ("b",))
        assert "hidden" not in str(grant.form)


async def test_a_token_is_renewed_before_its_end_while_calls_go_on(
    clock: MockClock,
) -> None:  # G28
    async with (
        open_token_server(expires_in=3600) as server,
        tokens_of(server) as tokens,
    ):
        first = await value(tokens)
        await trio.sleep(3539)
        assert await value(tokens) == first
        assert len(server.grants) == 1
        await trio.sleep(2)  # in the last minute
        server.replies.append(LateReply(5, server.issue()))
        for _ in range(64):
            assert await value(tokens) == first  # nobody waits
        began = trio.current_time()
        await trio.sleep(5.5)
        second = await value(tokens)
        assert second != first
        assert trio.current_time() == began + 5.5
        assert len(server.grants) == 2


async def test_a_short_life_has_a_short_margin(clock: MockClock) -> None:
    async with open_token_server(expires_in=10) as server, tokens_of(server) as tokens:
        token = await tokens.current()
        assert token is not None
        assert (token.renew_at - token.since, token.until - token.since) == (9, 10)


async def test_a_token_that_has_ended_is_not_used(clock: MockClock) -> None:
    async with open_token_server(expires_in=100) as server, tokens_of(server) as tokens:
        first = await value(tokens)
        await trio.sleep(100)
        assert await value(tokens) != first
        assert len(server.grants) == 2


@pytest.mark.parametrize("expires_in", [None, 0, -5, "soon", True, [], "nan", "1e999"])
async def test_a_life_that_nobody_knows_has_no_end(
    clock: MockClock, expires_in: Any
) -> None:
    async with open_token_server() as server, tokens_of(server) as tokens:
        server.replies.append(server.issue(expires_in=expires_in))
        token = await tokens.current()
        assert token is not None
        assert token.until == float("inf")


async def test_a_life_may_be_written_as_text(clock: MockClock) -> None:
    async with open_token_server() as server, tokens_of(server) as tokens:
        server.replies.append(server.issue(expires_in="100"))
        token = await tokens.current()
        assert token is not None
        assert token.until - token.since == 100


async def test_a_renewal_that_fails_leaves_the_token_until_its_end(
    clock: MockClock,
) -> None:
    async with open_token_server(expires_in=100) as server, tokens_of(server) as tokens:
        first = await value(tokens)
        await trio.sleep(95)
        server.replies += [StatusReply(503)] * 9
        for _ in range(40):  # four seconds: an attempt a second, not one a call
            assert await value(tokens) == first
            await trio.sleep(0.1)
        assert 4 <= len(server.grants) - 1 <= 5
        await trio.sleep(1.5)
        with pytest.raises(NoToken, match="HTTP 503"):
            await tokens.current()


async def test_who_gives_up_does_not_stop_it_for_the_others(clock: MockClock) -> None:
    async with open_token_server() as server, tokens_of(server) as tokens:
        server.replies.append(LateReply(3, server.issue()))
        with trio.move_on_after(1) as impatient:
            await tokens.current()
        assert impatient.cancelled_caught
        began = trio.current_time()
        assert await value(tokens) == server.issued[0]
        assert trio.current_time() == pytest.approx(began + 2)
        assert len(server.grants) == 1


async def test_waiting_for_a_token_has_an_end(clock: MockClock) -> None:
    async with open_token_server(replies=[NoAnswer()]) as server:
        async with tokens_of(server) as tokens:
            began = trio.current_time()
            with pytest.raises(NoToken, match="no token within 8000 ms"):
                await tokens.current()
            assert trio.current_time() == began + 8
        # Sooner than its server's own start has to be over, so that it is said.
        server.replies.append(NoAnswer())
        async with tokens_of(server, start_timeout=1) as tokens:
            began = trio.current_time()
            with pytest.raises(NoToken):
                await tokens.current()
            assert trio.current_time() == began + 0.8


async def test_the_end_of_the_connection_leaves_nobody_waiting(
    clock: MockClock,
) -> None:
    said: list[str] = []
    async with open_token_server(replies=[NoAnswer()]) as server:
        async with trio.open_nursery() as nursery:
            async with tokens_of(server) as tokens:

                async def wait() -> None:
                    with pytest.raises(NoToken) as caught:
                        await tokens.current()
                    said.append(str(caught.value))

                nursery.start_soon(wait)
                await server.http.wait(lambda: len(server.grants) == 1)
    assert said == ["the connection is being closed"]


# --------------------------------------------------------- showing the secret


async def test_a_secret_may_hold_any_letter(clock: MockClock) -> None:
    ident, secret = "sa:ge é/+", "p+ %&=ß:\"'"
    for method in (BASIC, POST):
        async with open_token_server(
            client_id=ident, client_secret=secret, methods=[method]
        ) as server:
            async with tokens_of(
                server, client_id=ident, client_secret=Secret(secret)
            ) as tokens:
                await tokens.current()
            assert server.grants[-1].method == method


async def test_an_endpoint_that_wants_the_form_gets_it_and_that_is_kept(
    clock: MockClock,
) -> None:
    async with open_token_server(methods=[POST], expires_in=100) as server:
        async with tokens_of(server) as tokens:
            await tokens.current()
            await trio.sleep(100)
            await tokens.current()
        methods = [grant.method for grant in server.grants]
        assert methods == [BASIC, POST, POST]


# ------------------------------------------------------------------- refusals


def issued(**body: Any) -> StatusReply:
    return StatusReply(200, body={"access_token": "t", "token_type": "Bearer"} | body)


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (
            StatusReply(400, body={"error": "invalid_scope"}),
            "the token endpoint refused: invalid_scope",
        ),
        (
            StatusReply(
                400,
                body={
                    "error": "unauthorized_client",
                    "error_description": f"not sage\x1b with {SECRET}, a+secret"
                    " or c2FnZTphK3NlY3JldA==",
                },
            ),
            (
                "the token endpoint refused: unauthorized_client"
                " (not sage with [secret], [secret] or c2FnZTp[secret]A==)"
            ),
        ),
        (
            StatusReply(400, body={"error": "<b>"}),
            "the token endpoint answered HTTP 400",
        ),
        (StatusReply(400, body=b"{"), "the token endpoint answered HTTP 400"),
        (StatusReply(503), "the token endpoint answered HTTP 503"),
        (
            StatusReply(307, {"Location": "http://127.0.0.1:9/"}),
            "the token endpoint answered HTTP 307",
        ),
        (StatusReply(200, body=b"<html>"), "the token endpoint sent no token"),
        (StatusReply(200, body=["t"]), "the token endpoint sent no token"),
        (issued(access_token=""), "the token endpoint sent no token"),
        (issued(access_token=7), "the token endpoint sent no token"),
        (issued(access_token="a\r\nX: y"), "the token endpoint sent no token"),
        (issued(x="y" * 70_000), "the token endpoint sent no token"),
        (
            issued(token_type="mac"),
            "the token endpoint sent a token that is not a bearer token",
        ),
        (
            CloseConnection(),
            (
                "the token endpoint cannot be reached:"
                " Server disconnected without sending a response."
            ),
        ),
    ],
)
async def test_a_refusal_says_why_and_no_secret(
    clock: MockClock, reply: Reply, why: str
) -> None:  # A39
    async with open_token_server(replies=[reply]) as server:
        async with tokens_of(server) as tokens:
            with pytest.raises(NoToken) as caught:
                await tokens.current()
        assert str(caught.value) == why
        assert len(server.grants) == 1


async def test_a_wrong_secret_is_shown_in_both_ways_and_no_more(
    clock: MockClock,
) -> None:
    async with open_token_server(client_secret="another") as server:
        async with tokens_of(server) as tokens:
            with pytest.raises(NoToken) as caught:
                await tokens.current()
        assert str(caught.value) == "the token endpoint refused: invalid_client"
        assert [grant.method for grant in server.grants] == [BASIC, POST]


async def test_garbage_is_no_answer(clock: MockClock) -> None:
    async with open_token_server(replies=[RawBytes(b"SSH-2.0\r\n")]) as server:
        async with tokens_of(server) as tokens:
            with pytest.raises(NoToken, match="cannot be reached"):
                await tokens.current()


async def test_a_token_that_was_refused_is_replaced_once_for_all(
    clock: MockClock,
) -> None:  # G28: once on 401
    async with open_token_server() as server, tokens_of(server) as tokens:
        old = await tokens.current()
        assert old is not None
        old.accepted = True
        found: set[str] = set()

        async def refused() -> None:
            new = await tokens.instead_of(old, None)
            assert new is not None
            found.add(new.value.reveal())

        async with trio.open_nursery() as nursery:
            for _ in range(64):
                nursery.start_soon(refused)
        assert found == {server.issued[1]}
        assert len(server.grants) == 2
        assert await tokens.current() is not old


async def test_a_new_token_that_was_never_accepted_is_not_replaced(
    clock: MockClock,
) -> None:
    async with open_token_server() as server, tokens_of(server) as tokens:
        token = await tokens.current()
        assert await tokens.instead_of(token, None) is None
        assert len(server.grants) == 1
        # Later it is worth a try: it may be the issuer who was wrong.
        await trio.sleep(60)
        assert await tokens.instead_of(token, None) is not None
        assert len(server.grants) == 2


# ------------------------------------------------------------- whole sessions


def spec_of(
    web: McpServer, tokens: TokenServer | None = None, **options: Any
) -> ServerSpec:
    options.setdefault("oauth", oauth(tokens))
    return ServerSpec(name="web", url=web.url, **options)


@asynccontextmanager
async def opened(spec: ServerSpec) -> AsyncGenerator[ServerSession]:
    with trio.fail_after(600):
        async with sdk.open_session(
            spec, on_tools_changed=lambda: None, stderr=LastLines()
        ) as session:
            yield session


@pytest.mark.parametrize("old", [False, True], ids=["new", "old"])
async def test_with_two_credentials_the_rest_is_found(
    clock: MockClock, old: bool
) -> None:  # G28
    async with open_token_server(scopes=["tools"]) as tokens:
        async with open_mcp_server(tokens.gate, old=old) as web:
            tokens.protect(web.url)
            async with opened(spec_of(web)) as session:
                await session.list_tools()
                answer = await session.call_tool("greet", {}, {})
                assert answer["content"][0]["text"] == "greet says hello"
            (grant,) = tokens.grants
            assert (grant.method, grant.scopes, grant.resource) == (
                BASIC,
                ("tools",),
                web.url,
            )
            # Only the first request went without: its refusal said where to go.
            assert [tokens.accepts(r) for r in web.http.requests].count(False) == 1


async def test_everything_is_on_post_get_and_delete(clock: MockClock) -> None:
    # G28, N4, N6
    async with open_token_server() as tokens:
        async with open_mcp_server(tokens.gate, old=True) as web:
            spec = spec_of(
                web,
                tokens,
                token=Secret("static"),  # overridden
                headers={"X-Table": Secret("seven"), "X-Key": Secret("sesame")},
            )
            async with opened(spec) as session:
                await session.list_tools()
                await web.http.wait(lambda: "GET" in web.calls)
            await web.http.wait(lambda: "DELETE" in web.calls)
            assert {r.method for r in web.http.requests} == {"POST", "GET", "DELETE"}
            for request in web.http.requests:
                assert request.headers["authorization"] == f"Bearer {tokens.issued[0]}"
                assert request.headers["x-table"] == "seven"
                assert request.headers["x-key"] == "sesame"
        # The operator's headers are the server's business and nobody else's.
        assert "sesame" not in str(tokens.http.requests)


async def test_a_revoked_token_costs_a_call_nothing_but_time(clock: MockClock) -> None:
    async with open_token_server() as tokens:
        async with open_mcp_server(tokens.gate) as web:
            async with opened(spec_of(web, tokens)) as session:
                await session.call_tool("greet", {}, {})
                tokens.revoke()
                done: list[int] = []

                async def call() -> None:
                    await session.call_tool("greet", {}, {})
                    done.append(1)

                async with trio.open_nursery() as nursery:
                    for _ in range(64):
                        nursery.start_soon(call)
                assert len(done) == 64
                assert session.loss.why is None
            assert len(tokens.grants) == 2


async def test_a_server_that_refuses_good_tokens_refuses_the_call(
    clock: MockClock,
) -> None:
    closed = False

    def script(request: ReceivedRequest) -> Reply | None:
        challenge = 'Bearer error="invalid_token", error_description="wrong realm"'
        refusal = StatusReply(401, {"WWW-Authenticate": challenge})
        return refusal if closed else tokens.gate(request)

    async with open_token_server() as tokens:
        async with open_mcp_server(script) as web:
            async with opened(spec_of(web, tokens)) as session:
                await session.list_tools()
                closed = True
                for _ in range(5):
                    with pytest.raises(ToolUnavailable) as caught:
                        await session.call_tool("greet", {}, {})
                    assert caught.type is ToolUnavailable
                    said = "HTTP 401 Unauthorized: invalid_token, wrong realm"
                    assert str(caught.value) == said
                assert session.loss.why is None
                assert len(tokens.grants) == 2  # not one for each call
                closed = False
                await session.call_tool("greet", {}, {})
                assert len(tokens.grants) == 2


async def test_a_refused_client_cannot_start_and_is_told_so(clock: MockClock) -> None:
    async with open_token_server(client_secret="another") as tokens:
        async with open_mcp_server(tokens.gate) as web:
            with pytest.raises(ConnectionFailed) as caught:
                async with opened(spec_of(web, tokens)):
                    raise AssertionError("it must not open")
            assert str(caught.value) == "the token endpoint refused: invalid_client"
            assert web.calls == []  # nothing goes there without a token


async def test_a_token_endpoint_that_is_down_is_a_server_that_is_down(
    clock: MockClock,
) -> None:
    given = oauth(token_url="http://127.0.0.1:9/token")
    async with open_mcp_server() as web:
        with pytest.raises(ConnectionFailed, match="token endpoint cannot be reached"):
            async with opened(spec_of(web, oauth=given)):
                raise AssertionError("it must not open")


async def test_no_token_in_the_middle_of_a_session_is_its_end(clock: MockClock) -> None:
    async with open_token_server(expires_in=100) as tokens:
        async with open_mcp_server(tokens.gate) as web:
            async with opened(spec_of(web, tokens)) as session:
                await session.list_tools()
                await trio.sleep(100)
                tokens.replies += [StatusReply(503)]
                with pytest.raises(NeverSent, match="HTTP 503"):
                    await session.call_tool("greet", {}, {})
                # So the supervisor opens a new one, at its own pace.
                assert session.loss.why == "the token endpoint answered HTTP 503"
            assert "tools/call" not in web.calls


async def test_a_fleet_waits_for_the_token_endpoint(clock: MockClock) -> None:
    # A42
    watcher = Watcher()
    down: list[Reply | None] = [StatusReply(503), CloseConnection()]
    async with open_token_server(replies=down) as tokens:
        async with open_mcp_server(tokens.gate) as web:
            spec = spec_of(
                web, tokens, restart=RestartConfig(backoff=1, max_restarts=5)
            )
            async with open_server_pool(
                [spec],
                publish=watcher.publish,
                warn=watcher.warn,
                open_session=sdk.open_session,
            ):
                await watcher.until(
                    lambda: watcher.state("web") is ServerState.READY, within=60
                )
                assert len(tokens.grants) == 3
                result = await watcher.call("web", "greet")
                assert result.text == ("greet says hello",)
    assert [w.text for w in watcher.warnings] == [
        "the token endpoint answered HTTP 503"
    ]


# ------------------------------------------------------------------ discovery


def documents(web: McpServer, tokens: TokenServer) -> dict[str, Any]:
    """Who issues tokens for ``web``, as the server itself would publish it."""
    return {"resource": web.url, "authorization_servers": [tokens.issuer]}


@pytest.mark.parametrize(
    "where",
    [
        "/.well-known/oauth-protected-resource/mcp",
        "/.well-known/oauth-protected-resource",
    ],
)
async def test_a_refusal_without_a_pointer_is_no_end(
    clock: MockClock, where: str
) -> None:
    def script(request: ReceivedRequest) -> Reply | None:
        if request.path == where:
            return StatusReply(body=documents(web, tokens))
        return tokens.gate(request) if request.path == "/mcp" else None

    async with open_token_server() as tokens:
        async with open_mcp_server(script) as web:
            async with opened(spec_of(web)) as session:
                await session.list_tools()


@pytest.mark.parametrize(
    "where",
    [
        "/.well-known/openid-configuration/realm",
        "/realm/.well-known/openid-configuration",
    ],
)
async def test_an_issuer_may_publish_as_openid_does(
    clock: MockClock, where: str
) -> None:
    async with open_token_server() as tokens:
        (document,) = tokens.documents.values()
        tokens.documents.clear()
        tokens.documents[where] = document
        async with open_mcp_server(tokens.gate) as web:
            tokens.protect(web.url)
            async with opened(spec_of(web)) as session:
                await session.list_tools()


async def test_a_server_of_2025_issues_its_own_tokens(clock: MockClock) -> None:
    def script(request: ReceivedRequest) -> Reply | None:
        if request.path == "/.well-known/oauth-authorization-server":
            issuer, endpoint = web.http.origin, tokens.token_url
            return StatusReply(body={"issuer": issuer, "token_endpoint": endpoint})
        return tokens.gate(request) if request.path == "/mcp" else None

    async with open_token_server() as tokens:
        async with open_mcp_server(script) as web:
            async with opened(spec_of(web)) as session:
                await session.list_tools()


def changed(**changes: Any) -> Any:
    def apply(tokens: TokenServer) -> None:
        for path, document in tokens.documents.items():
            known = {key: item for key, item in changes.items() if key in document}
            tokens.documents[path] = document | known

    return apply


def silent(tokens: TokenServer) -> None:
    tokens.documents.clear()
    tokens.resource_metadata = None


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            changed(resource="https://elsewhere.example/mcp"),
            "oauth-protected-resource/mcp describes another server",
        ),
        (changed(resource=7), "oauth-protected-resource/mcp describes another server"),
        (
            changed(issuer="https://elsewhere.example"),
            "oauth-authorization-server/realm describes another issuer",
        ),
        (
            changed(authorization_servers=["http://login.example"]),
            "its token issuer has no address that starts with https://",
        ),
        (
            changed(token_endpoint="http://login.example/token"),
            "the token endpoint has no address that starts with https://",
        ),
        (
            changed(token_endpoint="https://jo:pw@login.example/token"),
            "the token endpoint has no address that starts with https://",
        ),
        (changed(token_endpoint=None), "has no token endpoint"),
        (
            changed(token_endpoint_auth_methods_supported=["private_key_jwt"]),
            "the token endpoint accepts no client secret",
        ),
        (
            silent,
            (
                "it requires a token and does not say where to get one:"
                " set auth.oauth.token_url"
            ),
        ),
    ],
)
async def test_a_secret_is_not_sent_where_somebody_else_points(
    clock: MockClock, change: Any, why: str
) -> None:
    async with open_token_server() as tokens:
        async with open_mcp_server(tokens.gate) as web:
            tokens.protect(web.url)
            change(tokens)
            with pytest.raises(ConnectionFailed) as caught:
                async with opened(spec_of(web)):
                    raise AssertionError("it must not open")
            assert str(caught.value).endswith(why)
            assert tokens.grants == []


async def test_a_pointer_that_others_could_read_is_not_followed(
    clock: MockClock,
) -> None:
    challenge = 'Bearer resource_metadata="http://tools.example/x"'
    refusal = StatusReply(401, {"WWW-Authenticate": challenge})
    async with open_mcp_server(lambda _: refusal) as web:
        with pytest.raises(ConnectionFailed, match="its resource metadata has no"):
            async with opened(spec_of(web)):
                raise AssertionError("it must not open")


@pytest.mark.parametrize(
    "inside",
    [
        *("http://127.0.0.1:{port}/x", "https://127.0.0.1:{port}/x"),
        *("http://localhost:{port}/x", "http://[::ffff:127.0.0.1]:{port}/x"),
        *(
            "https://169.254.169.254/latest",
            "https://10.0.0.1/x",
            "https://[fd00::1]/x",
        ),
        "https://0.0.0.0:{port}/x",
    ],
)
async def test_a_server_sends_us_to_no_address_inside(inside: str) -> None:
    # P2 11: nobody named this machine, so nothing of it is even connected to
    visits = 0

    async def visit(stream: trio.SocketStream) -> None:
        nonlocal visits
        visits += 1
        await stream.aclose()

    spec = ServerSpec(name="web", url=WEB, oauth=oauth(), start_timeout=10)
    async with trio.open_nursery() as nursery:
        serve = partial(trio.serve_tcp, visit, 0, host="127.0.0.1")
        (listener,) = await nursery.start(serve)
        where = inside.format(port=listener.socket.getsockname()[1])
        async with open_tokens(spec, oauth(), Masking.of(spec)) as tokens:
            with pytest.raises(NoToken) as refused:
                await tokens.instead_of(None, f'Bearer resource_metadata="{where}"')
        if "no address that starts with https" not in str(refused.value):
            assert "not on the public internet" in str(refused.value)
            assert "auth.oauth.token_url" in str(refused.value)
        assert visits == 0
        nursery.cancel_scope.cancel()


async def test_an_issuer_that_stumbles_is_no_issuer_that_is_missing(
    clock: MockClock,
) -> None:
    def script(request: ReceivedRequest) -> Reply | None:
        return StatusReply(502) if "well-known" in request.path else StatusReply(401)

    async with open_mcp_server(script) as web:
        with pytest.raises(ConnectionFailed, match="resource/mcp answered HTTP 502"):
            async with opened(spec_of(web)):
                raise AssertionError("it must not open")


@pytest.mark.border
async def test_the_sdks_own_server_lets_us_in() -> None:
    # G28: somebody else's idea of a resource server, which checks for whom a token
    # is and asks its issuer about it
    async with open_token_server(scopes=["tools", "more"]) as tokens:
        command = [sys.executable, str(SERVERS / "web.py"), "0", tokens.issuer]
        with trio.fail_after(60):
            process = await trio.lowlevel.open_process(command, stdout=PIPE)
            try:
                assert process.stdout is not None
                port = int(await process.stdout.receive_some(16))
                url = f"http://127.0.0.1:{port}/mcp"
                async with opened(
                    ServerSpec(name="web", url=url, oauth=oauth())
                ) as web:
                    answer = await web.call_tool("echo", {"text": "hi"}, {})
                    assert answer["content"][0]["text"] == "hi"
                    tokens.revoke()
                    await web.call_tool("echo", {"text": "again"}, {})
                (first, second) = tokens.grants
                assert (first.scopes, first.resource) == (("tools",), url)
                assert second.scopes == ("tools",)
            finally:
                process.kill()
                with trio.CancelScope(shield=True):
                    await process.wait()


async def test_a_server_that_wants_no_token_gets_none(clock: MockClock) -> None:
    async with open_mcp_server() as web:
        async with opened(spec_of(web)) as session:
            await session.list_tools()
        assert all("authorization" not in r.headers for r in web.http.requests)


def test_the_words_of_a_challenge() -> None:
    header = (
        'Basic realm="a, scope=\\"x\\"", Bearer Scope="read write",'
        ' resource_metadata = "https://h/x?a=b", error=invalid_token'
    )
    assert challenge_of(header) == {
        "realm": 'a, scope="x"',
        "scope": "read write",
        "resource_metadata": "https://h/x?a=b",
        "error": "invalid_token",
    }
    assert challenge_of(None) == challenge_of("Bearer") == {}


def test_a_token_does_not_show() -> None:  # A39
    token = Token(Secret("sesame"), since=0, renew_at=1, until=2)
    assert "sesame" not in repr(token)
