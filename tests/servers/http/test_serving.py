"""The command and its sockets, as clients meet them: curl, the SDK's clients, TLS, and
peers that do not behave.

Real processes and sockets on loopback, free ports, no sleeps; an absolute limit each.
"""

from __future__ import annotations

import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import httpx2
import pytest
import trustme
from mcp.client import Client

import trio
from trio.testing import MockClock

from glyphoxa_trio.actors import SharedTasks
from glyphoxa_trio.servers.dispatch import Dispatch
from glyphoxa_trio.servers.http.app import HttpApp, open_service
from glyphoxa_trio.servers.http.limits import LOCAL_HOSTS, Access, Limits
from glyphoxa_trio.servers.http.listening import HttpConnections, open_listening
from glyphoxa_trio.servers.http.options import HttpOptions

from .driver import Served
from .notes import Notes

ROOT = Path(__file__).parents[3]
GLYPHOXA = str(Path(sys.executable).parent / "glyphoxa")
NOTES = (sys.executable, "-m", "tests.servers.http.notes")

INITIALIZE = """{
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
      "protocolVersion": "2024-11-05",
      "clientInfo": {
        "name": "test-client",
        "version": "0.1.0"
      }
    }
  }"""


@attrs.define(eq=False)
class Running:
    url: str
    process: trio.Process
    said: bytearray

    @property
    def health(self) -> str:
        return self.url + "/health"

    async def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return await self.process.wait()


@asynccontextmanager
async def open_server(*command: str, **environment: str) -> AsyncIterator[Running]:
    """A server in a process of its own, at a free port, until the block is left."""
    process = await trio.lowlevel.open_process(
        [*command, "--transport", "http", "--http-addr", "localhost:0"],
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        cwd=ROOT,
        env={**os.environ, **environment},
    )
    assert process.stderr is not None
    said = bytearray()
    try:
        async with process.stderr as stderr:
            while b"/mcp\n" not in said:
                chunk = await stderr.receive_some()
                assert chunk, said.decode()
                said += chunk
            url = said.decode().partition(" at ")[2].split()[0]
            async with trio.open_nursery() as nursery:

                async def read() -> None:
                    async for chunk in stderr:
                        said.extend(chunk)

                nursery.start_soon(read)
                yield Running(url, process, said)
                nursery.cancel_scope.cancel()
    finally:
        if process.returncode is None:
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()


@asynccontextmanager
async def open_here(
    notes: Notes,
    certificate: Path | None = None,
    key: Path | None = None,
    **limits: Any,
) -> AsyncIterator[tuple[str, Served]]:
    """A server in this process, on sockets."""
    access = Access(hosts=LOCAL_HOSTS)
    options = HttpOptions(
        host="127.0.0.1",
        port=0,
        remote=False,
        access=access,
        limits=Limits(**limits),
        certificate=certificate,
        key=key,
    )
    gate = HttpApp()
    serving = HttpConnections(gate.asgi, options.limits)
    async with trio.open_nursery() as nursery, open_listening(serving, options) as url:
        dispatch = Dispatch(notes.offer(), SharedTasks(nursery))
        async with open_service(
            dispatch, "1", access, options.limits, secure=certificate is not None
        ) as service:
            gate.service = service
            yield url, Served(gate, service)
        nursery.cancel_scope.cancel()


async def curl(*arguments: str) -> str:
    done = await trio.run_process(
        ["curl", "-sS", "--max-time", "20", *arguments],
        capture_stdout=True,
        capture_stderr=True,
    )
    return done.stdout.decode()


@pytest.mark.border
async def test_the_curl_lines_of_the_seed_work_as_they_are(tmp_path: Path) -> None:
    # F3, F4, F8, F9, F11, F12, F13, F14
    cookies = str(tmp_path / "mcp-cookies.txt")
    json = ("-H", "Content-Type: application/json", "-d")
    with trio.fail_after(60):
        async with open_server(GLYPHOXA, "serve", "dice") as server:
            url = server.url
            hello = await curl("-c", cookies, "-X", "POST", url, *json, INITIALIZE)
            assert '"protocolVersion":"2024-11-05"' in hello
            assert "mcp_session" in await trio.Path(cookies).read_text()
            ready = await curl(
                *("-b", cookies, "-X", "POST", url, *json),
                '{"jsonrpc": "2.0", "method": "initialized", "params": {}}',
                *("-w", "%{http_code}"),
            )
            assert ready == "202"
            listed = await curl(
                *("-b", cookies, "-X", "POST", url, *json),
                '{"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}',
            )
            assert listed.startswith('{"jsonrpc":"2.0","id":2,"result":{"tools":[')
            health = await curl(url + "/health", "-w", " %{http_code}")
            assert health == '{"status": "ready"} 200'
            assert await server.stop() == 0


SPELLINGS = (
    "-transport=http -http-addr={here} -addr=localhost:8080",  # as the seed prints it
    "-transport http -http-addr {here} -addr localhost:8080",
    "--transport=http --http-addr={here} --addr=localhost:8080",
    "--transport http --http-addr {here} --addr localhost:8080",
    "--transport=http -http-addr {here} -addr=localhost:8080 -max-sessions=3",
)


@pytest.mark.border
@pytest.mark.parametrize(
    "line",
    [
        line if line == SPELLINGS[0] else pytest.param(line, marks=pytest.mark.long)
        for line in SPELLINGS
    ],
)
async def test_the_command_line_of_the_seed_serves_its_curl_lines(
    line: str, tmp_path: Path
) -> None:
    # F3, F4, F5: one dash and two, with a blank and with an equals sign
    with socket.create_server(("localhost", 0)) as taken:
        port = taken.getsockname()[1]
    url = f"http://localhost:{port}/mcp"
    words = line.format(here=f"localhost:{port}").split()
    cookies = str(tmp_path / "mcp-cookies.txt")
    json = ("-H", "Content-Type: application/json", "-d")
    with trio.fail_after(60):
        process = await trio.lowlevel.open_process(
            [GLYPHOXA, "serve", "campaign", *words],
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "XDG_DATA_HOME": str(tmp_path)},
        )
        assert process.stderr is not None
        said = b""
        try:
            while b"/mcp\n" not in said:
                chunk = await process.stderr.receive_some()
                assert chunk, said.decode()
                said += chunk
            assert b"--addr localhost:8080: ignored" in said
            hello = await curl("-c", cookies, "-X", "POST", url, *json, INITIALIZE)
            assert '"protocolVersion":"2024-11-05"' in hello
            initialized = '{"jsonrpc": "2.0", "method": "initialized", "params": {}}'
            ready = await curl(
                *("-b", cookies, "-X", "POST", url, *json, initialized),
                *("-w", "%{http_code}"),
            )
            assert ready == "202"
            listing = (
                '{"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}'
            )
            listed = await curl("-b", cookies, "-X", "POST", url, *json, listing)
            assert '"name":"duality_action_roll"' in listed
            health = await curl(url + "/health", "-w", " %{http_code}")
            assert health == '{"status": "ready"} 200'
            process.terminate()
            assert await process.wait() == 0
        finally:
            if process.returncode is None:
                process.kill()
                with trio.CancelScope(shield=True):
                    await process.wait()


@pytest.mark.border
@pytest.mark.filterwarnings("ignore:Async generator 'http:ResourceWarning")
async def test_clients_of_both_ways_of_speaking_work_at_once() -> None:
    # F7
    with trio.fail_after(90):
        async with open_server(*NOTES) as server:
            heard: list[str] = []
            told = trio.Event()

            async def hear(message: Any) -> None:
                heard.append(getattr(message, "method", repr(message)))
                told.set()

            async with (
                Client(server.url, mode="legacy", message_handler=hear) as old,
                Client(server.url, mode="2026-07-28") as new,
            ):
                assert (old.protocol_version, new.protocol_version) == (
                    "2025-11-25",
                    "2026-07-28",
                )
                await old.call_tool("write_note", {"name": "a", "text": "1"})
                await told.wait()
                assert heard == ["notifications/resources/list_changed"]
                async with new.listen(resource_subscriptions=["note://a"]) as changes:
                    await old.call_tool("write_note", {"name": "a", "text": "2"})
                    async for change in changes:
                        assert getattr(change, "uri", None) == "note://a"
                        break
                (content,) = (await new.read_resource("note://a")).contents
                assert getattr(content, "text", None) == "2"
                for client in (old, new):
                    said = await client.call_tool("echo", {"word": "well met"})
                    assert said.structured_content == {"said": "well met"}
            assert await server.stop(signal.SIGINT) == 0
            assert server.said.count(b"\n") == 1, server.said.decode()


@pytest.mark.border
async def test_a_server_that_is_told_to_stop_finishes_what_it_does(
    tmp_path: Path,
) -> None:
    release = tmp_path / "release"
    with trio.fail_after(60):
        async with open_server(*NOTES, "--drain", "30") as server:
            async with httpx2.AsyncClient(timeout=30) as client:
                hello = await client.post(server.url, content=INITIALIZE, headers=JSON)
                assert hello.status_code == 200
                async with trio.open_nursery() as nursery:
                    answered: list[httpx2.Response] = []

                    async def held() -> None:
                        answered.append(
                            await client.post(
                                server.url,
                                headers=JSON,
                                content=call("wait", file=str(release)),
                            )
                        )

                    nursery.start_soon(held)
                    while not await trio.Path(f"{release}.begun").exists():  # noqa: ASYNC110
                        await trio.sleep(0.01)
                    server.process.send_signal(signal.SIGTERM)
                    while (await client.get(server.health)).status_code == 200:
                        pass
                    late = await client.post(
                        server.url, content=INITIALIZE, headers=JSON
                    )
                    assert late.status_code == 503
                    assert not answered
                    release.touch()
                assert "let go" in answered[0].text
            assert await server.process.wait() == 0


@pytest.mark.border
async def test_a_second_signal_does_not_wait(tmp_path: Path) -> None:
    release = tmp_path / "release"
    with trio.fail_after(60):
        async with open_server(*NOTES, "--drain", "600") as server:
            async with httpx2.AsyncClient(timeout=30) as client:
                await client.post(server.url, content=INITIALIZE, headers=JSON)
                async with trio.open_nursery() as nursery:

                    async def wait() -> None:
                        with pytest.raises(httpx2.HTTPError):
                            answer = await client.post(
                                server.url,
                                headers=JSON,
                                content=call("wait", file=str(release)),
                            )
                            assert answer.status_code == 404  # cut, and told so
                            raise httpx2.ReadError("as good as cut")

                    nursery.start_soon(wait)
                    while not await trio.Path(f"{release}.begun").exists():  # noqa: ASYNC110
                        await trio.sleep(0.01)
                    server.process.send_signal(signal.SIGTERM)
                    while (await client.get(server.health)).status_code == 200:
                        pass
                    server.process.send_signal(signal.SIGTERM)
                    assert await server.process.wait() == 128 + signal.SIGTERM


@pytest.mark.border
async def test_an_address_is_there_before_its_server_is() -> None:
    with trio.fail_after(60):
        taken = socket.create_server(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        taken.close()
        process = await trio.lowlevel.open_process(
            [*NOTES, *HTTP, f"127.0.0.1:{port}", "--slow-start", "600"],
            stderr=subprocess.DEVNULL,
            cwd=ROOT,
        )
        try:
            async with httpx2.AsyncClient(timeout=60) as client:
                health = f"http://127.0.0.1:{port}/mcp/health"
                while True:
                    try:
                        answer = await client.get(health)
                    except httpx2.ConnectError:
                        await trio.sleep(0.02)
                        continue
                    break
                assert (answer.status_code, answer.json()) == (
                    503,
                    {"status": "starting"},
                )
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 128 + signal.SIGTERM
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


HTTP = ("--transport", "http", "--http-addr")
JSON = {"content-type": "application/json"}
_NUMBERS = iter(range(10, 1000))


def call(tool: str, **arguments: Any) -> str:
    import json

    params = {"name": tool, "arguments": arguments}
    message = {"jsonrpc": "2.0", "id": next(_NUMBERS), "method": "tools/call"}
    return json.dumps({**message, "params": params})


async def refused(*arguments: str) -> str:
    """What the command says when it does not even begin."""
    environment = {**os.environ, "GLYPHOXA_SERVE_TOKEN": ""}
    done = await trio.run_process(
        [GLYPHOXA, "serve", "dice", *arguments],
        check=False,
        capture_stderr=True,
        env=environment,
    )
    assert done.returncode == 2, done.stderr.decode()
    assert b"Traceback" not in done.stderr
    return done.stderr.decode()


@pytest.mark.border
async def test_what_cannot_be_served_is_said_and_ends_with_2() -> None:
    # F3, F4
    with trio.fail_after(90), socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert await refused(*HTTP, address) == (
            f"glyphoxa serve dice: --http-addr {address}: "
            "another program uses the port\n"
        )
        said = await refused("--transport", "carrier-pigeon")
        assert "invalid choice: 'carrier-pigeon'" in said


@pytest.mark.border
async def test_a_token_is_asked_for_and_never_shown() -> None:
    token = "open-sesame-4711"
    with trio.fail_after(60):
        async with open_server(*NOTES, GLYPHOXA_SERVE_TOKEN=token) as server:
            async with httpx2.AsyncClient(timeout=60) as client:
                stranger = await client.post(
                    server.url, content=INITIALIZE, headers=JSON
                )
                assert stranger.status_code == 401
                known = {**JSON, "authorization": f"Bearer {token}"}
                hello = await client.post(server.url, content=INITIALIZE, headers=known)
                assert hello.status_code == 200
            proc = trio.Path(f"/proc/{server.process.pid}/cmdline")
            shown = await proc.read_bytes()
            assert await server.stop() == 0
            assert token.encode() not in shown + bytes(server.said)


async def test_certificate_files_make_it_https(tmp_path: Path) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    issued.cert_chain_pems[0].write_to_path(certificate)
    issued.private_key_pem.write_to_path(key)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    with trio.fail_after(30):
        async with open_here(Notes(), certificate, key) as (url, _):
            assert url.startswith("https://")
            async with httpx2.AsyncClient(timeout=60, verify=trusting) as client:
                hello = await client.post(
                    url + "/mcp", content=INITIALIZE, headers=JSON
                )
                assert hello.status_code == 200
                assert "; Secure" in hello.headers["set-cookie"]
            plain = url.replace("https", "http")
            async with httpx2.AsyncClient(timeout=60) as client:
                with pytest.raises(httpx2.HTTPError):
                    await client.get(plain + "/mcp/health")


async def connected(
    url: str, said: bytes, room: int | None = None
) -> trio.SocketStream:
    host, port = url.partition("://")[2].split(":")
    client = trio.socket.socket()
    if room is not None:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
    await client.connect((host, int(port)))
    stream = trio.SocketStream(client)
    await stream.send_all(said)
    return stream


def head(body: bytes, *more: str, length: int | None = None) -> bytes:
    lines = [
        "POST /mcp HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
        f"Content-Length: {len(body) if length is None else length}",
        *more,
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


async def test_a_client_that_does_not_read_is_dropped(mock_clock: MockClock) -> None:
    mock_clock.autojump_threshold = 0.05  # when neither side has anything to do
    notes = Notes()
    notes.write("long", "x" * 8_000_000)
    with trio.fail_after(60):
        async with open_here(notes, write_within=20) as (url, served):
            async with httpx2.AsyncClient(timeout=60) as client:
                hello = await client.post(
                    url + "/mcp", content=INITIALIZE, headers=JSON
                )
                session = hello.headers["mcp-session-id"]
            read = (
                b'{"jsonrpc":"2.0","id":2,"method":"resources/read",'
                b'"params":{"uri":"note://long"}}'
            )
            deaf = await connected(
                url, head(read, f"Mcp-Session-Id: {session}"), room=4096
            )
            await notes.asked.wait()
            assert await served.service.shim.running.wait_none(30)
            got = 0
            with pytest.raises(trio.BrokenResourceError):
                while chunk := await deaf.receive_some():
                    got += len(chunk)
                raise trio.BrokenResourceError
            assert got < 8_000_000
            await deaf.aclose()
            # The session is none the worse for it.
            async with httpx2.AsyncClient(timeout=60) as client:
                pong = await client.post(
                    url + "/mcp",
                    content='{"jsonrpc":"2.0","id":3,"method":"ping"}',
                    headers={**JSON, "mcp-session-id": session},
                )
                assert pong.json() == {"jsonrpc": "2.0", "id": 3, "result": {}}


@pytest.mark.parametrize(
    "said",
    [b"", b"POST /mcp HT", head(b"")[:-2], head(b"{", length=10)],
    ids=["nothing", "half a line", "half a head", "half a body"],
)
async def test_a_client_that_does_not_talk_is_dropped(
    mock_clock: MockClock, said: bytes
) -> None:
    mock_clock.autojump_threshold = 0.05  # when neither side has anything to do
    with trio.fail_after(30):
        async with open_here(Notes(), head_within=20, body_within=20) as (url, _):
            async with await connected(url, said) as mute:
                while await mute.receive_some():
                    pass
            assert trio.current_time() >= 20


async def test_a_head_that_is_too_long_is_refused() -> None:
    with trio.fail_after(30):
        async with open_here(Notes()) as (url, _):
            async with await connected(url, head(b"", "X-Long: " + "x" * 20_000)) as it:
                assert (await it.receive_some()).startswith(b"HTTP/1.1 431 ")


async def test_connections_beyond_the_bound_wait_for_their_turn() -> None:
    with trio.fail_after(30):
        async with open_here(Notes(), connections=1) as (url, _):
            first = await connected(url, b"")
            health = b"GET /mcp/health HTTP/1.1\r\nHost: localhost\r\n\r\n"
            async with await connected(url, health) as second:
                await first.send_all(health)
                assert (await first.receive_some()).startswith(b"HTTP/1.1 200 ")
                await first.aclose()
                assert (await second.receive_some()).startswith(b"HTTP/1.1 200 ")


async def test_a_body_beyond_the_bound_is_refused_and_the_next_client_served() -> None:
    with trio.fail_after(30):
        async with open_here(Notes()) as (url, _):
            async with httpx2.AsyncClient(timeout=60) as client:
                for _ in range(3):
                    answer = await client.post(
                        url + "/mcp", content=b" " * 3_000_000, headers=JSON
                    )
                    assert answer.status_code == 413

                async def pieces() -> AsyncIterator[bytes]:
                    for _ in range(40):
                        yield b" " * 65536

                answer = await client.post(url + "/mcp", content=pieces(), headers=JSON)
                assert answer.status_code == 413
                assert (await client.get(url + "/mcp/health")).status_code == 200
