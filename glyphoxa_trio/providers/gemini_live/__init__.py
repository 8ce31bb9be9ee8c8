"""Google's Gemini Live: a speech-to-speech model over one socket.

`GeminiLive` is the model, `SessionOptions` holds its options, and `Profile` says what
its family supports. The protocol is in `wire`, without I/O: `messages` builds messages,
`incoming` parses those that arrive, `turn` turns the model's turns into responses,
`calls` keeps the calls made in them, and `hearing` the transcripts of the user.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from glyphoxa_trio.renamed import renamed

from .link import VERSION as VERSION
from .link import GeminiLive as GeminiLive
from .options import SessionOptions as SessionOptions
from .profiles import Profile as Profile

if not TYPE_CHECKING:
    __getattr__ = renamed(__name__, Options="SessionOptions")
