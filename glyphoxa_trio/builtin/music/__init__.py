"""The tools ``play_track`` and ``stop_music`` over a folder of files (G12).

`library` knows which files there are and for which mood, `moods` which of them was
meant, `player` is the ACTOR that plays one track at a time, on an `Output`: a `mixer`
of `mpv` processes, or `events`, which somebody else plays. `open_music` opens it all.
"""

from .events import MusicEvent, PlayMusic, StopMusic
from .opening import Music, open_music

__all__ = ["Music", "MusicEvent", "PlayMusic", "StopMusic", "open_music"]
