"""Speech by the Wyoming protocol: piper, faster-whisper and others, over TCP."""

from .connection import WyomingServer
from .link import RATE, WyomingRecognition, WyomingSynthesis

__all__ = ["RATE", "WyomingRecognition", "WyomingServer", "WyomingSynthesis"]
