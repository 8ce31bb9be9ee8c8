"""The evaluation of a Duality roll. Pure.

Two d12, Hope and Fear, and a modifier make the total. Equal dice are a critical
success, whatever the total. Otherwise the roll succeeds if the total reaches the
difficulty, and the larger die decides whether it is with Hope or with Fear. Without a
difficulty there is only Hope or Fear. A difficulty of 0 counts as a difficulty.

The numbers that the original design shows for `probability` are impossible: the dice
  are alike, so
there are as many outcomes with Hope as with Fear.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from itertools import product
from typing import Any, Final

import attrs

from glyphoxa_trio.tools.definition import ToolError

SIDES: Final = 12
MAX_NUMBER: Final = 1_000_000  # of a modifier, up or down, and of a difficulty
RULES_VERSION: Final = "1.0.0"


class InvalidRoll(ToolError):
    """An argument has an invalid value; the message names the argument."""

    code = "InvalidArgument"


class RollOutcome(StrEnum):
    """The outcome of a roll, in the order of the rules."""

    ROLL_WITH_HOPE = "ROLL_WITH_HOPE"
    ROLL_WITH_FEAR = "ROLL_WITH_FEAR"
    SUCCESS_WITH_HOPE = "SUCCESS_WITH_HOPE"
    SUCCESS_WITH_FEAR = "SUCCESS_WITH_FEAR"
    FAILURE_WITH_HOPE = "FAILURE_WITH_HOPE"
    FAILURE_WITH_FEAR = "FAILURE_WITH_FEAR"
    CRITICAL_SUCCESS = "CRITICAL_SUCCESS"


METADATA: Final[Mapping[str, Any]] = {
    "system": "Daggerheart",
    "module": "Duality",
    "rules_version": RULES_VERSION,
    "dice_model": "DUALITY_D12_V1",
    "total_formula": "hope + fear + modifier",
    "crit_rule": "HOPE_EQUALS_FEAR_IS_CRITICAL",
    "difficulty_rule": "TOTAL_MEETS_OR_EXCEEDS_DIFFICULTY",
    "outcomes": [outcome.value for outcome in RollOutcome],
}

# The order in which `probability` lists them.
_COUNTED: Final = (
    RollOutcome.CRITICAL_SUCCESS,
    RollOutcome.SUCCESS_WITH_HOPE,
    RollOutcome.SUCCESS_WITH_FEAR,
    RollOutcome.FAILURE_WITH_HOPE,
    RollOutcome.FAILURE_WITH_FEAR,
)


@attrs.frozen(kw_only=True)
class DualityRoll:
    """Two dice that have been rolled, and their evaluation."""

    hope: int
    fear: int
    modifier: int = 0
    difficulty: int | None = None

    @property
    def total(self) -> int:
        return self.hope + self.fear + self.modifier

    @property
    def is_crit(self) -> bool:
        return self.hope == self.fear

    @property
    def meets_difficulty(self) -> bool:
        """True for a success; always False without a difficulty."""
        if self.difficulty is None:
            return False
        return self.is_crit or self.total >= self.difficulty

    @property
    def verdict(self) -> str:
        """The outcome without Hope or Fear."""
        if self.is_crit:
            return "CRITICAL_SUCCESS"
        if self.difficulty is None:
            return "ROLL"
        return "SUCCESS" if self.meets_difficulty else "FAILURE"

    @property
    def outcome(self) -> RollOutcome:
        if self.is_crit:
            return RollOutcome.CRITICAL_SUCCESS
        return RollOutcome(f"{self.verdict}_WITH_{self._flavour}")

    @property
    def _flavour(self) -> str:
        return "HOPE" if self.hope > self.fear else "FEAR"

    def as_data(self) -> dict[str, Any]:
        """Return the roll as the tools answer it; ``difficulty`` only if it has one."""
        return {
            "hope": self.hope,
            "fear": self.fear,
            "modifier": self.modifier,
            **self._difficulty(),
            "total": self.total,
            "is_crit": self.is_crit,
            "meets_difficulty": self.meets_difficulty,
            "outcome": self.outcome.value,
        }

    def steps(self) -> list[dict[str, Any]]:
        """Return how the outcome came about, step by step."""
        dice = {"hope": self.hope, "fear": self.fear}
        base = {"base_total": self.hope + self.fear}
        total = {"total": self.total}
        return [
            _step("SUM_DICE", "Sum hope and fear dice", dice | base),
            _step(
                "APPLY_MODIFIER",
                "Apply modifier to base total",
                base | {"modifier": self.modifier} | total,
            ),
            _step(
                "CHECK_CRIT",
                "Check for critical outcome",
                dice | {"is_crit": self.is_crit},
            ),
            _step(
                "CHECK_DIFFICULTY",
                "Compare total against difficulty",
                total
                | self._difficulty()
                | {"meets_difficulty": self.meets_difficulty},
            ),
            _step(
                "SELECT_OUTCOME",
                "Select final outcome based on roll",
                {"outcome": self.verdict},
            ),
        ]

    def _difficulty(self) -> dict[str, int]:
        return {} if self.difficulty is None else {"difficulty": self.difficulty}


def evaluate(
    hope: int, fear: int, modifier: int = 0, difficulty: int | None = None
) -> DualityRoll:
    """Return a roll of known dice.

    Raises:
      InvalidArgument: if a value is out of bounds; the message names it.
    """
    check(modifier, difficulty)
    for name, face in (("hope", hope), ("fear", fear)):
        if not 1 <= face <= SIDES:
            raise InvalidRoll(f"{name} must be from 1 to {SIDES}, got {face}")
    return DualityRoll(hope=hope, fear=fear, modifier=modifier, difficulty=difficulty)


def check(modifier: int, difficulty: int | None) -> None:
    """Raise `InvalidRoll` if a value is out of bounds; the message names it."""
    if abs(modifier) > MAX_NUMBER:
        raise InvalidRoll(
            f"modifier must be from {-MAX_NUMBER} to {MAX_NUMBER}, got {modifier}"
        )
    if difficulty is not None and not 0 <= difficulty <= MAX_NUMBER:
        raise InvalidRoll(
            f"difficulty must be from 0 to {MAX_NUMBER}, got {difficulty}"
        )


def explain(roll: DualityRoll) -> dict[str, Any]:
    """Return a roll, and how its outcome came about."""
    return {
        **roll.as_data(),
        "rules_version": RULES_VERSION,
        "intermediates": {
            "base_total": roll.hope + roll.fear,
            "total": roll.total,
            "is_crit": roll.is_crit,
            "meets_difficulty": roll.meets_difficulty,
            "hope_gt_fear": roll.hope > roll.fear,
            "fear_gt_hope": roll.fear > roll.hope,
        },
        "steps": roll.steps(),
    }


def probability(modifier: int, difficulty: int) -> dict[str, Any]:
    """Count the outcomes of all 144 pairs of dice.

    A critical success is a success.

    Raises:
      InvalidArgument: if a value is out of bounds; the message names it.
    """
    check(modifier, difficulty)
    faces = range(1, SIDES + 1)
    rolls = [
        DualityRoll(hope=hope, fear=fear, modifier=modifier, difficulty=difficulty)
        for hope, fear in product(faces, faces)
    ]
    counts = Counter(roll.outcome for roll in rolls)
    successes = sum(roll.meets_difficulty for roll in rolls)
    return {
        "total_outcomes": len(rolls),
        "crit_count": counts[RollOutcome.CRITICAL_SUCCESS],
        "success_count": successes,
        "failure_count": len(rolls) - successes,
        "outcome_counts": [
            {"outcome": outcome.value, "count": counts[outcome]} for outcome in _COUNTED
        ],
    }


def _step(code: str, message: str, data: dict[str, Any]) -> dict[str, Any]:
    return {"code": code, "message": message, "data": data}
