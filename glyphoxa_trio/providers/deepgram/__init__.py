"""Speech recognition by Deepgram's Flux, which finds the end of a turn by itself."""

from .link import Deepgram

__all__ = ["Deepgram"]
