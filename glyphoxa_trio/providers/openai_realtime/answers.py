"""The model's output, by item and by call, without I/O.

Interrupted responses contain items too, with arguments cut anywhere. So a call counts
only if its item is complete, or, if a server does not say, if its response is. The
output of an item is remembered for a while, because a client must not ask to keep more
of it than there was.
"""

from __future__ import annotations

from base64 import b64decode
from collections import OrderedDict
from typing import Any, Final

import attrs

from glyphoxa_trio.providers import g711
from glyphoxa_trio.providers.g711 import Law
from glyphoxa_trio.providers.payloads import (
    MAX_ARGUMENTS,
    MAX_CALLS,
    string,
)
from glyphoxa_trio.tools.outcome import ToolCall

from .options import PCM_RATE

MAX_ITEMS: Final = 256


@attrs.define(eq=False)
class Item:
    """The output of one item.

    Args:
      law: of G.711, if the audio is encoded so.
      audio: bytes of PCM16 that arrived.
      content_index: of the audio.
      half: half a sample that waits for its other half.
      said: texts by content index.
    """

    law: Law | None = None
    audio: int = 0
    content_index: int = 0
    half: bytes = b""
    said: dict[int, str] = attrs.field(factory=dict)

    @property
    def audio_ms(self) -> int:
        """The duration of the audio that arrived, in milliseconds."""
        rate = PCM_RATE if self.law is None else g711.RATE
        return self.audio * 1000 // (2 * rate)

    def hear(self, content_index: int, base64: str) -> bytes:
        """Return the whole samples of a piece of audio; half a sample is kept.

        Raises:
          ValueError: if the piece is not base64.
        """
        data = b64decode(base64, validate=True)
        if self.law is not None:
            data = g711.decoded(data, self.law)
        pcm = self.half + data
        whole = len(pcm) // 2 * 2
        pcm, self.half = pcm[:whole], pcm[whole:]
        self.audio += len(pcm)
        self.content_index = content_index
        return pcm

    def read(self, content_index: int, text: str) -> str:
        """Take a piece of text, and return it."""
        self.said[content_index] = self.said.get(content_index, "") + text
        return text

    def rest(self, content_index: int, whole: str) -> str:
        """Return the part of the whole text that did not arrive in pieces.

        Some servers send only the whole text.
        """
        said = self.said.get(content_index, "")
        if not whole.startswith(said):
            return ""
        return self.read(content_index, whole[len(said) :])


@attrs.define(eq=False)
class Items:
    """The last items of a conversation. ``law`` is of G.711, if their audio is."""

    _law: Law | None = None
    _items: OrderedDict[str, Item] = attrs.field(factory=OrderedDict, init=False)

    def of(self, item_id: str) -> Item:
        """Return that item, which may be new."""
        item = self._items.setdefault(item_id, Item(self._law))
        if len(self._items) > MAX_ITEMS:
            self._items.popitem(last=False)
        return item

    def known(self, item_id: str) -> Item | None:
        """Return that item, None if it is not known."""
        return self._items.get(item_id)


@attrs.define(eq=False)
class _Made:
    """A call of a response."""

    call: ToolCall
    holds: bool | None  # None if the server does not say


@attrs.define(eq=False)
class Response:
    """One response until it is over. ``ready`` are the calls that were reported."""

    id: str
    ready: set[str] = attrs.field(factory=set)
    _made: dict[str, _Made] = attrs.field(factory=dict, init=False)

    @property
    def is_full(self) -> bool:
        """True if it has as many calls as are allowed."""
        return len(self._made) >= MAX_CALLS

    def knows(self, call_id: str) -> bool:
        """Return whether the response has made this call."""
        return call_id in self._made

    def add(self, item: dict[str, Any]) -> ToolCall | None:
        """Take a ``function_call`` item that is done, once or again.

        Returns the call if it is complete and was not reported yet.
        """
        call_id = string(item.get("call_id"))
        # Some servers send no arguments for an empty object.
        arguments = string(item.get("arguments"))
        call = ToolCall(call_id, string(item.get("name")), arguments.strip() or "{}")
        status = item.get("status")
        holds = None if status is None else status == "completed"
        if len(arguments) > MAX_ARGUMENTS:
            holds = False
        # The call may be running, so it stays as it was reported.
        if call_id in self.ready:
            call = self._made[call_id].call
            holds = True if holds is None else holds
        self._made[call_id] = _Made(call, holds)
        if not holds or call_id in self.ready:
            return None
        self.ready.add(call_id)
        return call

    def calls(self, *, completed: bool) -> tuple[list[ToolCall], list[str]]:
        """Return the calls that count, and the ids of those that do not."""
        valid = {
            call_id
            for call_id, made in self._made.items()
            if completed and made.holds is not False
        }
        holding = [
            made.call for call_id, made in self._made.items() if call_id in valid
        ]
        return holding, [call_id for call_id in self._made if call_id not in valid]
