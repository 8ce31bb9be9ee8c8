"""OpenAI Realtime (GA), and any server with this API: speech in, speech out.

`OpenAIRealtime` is the model, and `SessionOptions` holds its options. The protocol is
in `wire`, without I/O: `encoding` builds messages, `hearing` reads the user's speech,
`responding` and `answers` the model's, `sequencer` keeps to one response at a time,
`calls` answers each call once, and `complaints` reads errors. `link` connects it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from glyphoxa_trio.renamed import renamed

from .link import OpenAIRealtime as OpenAIRealtime
from .options import SessionOptions as SessionOptions

if not TYPE_CHECKING:
    __getattr__ = renamed(__name__, Options="SessionOptions")
