"""The members' voices in a channel: packets of py-cord's socket to PCM by member.

py-cord 2.8.1 has a reader of its own, with five threads. It loses the audio of packets
with an extension, and all of it where the channel is not end-to-end encrypted. So this
takes its packets, its decryption box and its decoder, and puts them together.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

import davey
import discord
from discord.opus import Decoder, OpusError
from discord.voice.packets import RTPPacket
from discord.voice.packets.rtp import decode
from discord.voice.receive.reader import PacketDecryptor, is_rtcp

logger = logging.getLogger(__name__)

MODE: Final = "aead_xchacha20_poly1305_rtpsize"  # the one that Discord still offers
_SHORTEST: Final = 12  # bytes: the header
_WRAP: Final = 1 << 16
_LOST: Final = 3  # packets that are filled in, at most


class MonoDecoder(Decoder):
    """Opus to PCM16, mono, 48 kHz."""

    CHANNELS = 1


class _Speaker:
    """The decoder of one source, and the number of its last packet."""

    def __init__(self) -> None:
        self.decoder = MonoDecoder()
        self.last: int | None = None

    def decode(self, sequence: int, opus: bytes) -> bytes:
        """Return the PCM of a packet, and before it of those that were lost."""
        gap = 1 if self.last is None else (sequence - self.last) % _WRAP
        if gap == 0 or gap > _WRAP // 2:
            return b""  # it came before, or too late
        self.last = sequence
        lost = gap - 1 if gap - 1 <= _LOST else 0
        filled = [self.decoder.decode(None, fec=False) for _ in range(lost)]
        return b"".join([*filled, self.decoder.decode(opus, fec=False)])


class VoiceReceiver:
    """Calls ``hear`` on the loop with a member's id and PCM16, mono, 48 kHz.

    Between `start` and `stop`. Packets of nobody, damaged ones, and those that cannot
    be decrypted yet are dropped.
    """

    def __init__(
        self, client: discord.VoiceClient, hear: Callable[[int, bytes], None]
    ) -> None:
        self._client, self._hear = client, hear
        self._speakers: dict[int, _Speaker] = {}

    def start(self) -> None:
        self._client._connection.add_socket_listener(self.receive)

    def stop(self) -> None:
        self._client._connection.remove_socket_listener(self.receive)

    def receive(self, data: bytes) -> None:
        """Take a packet from the socket."""
        if len(data) < _SHORTEST or data[0] >> 6 != 2 or is_rtcp(data):
            return
        try:
            packet = decode(data)
            assert isinstance(packet, RTPPacket)
            member = self._client._ssrc_to_id.get(packet.ssrc)
            if member is None or member == self._client.user.id:
                return
            opus = self._decrypted(packet, member)
            speaker = self._speakers.setdefault(packet.ssrc, _Speaker())
            pcm = speaker.decode(packet.sequence, opus)
        except OpusError as error:
            logger.debug("a packet was not understood: %s", error)
        except Exception as error:  # of the library, for bytes that anybody may send
            logger.debug("a packet was dropped: %r", error)
        else:
            if pcm:
                self._hear(member, pcm)

    def _decrypted(self, packet: RTPPacket, member: int) -> bytes:
        client = self._client
        box: Any = PacketDecryptor(client.mode, bytes(client.secret_key), client).box
        packet.adjust_rtpsize()
        nonce = packet.nonce + bytes(20)
        plain = box.decrypt(bytes(packet.data), bytes(packet.header), nonce)
        media: bytes = plain[packet.update_extended_header(plain) :]
        session = client._connection.dave_session
        if session is not None and session.ready:
            return session.decrypt(member, davey.MediaType.audio, media)
        return media
