"""The keys for a scene of several NPCs and players."""

from __future__ import annotations

import attrs

from .fields import Text, above_zero, not_negative


@attrs.frozen(kw_only=True)
class SceneConfig:
    """``overheard`` lines of others an NPC remembers, 0 none; ``context`` is pushed to
    all of them; ``players`` may wait to be answered."""

    overheard: int = attrs.field(default=20, validator=not_negative)
    context: tuple[Text, ...] = ()
    players: int = attrs.field(default=16, validator=above_zero)
