"""A voice server of Discord on the loopback, a recognizer and a synthesizer of tones.

The server has a WebSocket, IP discovery and encrypted RTP over UDP, without end-to-end
encryption (DAVE version 0). A member's words are a tone, which goes through Opus.
"""

from __future__ import annotations

import asyncio
import json
import math
import struct
from array import array
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from itertools import pairwise
from typing import Any, Final

import attrs
import nacl.secret
from aiohttp import WSMsgType, web
from discord.opus import Decoder, Encoder

import trio

from glyphoxa_trio.actors import Stream
from glyphoxa_trio.providers.speech import Began, Recognized, VoiceStyle
from glyphoxa_trio.providers.speech import Final as Words

RATE: Final = 48_000
FRAME: Final = 960  # samples of a channel, 20 ms
KEY: Final = bytes(range(32))
MODE: Final = "aead_xchacha20_poly1305_rtpsize"
MINE: Final = 77  # the source of the bot


def tone(hertz: float, seconds: float, *, channels: int = 1) -> bytes:
    samples = array("h")
    for at in range(round(seconds * RATE)):
        value = round(8000 * math.sin(2 * math.pi * hertz * at / RATE))
        samples.extend([value] * channels)
    return samples.tobytes()


def pitch(pcm: bytes) -> float:
    """The frequency of a tone, in Hz, of PCM16, mono, 48 kHz; 0 if it is silent."""
    samples = array("h", pcm)
    if not samples or max(map(abs, samples)) < 500:
        return 0.0
    crossed = sum(1 for a, b in pairwise(samples) if a < 0 <= b)
    return crossed * RATE / len(samples)


class _Socket(asyncio.DatagramProtocol):
    def __init__(self, server: FakeVoiceServer) -> None:
        self._server = server

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self._server.received(data, addr)


@attrs.define(eq=False)
class FakeVoiceServer:
    """``played``: what the bot has played, PCM16, mono. ``pings``: packets that keep
    the path open."""

    played: bytearray = attrs.field(factory=bytearray, init=False)
    pings: int = attrs.field(default=0, init=False)
    left: bool = attrs.field(default=False, init=False)
    _socket: asyncio.DatagramTransport = attrs.field(init=False)
    _ws: web.WebSocketResponse | None = attrs.field(default=None, init=False)
    _bot: tuple[str, int] | None = attrs.field(default=None, init=False)
    _decoder: Decoder = attrs.field(factory=Decoder, init=False)
    _sequences: dict[int, int] = attrs.field(factory=dict, init=False)
    changed: asyncio.Event = attrs.field(factory=asyncio.Event, init=False)

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[None]:
        loop = asyncio.get_running_loop()
        self._socket, _ = await loop.create_datagram_endpoint(
            lambda: _Socket(self), local_addr=("127.0.0.1", 0)
        )
        try:
            yield
        finally:
            self._socket.close()

    async def serve(self, request: web.Request) -> web.WebSocketResponse:
        """The voice gateway."""
        self._ws = ws = web.WebSocketResponse()
        await ws.prepare(request)
        await self._send(8, {"heartbeat_interval": 20000})
        async for frame in ws:
            if frame.type != WSMsgType.TEXT:
                continue
            packet = json.loads(frame.data)
            match packet["op"]:
                case 0:
                    _, port = self._socket.get_extra_info("sockname")
                    about = {"ssrc": MINE, "ip": "127.0.0.1", "port": port}
                    await self._send(2, about | {"modes": ["other", MODE]})
                case 1:
                    assert packet["d"]["data"]["mode"] == MODE
                    how = {"mode": MODE, "secret_key": list(KEY)}
                    await self._send(4, how | {"dave_protocol_version": 0})
                case 3:
                    await self._send(6, packet["d"])
        self.left = True
        self.changed.set()
        return ws

    async def _send(self, op: int, data: Any) -> None:
        assert self._ws is not None
        await self._ws.send_str(json.dumps({"op": op, "d": data}))

    def received(self, data: bytes, addr: tuple[str, int]) -> None:
        """A packet from the bot."""
        if len(data) == 74 and data[1] == 1:  # IP discovery
            self._bot = addr
            address = addr[0].encode().ljust(64, b"\0")
            answer = struct.pack(">HHI", 2, 70, MINE) + address
            self._socket.sendto(answer + struct.pack(">H", addr[1]), addr)
        elif len(data) == 8:
            self.pings += 1
        else:
            header, nonce = data[:12], data[-4:] + bytes(20)
            opus = nacl.secret.Aead(KEY).decrypt(data[12:-4], header, nonce)
            stereo = array("h", self._decoder.decode(opus, fec=False))
            self.played += stereo[0::2].tobytes()
        self.changed.set()

    async def speak(self, member: int, hertz: float, seconds: float) -> None:
        """A member speaks, in real time; half of the packets have an extension."""
        ssrc = 1000 + member
        await self._send(5, {"user_id": str(member), "ssrc": ssrc, "speaking": 1})
        encoder = Encoder()
        stereo = tone(hertz, seconds, channels=2)
        for at in range(0, len(stereo), FRAME * 4):
            sequence = self._sequences[ssrc] = self._sequences.get(ssrc, 0) + 1
            opus = encoder.encode(stereo[at : at + FRAME * 4], FRAME)
            self._send_rtp(ssrc, sequence, opus, extended=sequence % 2 == 0)
            await asyncio.sleep(0.02)

    def _send_rtp(
        self, ssrc: int, sequence: int, opus: bytes, *, extended: bool
    ) -> None:
        first = 0x90 if extended else 0x80
        header = struct.pack(">BBHII", first, 0x78, sequence, sequence * FRAME, ssrc)
        if extended:  # its length is in clear text, and its words are encrypted
            header += b"\xbe\xde\x00\x02"
            opus = b"\x51\x00\x00\x00\x00\x00\x00\x00" + opus
        nonce = struct.pack(">I", sequence) + bytes(20)
        sealed = nacl.secret.Aead(KEY).encrypt(opus, header, nonce).ciphertext
        assert self._bot is not None
        self._socket.sendto(header + sealed + nonce[:4], self._bot)

    def garbage(self) -> None:
        """Bytes that anybody may send, and a packet that cannot be decrypted."""
        assert self._bot is not None
        for data in (b"", b"\x80", bytes(200), b"\x80\x78" + bytes(100)):
            self._socket.sendto(data, self._bot)


@attrs.define(eq=False)
class ToneSynthesizer:
    """Says every sentence as a tone of 300 Hz, for ``seconds``."""

    seconds: float = 0.4
    label: str = "tones"
    rate: int = RATE

    @asynccontextmanager
    async def _speak(self) -> AsyncGenerator[AsyncIterator[bytes]]:
        yield self._pieces()

    async def _pieces(self) -> AsyncIterator[bytes]:
        for _ in range(round(self.seconds / 0.1)):
            await trio.lowlevel.checkpoint()
            yield tone(300, 0.1)

    def speak(
        self, text: str, voice: VoiceStyle
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._speak()


@attrs.define(eq=False)
class ToneRecognition:
    """An utterance is a tone until a second of silence, even on a busy machine."""

    words: dict[int, str]
    dropped: float = 0.0
    _piece: bytes = b""
    _tones: list[float] = attrs.field(factory=list, init=False)
    _quiet: float = attrs.field(default=0.0, init=False)
    _events: Stream[Recognized] = attrs.field(factory=Stream, init=False)

    def hear(self, pcm: bytes) -> None:
        self._piece += pcm
        size = RATE // 25 * 2  # 40 ms
        while len(self._piece) >= size:
            piece, self._piece = self._piece[:size], self._piece[size:]
            self._hear(pitch(piece))

    def _hear(self, hertz: float) -> None:
        if hertz:
            if not self._tones:
                self._events.post(Began())
            self._tones.append(hertz)
            self._quiet = 0.0
        elif self._tones:
            self._quiet += 0.04
            if self._quiet > 0.9:
                middle = sorted(self._tones)[len(self._tones) // 2]
                nearest = min(self.words, key=lambda x: abs(x - middle))
                self._events.post(Words(self.words[nearest]))
                self._tones = []

    async def events(self) -> AsyncIterator[Recognized]:
        async for event in self._events:
            yield event


@attrs.define(eq=False)
class ToneRecognizer:
    """Understands tones as words, by their frequency in Hz."""

    words: dict[int, str]
    label: str = "tones"
    rate: int = RATE

    @asynccontextmanager
    async def _listen(self) -> AsyncGenerator[ToneRecognition]:
        yield ToneRecognition(self.words)

    def listen(
        self, *, language: str | None = None
    ) -> AbstractAsyncContextManager[ToneRecognition]:
        return self._listen()


async def until(server: FakeVoiceServer, hertz: float, within: float) -> bool:
    """Wait until the bot has played a tone for a tenth of a second."""
    with suppress(TimeoutError):
        async with asyncio.timeout(within):
            while abs(pitch(bytes(server.played[-9600:])) - hertz) > 40:
                server.changed.clear()
                await server.changed.wait()
            return True
    return False
