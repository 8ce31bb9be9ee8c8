"""Dice and random tables.

`expression` parses and rolls dice expressions; `handlers` makes the two tools.
"""

from .expression import Dice, DiceRoll, Expression, parse, roll
from .handlers import tools

__all__ = ["Dice", "DiceRoll", "Expression", "parse", "roll", "tools"]
