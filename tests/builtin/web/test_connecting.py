"""The address that was checked is the address that is connected to; TLS is for the
name. Names are resolved by a function of the test, connections are real."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from contextlib import suppress
from ipaddress import ip_address

import pytest
import trustme

import trio

from glyphoxa_trio.builtin.web.connecting import resolve
from glyphoxa_trio.builtin.web.fetching import Fetcher
from glyphoxa_trio.builtin.web.refusals import PageRefused, SiteFails
from glyphoxa_trio.builtin.web.settings import FetchSettings
from glyphoxa_trio.testing.http_server import (
    ReceivedRequest,
    StatusReply,
    open_http_server,
)
from glyphoxa_trio.testing.loopback import open_loopback

from .support import TEXT, open_site

# G14


class Names:
    """A resolver with a script: the last answer for a name is that of ever after."""

    def __init__(self, **names: Sequence[Sequence[str]]) -> None:
        self.names = {name.replace("_", "."): list(x) for name, x in names.items()}
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        await trio.lowlevel.checkpoint()
        self.asked.append(host)
        answers = self.names.get(host)
        if answers is None:
            with suppress(ValueError):
                return [str(ip_address(host))]
            return []
        return answers.pop(0) if len(answers) > 1 else answers[0]


PAGE = StatusReply(200, TEXT, b"ale")
LOOPBACK = "127.0.0.1"


async def test_this_machine_is_not_fetched_from_unless_that_is_allowed() -> None:
    names = Names(localhost=[[LOOPBACK]], six=[["::1"]], mapped=[["::ffff:127.0.0.1"]])
    with trio.fail_after(30):
        async with open_site(PAGE, allow=(), resolver=names) as site:
            for host in (LOOPBACK, "localhost", "LOCALHOST.", "six", "mapped", "[::1]"):
                with pytest.raises(PageRefused, match="not on the public internet"):
                    await site.fetcher.page(f"http://{host}:{site.port}/")
            assert site.http.connections == 0
        async with open_site(PAGE, allow=["localhost"], resolver=names) as site:
            page = await site.fetcher.page(f"http://localhost:{site.port}/")
            assert page.text == "ale"
            with pytest.raises(PageRefused):  # by that name, and by no other
                await site.page()


async def test_a_name_is_resolved_once_for_a_connection() -> None:
    # A name that is good when it is checked, and of this machine when it is used.
    names = Names(rebinding_example=[["192.0.2.1", LOOPBACK], [LOOPBACK]])
    with trio.fail_after(30):
        async with open_site(
            PAGE, allow=["192.0.2.0/24"], resolver=names, user_agent="Bot"
        ) as site:
            with pytest.raises(PageRefused):
                await site.fetcher.page(f"http://rebinding.example:{site.port}/")
            with pytest.raises(PageRefused):  # now it says so itself
                await site.fetcher.page(f"http://rebinding.example:{site.port}/")
            assert site.http.connections == 0
    assert names.asked == ["rebinding.example"] * 2


async def test_a_name_that_turns_private_after_its_robots_txt_gains_nothing() -> None:
    # 127.0.0.2 stands for a public server, 127.0.0.1 for what is inside.
    names = Names(rebinding_example=[["127.0.0.2"], [LOOPBACK]])
    secrets: list[str] = []

    async def inside(stream: trio.SocketStream) -> None:
        secrets.append("reached")
        await stream.aclose()

    with trio.fail_after(30):
        async with open_loopback(inside) as origin:
            port = int(origin.rpartition(":")[2])
            listeners = await trio.open_tcp_listeners(port, host="127.0.0.2")
            fetcher = Fetcher(
                FetchSettings.of(allow_private=["127.0.0.2/32"], ports=[port]), names
            )

            async def outside(stream: trio.SocketStream) -> None:
                # It answers the question for robots.txt and hangs up: what follows
                # needs a new connection, and so a new look at the name.
                async with stream:
                    await stream.receive_some(65536)
                    await stream.send_all(
                        b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n"
                        b"Connection: close\r\n\r\n"
                    )

            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.serve_listeners, outside, listeners)
                with pytest.raises(PageRefused, match="public internet"):
                    await fetcher.page(f"http://rebinding.example:{port}/")
                nursery.cancel_scope.cancel()
    assert names.asked == ["rebinding.example"] * 2
    assert secrets == []


async def test_robots_txt_leads_no_further_than_a_page() -> None:
    pages = {
        "/robots.txt": StatusReply(301, {"Location": "http://10.0.0.1/"}),
        "/": PAGE,
    }
    with trio.fail_after(30):
        async with open_site(pages) as site:
            await site.refusal("/", PageRefused)
            assert site.asked == []


async def test_the_next_address_is_tried_when_one_does_not_answer() -> None:
    names = Names(inn_example=[["127.0.0.9", LOOPBACK]])
    with trio.fail_after(30):
        async with open_site(PAGE, allow=["127.0.0.0/8"], resolver=names) as site:
            page = await site.fetcher.page(f"http://inn.example:{site.port}/")
            assert page.url == f"http://inn.example:{site.port}/"
            assert {x.headers["host"] for x in site.http.requests} == {
                f"inn.example:{site.port}"
            }


async def test_a_name_that_is_none_is_said() -> None:
    async def nothing(host: str, port: int) -> Sequence[str]:
        raise OSError("no such name")

    with trio.fail_after(30):
        for resolver in (nothing, Names()):
            async with open_site(PAGE, resolver=resolver) as site:
                with pytest.raises(SiteFails, match=r"no site called inn\.example"):
                    await site.fetcher.page(f"http://inn.example:{site.port}/")


async def test_this_machine_resolves_its_own_name() -> None:
    with trio.fail_after(30):
        found = await resolve("localhost", 80)
        assert found
        assert set(found) <= {LOOPBACK, "::1"}
        assert await resolve("192.0.2.7", 80) == ["192.0.2.7"]


async def test_no_proxy_of_the_environment_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def proxy(request: ReceivedRequest) -> StatusReply:
        raise AssertionError(request)

    with trio.fail_after(30):
        async with open_http_server(proxy) as server, open_site(PAGE) as site:
            for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
                monkeypatch.setenv(name, server.origin)
                monkeypatch.setenv(name.lower(), server.origin)
            assert (await site.page()).text == "ale"
            assert server.connections == 0


AUTHORITY = trustme.CA()


def server_tls(*names: str) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    AUTHORITY.issue_cert(*names).configure_cert(context)
    return context


def trusting() -> ssl.SSLContext:
    context = ssl.create_default_context()
    AUTHORITY.configure_trust(context)
    return context


async def test_the_certificate_is_checked_for_the_name() -> None:
    names = Names(inn_example=[[LOOPBACK]], other_example=[[LOOPBACK]])
    said: list[str | None] = []

    def note(wire: object, name: str | None, context: object) -> None:
        said.append(name)

    tls = server_tls("inn.example")
    tls.sni_callback = note

    async def answer(request: ReceivedRequest) -> StatusReply:
        return StatusReply(404) if request.path == "/robots.txt" else PAGE

    with trio.fail_after(30):
        async with open_http_server(answer, tls=tls) as server:
            port = int(server.origin.rpartition(":")[2])
            settings = FetchSettings.of(allow_private=[LOOPBACK], ports=[port])
            fetcher = Fetcher(settings, names, trusting())
            page = await fetcher.page(f"https://inn.example.:{port}/")
            assert page.text == "ale"
            assert set(said) == {"inn.example"}
            assert server.requests[0].headers["host"] == f"inn.example:{port}"
            for host in ("other.example", LOOPBACK):
                with pytest.raises(SiteFails, match="no valid certificate"):
                    await fetcher.page(f"https://{host}:{port}/")
            # Whom nobody vouches for is not believed either.
            with pytest.raises(SiteFails, match="no valid certificate"):
                await Fetcher(settings, names).page(f"https://inn.example:{port}/")
    assert len(server.requests) == 2


async def test_a_server_without_tls_is_said() -> None:
    with trio.fail_after(30):
        async with open_site(PAGE) as site:
            with pytest.raises(SiteFails, match="TLS"):
                await site.fetcher.page(f"https://127.0.0.1:{site.port}/")
