"""A snapshot of a session: a frozen value, and its bytes.

    kept = (await session.snapshot()).to_bytes()
    ...
    session = runtime.session("table-42", restore=kept)

The bytes are a header line and a line of JSON::

    glyphoxa-session 1 SHA256 MAC
    {"id": "table-42", "tenant": "guild", ...}

The checksum detects damage. The MAC, if `sessions.key` is set, detects a snapshot that
was made without that key.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import attrs

from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.npc.identity import SessionKey
from glyphoxa_trio.npc.snapshot import NpcSnapshot, SceneSnapshot
from glyphoxa_trio.secret import Secret

if TYPE_CHECKING:
    from cattrs import Converter

VERSION: Final = 1
_WORD: Final = b"glyphoxa-session"
_NO_MAC: Final = b"-"
_MOST_BYTES: Final = 64 * 1024 * 1024
_LONGEST_HEAD: Final = 256


class SnapshotRefused(GlyphoxaError):
    """A session cannot be restored from this; the message says why."""


@attrs.frozen(kw_only=True)
class SessionSnapshot:
    """A session as it was when the snapshot was taken. Its ``repr`` has no
    conversation.

    Args:
      taken_at: the time, in seconds since 1970.
      run, clock: the run that took it, and the time on that run's clock, on which the
        times of ``npcs`` are.
    """

    id: str
    tenant: str
    variables: Mapping[str, str | None] = attrs.field(repr=False)
    taken_at: float
    run: str = attrs.field(repr=False)
    clock: float = attrs.field(repr=False)
    npcs: Mapping[str, NpcSnapshot] = attrs.field(repr=False)
    scenes: tuple[SceneSnapshot, ...] = attrs.field(default=(), repr=False)

    @property
    def key(self) -> SessionKey:
        return SessionKey(self.id, self.tenant)

    @property
    def speakers(self) -> set[str]:
        """The names of those whose words it has."""
        names: set[str] = set()
        for npc in self.npcs.values():
            names |= {line.speaker for line in npc.overheard}
            for exchange in npc.history:
                names |= {exchange.speaker, *(x.speaker for x in exchange.overheard)}
        return names

    def to_data(self) -> dict[str, Any]:
        """Return plain data for JSON; `from_data` reads it."""
        data: dict[str, Any] = json.loads(_text(self))
        return data

    @classmethod
    def from_data(cls, data: Any) -> SessionSnapshot:
        """Return the snapshot; raise `SnapshotRefused` if the data is not one."""
        try:
            return _converter().structure(data, cls)
        except Exception as error:  # cattrs' groups, and whatever a field raises
            raise SnapshotRefused(
                f"the snapshot cannot be read: {_first(error)}"
            ) from error

    def to_bytes(self, key: Secret | None = None) -> bytes:
        """Return the bytes that `from_bytes` reads, signed with ``key``
        (`sessions.key`)."""
        body = _text(self).encode()
        digest = hashlib.sha256(body).hexdigest().encode()
        mac = _NO_MAC if key is None else _mac(key, digest)
        return b"%s %d %s %s\n%s" % (_WORD, VERSION, digest, mac, body)

    @classmethod
    def from_bytes(cls, data: bytes, key: Secret | None = None) -> SessionSnapshot:
        """Return the snapshot that `to_bytes` made.

        Raises:
          SnapshotRefused: the bytes are no snapshot, of a newer version or damaged; or,
            with a ``key``, they were not made with it.
        """
        if len(data) > _MOST_BYTES:
            raise SnapshotRefused(f"the snapshot has more than {_MOST_BYTES} bytes")
        end = data.find(b"\n", 0, _LONGEST_HEAD)
        head, body = data[: max(end, 0)].split(b" "), data[end + 1 :]
        if len(head) < 2 or head[0] != _WORD or not head[1].isdigit():
            raise SnapshotRefused("this is no snapshot of a session")
        if (version := int(head[1])) > VERSION:
            raise SnapshotRefused(
                f"the snapshot is of version {version}, and this package reads up to"
                f" {VERSION}: update it"
            )
        digest = hashlib.sha256(body).hexdigest().encode()
        if len(head) != 4 or not hmac.compare_digest(head[2], digest):
            raise SnapshotRefused("the snapshot is damaged: its checksum differs")
        if key is not None and not hmac.compare_digest(head[3], _mac(key, digest)):
            raise SnapshotRefused("the snapshot was not made with this sessions.key")
        try:
            data = json.loads(body.decode("ascii"))
        except (ValueError, RecursionError) as error:
            raise SnapshotRefused("the snapshot cannot be read") from error
        return cls.from_data(data)


def _text(snapshot: SessionSnapshot) -> str:
    return json.dumps(_converter().unstructure(snapshot), separators=(",", ":"))


def _mac(key: Secret, digest: bytes) -> bytes:
    return hmac.new(key.reveal().encode(), digest, "sha256").hexdigest().encode()


def _first(error: BaseException) -> str:
    """Return the innermost error of a group, in words."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


@cache
def _converter() -> Converter:
    from cattrs.preconf.json import make_converter

    return make_converter(omit_if_default=True)
