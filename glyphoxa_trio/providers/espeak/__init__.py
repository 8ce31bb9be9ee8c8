"""Speech synthesis on this machine, by the `espeak-ng` program: one process a sentence.

It is small, fast and sounds like a robot: a voice for tests and for tables without a
network.
"""

from .link import Espeak, installed

__all__ = ["Espeak", "installed"]
