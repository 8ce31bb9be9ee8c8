"""Speech recognition on this machine: `pocketsphinx` and its English model.

It is small and works offline. It understands nearly all of a list of phrases that it
was told to expect, and less than half of the words of free speech (docs/voices.md has
the figures): a recognizer for commands, and for tests. For free speech use
`transcriptions`.
"""

from .link import Pocketsphinx, installed

__all__ = ["Pocketsphinx", "installed"]
