"""Speech synthesis by a server with the OpenAI-compatible ``/audio/speech``.

The server may be the vendor's, or run on this machine: Kokoro-FastAPI, Speaches,
LocalAI.
"""

from .link import RATE, OpenAISpeech

__all__ = ["RATE", "OpenAISpeech"]
