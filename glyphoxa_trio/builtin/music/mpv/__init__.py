"""Music by the program ``mpv``: a process a track, told over its JSON IPC."""

from .link import Mpv, installed, open_mpv

__all__ = ["Mpv", "installed", "open_mpv"]
