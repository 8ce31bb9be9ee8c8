"""What a scripted model server can be told to do: the steps of its replies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs


@attrs.frozen
class SayText:
    """Text, word by word, ``every`` so many seconds; or in ``pieces`` of your own."""

    text: str = ""
    every: float = attrs.field(default=0.0, kw_only=True)
    pieces: tuple[str, ...] | None = attrs.field(default=None, kw_only=True)


@attrs.frozen
class CallTools:
    """Calls in parallel: (name, arguments), the arguments as data or as raw text.

    Args:
      ids: as many as calls, repeated or empty as you like; None makes good ones.
      fragments: into how many pieces the arguments are cut; 0 sends each call
        whole, in one entry.
    """

    calls: Sequence[tuple[str, Any]]
    ids: Sequence[str] | None = attrs.field(default=None, kw_only=True)
    fragments: int = attrs.field(default=3, kw_only=True)


@attrs.frozen
class Think:
    """Thoughts in ``pieces``, signed where the protocol signs them; or, without
    pieces, thoughts that nobody is shown."""

    pieces: tuple[str, ...] = ()
    signature: str = "signed"


@attrs.frozen
class RawText:
    """Text of the event stream as it stands: comments, garbage, other dialects."""

    text: str


@attrs.frozen
class Pause:
    """Nothing, for so many seconds."""

    seconds: float


@attrs.frozen
class Hang:
    """Nothing more, while the client waits. As the first step, not even headers."""


@attrs.frozen
class Forever:
    """The same text ``every`` so many seconds, until the client leaves."""

    text: str
    every: float = 0.01


@attrs.frozen
class Die:
    """The connection is closed in the middle of things."""


@attrs.frozen
class Cut:
    """The answer ends cleanly on the wire, but without its finish."""


@attrs.frozen
class Finish:
    """The end, with a finish reason of your own, or none; ``done`` is ``[DONE]``, or
    ``message_stop``. Reasons are those of chat completions, or the protocol's own."""

    reason: str | None
    done: bool = True


@attrs.frozen
class Fail:
    """An HTTP error in place of a stream; data is sent as JSON. The first step."""

    status: int
    body: Any = attrs.field(factory=lambda: {"error": {"message": "scripted failure"}})
    headers: Mapping[str, str] = attrs.field(factory=dict, kw_only=True)


Step = (
    SayText
    | CallTools
    | Think
    | RawText
    | Pause
    | Hang
    | Forever
    | Die
    | Cut
    | Finish
    | Fail
)
Reply = Step | Sequence[Step]
Script = Sequence[Reply] | Callable[[Mapping[str, Any]], Reply]
