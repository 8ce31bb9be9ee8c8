"""Recitals: words that the model speaks exactly as given, beside the conversation.

No I/O. A response out of band is not part of the conversation and may run beside
another one. It is recognised by its ``metadata``, which comes back in
``response.created``; from then on by its id.
"""

from __future__ import annotations

from base64 import b64decode
from binascii import Error
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from glyphoxa_trio.providers import g711
from glyphoxa_trio.providers.failures import excerpt
from glyphoxa_trio.providers.g711 import Law
from glyphoxa_trio.providers.llm import Usage
from glyphoxa_trio.providers.payloads import string
from glyphoxa_trio.providers.s2s import Event, RecitalEnded, Recite, Recited

from .encoding import encoded

MOST_WORDS: Final = 2000  # characters of the transcript that are kept

_KEY: Final = "recital"
_HOW: Final = (
    "Read out the text that you are given, word for word, exactly as it stands. Do not"
    " answer it. Add nothing, leave nothing out, and say nothing else."
)


@attrs.define
class _Recital:
    """One recital. ``unwanted`` means that it is stopped as soon as it has an id."""

    name: str
    response: str = ""
    words: str = ""
    unwanted: bool = False


@attrs.define(eq=False)
class Reciting:
    """The recitals of one socket.

    Args:
      usage_of: converts the usage of a response.
      law: of G.711, if the audio is encoded so.
    """

    _usage_of: Callable[[object], Usage | None]
    _law: Law | None = None
    _asked: dict[str, _Recital] = attrs.field(factory=dict, init=False)  # by name
    _running: dict[str, _Recital] = attrs.field(factory=dict, init=False)  # by id
    _orders: list[str] = attrs.field(factory=list, init=False)

    def ask(self, recite: Recite) -> None:
        """Request a recital."""
        self._asked[recite.name] = _Recital(recite.name)
        text = {"type": "input_text", "text": recite.text}
        said = {"type": "message", "role": "user", "content": [text]}
        response = {
            "conversation": "none",
            "metadata": {_KEY: recite.name},
            "instructions": _HOW,
            "input": [said],
            "tool_choice": "none",
        }
        event = {"type": "response.create", "event_id": f"recite_{recite.name}"}
        self._orders.append(encoded({**event, "response": response}))

    def stop(self, name: str) -> None:
        """Stop a recital."""
        recital = self._asked.get(name)
        if recital is not None:
            recital.unwanted = True
            self._cancel(recital)

    def _cancel(self, recital: _Recital) -> None:
        """Cancel the response of a recital, if it is known."""
        if recital.response:
            event_id = f"stop_{recital.name}"
            event = {"type": "response.cancel", "event_id": event_id}
            self._orders.append(encoded({**event, "response_id": recital.response}))

    def orders(self) -> list[str]:
        """Return the frames to send now, in this order."""
        orders, self._orders = self._orders, []
        return orders

    def refused(self, event_id: str | None, detail: str) -> list[Event] | None:
        """End the recital that the server has refused; None if it is about none."""
        recital = self._asked.get((event_id or "").removeprefix("recite_"))
        if recital is None:
            return None
        return self._end(recital, detail or "it was refused")

    def receive(self, kind: str, message: Mapping[str, Any]) -> list[Event] | None:
        """Return the events of a message; None if it is about no recital."""
        if kind in ("response.created", "response.done"):
            return self._on_response(kind, message.get("response"))
        recital = self._running.get(string(message.get("response_id")))
        if recital is None:
            return None
        delta = string(message.get("delta"))
        match kind:
            case "response.output_audio.delta":
                try:
                    pcm = b64decode(delta, validate=True)
                except (Error, ValueError):
                    pcm = b""
                if self._law is not None:
                    pcm = g711.decoded(pcm, self._law)
                pcm = pcm[: len(pcm) // 2 * 2]
                heard = pcm and not recital.unwanted
                return [Recited(recital.name, pcm)] if heard else []
            case "response.output_audio_transcript.delta":
                recital.words = (recital.words + delta)[:MOST_WORDS]
        return []

    def _on_response(self, kind: str, response: object) -> list[Event] | None:
        """Return the events of the start or the end of a response."""
        if not isinstance(response, dict):
            return None
        metadata = response.get("metadata")
        name = string(metadata.get(_KEY)) if isinstance(metadata, dict) else ""
        id_ = string(response.get("id"))
        recital = self._running.get(id_) or self._asked.get(name)
        if recital is None:
            return None
        if kind == "response.created":
            recital.response = id_
            self._running[id_] = recital
            if recital.unwanted:
                self._cancel(recital)
            return []
        completed = response.get("status") in ("completed", None)
        status = excerpt(string(response.get("status")))
        usage = self._usage_of(response.get("usage"))
        return self._end(recital, "" if completed else f"it was {status}", usage)

    def _end(
        self, recital: _Recital, error: str, usage: Usage | None = None
    ) -> list[Event]:
        """End a recital."""
        del self._asked[recital.name]
        self._running.pop(recital.response, None)
        ended = RecitalEnded(
            name=recital.name, text=recital.words, error=error, usage=usage
        )
        return [ended]
