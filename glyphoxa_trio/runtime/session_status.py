"""The state of a session, as pages show it. To look at one does not use it."""

from __future__ import annotations

from collections.abc import Callable

import attrs

import trio

from glyphoxa_trio.npc.cost import Spent

from .session_state import SessionState


@attrs.frozen(kw_only=True)
class SessionOverview:
    """The state of one session.

    Args:
      npcs: the NPCs that were spoken with since it began, or since it was set aside.
      talking: those of them that are in a turn, a call or a question.
      unused: seconds since its last use.
      spent: the tokens and costs of models since it began.
      set_aside: it is kept outside the runtime until it is used again.
    """

    session: str
    tenant: str
    npcs: tuple[str, ...]
    talking: tuple[str, ...]
    unused: float
    spent: Spent
    set_aside: bool


def status_of_session(
    state: SessionState, cost: Callable[[SessionState], Spent]
) -> SessionOverview:
    """Return the state of a session."""
    seats = state.seats
    return SessionOverview(
        session=state.key.id,
        tenant=state.key.tenant,
        npcs=tuple(seats),
        talking=tuple(name for name, seat in seats.items() if not seat.idle),
        unused=trio.current_time() - state.used_at if state.used else 0.0,
        spent=cost(state),
        set_aside=state.resting,
    )
