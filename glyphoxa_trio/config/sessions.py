"""The keys for sessions: how many are open at once, and what their snapshots are
signed with."""

from __future__ import annotations

import attrs

from glyphoxa_trio.secret import Secret

from .fields import InMinutes, above_zero


@attrs.frozen(kw_only=True)
class SessionsConfig:
    """So many sessions are open at ``most``; beyond that the longest idle is set aside
    until a player speaks to it. With memory, so is one that was idle for ``idle``. With
    a ``key``, a snapshot that was not made with it is refused."""

    most: int = attrs.field(default=10_000, validator=above_zero)
    idle: InMinutes = attrs.field(default=1800.0, validator=above_zero)
    key: Secret | None = None
