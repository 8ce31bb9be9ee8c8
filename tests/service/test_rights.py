"""Who may do what: every message and every endpoint, for every role."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import httpx2
import pytest

from glyphoxa_trio.npc import (
    ApprovalNeeded,
    ContextAdded,
    FanOutDone,
    LateResult,
    TierSelected,
    ToolsShown,
    TurnEvent,
)
from glyphoxa_trio.service import ClientRole, Right
from glyphoxa_trio.service import protocol as p
from glyphoxa_trio.service.options import read_tokens, service_options
from glyphoxa_trio.service.player_view import for_player
from glyphoxa_trio.service.rights import RIGHTS, ServiceClient, ServiceTokens

from ..cli.test_render import EVENTS
from .support import TOKENS, raw_client, serving, token_file

# What each role may say; the message itself, in the session "one".
MESSAGES: dict[str, tuple[Right, dict[str, Any]]] = {
    "join": (Right.TALK, {"session": "one"}),
    "say": (Right.TALK, {"session": "one", "npc": "Bo", "text": "Hail"}),
    "hearing": (Right.TALK, {"session": "one", "npc": "Bo", "text": "Ha"}),
    "greet": (Right.TALK, {"session": "one", "npc": "Bo"}),
    "turn_to": (Right.TALK, {"session": "one", "npc": "Bo"}),
    "leave": (Right.TALK, {}),
    "ack": (Right.TALK, {"n": 0}),
    "listen": (Right.TALK, {"session": "one", "npc": "Bo", "rate": 16000}),
    "media": (Right.TALK, {"session": "one", "npc": "Bo"}),
    "ping": (Right.TALK, {}),
    "watch": (Right.READ, {}),
    "interrupt": (Right.DIRECT, {"session": "one", "npc": "Bo"}),
    "approve": (
        Right.DIRECT,
        {"session": "one", "npc": "Bo", "question": "q", "yes": True},
    ),
    "overhear": (
        Right.DIRECT,
        {"session": "one", "npc": "Bo", "speaker": "Eve", "text": "Hm"},
    ),
    "scene": (Right.DIRECT, {"session": "one", "npc": "Bo", "context": ["Night."]}),
    "speak_as": (Right.DIRECT, {"session": "one", "npc": "Bo", "text": "Hm."}),
    "elevate": (Right.DIRECT, {"session": "one", "npc": "Bo", "tier": "deep"}),
    "mute": (Right.DIRECT, {"session": "one", "npc": "Bo"}),
    "puppet": (Right.DIRECT, {"session": "one"}),
    "look": (Right.DIRECT, {"session": "one"}),
    "learn": (Right.DIRECT, {"session": "one", "name": "x", "data": {"_id": "x"}}),
    "end": (Right.DIRECT, {"session": "one"}),
}

ENDPOINTS: dict[tuple[str, str], Right | None] = {
    ("GET", "/healthz"): None,
    ("GET", "/readyz"): None,
    ("GET", "/api/openapi.json"): None,
    ("GET", "/api/gateway.schema.json"): None,
    ("GET", "/metrics"): Right.READ,
    ("GET", "/mcp/status"): Right.READ,
    ("POST", "/mcp/test/{server}"): Right.READ,
    ("GET", "/api/status"): Right.READ,
    ("GET", "/api/npcs"): Right.TALK,
    ("GET", "/api/sessions"): Right.READ,
    ("POST", "/api/sessions/{session}/npcs/{npc}/say"): Right.TALK,
    ("DELETE", "/api/sessions/{session}"): Right.DIRECT,
    ("POST", "/api/reload"): Right.OPERATE,
    ("GET", "/api/turns"): Right.READ,
    ("GET", "/api/turns/{number}"): Right.READ,
    ("GET", "/api/turns/{number}/events.jsonl"): Right.READ,
    ("GET", "/api/tools"): Right.READ,
    ("GET", "/api/tools/{tool}"): Right.READ,
    ("POST", "/api/tools/{tool}/approve"): Right.OPERATE,
    ("POST", "/api/calibrate"): Right.OPERATE,
    ("GET", "/api/servers"): Right.READ,
    ("POST", "/api/servers"): Right.OPERATE,
    ("PATCH", "/api/servers/{server}"): Right.OPERATE,
    ("DELETE", "/api/servers/{server}"): Right.OPERATE,
    ("GET", "/api/memory"): Right.DIRECT,
    ("POST", "/api/memory/judge"): Right.DIRECT,
    ("POST", "/api/memory/correct"): Right.DIRECT,
    ("POST", "/api/memory/forget"): Right.DIRECT,
    ("POST", "/api/memory/reveal"): Right.DIRECT,
    ("GET", "/api/me"): None,
    ("POST", "/api/login"): None,
    ("POST", "/api/logout"): None,
}


# Of the prompt, the grants, and what models and tools were told.
SECRET = (
    ContextAdded,
    ToolsShown,
    FanOutDone,
    ApprovalNeeded,
    TierSelected,
    LateResult,
)


REQUESTS = {
    get_args(kind.model_fields["type"].annotation)[0]: kind
    for kind in get_args(p.Request)
}


def test_every_message_is_in_the_table() -> None:
    kinds = {name: kind.right for name, kind in REQUESTS.items()}
    assert kinds == {name: right for name, (right, _) in MESSAGES.items()}


def test_roles_have_rights_in_steps() -> None:
    assert (
        RIGHTS[ClientRole.PLAYER]
        < RIGHTS[ClientRole.ANYBODY]
        < RIGHTS[ClientRole.GAME_MASTER]
    )
    assert (
        RIGHTS[ClientRole.GAME_MASTER] < RIGHTS[ClientRole.OPERATOR] == frozenset(Right)
    )
    assert set(RIGHTS) == set(ClientRole)


@pytest.mark.parametrize("role", ClientRole)
async def test_every_message_needs_its_right(role: ClientRole, tmp_path: Path) -> None:
    options = service_options(http="127.0.0.1:0", token_file=token_file(tmp_path))
    async with serving(options=options) as served:
        async with raw_client(served, token=TOKENS.get(role)) as client:
            for number, (kind, (right, fields)) in enumerate(MESSAGES.items()):
                await client.send(type=kind, id=f"{number}", **fields)
                await client.send(type="ping", id=f"p{number}")
                told: list[Any] = []
                while not told or told[-1] != {"type": "pong", "id": f"p{number}"}:
                    told.append(await client.receive())
                refused = [
                    x
                    for x in told
                    if isinstance(x, dict)
                    and x.get("code") == "forbidden"
                    and x["id"] == f"{number}"
                ]
                assert bool(refused) is (right not in RIGHTS[role]), kind


async def test_a_player_has_one_session(tmp_path: Path) -> None:
    options = service_options(http="127.0.0.1:0", token_file=token_file(tmp_path))
    async with serving(options=options) as served:
        token = TOKENS[ClientRole.PLAYER]
        async with raw_client(served, token=token) as client:
            for kind, (right, fields) in MESSAGES.items():
                if right is not Right.TALK or "session" not in fields:
                    continue
                for session in ("two", None):
                    sent = {**fields, "session": session}
                    sent = {x: y for x, y in sent.items() if y is not None}
                    await client.send(type=kind, id="x", **sent)
                    error = await client.until("error", id="x")
                    assert error["code"] == "forbidden", kind
            for chosen in (
                {"campaign": "other"},
                {"players": {"Eve": "discord:1"}},
                {"variables": {"caller_name": "the DM"}},
            ):
                await client.send(type="join", id="j", session="one", **chosen)
                assert (await client.until("error", id="j"))["code"] == "forbidden"
        url = f"{served.url}/api/sessions/two/npcs/Bo/say"
        async with httpx2.AsyncClient(timeout=60, trust_env=False) as http:
            shown = {"Authorization": f"Bearer {token}"}
            answer = await http.post(url, headers=shown, json={"text": "Hail"})
            assert answer.status_code == 403
        assert not served.llm.requests


@pytest.mark.parametrize("role", ClientRole)
async def test_every_endpoint_needs_its_right(role: ClientRole, tmp_path: Path) -> None:
    options = service_options(http="127.0.0.1:0", token_file=token_file(tmp_path))
    async with serving(options=options) as served:
        async with httpx2.AsyncClient(
            timeout=60, base_url=served.url, trust_env=False
        ) as http:
            described = (await http.get("/api/openapi.json")).json()["paths"]
            found = {(m.upper(), x) for x, ms in described.items() for m in ms}
            assert found | {("GET", "/api/openapi.json")} == ENDPOINTS.keys()
            token = TOKENS.get(role)
            shown = {} if token is None else {"Authorization": f"Bearer {token}"}
            for (method, path), right in ENDPOINTS.items():
                named = {"number": "1", "tool": "none", "server": "none"}
                url = path.format(session="one", npc="Bo", **named)
                body = {"text": "Hail"} if "say" in path else {}
                sent: dict[str, Any] = {"json": body} if method == "POST" else {}
                answer = await http.request(method, url, headers=shown, **sent)
                allowed = right is None or right in RIGHTS[role]
                assert (answer.status_code == 403) is not allowed, path
                wrong = {"Authorization": "Bearer wrong-token-of-nobody"}
                answer = await http.request(method, url, headers=wrong, **sent)
                assert (answer.status_code == 401) is (right is not None), path


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_a_player_sees_the_answer_and_no_secrets(event: TurnEvent) -> None:
    seen = for_player(event)
    if seen is None:
        return
    assert not isinstance(event, SECRET)
    assert type(seen) is type(event)
    assert (seen.npc, seen.turn) == (event.npc, event.turn)
    told = repr(seen)
    assert "2d6" not in told, "the arguments of a call"
    assert getattr(seen, "outcomes", ()) == ()
    assert not getattr(seen, "error", "")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("operator", "roles are"),
        ("king 0123456789abcdef", "roles are"),
        ("anybody 0123456789abcdef", "roles are"),
        ("player 0123456789abcdef", "session"),
        ("operator:one 0123456789abcdef", "session"),
        ("operator short", "16 characters"),
        ("operator 0123456789abcde\u00e9", "ASCII"),
        ("", "no token"),
        ("# nothing\n\n", "no token"),
        ("player:a as  0123456789abcdef", "a name"),
        ("operator as Eve 0123456789abcdef", "roles are"),
        ("operator 0123456789abcdef\nplayer:a 0123456789abcdef", "twice"),
        ("operator 0123456789abcdef\n" * 2, "twice"),
    ],
)
def test_a_file_of_tokens_that_is_wrong_is_refused(
    tmp_path: Path, text: str, told: str
) -> None:
    file = tmp_path / "tokens"
    file.write_text(text)
    with pytest.raises(ValueError, match=told) as refused:
        read_tokens(file)
    assert str(file) in str(refused.value)
    assert "0123456789" not in str(refused.value)


def test_a_session_may_have_blanks_in_its_name(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text("player:table 42 0123456789abcdef\n")
    (token,) = read_tokens(file)
    assert token.client == ServiceClient(ClientRole.PLAYER, "table 42", "0")
    assert "0123456789abcdef" not in repr(token)
    tokens = ServiceTokens((token,))
    assert tokens.client_of("0123456789abcdef") == token.client
    for shown in (None, "", "0123456789abcdeF", "\ud800"):
        assert tokens.client_of(shown) is None


async def test_a_token_with_a_name_speaks_under_that_name(tmp_path: Path) -> None:
    file, shown = tmp_path / "tokens", "token-of-aria-stone"
    file.write_text(f"player:one as Aria Stone {shown}\n")
    options = service_options(http="127.0.0.1:0", token_file=file)
    async with serving(options=options) as served:
        session = served.runtime.session("one")
        async with raw_client(served, token=shown) as client:
            for kind, (right, fields) in MESSAGES.items():
                named = "speaker" in REQUESTS[kind].model_fields
                if right is Right.TALK and named:
                    await client.send(type=kind, id="x", **fields, speaker="Eve")
                    error = await client.until("error", id="x")
                    assert error["code"] == "forbidden", kind
                    assert "speaks as Aria Stone" in error["message"]
            # "player" is what clients say where no name was given.
            for number, given in enumerate((None, "player", "Aria Stone")):
                said = {} if given is None else {"speaker": given}
                say = MESSAGES["say"][1]
                await client.send(type="say", id=f"{number}", **say, **said)
                await client.until_event("TurnDone")
                client.events.clear()
        headers = {"Authorization": f"Bearer {shown}"}
        async with httpx2.AsyncClient(
            timeout=60, base_url=served.url, headers=headers, trust_env=False
        ) as http:
            assert (await http.get("/api/me")).json()["speaker"] == "Aria Stone"
            path = "/api/sessions/one/npcs/Bo/say"
            answer = await http.post(path, json={"text": "Hail"})
            assert answer.status_code == 200
            refused = await http.post(path, json={"text": "Hail", "speaker": "Eve"})
            assert refused.status_code == 403
            assert "speaks as Aria Stone" in refused.text
        history = (await session.snapshot()).npcs["Bo"].history
        assert {x.speaker for x in history} == {"Aria Stone"}
        assert len(history) == 4


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"http": "0.0.0.0:8080"}, "--token-file"),
        ({"http": "nonsense"}, "--http"),
        ({"tls_cert": Path("cert.pem")}, "--tls-key"),
        ({"http": "0.0.0.0:80", "token_file": True}, "--behind-proxy"),
        ({"behind_proxy": True}, "--token-file"),
        ({"rate": 0}, "--rate-limit"),
        ({"probes": "here"}, "--probes"),
        ({"allow_hosts": ["a/b"]}, "--allow-host"),
        ({"allow_origins": ["example.org"]}, "--allow-origin"),
    ],
)
def test_options_that_are_not_safe_are_refused(
    tmp_path: Path, given: dict[str, Any], told: str
) -> None:
    if given.get("token_file"):
        given = {**given, "token_file": token_file(tmp_path)}
    with pytest.raises(ValueError, match=told):
        service_options(**given)
