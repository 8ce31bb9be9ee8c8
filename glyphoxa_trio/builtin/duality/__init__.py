"""The Duality dice of Daggerheart: two d12, Hope and Fear.

`rules` evaluates a roll, `chance` is the source of its dice and can repeat them, and
`handlers` makes the six tools.
"""

from .chance import ALGORITHM, MAX_SEED, Seeded
from .handlers import tools
from .rules import DualityRoll, InvalidRoll, RollOutcome, evaluate, explain, probability

__all__ = [
    "ALGORITHM",
    "MAX_SEED",
    "DualityRoll",
    "InvalidRoll",
    "RollOutcome",
    "Seeded",
    "evaluate",
    "explain",
    "probability",
    "tools",
]
