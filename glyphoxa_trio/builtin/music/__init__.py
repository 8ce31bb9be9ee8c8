"""The tools ``play_track`` and ``stop_music`` over a folder of files (G12).

`library` knows which files there are and for which mood, `moods` which of them was
meant, `player` is the ACTOR that plays one track at a time, on an `Output`: `mixer`,
where tracks fade into each other, or `events`, which somebody else plays.
"""

from .events import Announcer, MusicEvent, PlayMusic, StopMusic
from .handlers import tools
from .library import Library, read_library
from .mixer import Mixer, Sounding
from .output import Output
from .player import Prepare, open_player

__all__ = [
    "Announcer",
    "Library",
    "Mixer",
    "MusicEvent",
    "Output",
    "PlayMusic",
    "Prepare",
    "Sounding",
    "StopMusic",
    "open_player",
    "read_library",
    "tools",
]
