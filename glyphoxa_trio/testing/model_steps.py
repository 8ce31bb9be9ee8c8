"""The steps of a scripted model server's replies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs


@attrs.frozen
class SayText:
    """Text, word by word, one every ``every`` seconds; or in ``pieces`` of your own."""

    text: str = ""
    every: float = attrs.field(default=0.0, kw_only=True)
    pieces: tuple[str, ...] | None = attrs.field(default=None, kw_only=True)


@attrs.frozen
class CallTools:
    """Parallel calls: (name, arguments), the arguments as data or as raw text.

    Args:
      ids: as many as calls, also repeated or empty; None makes correct ones.
      fragments: the number of pieces into which the arguments are cut; 0 sends each
        call whole, in one entry.
    """

    calls: Sequence[tuple[str, Any]]
    ids: Sequence[str] | None = attrs.field(default=None, kw_only=True)
    fragments: int = attrs.field(default=3, kw_only=True)


@attrs.frozen
class Think:
    """Thoughts in ``pieces``, signed if the protocol signs them.

    Without pieces, hidden thoughts.
    """

    pieces: tuple[str, ...] = ()
    signature: str = "signed"


@attrs.frozen
class RawText:
    """Text of the event stream as it is: comments, garbage, other dialects."""

    text: str


@attrs.frozen
class Pause:
    """Nothing, for some seconds."""

    seconds: float


@attrs.frozen
class Hang:
    """Nothing more, while the client waits. As the first step, not even headers."""


@attrs.frozen
class Forever:
    """The same text every ``every`` seconds, until the client disconnects."""

    text: str
    every: float = 0.01


@attrs.frozen
class Die:
    """Closing the connection in the middle of the reply."""


@attrs.frozen
class Cut:
    """A clean end on the wire, but without the protocol's finish."""


@attrs.frozen
class Finish:
    """The end, with a finish reason of your own, or none.

    Reasons are those of chat completions, or the protocol's own. ``done`` is whether
    ``[DONE]`` or ``message_stop`` follows.
    """

    reason: str | None
    done: bool = True


@attrs.frozen
class Fail:
    """An HTTP error in place of a stream, as the first step.

    Data is sent as JSON.
    """

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
