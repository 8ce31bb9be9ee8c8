"""How long an answer is awaited, for the handlers of MCP servers.

A runtime says with each call how long somebody waits for it, in milliseconds and
not as a time of day, since two machines need not agree on that:

    "_meta": {"glyphoxa/remaining_ms": 430}

A handler that knows it can answer in part where it would be cut off:

    @server.tool()
    async def deliberate(question: str, ctx: Context) -> list[str]:
        opinions: list[str] = []
        with budget(ctx):
            async for opinion in ask_around(question):
                opinions.append(opinion)
        return opinions

The time counts from when a handler asks. How long the request was on its way, or
waited inside the server, nobody knows: the ``margin`` has to cover it, and the
way back. A client that says nothing, or nonsense, leaves the handler unlimited.

This file knows neither the runtime nor trio: a server may as well copy it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from anyio import CancelScope

KEY: Final = "glyphoxa/remaining_ms"
MARGIN: Final = 0.02  # seconds, for the way there and back over a pipe

# Nobody waits for thirty years: such a number is a mistake, or a time of day.
_LARGEST: Final = 1e12


def remaining_seconds(source: object) -> float | None:
    """How long the answer is awaited, seconds; None if nobody says.

    Args:
      source: a call's ``_meta`` as a mapping, or what holds it: the SDK's params
        or request context, or the ``Context`` that its high-level server injects.
    """
    value = _meta_of(source).get(KEY)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return value / 1000 if 0 <= value <= _LARGEST else None


def budget(source: object, *, margin: float = MARGIN) -> CancelScope:
    """A cancel scope that ends the work inside it in time for an answer.

    For async handlers, under trio and asyncio alike; ``cancelled_caught`` of the
    scope says afterwards whether time was up. A plain function is run in a thread,
    where nothing can be cancelled: it reads `remaining_seconds` and looks at a
    clock.

    Args:
      source: as for `remaining_seconds`. Without a budget the scope never ends.
      margin: seconds kept back to send the answer and have it arrive.
    """
    import anyio  # every server on the SDK has it already

    left = remaining_seconds(source)
    return anyio.move_on_after(None if left is None else max(0.0, left - margin))


def _meta_of(source: object) -> Mapping[str, Any]:
    for _ in range(3):  # a Context holds a request, a request its meta
        if isinstance(source, Mapping):
            return source
        extra = getattr(source, "model_extra", None)
        if isinstance(extra, Mapping) and KEY in extra:  # the SDK's before 2.0
            return extra
        try:
            source = getattr(source, "request_context", None) or getattr(
                source, "meta", None
            )
        except (LookupError, ValueError):  # a Context outside of any request
            break
    return {}
