"""Speech recognition on this machine: `pocketsphinx` and its English model.

Small and offline. It understands about half of the words that somebody may say, and
nearly all of a list of phrases that they may say (docs/voices.md has the figures): a
recognizer for commands, and for tests. For free talk use `transcriptions`.
"""

from .link import Pocketsphinx, installed

__all__ = ["Pocketsphinx", "installed"]
