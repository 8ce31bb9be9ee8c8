"""The tools ``play_track`` and ``stop_music`` over a folder of files.

`library` knows the files and their moods, `moods` decides which mood was meant, and
`player` is the ACTOR that plays one track at a time on an `Output`: a `mixer` of `mpv`
processes, or `events` for an application that plays them. `open_music` opens all of it.
"""

from .events import MusicEvent, PlayMusic, StopMusic
from .opening import Music, open_music

__all__ = ["Music", "MusicEvent", "PlayMusic", "StopMusic", "open_music"]
