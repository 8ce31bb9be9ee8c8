"""Speech recognition by a server with the OpenAI-compatible ``/audio/transcriptions``:
the vendor's, or one on this machine.
"""

from .link import Transcriptions

__all__ = ["Transcriptions"]
