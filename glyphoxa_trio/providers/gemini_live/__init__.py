"""Google's Gemini Live: a model that hears and speaks over one socket.

`GeminiLive` is the model, `SessionOptions` what may be asked of it, `Profile` what its family
takes. The wire is in `wire`, free of I/O: what is said is in `messages`, what comes in
`incoming`, what the model's turns mean in `turn`, with the calls made in them (`calls`)
and what was heard (`hearing`).
`schema` reduces the tools' schemas to what Gemini takes.
"""

from __future__ import annotations

from .link import VERSION as VERSION
from .link import GeminiLive as GeminiLive
from .options import SessionOptions as SessionOptions
from .profiles import Profile as Profile
