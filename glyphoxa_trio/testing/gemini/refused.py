"""The errors, beyond a message's shape, that close a fake Gemini socket."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Mapping
from typing import Any, Final

INVALID: Final = 1007
POLICY: Final = 1008
_ALPHABET: Final = str.maketrans("-_", "+/")


class SocketRefused(Exception):
    """A message of the client for which the socket is closed."""

    def __init__(self, code: int, word: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.word = word
        self.detail = detail


def pcm_of(blob: Mapping[str, Any]) -> tuple[bytes, int]:
    """Return the samples of a blob, and their rate. Raises `SocketRefused`."""
    kind, _, rest = str(blob.get("mimeType", "")).partition(";")
    name, _, rate = rest.strip().partition("=")
    if kind != "audio/pcm" or (rest and (name != "rate" or not rate.isdigit())):
        detail = f"Unsupported mime type {blob.get('mimeType')!r}."
        raise SocketRefused(INVALID, "mime_type", detail)
    try:
        # Either alphabet, padded or not: the JSON of protocol buffers allows both, and
        # the vendor's own client sends the other one.
        text = str(blob.get("data", "")).translate(_ALPHABET).rstrip("=")
        pcm = b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (NotBase64, ValueError):
        raise SocketRefused(INVALID, "not_base64", "Base64 decoding failed.") from None
    if len(pcm) % 2:
        raise SocketRefused(INVALID, "half_sample", "Whole samples of 16 bits.")
    return pcm, int(rate or 16_000)
