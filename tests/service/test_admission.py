"""Pages log in with a cookie, and nobody else can use it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, rule
from trio_websocket import open_websocket_url

import trio
import trio.testing

from glyphoxa_trio.secret import Secret
from glyphoxa_trio.service import ClientRole, admission
from glyphoxa_trio.service.admission import (
    COOKIE,
    LASTS,
    PageLogins,
    SharedLogins,
    is_own_page,
)
from glyphoxa_trio.service.options import service_options
from glyphoxa_trio.service.pages import page_files
from glyphoxa_trio.service.rights import ServiceClient, ServiceToken, ServiceTokens

from .support import TOKENS, RawClient, Served, serving, token_file


class Logins(RuleBasedStateMachine):
    """Logins against a list of them, in the order of their last use."""

    values: Bundle[str] = Bundle("values")

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(admission, "MOST_LOGINS", 3)
        self.now = 0.0
        self.patch.setattr(trio, "current_time", lambda: self.now)
        self.logins = PageLogins()
        self.known: dict[str, tuple[ServiceClient, float]] = {}

    def teardown(self) -> None:
        self.patch.undo()

    @rule(seconds=st.sampled_from([1.0, 60.0, LASTS / 2, LASTS]))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    @rule(target=values, name=st.text(max_size=3))
    def log_in(self, name: str) -> str:
        client = ServiceClient(ClientRole.OPERATOR, name=name)
        if len(self.known) == 3:
            del self.known[min(self.known, key=lambda x: self.known[x][1])]
        value = self.logins.log_in(client)
        assert value not in self.known
        assert len(value) > 20
        self.now += 1e-3  # no two are used at once
        self.known[value] = (client, self.now)
        self.logins.client_of(value)
        return value

    @rule(value=values)
    def use(self, value: str) -> None:
        found = self.known.get(value)
        if found is not None and self.now - found[1] > LASTS:
            del self.known[value]
            found = None
        assert self.logins.client_of(value) == (None if found is None else found[0])
        if found is not None:
            self.known[value] = (found[0], self.now)

    @rule(value=values)
    def log_out(self, value: str) -> None:
        self.known.pop(value, None)
        self.logins.log_out(value)
        assert self.logins.client_of(value) is None


TestLogins = Logins.TestCase


SHOWN = "a-token-of-an-operator"


def tokens(*secrets: str) -> ServiceTokens:
    return ServiceTokens(
        tuple(
            ServiceToken(Secret(x), ServiceClient(ClientRole.OPERATOR, name=str(at)))
            for at, x in enumerate(secrets)
        )
    )


def test_services_with_the_same_tokens_share_logins_and_others_do_not() -> None:
    now = 1_000.0
    one, same, other, fewer = (
        SharedLogins(tokens(*x), lambda: now)
        for x in (("aa", SHOWN), ("aa", SHOWN), ("aa", "other"), ("aa",))
    )
    value = one.log_in(one._tokens.known[1].client)
    assert value != one.log_in(one._tokens.known[1].client)
    for logins in (one, same):
        found = logins.client_of(value)
        assert found is not None
        assert found.name == "1"
    assert other.client_of(value) is fewer.client_of(value) is None
    assert SHOWN not in value + repr(one)
    one.log_out(value)
    assert one.client_of(value) is None
    assert same.client_of(value) is not None  # as documented
    now += LASTS
    assert same.client_of(value) is None


@given(st.text(max_size=40), st.integers(0, 200), st.data())
def test_a_cookie_that_was_changed_is_none(
    text: str, at: int, data: st.DataObject
) -> None:
    logins = SharedLogins(tokens("aa", "bb"))
    value = logins.log_in(logins._tokens.known[0].client)
    at = at % len(value)
    changed = value[:at] + text + value[at + data.draw(st.integers(0, 5)) :]
    if changed != value:
        assert logins.client_of(changed) is None
    assert logins.client_of(text) is None
    logins.log_out(text)  # which is nobody's


def test_ended_logins_that_are_kept_are_bounded() -> None:
    logins = SharedLogins(tokens("aa"))
    client = logins._tokens.known[0].client
    for _ in range(admission.MOST_LOGINS + 10):
        logins.log_out(logins.log_in(client))
        logins.log_out("nobody's")
    assert len(logins._ended) == admission.MOST_LOGINS


@pytest.mark.parametrize(
    ("headers", "method", "own"),
    [
        ({"origin": "http://h:80"}, "POST", True),
        ({"origin": "http://H:80"}, "POST", True),
        ({"origin": "http://h:81"}, "POST", False),
        ({"origin": "http://h:81"}, "GET", False),
        ({"origin": "null"}, "POST", False),
        ({}, "POST", False),
        ({}, "CONNECT", False),
        ({}, "GET", True),
        ({"sec-fetch-site": "same-origin"}, "GET", True),
        ({"sec-fetch-site": "none"}, "GET", True),
        ({"sec-fetch-site": "same-site"}, "GET", False),
        ({"sec-fetch-site": "cross-site"}, "GET", False),
    ],
)
def test_a_cookie_counts_for_pages_of_this_address_only(
    headers: dict[str, str], method: str, own: bool
) -> None:
    assert is_own_page({"host": "h:80", **headers}, method) is own


@asynccontextmanager
async def browser(served: Served) -> AsyncIterator[httpx2.AsyncClient]:
    """A client with cookies, which names its origin as browsers do."""
    headers = {"Origin": served.url}
    async with httpx2.AsyncClient(
        timeout=60, base_url=served.url, headers=headers, trust_env=False
    ) as http:
        yield http


async def test_a_token_is_exchanged_for_a_cookie_that_scripts_cannot_read(
    tmp_path: Path,
) -> None:
    options = service_options(http="127.0.0.1:0", token_file=token_file(tmp_path))
    async with serving(options=options) as served, browser(served) as page:
        me = (await page.get("/api/me")).json()
        assert me == {
            "role": "anybody",
            "session": None,
            "speaker": None,
            "rights": ["read", "talk"],
            "logged_in": False,
        }
        assert (await page.post("/api/reload", json={})).status_code == 403
        for wrong in ({}, {"token": 1}, {"token": "x" * 5000}):
            assert (await page.post("/api/login", json=wrong)).status_code in (400, 403)
        token = TOKENS[ClientRole.OPERATOR]
        answer = await page.post("/api/login", json={"token": token})
        assert answer.json() == {"role": "operator", "session": None}
        cookie = answer.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert token.lower() not in cookie
        assert (await page.get("/api/me")).json()["role"] == "operator"
        assert (await page.post("/api/calibrate", json={})).status_code == 200
        # Cookies ignore ports: a page of another port sends it as well.
        for origin in ("http://127.0.0.1:9", "null", "https://evil.example"):
            elsewhere = {"Origin": origin}
            answer = await page.post("/api/reload", json={}, headers=elsewhere)
            assert answer.status_code == 403, origin
        value = page.cookies[COOKIE]
        async with httpx2.AsyncClient(
            timeout=60, base_url=served.url, trust_env=False
        ) as plain:
            sent = {"Cookie": f"{COOKIE}={value}"}
            answer = await plain.post("/api/reload", json={}, headers=sent)
            assert answer.status_code == 403  # it names no origin
            sent["Sec-Fetch-Site"] = "same-site"
            answer = await plain.get("/api/me", headers=sent)
            assert answer.json()["role"] == "anybody"
        for origin, role in (
            (served.url, "operator"),
            ("http://localhost:9", "anybody"),
        ):
            cookie = f"{COOKIE}={value}"
            headers = [(b"Cookie", cookie.encode()), (b"Origin", origin.encode())]
            async with open_websocket_url(served.ws, extra_headers=headers) as socket:
                client = RawClient(socket)
                await client.send(type="hello", protocol=1)
                assert (await client.until("welcome"))["role"] == role
        await page.post("/api/logout", json={})
        assert (await page.get("/api/me")).json()["role"] == "anybody"
        async with httpx2.AsyncClient(
            timeout=60, base_url=served.url, trust_env=False
        ) as plain:
            kept = {"Cookie": f"{COOKIE}={value}", "Origin": served.url}
            me = (await plain.get("/api/me", headers=kept)).json()
            assert (me["role"], me["logged_in"]) == ("anybody", False)


async def test_pages_come_with_a_policy_and_are_read_once() -> None:
    async with serving() as served, browser(served) as page:
        for path, kind in (
            ("/operator", "text/html"),
            ("/pages/operator.mjs", "text/javascript"),
            ("/pages/glyphoxa.mjs", "text/javascript"),
            ("/pages/base.css", "text/css"),
            ("/pages/icon.svg", "image/svg+xml"),
        ):
            answer = await page.get(path)
            assert answer.status_code == 200, path
            assert answer.headers["content-type"].startswith(kind)
            policy = answer.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            tag = {"If-None-Match": answer.headers["etag"]}
            assert (await page.get(path, headers=tag)).status_code == 304
        for path in ("/pages/operator.html", "/pages/", "/pages/..%2f__init__.py"):
            assert (await page.get(path)).status_code == 404, path
        headers = {"Host": "evil.example"}
        assert (await page.get("/operator", headers=headers)).status_code == 421


def test_all_files_of_pages_are_small() -> None:
    assert sum(len(x.body) for x in page_files().values()) < 150_000
