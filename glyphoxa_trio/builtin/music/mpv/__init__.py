"""Playing music with the program ``mpv``: one process a track, over its JSON IPC."""

from .link import Mpv, installed, open_mpv

__all__ = ["Mpv", "installed", "open_mpv"]
