"""The Duality dice of Daggerheart: two d12, Hope and Fear (F35 to F43, D24).

`rules` says what a roll means, `chance` where its dice come from and how the same
ones fall again, `handlers` makes the six tools.
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
