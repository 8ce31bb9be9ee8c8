"""Dice expressions: parsing them, and rolling the dice.

    expression = ["+" | "-"] term { ("+" | "-") term }
    term       = dice | number
    dice       = [number] "d" (number | "%") [keep]
    keep       = ("kh" | "kl") [number] | "adv" | "dis"

Case and white space between the parts do not matter. ``2d6+1d4-1`` has several terms,
``4d6kh3`` keeps the highest three, ``d%`` is ``1d100``, and ``1d20adv`` is ``2d20kh1``.

In a result, ``rolls`` holds every die that counts, in the order rolled, and ``dropped``
every die that does not. Dice of a subtracted term are negative in both. So ``total ==
sum(rolls) + modifier``, always.
"""

from __future__ import annotations

import random
import re
from typing import Final, Literal, NoReturn

import attrs

from glyphoxa_trio.tools.definition import ToolError

MAX_DICE: Final = 1000  # over all the terms, including those that adv and dis add
MAX_SIDES: Final = 10_000
MAX_NUMBER: Final = 1_000_000  # of a number that stands alone
MAX_LENGTH: Final = 200  # of an expression, in characters

_TOKEN: Final = re.compile(r"[0-9]+|[A-Za-z]+|[%+-]")
_SPACE: Final = re.compile(r"\s*")


@attrs.frozen(kw_only=True)
class Dice:
    """``count`` dice, of which the ``keep`` highest or lowest count."""

    count: int
    sides: int
    keep: int
    highest: bool = True
    sign: Literal[1, -1] = 1


@attrs.frozen(kw_only=True)
class Expression:
    """A parsed expression. ``modifier`` is the sum of the plain numbers."""

    dice: tuple[Dice, ...]
    modifier: int = 0


@attrs.frozen(kw_only=True)
class DiceRoll:
    """The dice that were rolled; the module's docstring explains the signs."""

    rolls: tuple[int, ...]
    dropped: tuple[int, ...] = ()
    modifier: int = 0

    @property
    def total(self) -> int:
        return sum(self.rolls) + self.modifier


def parse(text: str) -> Expression:
    """Parse a dice expression.

    Raises:
      ToolError: at which character (from 1) what was expected, or which limit is
        exceeded.
    """
    reader = _Reader(text)
    dice: list[Dice] = []
    modifier = 0
    sign = reader.take("+", "-") or "+"
    while sign:
        start = reader.position
        term = _term(reader, -1 if sign == "-" else 1)
        if isinstance(term, int):
            modifier += term
        else:
            dice.append(term)
            if sum(some.count for some in dice) > MAX_DICE:
                reader.fail(f"more than {MAX_DICE} dice in all", start)
        sign = reader.take("+", "-")
    if reader.token:
        reader.fail("expected '+', '-' or the end")
    if not dice:
        reader.fail("no dice in it, such as 1d20", 0)
    return Expression(dice=tuple(dice), modifier=modifier)


def roll(expression: Expression, rng: random.Random) -> DiceRoll:
    """Roll the dice, term by term, with ``rng`` as the only source of randomness."""
    rolls: list[int] = []
    dropped: list[int] = []
    for dice in expression.dice:
        faces = [rng.randint(1, dice.sides) for _ in range(dice.count)]
        # Of equal dice the first stays: `sorted` keeps their order either way.
        ranked = sorted(range(dice.count), key=faces.__getitem__, reverse=dice.highest)
        kept = set(ranked[: dice.keep])
        for place, face in enumerate(faces):
            (rolls if place in kept else dropped).append(dice.sign * face)
    return DiceRoll(
        rolls=tuple(rolls), dropped=tuple(dropped), modifier=expression.modifier
    )


def _term(reader: _Reader, sign: Literal[1, -1]) -> Dice | int:
    start = reader.position
    number = reader.number()
    if not reader.take("d"):
        if number is None:
            reader.fail("expected dice such as 2d6, or a number")
        if number > MAX_NUMBER:
            reader.fail(f"a number above {MAX_NUMBER}", start)
        return sign * number
    count = 1 if number is None else number
    if not 1 <= count <= MAX_DICE:
        reader.fail(f"the number of dice must be from 1 to {MAX_DICE}", start)
    start = reader.position
    sides = 100 if reader.take("%") else reader.number()
    if sides is None:
        reader.fail("expected the number of sides after 'd', or '%'")
    if not 1 <= sides <= MAX_SIDES:
        reader.fail(f"the number of sides must be from 1 to {MAX_SIDES}", start)
    start = reader.position
    word = reader.take("kh", "kl", "adv", "dis")
    if word in ("adv", "dis"):
        if count != 1:
            reader.fail(f"'{word}' goes with one die, not with {count}", start)
        return Dice(count=2, sides=sides, keep=1, highest=word == "adv", sign=sign)
    keep = count
    if word:
        start = reader.position
        asked = reader.number()
        keep = 1 if asked is None else asked
        if not 1 <= keep <= count:
            reader.fail(f"'{word}' must keep from 1 to {count} dice", start)
    return Dice(count=count, sides=sides, keep=keep, highest=word != "kl", sign=sign)


class _Reader:
    """A cursor over the tokens of an expression; ``token`` is empty at the end."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = self._end = 0
        self.token = ""
        if len(text) > MAX_LENGTH:
            raise ToolError(f"a dice expression has at most {MAX_LENGTH} characters")
        self._step()

    def take(self, *words: str) -> str:
        """Take the next token if it is one of ``words``, in lower case; else ""."""
        word = self.token.lower()
        if word not in words:
            return ""
        self._step()
        return word

    def number(self) -> int | None:
        if not self.token.isdigit():
            return None
        value = int(self.token)
        self._step()
        return value

    def fail(self, problem: str, position: int | None = None) -> NoReturn:
        at = self.position if position is None else position
        raise ToolError(f"dice expression {self.text!r}, character {at + 1}: {problem}")

    def _step(self) -> None:
        space = _SPACE.match(self.text, self._end)
        self.position = self._end = space.end() if space else self._end
        found = _TOKEN.match(self.text, self._end)
        if found is None and self._end < len(self.text):
            self.fail(f"{self.text[self._end]!r} has no meaning in a dice expression")
        self.token = found[0] if found else ""
        self._end += len(self.token)
