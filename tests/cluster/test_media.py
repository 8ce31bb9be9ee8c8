"""Audio from the worker that has a session: real workers, a real bus, the project's
client on a WebSocket, and the strict fake of a vendor's speech-to-speech model."""

from __future__ import annotations

import logging
import ssl
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import trustme
from glyphoxa_client import Client, GlyphoxaClosed, GlyphoxaError, connect
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

import trio

from glyphoxa_trio import Config, open_runtime
from glyphoxa_trio.cluster import (
    ClusterRefused,
    ClusterWorker,
    MediaAddress,
    RemoteRuntime,
    TenantQuota,
    serve,
)
from glyphoxa_trio.cluster.gateway import open_gateway
from glyphoxa_trio.cluster.media import (
    LASTS,
    MOST_OPEN,
    MediaDesk,
    MediaGrant,
    MediaTokens,
    NoMedia,
)
from glyphoxa_trio.cluster.media_service import (
    MediaOptions,
    media_options,
    open_media,
)
from glyphoxa_trio.cluster.ownership import Ownership
from glyphoxa_trio.config import CalibrationConfig, McpConfig, NpcConfig
from glyphoxa_trio.config.voices import Engine, S2SConfig, S2SProvider
from glyphoxa_trio.memory.postgres import open_postgres
from glyphoxa_trio.nats import open_nats
from glyphoxa_trio.npc import TurnDone, TurnEnd, TurnEvent
from glyphoxa_trio.npc.events import Timings
from glyphoxa_trio.npc.identity import NpcId, SessionKey
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.service import service_options
from glyphoxa_trio.testing.realtime_server import (
    ModelTurn,
    Reply,
    Speak,
    Transcription,
    open_realtime_server,
)

from ..nats.server import RealServer
from ..npc.support import ScriptedLLM
from ..service.support import until
from .test_cluster import bus, client, database, postgres

__all__ = ["bus", "database", "postgres"]


def answers(turn: ModelTurn) -> Reply:
    if turn.user and "story" in turn.user:
        return Speak("Long ago. " * 40, ms=20_000)
    return Speak(f"You said {turn.user}.", ms=120)


def config_at(url: str) -> Config:
    return Config(
        npcs=(
            NpcConfig(name="Bartok", engine=Engine.S2S, fallback=("Hm?",)),
            NpcConfig(name="Ysolde", engine=Engine.S2S, fallback=("Hm?",)),
            NpcConfig(name="Mute"),
        ),
        s2s=S2SConfig(
            provider=S2SProvider.OPENAI_REALTIME,
            model="gpt-realtime-2",
            base_url=url,
            api_key=Secret("k-123"),
        ),
        mcp=McpConfig(remember=False),
        calibration=CalibrationConfig(at_start=False),
    )


@asynccontextmanager
async def worker(
    bus: RealServer,
    database: str,
    model: str,
    *,
    media: bool = True,
    options: MediaOptions | None = None,
    **more: Any,
) -> AsyncGenerator[ClusterWorker]:
    async with (
        open_postgres(database) as store,
        open_runtime(
            config_at(model), llm=ScriptedLLM(lambda _: ["Hm."]), memory=store
        ) as runtime,
        open_nats(bus.url) as nats,
        serve(runtime, nats, **more) as worker,
    ):
        if not media:
            yield worker
            return
        async with open_media(worker, options or media_options("127.0.0.1:0")):
            yield worker


@asynccontextmanager
async def at(media: MediaAddress) -> AsyncGenerator[Client]:
    async with AsyncExitStack() as stack:
        while True:  # until the limit of the test
            try:
                connecting = connect(media.url, token=media.token.reveal())
                client = await stack.enter_async_context(connecting)
                break
            except GlyphoxaClosed as closed:
                # A worker that stood still lets nobody in until it is heard again.
                if "not here any more" not in closed.reason:
                    raise
                await trio.sleep(0.1)
        yield client


async def refused(url: str, token: str | None) -> tuple[int, str]:
    with pytest.raises(GlyphoxaClosed) as closed:
        async with connect(url, token=token):
            pytest.fail("it was let in")
    return closed.value.code, closed.value.reason


async def heard(client: Client, text: str, **more: Any) -> tuple[str, bytes]:
    fields = {"npc": "Bartok", "session": "table", **more}
    while True:  # until the limit of the test
        try:
            async with client.say(text, **fields) as one:
                events = [event async for event in one]
            break
        except GlyphoxaError as refused:
            # Nor does a worker that stood still take a turn: nothing was begun.
            if "not here any more" not in str(refused):
                raise
            await trio.sleep(0.1)
    pcm = b"".join(x["pcm"] for x in events if x["event"] == "Speech")
    return str(events[-1]["text"]), pcm


@pytest.mark.border
async def test_audio_comes_straight_from_the_owner(
    bus: RealServer, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with open_realtime_server(answers) as model:
        async with worker(bus, database, model.base_url) as one, client(bus) as far:
            media = await far.session("table").npc("Bart").media()
            assert media.url.startswith("ws://127.0.0.1:")
            assert "?" not in media.url
            assert media.within == LASTS
            assert media.token.reveal() not in repr(media)
            async with at(media) as player:
                assert player.role == "player"
                assert player.welcome["session"] == "table"
                assert [x["name"] for x in await player.join("table")] == ["Bartok"]
                text, pcm = await heard(player, "hail")
                assert text == "You said hail."
                assert len(pcm) >= 0.12 * 24_000 * 2
                # It is the session of everybody else, and its conversation is kept.
                kept = await far.session("table").snapshot()
                assert "You said hail." in str(kept.npcs["Bartok"].history)
            assert one.sessions == 1
        assert not model.violations
    assert media.token.reveal() not in caplog.text


async def test_a_microphone_is_heard_by_the_owner(
    bus: RealServer, database: str
) -> None:
    loud = [bytes(range(1, 241)) * 4] * 20  # 20 ms each
    quiet = [bytes(960)] * 40
    hears = [Transcription("good day", late=False)]
    async with open_realtime_server(answers, hears=hears) as model:
        async with worker(bus, database, model.base_url), client(bus) as far:
            media = await far.session("table").npc("Bartok").media()
            async with (
                at(media) as player,
                player.listen(rate=24_000, npc="Bartok", session="table") as voice,
            ):
                for frame in (*loud, *quiet):
                    await voice.hear(frame)
                pcm = b""
                async for event in voice:
                    pcm += event.get("pcm", b"")
                    if event["event"] == "TurnDone":
                        break
            assert event["text"] == "You said good day."
            assert pcm


async def test_a_token_is_for_one_npc_of_one_session(
    bus: RealServer, database: str
) -> None:
    async with open_realtime_server(answers) as model:
        async with worker(bus, database, model.base_url), client(bus) as far:
            media = await far.session("table").npc("Bartok").media()
            async with at(media) as player:
                for fields, why in (
                    ({"npc": "Ysolde"}, "for Bartok alone"),
                    ({"npc": None}, "for Bartok alone"),
                    ({"session": "other"}, "another session"),
                ):
                    with pytest.raises(GlyphoxaError, match=why) as no:
                        await heard(player, "hail", **fields)
                    assert no.value.code == "forbidden"
                with pytest.raises(GlyphoxaError, match="direct"):
                    await player.request("end", session="table")
                with pytest.raises(GlyphoxaError, match="for Bartok alone"):
                    await player.request("turn_to", session="table", npc="Bartok")
                assert (await heard(player, "hail"))[1]


@pytest.mark.long
async def test_other_tokens_are_refused_with_a_reason(
    bus: RealServer, database: str
) -> None:
    async with open_realtime_server(answers) as model:
        async with worker(bus, database, model.base_url) as one, client(bus) as far:
            media = await far.session("table").npc("Bartok").media()
            url, token = media.url, media.token.reveal()
            body, _, signed = token.partition(".")
            other = await far.session("other").npc("Bartok").media()
            forged = other.token.reveal().partition(".")[0]
            for wrong in ("garbage", "", "\ud83d\ude00", f"{forged}.{signed}", body):
                assert await refused(url, wrong) == (4001, "the token is not valid")
            assert await refused(url, None) == (4001, "a token is needed")
            desk = one.media
            grant = MediaGrant(SessionKey("table", ""), 1, "Bartok")
            late = desk._tokens.make(grant, trio.current_time() - LASTS - 1)
            told = await refused(url, late.reveal())
            assert told == (4001, "the token is too old: ask for the media again")
            async with at(media) as player:  # the right one is as good as before
                assert (await heard(player, "hail"))[1]


async def moved(far: RemoteRuntime, old: tuple[str, int]) -> tuple[str, int]:
    async with far.session("table").npc("Mute").say("hail", within=10) as turn:
        await turn.finish()
    now = far.owner("table")
    assert now is not None
    assert now[0] != old[0]
    assert now[1] > old[1]
    return now


@pytest.mark.long
async def test_a_token_ends_with_its_epoch(bus: RealServer, database: str) -> None:
    async with open_realtime_server(answers) as model:
        async with (
            worker(bus, database, model.base_url) as first,
            client(bus) as far,
        ):
            bartok = far.session("table").npc("Bartok")
            old = await bartok.media()
            unused = await bartok.media()
            owner = far.owner("table")
            assert owner == (first.name, 1)
            async with worker(bus, database, model.base_url) as second:
                await until(lambda: len(far.workers) == 2)
                async with at(old) as player:
                    assert (await heard(player, "hail"))[1]
                    await first.drained(within=20)
                    with pytest.raises(GlyphoxaClosed) as closed:
                        await heard(player, "are you there?")
                    assert closed.value.code == 4004
                    assert "another worker" in closed.value.reason
                assert await moved(far, owner) == (second.name, 2)
                told = "the session is not here any more: ask for the media again"
                assert await refused(unused.url, unused.token.reveal()) == (4001, told)
                new = await bartok.media()
                assert new.url != old.url
                why = (4001, "the token is not valid")  # of another worker
                assert await refused(new.url, old.token.reveal()) == why
                async with at(new) as player:
                    assert (await heard(player, "hail again"))[1]


async def test_a_worker_that_lost_the_session_closes_its_audio(
    bus: RealServer, database: str
) -> None:
    async with open_realtime_server(answers) as model:
        async with worker(bus, database, model.base_url) as one, client(bus) as far:
            media = await far.session("table").npc("Bartok").media()
            async with at(media) as player:
                async with player.say("story", npc="Bartok", session="table") as turn:
                    await anext(turn)
                    # As when a write was refused because of another owner.
                    one._do(
                        one._ownership.fenced(
                            SessionKey("table", ""), 1, trio.current_time()
                        )
                    )
                    with pytest.raises(GlyphoxaClosed) as closed:
                        await turn.finish()
                assert closed.value.code == 4004
            code, why = await refused(media.url, media.token.reveal())
            assert (code, "not here any more" in why) == (4001, True)


@pytest.mark.long
async def test_an_open_connection_keeps_its_session(
    bus: RealServer, database: str
) -> None:
    async with open_realtime_server(answers) as model:
        async with worker(bus, database, model.base_url, idle=0.3) as one:
            async with client(bus) as far:
                media = await far.session("table").npc("Bartok").media()
                async with at(media) as player:
                    await trio.sleep(0.8)
                    assert one.sessions == 1
                    assert (await heard(player, "hail"))[1]
                await until(lambda: one.sessions == 0)


@pytest.mark.long
async def test_a_session_that_ends_ends_its_audio(
    bus: RealServer, database: str
) -> None:
    async with open_realtime_server(answers) as model:
        async with worker(bus, database, model.base_url) as one, client(bus) as far:
            media = await far.session("table").npc("Bartok").media()
            async with at(media) as player:
                await far.session("table").end()
                with pytest.raises(GlyphoxaClosed, match="has ended"):
                    await heard(player, "hail")
            await until(lambda: one.sessions == 0)


@pytest.mark.long
async def test_whoever_serves_no_audio_says_so(bus: RealServer, database: str) -> None:
    async with open_realtime_server(answers) as model:
        async with worker(bus, database, model.base_url, media=False):
            async with client(bus) as far:
                with pytest.raises(ClusterRefused, match="--media"):
                    await far.npc("Bartok").media()
        async with worker(bus, database, model.base_url), client(bus) as far:
            with pytest.raises(ClusterRefused, match="Mute cannot hear"):
                await far.npc("Mute").media()


@pytest.mark.long
async def test_turns_there_count_for_the_quota(bus: RealServer, database: str) -> None:
    quotas = {"": TenantQuota(turns_per_second=0.01)}
    async with open_realtime_server(answers) as model:
        async with worker(bus, database, model.base_url, quotas=quotas):
            async with client(bus) as far:
                media = await far.session("table").npc("Bartok").media()
                async with at(media) as player:
                    assert (await heard(player, "hail"))[1]
                    with pytest.raises(GlyphoxaError, match="quota") as no:
                        await heard(player, "hail")
                    assert no.value.code == "too_many"


@pytest.mark.long
async def test_a_token_may_be_for_one_name(
    bus: RealServer, database: str, tmp_path: Path
) -> None:
    tokens, shown = tmp_path / "tokens", "token-of-aria-stone"
    tokens.write_text(f"player:table as Aria {shown}\n")
    options = service_options(http="127.0.0.1:0", token_file=tokens)
    async with open_realtime_server(answers) as model:
        async with worker(bus, database, model.base_url), client(bus) as far:
            async with open_gateway(far, options) as service:
                url = f"{service.url.replace('http', 'ws', 1)}/ws"
                async with connect(url, token=shown) as player:
                    asked = {"npc": "Bartok", "session": "table"}
                    media = (await player.request("media", **asked))["result"]
                async with connect(media["url"], token=media["token"]) as there:
                    assert there.welcome["speaker"] == "Aria"
                    assert (await heard(there, "hail"))[1]
                    with pytest.raises(GlyphoxaError, match="speaks as Aria alone"):
                        await heard(there, "hail", speaker="Eve")
                kept = (await far.session("table").snapshot()).npcs["Bartok"].history
                assert {x.speaker for x in kept} == {"Aria"}
            with pytest.raises(ClusterRefused, match="must be a name"):
                await far.npc("Bartok").media(speaker=7)  # type: ignore[arg-type]


async def test_a_client_of_the_gateway_is_told_where_audio_is(
    bus: RealServer, database: str
) -> None:
    async with open_realtime_server(answers) as model:
        async with worker(bus, database, model.base_url), client(bus) as far:
            options = service_options(http="127.0.0.1:0")
            async with open_gateway(far, options) as service:
                url = f"{service.url.replace('http', 'ws', 1)}/ws"
                async with connect(url) as player:
                    with pytest.raises(GlyphoxaError, match="send media"):
                        async with player.listen(rate=24_000, npc="Bartok"):
                            pytest.fail("a microphone at the gateway")
                    told = await player.request("media", npc="Bartok", session="table")
                    result = told["result"]
                    assert result["within_ms"] == LASTS * 1000
                    async with connect(result["url"], token=result["token"]) as there:
                        assert (await heard(there, "hail"))[1]
                    with pytest.raises(GlyphoxaError, match="cannot hear"):
                        await player.request("media", npc="Mute")


@pytest.mark.long
async def test_audio_is_served_by_tls(
    bus: RealServer, database: str, tmp_path: Path
) -> None:
    authority, cert, key = trustme.CA(), tmp_path / "cert.pem", tmp_path / "key.pem"
    issued = authority.issue_cert("localhost")
    issued.cert_chain_pems[0].write_to_path(cert)
    issued.private_key_pem.write_to_path(key)
    trusted = ssl.create_default_context()
    authority.configure_trust(trusted)
    options = media_options("localhost:0", tls_cert=cert, tls_key=key)
    async with open_realtime_server(answers) as model:
        async with worker(bus, database, model.base_url, options=options):
            async with client(bus) as far:
                media = await far.session("table").npc("Bartok").media()
                assert media.url.startswith("wss://localhost:")
                shown = media.token.reveal()
                async with connect(media.url, token=shown, tls=trusted) as player:
                    assert (await heard(player, "hail"))[1]


@pytest.mark.long
async def test_a_page_of_another_origin_needs_to_be_named(
    bus: RealServer, database: str
) -> None:
    page = "https://game.example.org"
    for options, status in (
        (media_options("127.0.0.1:0"), 403),
        (media_options("127.0.0.1:0", allow_origins=[page]), 101),
    ):
        async with worker(bus, database, "http://127.0.0.1:1", options=options) as one:
            url = urlsplit(str(one.media._url))
            assert url.port is not None
            stream = await trio.open_tcp_stream("127.0.0.1", url.port)
            async with stream:
                await stream.send_all(
                    f"GET /ws HTTP/1.1\r\nHost: {url.netloc}\r\nOrigin: {page}\r\n"
                    "Connection: Upgrade\r\nUpgrade: websocket\r\n"
                    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
                    "Sec-WebSocket-Version: 13\r\n\r\n".encode()
                )
                told = bytes(await stream.receive_some(100))
            assert told.startswith(f"HTTP/1.1 {status}".encode()), told


# -- tokens and the desk alone


names = st.text(max_size=40)
BELLS = 200 * "\a"  # six characters each, as JSON
KEY = bytes(32)  # fixed, so that hypothesis sees the same token again


@given(names, names, names, st.integers(1, 2**53), st.floats(-LASTS, 2 * LASTS))
def test_a_token_says_what_it_is_for_until_it_is_too_old(
    session: str, tenant: str, npc: str, epoch: int, age: float
) -> None:
    tokens = MediaTokens()
    grant = MediaGrant(SessionKey(session, tenant), epoch, npc)
    shown = tokens.make(grant, 1000.0).reveal()
    assert MediaTokens().read(shown, 1000.0) is None
    if age > LASTS:
        with pytest.raises(NoMedia, match="too old"):
            tokens.read(shown, 1000.0 + age)
    else:
        assert tokens.read(shown, 1000.0 + age) == grant


@pytest.mark.parametrize("letter", ["x", "\U0001f600"])
def test_names_of_any_letters_have_room_in_a_token(letter: str) -> None:
    name = 200 * letter
    grant = MediaGrant(SessionKey(name, name), 2**53, name)
    tokens = MediaTokens()
    shown = tokens.make(grant, 0.0).reveal()
    assert len(shown) <= 4096  # what a hello has room for
    assert tokens.read(shown, 0.0) == grant
    with pytest.raises(NoMedia, match="too long"):
        tokens.make(MediaGrant(SessionKey(BELLS, BELLS), 1, BELLS), 0.0)


def test_no_token_is_accepted_while_the_worker_may_begin_nothing() -> None:
    own = Ownership(worker="w", deployment="d", version="1")
    desk = MediaDesk(own.may_use, lambda *_: None)
    own.claimed(KEYS[0], 1, {}, 0.0)
    shown = desk._tokens.make(MediaGrant(KEYS[0], 1, "Bo"), 0.0).reveal()
    assert desk.admit(shown, 0.0)
    own.stood_still()  # it does not know yet who has the session
    with pytest.raises(NoMedia, match="not here"):
        desk.admit(shown, 0.0)
    own.acknowledged(own.beat(0.0).n, 0.0)
    assert desk.admit(shown, 0.0)
    own.drain(0.0, 10.0)
    with pytest.raises(NoMedia, match="not here"):
        desk.admit(shown, 0.0)


def test_no_token_of_a_session_that_has_ended_is_accepted() -> None:
    own = Ownership(worker="w", deployment="d", version="1")
    desk = MediaDesk(own.may_use, lambda *_: None)
    own.claimed(KEYS[0], 1, {}, 0.0)
    shown = desk._tokens.make(MediaGrant(KEYS[0], 1, "Bo"), 0.0).reveal()
    own.attached(KEYS[0], 1, True, 0.0)  # somebody still hears how it ends
    own.over(KEYS[0], 1, 0.0)
    with pytest.raises(NoMedia, match="not here"):
        desk.admit(shown, 0.0)


@given(st.data())
def test_a_token_that_was_changed_is_none(data: st.DataObject) -> None:
    tokens = MediaTokens(KEY)
    grant = MediaGrant(SessionKey("table", "guild"), 3, "Bartok")
    shown = tokens.make(grant, 0.0).reveal()
    where = data.draw(st.integers(0, len(shown) - 1))
    other = data.draw(st.characters(blacklist_characters=shown[where]))
    assert tokens.read(shown[:where] + other + shown[where + 1 :], 0.0) is None
    assert tokens.read(data.draw(st.text()), 0.0) is None


KEYS = [SessionKey("a", ""), SessionKey("b", "")]


class DeskMachine(RuleBasedStateMachine):
    """Sessions are claimed and lost, connections come and go, turns begin and end."""

    def __init__(self) -> None:
        super().__init__()
        self.own = Ownership(worker="w", deployment="d", version="1", idle=1e9)
        self.desk = MediaDesk(self.own.may_use, self.attached)
        self.tokens: list[tuple[str, MediaGrant]] = []
        self.epochs = dict.fromkeys(KEYS, 0)
        self.open: list[tuple[MediaGrant, Any, list[str]]] = []
        self.turns: dict[SessionKey, int] = {}
        self.number = 0

    def attached(self, key: SessionKey, epoch: int, here: bool) -> None:
        self.own.attached(key, epoch, here, 0.0)

    def claim(self, key: SessionKey) -> None:
        if self.own.epoch(key):
            return
        self.epochs[key] += 1
        self.own.claimed(key, self.epochs[key], {}, 0.0)

    @rule(key=st.sampled_from(KEYS))
    def lose(self, key: SessionKey) -> None:
        if epoch := self.own.epoch(key):
            self.own.fenced(key, epoch, 0.0)
            self.desk.close(key, "lost")
            for grant, _, told in self.open:
                assert bool(told) >= (grant.key == key)

    @rule(key=st.sampled_from(KEYS))
    def ask(self, key: SessionKey) -> None:
        self.claim(key)
        grant = MediaGrant(key, self.own.epoch(key), "Bo")
        self.tokens.append((self.desk._tokens.make(grant, 0.0).reveal(), grant))

    @rule(data=st.data())
    def connect(self, data: st.DataObject) -> None:
        if not self.tokens:
            return
        shown, grant = data.draw(st.sampled_from(self.tokens))
        if self.own.epoch(grant.key) != grant.epoch:
            with pytest.raises(NoMedia, match="not here"):
                self.desk.admit(shown, 0.0)
            return
        assert self.desk.admit(shown, 0.0) == grant
        told: list[str] = []
        opened = self.desk.opened(grant, told.append)
        opened.__enter__()
        self.open.append((grant, opened, told))

    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        if self.open:
            one = data.draw(st.sampled_from(self.open))
            self.open.remove(one)
            one[1].__exit__(None, None, None)
            if one[0].key not in {x[0].key for x in self.open}:
                self.turns.pop(one[0].key, None)

    @rule(key=st.sampled_from(KEYS), more=st.booleans())
    def turn(self, key: SessionKey, more: bool) -> None:
        self.number += 1
        npc = key.npc("Bo")
        if key in self.turns:
            ended = self.turns.pop(key)
            self.desk.note(done(npc, ended))
            # What comes after the end of a turn does not begin it again.
            self.desk.note(TurnEvent(**npc.of(ended if more else 0)))
        elif any(x[0].key == key for x in self.open):
            self.turns[key] = self.number
            self.desk.note(TurnEvent(**npc.of(self.number)))

    @invariant()
    def a_session_with_connections_is_not_quiet(self) -> None:
        for key, held in self.own._held.items():
            here = [x for x in self.open if x[0] == MediaGrant(key, held.epoch, "Bo")]
            assert held.listeners == len(here)
            assert (key in self.own._quiet) == (not here)

    def teardown(self) -> None:
        before = {id(x): list(x[2]) for x in self.open}
        self.desk.close_quiet("moves")
        for one in self.open:
            quiet = one[0].key not in self.turns
            assert one[2] == before[id(one)] + (["moves"] if quiet else [])
            one[1].__exit__(None, None, None)
        assert not self.desk._open
        assert not self.desk._running
        assert not self.desk._ended


def done(npc: NpcId, turn: int) -> TurnDone:
    timings = Timings(model=0, tools=0, total=0)
    return TurnDone(
        **npc.of(turn),
        end=TurnEnd.COMPLETED,
        text="",
        outcomes=(),
        timings=timings,
        rounds=1,
    )


TestDesk = DeskMachine.TestCase


def test_the_connections_of_a_session_are_bounded() -> None:
    desk = MediaDesk(lambda key: 1, lambda *_: None)
    grant = MediaGrant(KEYS[0], 1, "Bo")
    shown = desk._tokens.make(grant, 0.0).reveal()
    with ExitStack() as stack:
        for _ in range(MOST_OPEN):
            assert desk.admit(shown, 0.0) == grant
            stack.enter_context(desk.opened(grant, lambda _: None))
        with pytest.raises(NoMedia, match="64 connections"):
            desk.admit(shown, 0.0)
    assert desk.admit(shown, 0.0) == grant


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"media": "0.0.0.0:9000"}, "needs --tls-cert"),
        ({"media": "nowhere"}, "--media"),
        ({"media": "127.0.0.1:0", "behind_proxy": True}, "--media-url"),
        ({"media": "127.0.0.1:0", "media_url": "http://here"}, "--media-url"),
        ({"media": "127.0.0.1:0", "media_url": "wss://here/?token=1"}, "--media-url"),
        ({"media": "127.0.0.1:0", "tls_cert": Path("cert")}, "one needs the other"),
    ],
)
def test_bad_options_are_named(options: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        media_options(options.pop("media"), **options)


def test_the_address_that_clients_are_told_may_be_another() -> None:
    options = media_options(
        "127.0.0.1:0", media_url="wss://one.example.org", behind_proxy=True
    )
    assert options.url == "wss://one.example.org"
    assert "one.example.org" in options.http.access.hosts
