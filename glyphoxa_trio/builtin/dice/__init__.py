"""Dice and random tables (G3, G4, D20).

`expression` reads and throws dice and says what a result means; `handlers` makes
the two tools of it.
"""

from .expression import Dice, DiceRoll, Expression, parse, roll
from .handlers import tools

__all__ = ["Dice", "DiceRoll", "Expression", "parse", "roll", "tools"]
