"""No secret is in anything that we emit, while everything fails and talks.

Servers of every kind get secrets in every place where a configuration may have
one, and repeat what they were told wherever they can. Then all that came out is
searched: warnings, statuses, events, stderr lines, logs down to DEBUG, errors with
their whole tracebacks, the text of every object that can be reached, and what the
process table shows.
"""

from __future__ import annotations

import base64
import logging
import traceback
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Any

import attrs
import pytest

import trio

from glyphoxa_trio.actors import Failed
from glyphoxa_trio.config import ServerSpec, load_text
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.mcp import ServerState, open_server_pool
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.testing.token_server import open_token_server
from glyphoxa_trio.testing.web_server import (
    CloseConnection,
    ReceivedRequest,
    Reply,
    StatusReply,
    error,
    open_mcp_server,
)

from .support import Watcher

pytestmark = pytest.mark.border

# Wherever a secret may be, one of its own, so that a failure names the place.
SECRETS = {
    "ENV": "sesame-env-71",
    "HEADER": "sesame-header-72",
    "TOKEN": "sesame-token-73",
    "CLIENT_SECRET": "sesame-client+secret-74",
    "PASSWORD": "sesame-password-75",
    "QUERY": "sesame-query-76",
    "TOKEN_QUERY": "sesame-token-query-77",
}
# As a header shows a client's secret: RFC 6749, 2.3.1.
CODED = base64.b64encode(b"mallory:sesame-client%2Bsecret-74").decode()
MARKS = ("sesame", CODED)

# Tells its secret to stderr, then to nobody more.
BLABBER = """\
import os, sys, time
print("my secret is", os.environ["KEY"], file=sys.stderr, flush=True)
sys.stdin.read(1)
print("still", os.environ["KEY"] * 2, file=sys.stderr, flush=True)
time.sleep(float(os.environ.get("LINGER", "0")))
sys.exit(3)
"""

TEXT = """
mcp:
  servers:
    blabber:
      command: [python, BLABBER_FILE]
      env: {KEY: "${ENV}"}
    static:
      url: "ORIGIN/mcp/static?key=${QUERY}"
      headers: {X-Key: "${HEADER}"}
      auth: {token: "Bearer ${TOKEN}"}
    deaf:
      url: "OLD/mcp/deaf?key=${QUERY}"
      headers: {X-Key: "${HEADER}"}
    basic:
      url: "http://jo:${PASSWORD}@HOST/mcp/basic?key=${QUERY}"
      headers: {X-Key: "${HEADER}"}
    refused:
      url: "http://jo:${PASSWORD}@127.0.0.1:9/mcp?key=${QUERY}"
      headers: {X-Key: "${HEADER}"}
    illegal:
      url: "ORIGIN/mcp/illegal"
      headers: {X-Key: "${HEADER}\\n"}
    moved:
      url: "ORIGIN/mcp/moved?key=${QUERY}"
      auth: {token: "${TOKEN}"}
    fails:
      url: "ORIGIN/mcp/fails?key=${QUERY}"
      headers: {X-Key: "${HEADER}"}
      auth: {token: "${TOKEN}"}
    denied:
      url: ORIGIN/mcp/denied
      auth:
        oauth:
          client_id: mallory
          client_secret: "${CLIENT_SECRET}"
          token_url: "ORIGIN/token?key=${TOKEN_QUERY}"
    renewed:
      url: "ORIGIN/mcp/renewed?key=${QUERY}"
      auth:
        oauth:
          client_id: sage
          client_secret: "${CLIENT_SECRET}"
          token_url: "TOKEN_URL?key=${TOKEN_QUERY}"
"""
BAD = ("blabber", "refused", "illegal", "moved", "fails", "denied")
GOOD = ("static", "deaf", "basic", "renewed")


def told(request: ReceivedRequest) -> str:
    """Everything that a request said, as a server with bad manners repeats it."""
    body = request.body.decode() if request.path == "/token" else ""
    return f"{request.query} {dict(request.headers)} {body}"


def script(request: ReceivedRequest) -> Reply | None:
    if request.method == "GET":  # the SDK shows the address of it in its log
        return StatusReply(500)
    match request.path:
        case "/token":
            refusal = {"error": "invalid_client", "error_description": told(request)}
            return StatusReply(401, {"X-Echo": told(request)}, refusal)
        case "/mcp/moved":
            where = f"http://jo:pw@elsewhere.example/?{request.query}"
            return StatusReply(307, {"Location": where})
        case "/mcp/fails":
            challenge = f'Bearer error="no", error_description="{request.query}"'
            return StatusReply(401, {"WWW-Authenticate": challenge})
        case "/mcp/static" | "/mcp/deaf" | "/mcp/basic" | "/mcp/renewed" if (
            request.called == "tools/call"
        ):
            match request.message["params"]["arguments"].get("how"):
                case "die":
                    return CloseConnection()
                case "echo":
                    return StatusReply(200, body=error(request, -32000, told(request)))
                case "deny":
                    return StatusReply(403, body=error(request, -32000, told(request)))
                case "slip":
                    return StatusReply(500, body=error(request, -32000, told(request)))
    return None


@attrs.define(eq=False)
class Ear(logging.Handler):
    """Hears every logger, as formatted as it gets."""

    heard: list[str] = attrs.field(factory=list)

    def __attrs_pre_init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.setFormatter(logging.Formatter("%(name)s %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        self.heard.append(self.format(record))  # with its traceback


def reachable(start: object) -> Iterator[object]:
    """Every object of ours below ``start``, itself included."""
    seen: dict[int, object] = {}
    todo = [start]
    while todo:
        item = todo.pop()
        if id(item) in seen or isinstance(item, Secret | str | bytes | int | type):
            continue
        seen[id(item)] = item
        if isinstance(item, Mapping):
            todo += [*item.keys(), *item.values()]
        elif isinstance(item, list | tuple | set | frozenset):
            todo += item
        elif type(item).__module__.startswith("glyphoxa_trio"):
            yield item
            names = [*getattr(item, "__dict__", ())]
            for kind in type(item).__mro__:
                slots = getattr(kind, "__slots__", ())
                names += [slots] if isinstance(slots, str) else [*slots]
            todo += [getattr(item, name, None) for name in names]
        elif callable(item):
            todo += [getattr(item, "__self__", None), getattr(item, "args", None)]
            cells = getattr(item, "__closure__", None) or ()
            todo += [cell.cell_contents for cell in cells]


def leaks(texts: Mapping[str, str]) -> dict[str, str]:
    return {
        place: text[max(0, text.index(mark) - 200) : text.index(mark) + 100]
        for place, text in texts.items()
        for mark in MARKS
        if mark in text
    }


# The SDK leaves a response's stream before its end without closing the generators
# of httpx2 and httpcore2; trio closes them, and says so.
@pytest.mark.filterwarnings("ignore:Async generator 'http:ResourceWarning")
async def test_nothing_that_comes_out_holds_a_secret(tmp_path: Path) -> None:
    # A39, G28
    ear, root = Ear(), logging.getLogger()
    level = root.level
    root.addHandler(ear)
    root.setLevel(logging.DEBUG)
    blabber = tmp_path / "blabber.py"
    blabber.write_text(BLABBER)
    watcher = Watcher()
    said: dict[str, str] = {}
    errors: list[BaseException] = []
    try:
        with trio.fail_after(60):
            async with (
                open_token_server(client_secret=SECRETS["CLIENT_SECRET"]) as tokens,
                open_mcp_server(script) as web,
                open_mcp_server(script, old=True) as old,
            ):
                text = (
                    TEXT.replace("ORIGIN", web.http.origin)
                    .replace("OLD", old.http.origin)
                    .replace("HOST", web.http.origin.removeprefix("http://"))
                    .replace("TOKEN_URL", tokens.token_url)
                    .replace("BLABBER_FILE", str(blabber))
                )
                config = load_text(text, source=PurePath("/t.yaml"), env=SECRETS)
                specs = [_hasty(spec) for spec in config.mcp.servers]
                await _everything_happens(specs, watcher, said, errors)
                assert tokens.grants
                assert "GET" in old.calls
                sent = str([(r.query, r.headers) for r in web.http.requests])
    finally:
        root.removeHandler(ear)
        root.setLevel(level)
    errors += [e.error for e in watcher.events if isinstance(e, Failed)]
    for number, failure in enumerate(errors):
        said[f"error {number}"] = "".join(traceback.format_exception(failure))
    for number, line in enumerate(ear.heard):
        said[f"log {number}"] = line
    for number, thing in enumerate(
        (*watcher.warnings, *watcher.logged, *watcher.events, *watcher.published)
    ):
        said[f"told {number}"] = repr(thing)
    assert leaks(said) == {}
    # It was there to be found, and everybody had spoken.
    for secret in (SECRETS["HEADER"], SECRETS["TOKEN"], SECRETS["QUERY"], CODED):
        assert secret in sent
    assert any("[secret]" in line for _, line in watcher.logged)
    assert {w.server for w in watcher.warnings} >= set(BAD)
    loggers = {line.partition(" ")[0] for line in ear.heard}
    assert {"httpx2", "mcp.client.streamable_http", "httpcore2.http11"} <= loggers
    assert any("[secret]" in str(failure) for failure in errors)


async def _everything_happens(
    specs: list[ServerSpec],
    watcher: Watcher,
    said: dict[str, str],
    errors: list[BaseException],
) -> None:
    async with open_server_pool(
        specs,
        publish=watcher.publish,
        warn=watcher.warn,
        log=watcher.log,
        on_event=watcher.events.append,
    ) as fleet:
        await watcher.until(
            lambda: (
                all(watcher.state(name) is ServerState.FAILED for name in BAD)
                and all(watcher.state(name) is ServerState.READY for name in GOOD)
            ),
            within=40,
        )
        for name in GOOD:
            for how in ("echo", "deny", "slip", "die"):
                try:
                    await watcher.call(name, "greet", how=how)
                except GlyphoxaError as failure:
                    errors.append(failure)
        for thing in reachable([fleet, specs, watcher.published]):
            said[f"repr of a {type(thing).__name__}"] = repr(thing)
            said[f"text of a {type(thing).__name__}"] = str(thing)
        for row in fleet.status():
            said[f"status of {row.name}"] = repr(row)


def _hasty(spec: ServerSpec) -> ServerSpec:
    restart = attrs.evolve(spec.restart, backoff=0.001, max_restarts=1)
    return attrs.evolve(spec, restart=restart)


async def test_a_process_does_not_show_its_secrets_in_its_title(
    tmp_path: Path,
) -> None:  # A39
    blabber = tmp_path / "blabber.py"
    blabber.write_text(BLABBER)
    spec = ServerSpec(
        name="blabber",
        command=("python", str(blabber)),
        env={"KEY": Secret(SECRETS["ENV"]), "LINGER": Secret("60")},
    )
    watcher = Watcher()
    with trio.fail_after(30):
        async with open_server_pool(
            [spec], publish=watcher.publish, warn=watcher.warn, log=watcher.log
        ):
            await watcher.until(lambda: bool(watcher.logged))
            titles = [title for title in _titles() if blabber.name.encode() in title]
            assert titles
            assert not any(SECRETS["ENV"].encode() in title for title in titles)


def _titles() -> Iterator[bytes]:
    """What the process table shows of every process."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has just ended
            yield path.read_bytes()


@pytest.mark.parametrize(
    "line",
    [
        'url: "http://jo:${PASSWORD}@h:x/?key=${QUERY}"',
        'url: ["${QUERY}"]',
        'url: http://h\n      headers: {A: ["${HEADER}"]}',
        'url: http://h\n      auth: {token: ["${TOKEN}"]}',
        'url: http://h\n      auth: {oauth: "${CLIENT_SECRET}"}',
        'url: http://h\n      auth: {oauth: {client_secret: ["${CLIENT_SECRET}"]}}',
        (
            'url: https://h\n      auth: {oauth: {client_id: a, client_secret: "b",'
            ' token_url: "http://h/?key=${TOKEN_QUERY}"}}'
        ),
    ],
)
def test_what_is_wrong_with_a_file_is_said_without_its_secrets(line: str) -> None:
    # A39
    text = f"mcp:\n  servers:\n    one:\n      {line}\n"
    with pytest.raises(GlyphoxaError) as caught:
        load_text(text, source=PurePath("/t.yaml"), env=SECRETS)
    whole: Any = "".join(traceback.format_exception(caught.value))
    assert MARKS[0] not in whole
    assert "t.yaml.mcp.servers" in str(caught.value)
