"""Speech recognition by a server with the OpenAI-compatible ``/audio/transcriptions``.

The server may be the vendor's, or run on this machine.
"""

from .link import Transcriptions

__all__ = ["Transcriptions"]
