"""The time that a caller still waits for an answer, and the claim that its session is
held under, for the handlers of MCP servers.

A runtime sends with each call how long it will wait for the answer. It is a duration in
milliseconds and not a time of day, since the clocks of two machines need not agree:

    "_meta": {"glyphoxa/remaining_ms": 430}

A handler that uses it can answer in part where it would otherwise be cut off:

    @server.tool()
    async def deliberate(question: str, ctx: Context) -> list[str]:
        opinions: list[str] = []
        with budget(ctx):
            async for opinion in ask_around(question):
                opinions.append(opinion)
        return opinions

The time counts from the moment when the handler asks for it. The time that the request
spent on its way, or in a queue inside the server, cannot be known here: the ``margin``
has to cover it, and the way back. If a client sends no number, or one that makes no
sense, the handler has no limit.

A call of a session that is kept names the session's claim as well:

    "_meta": {"glyphoxa/session": "9f86d081884c7d65...", "glyphoxa/epoch": 3}

Each owner of the session has a higher epoch than the one before. Who was an owner and
does not know yet that it is none may still call: `session_claim`.

This file imports neither the runtime nor trio, so a server may also copy it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from anyio import CancelScope

KEY: Final = "glyphoxa/remaining_ms"
SESSION: Final = "glyphoxa/session"
EPOCH: Final = "glyphoxa/epoch"
MARGIN: Final = 0.02  # seconds, for the way there and back over a pipe

# A caller does not wait for thirty years: such a number is a mistake, or a time of
# day.
_LARGEST: Final = 1e12
_LARGEST_EPOCH: Final = 2**53
_LONGEST: Final = 64  # characters that stand for a session


def remaining_seconds(source: object) -> float | None:
    """Return the seconds that the caller still waits, or None if it sent no limit.

    Args:
      source: the ``_meta`` of a call as a mapping, or an object that holds it: the
        SDK's params or request context, or the ``Context`` that its high-level server
        injects.
    """
    value = _meta_of(source, KEY).get(KEY)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return value / 1000 if 0 <= value <= _LARGEST else None


def session_claim(source: object) -> tuple[str, int] | None:
    """Return what stands for the caller's session, and the epoch of the claim under
    which the caller holds it; None if the call names none.

    A server that keeps data of sessions keeps the highest epoch of each one beside it,
    and refuses a change in a lower one: it comes from a process that has lost the
    session. The first text is the same in every process, whatever its epoch.

    Args:
      source: as for `remaining_seconds`.
    """
    meta = _meta_of(source, EPOCH)
    session, epoch = meta.get(SESSION), meta.get(EPOCH)
    if not isinstance(session, str) or not 0 < len(session) <= _LONGEST:
        return None
    if not isinstance(epoch, int) or isinstance(epoch, bool):
        return None
    return (session, epoch) if 0 < epoch <= _LARGEST_EPOCH else None


def budget(source: object, *, margin: float = MARGIN) -> CancelScope:
    """Return a cancel scope that ends the work inside it in time for an answer.

    For async handlers, under trio and asyncio alike; ``cancelled_caught`` of the scope
    says afterwards whether the time was up. A plain function runs in a thread, where
    nothing can be cancelled: it has to compare `remaining_seconds` with a clock.

    Args:
      source: as for `remaining_seconds`. Without a budget the scope never ends.
      margin: seconds to keep back for sending the answer.
    """
    import anyio  # every server on the SDK has it already

    left = remaining_seconds(source)
    return anyio.move_on_after(None if left is None else max(0.0, left - margin))


def _meta_of(source: object, key: str) -> Mapping[str, Any]:
    for _ in range(3):  # a Context holds a request, a request its meta
        if isinstance(source, Mapping):
            return source
        extra = getattr(source, "model_extra", None)
        if isinstance(extra, Mapping) and key in extra:  # the SDK's before 2.0
            return extra
        try:
            source = getattr(source, "request_context", None) or getattr(
                source, "meta", None
            )
        except (LookupError, ValueError):  # a Context outside of any request
            break
    return {}
