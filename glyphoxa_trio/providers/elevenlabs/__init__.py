"""Speech synthesis by ElevenLabs over a WebSocket, with the time of every word."""

from .link import RATE, ElevenLabs

__all__ = ["RATE", "ElevenLabs"]
