"""A recording, played again on virtual time, and compared.

`again` is the whole of it; `driver` has the players speak when they spoke, `hooks`,
`models`, `tools` and `answers` give what was given, `ear` hears the events, `diff` says
what differs, `rules` what was changed on purpose.
"""

from .again import Replayed, replay

__all__ = ["Replayed", "replay"]
