"""Speech synthesis on this machine: the `espeak-ng` program, a process a sentence.

Small, fast and robotic: a voice for tests, for tables without a network, and for
finding out what one wants of a better one.
"""

from .link import Espeak, installed

__all__ = ["Espeak", "installed"]
