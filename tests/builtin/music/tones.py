"""Sound files that are made for a test."""

from __future__ import annotations

import math
import struct
import wave
from pathlib import Path


def tone(path: Path, seconds: float = 1.0) -> Path:
    """A WAV of a quiet tone; folders on the way are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        frames = (int(3000 * math.sin(at / 3)) for at in range(int(8000 * seconds)))
        file.writeframes(b"".join(struct.pack("<h", x) for x in frames))
    return path
