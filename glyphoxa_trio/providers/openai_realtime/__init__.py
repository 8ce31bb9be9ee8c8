"""OpenAI Realtime (GA), and any server that speaks it: speech in, speech out.

`OpenAIRealtime` is the model, `SessionOptions` what may be asked of it. The wire is in
`wire`, free of I/O, with `encoding` (what we say), `hearing` (what people say),
`responding` and `answers` (what the model says), `sequencer` (one response at a
time), `calls` (each answered once) and `complaints`; `link` carries it.
"""

from __future__ import annotations

from .link import OpenAIRealtime as OpenAIRealtime
from .options import SessionOptions as SessionOptions
