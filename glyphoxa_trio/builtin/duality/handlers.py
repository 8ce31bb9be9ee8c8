"""The tools of the group ``duality``."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from glyphoxa_trio.builtin.dice.expression import MAX_DICE, MAX_SIDES
from glyphoxa_trio.tools.decorate import tool
from glyphoxa_trio.tools.definition import Tool

from .chance import MAX_SEED, dice_for
from .rules import (
    MAX_NUMBER,
    METADATA,
    SIDES,
    InvalidRoll,
    check,
    evaluate,
    explain,
    probability,
)

# A null counts as an absent argument, since strict models send it.
_FACE: Final = {"type": "integer", "minimum": 1, "maximum": SIDES}
_MODIFIER: Final = {
    "type": "integer",
    "minimum": -MAX_NUMBER,
    "maximum": MAX_NUMBER,
    "default": 0,
    "description": "Added to the dice; may be negative.",
}
_DIFFICULTY: Final = {"type": "integer", "minimum": 0, "maximum": MAX_NUMBER}
_MAYBE_DIFFICULTY: Final = {
    "type": ["integer", "null"],
    "minimum": 0,
    "maximum": MAX_NUMBER,
    "description": "What the total must reach. Without it, nothing is won or lost.",
}
_RNG: Final = {
    "type": ["object", "null"],
    "description": "For rolls that can be repeated: give the seed that an earlier "
    "answer says it used; or {} to be told the seed of this one.",
    "properties": {
        "seed": {"type": ["integer", "null"], "minimum": 0, "maximum": MAX_SEED},
        "roll_mode": {"type": ["string", "null"], "enum": ["LIVE", "REPLAY", None]},
    },
    "additionalProperties": False,
}
_KNOWN: Final = {
    "hope": _FACE,
    "fear": _FACE,
    "modifier": _MODIFIER,
    "difficulty": _MAYBE_DIFFICULTY,
}

_SIDES: Final = {"type": "integer", "minimum": 1, "maximum": MAX_SIDES}
_COUNT: Final = {"type": "integer", "minimum": 1, "maximum": MAX_DICE}


def _object(properties: Mapping[str, Any], *required: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }


_POOLS: Final = {
    "type": "array",
    "description": f"At most {MAX_DICE} dice in all.",
    "items": _object({"sides": _SIDES, "count": _COUNT}, "sides", "count"),
    "minItems": 1,
    "maxItems": MAX_DICE,
}


def tools(rng: random.Random | None = None, *, replays: bool = True) -> list[Tool]:
    """Return the five Duality tools, and ``roll_dice``.

    Args:
      rng: the source of randomness if no seed is given; the operating system's by
        default.
      replays: whether callers may give a seed. Not for NPCs: a model that fills in
        every parameter it is offered would roll the same dice each time.
    """
    chance = random.SystemRandom() if rng is None else rng
    seed = {"rng": _RNG} if replays else {}

    # Coroutines, though they never wait: a thread would take longer than the answer.
    made = partial(
        tool,
        group="duality",
        category="dice",
        estimated_duration_ms=5,
        max_duration_ms=50,
    )
    pure = partial(made, read_only=True, idempotent=True, cacheable_seconds=3600)
    # They change nothing, but no two rolls are the same: never from a cache.
    roll = partial(made, read_only=True)

    @pure(
        title="Duality rules",
        parameters=_object({}),
        speech_template="{system}, Duality rules {rules_version}.",
    )
    async def duality_rules_version() -> dict[str, Any]:
        """Get the ruleset semantics by which Duality rolls are evaluated."""
        return {**METADATA, "outcomes": list(METADATA["outcomes"])}

    @roll(
        title="Roll Duality dice",
        parameters=_object(
            {"modifier": _MODIFIER, "difficulty": _MAYBE_DIFFICULTY} | seed
        ),
        examples=({"modifier": 2, "difficulty": 15},),
        speech_template="Hope {hope}, Fear {fear}: {total}.",
    )
    async def duality_action_roll(
        modifier: int = 0,
        difficulty: int | None = None,
        rng: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Roll the Duality dice, Hope and Fear, and get the outcome of the action."""
        check(modifier, difficulty)  # before any die is rolled
        face, said = dice_for(rng, chance)
        hope, fear = face(SIDES), face(SIDES)
        return evaluate(hope, fear, modifier, difficulty).as_data() | said

    @pure(
        title="Evaluate Duality dice",
        parameters=_object(_KNOWN, "hope", "fear"),
        examples=({"hope": 8, "fear": 5, "modifier": 2, "difficulty": 15},),
        speech_template="Hope {hope}, Fear {fear}: {total}.",
    )
    async def duality_outcome(
        hope: int, fear: int, modifier: int = 0, difficulty: int | None = None
    ) -> dict[str, Any]:
        """Evaluate Duality dice that have already fallen, without rolling."""
        return evaluate(hope, fear, modifier, difficulty).as_data()

    @pure(
        title="Explain Duality dice",
        parameters=_object(
            _KNOWN
            | {
                "request_id": {
                    "type": ["string", "null"],
                    "description": "Of the caller's choice; changes nothing.",
                }
            },
            "hope",
            "fear",
        ),
        examples=({"hope": 8, "fear": 5, "modifier": 2, "difficulty": 15},),
        speech_template="Hope {hope}, Fear {fear}: {total}.",
    )
    async def duality_explain(
        hope: int,
        fear: int,
        modifier: int = 0,
        difficulty: int | None = None,
        request_id: str | None = None,
    ) -> dict[str, Any]:
        """Explain step by step how the outcome of known Duality dice comes about."""
        return explain(evaluate(hope, fear, modifier, difficulty))

    @pure(
        title="Duality odds",
        parameters=_object(
            {"modifier": _MODIFIER, "difficulty": _DIFFICULTY}, "difficulty"
        ),
        examples=({"modifier": 2, "difficulty": 15},),
        speech_template="{success_count} of {total_outcomes} succeed.",
    )
    async def duality_probability(difficulty: int, modifier: int = 0) -> dict[str, Any]:
        """Count the outcomes of all 144 pairs of Duality dice, exactly."""
        return probability(modifier, difficulty)

    @roll(
        title="Roll dice pools",
        parameters=_object({"dice": _POOLS} | seed, "dice"),
        examples=({"dice": [{"sides": 20, "count": 2}, {"sides": 6, "count": 1}]},),
        speech_template="The total is {total}.",
    )
    async def roll_dice(
        dice: Sequence[Mapping[str, Any]], rng: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Roll pools of dice with any number of sides; get each die and the totals."""
        pools = [(pool["sides"], pool["count"]) for pool in dice]
        _check(pools)
        face, said = dice_for(rng, chance)
        rolls = [
            {"sides": sides, "results": [face(sides) for _ in range(count)]}
            for sides, count in pools
        ]
        totals = [sum(pool["results"]) for pool in rolls]
        return {
            "rolls": [
                pool | {"total": total}
                for pool, total in zip(rolls, totals, strict=True)
            ],
            "total": sum(totals),
            **said,
        }

    return [
        duality_rules_version,
        duality_action_roll,
        duality_outcome,
        duality_explain,
        duality_probability,
        roll_dice,
    ]


def _check(pools: Sequence[tuple[int, int]]) -> None:
    if not pools:
        raise InvalidRoll("dice must name at least one pool")
    for at, (sides, count) in enumerate(pools):
        if not 1 <= sides <= MAX_SIDES:
            raise InvalidRoll(f"dice[{at}].sides must be from 1 to {MAX_SIDES}")
        if count < 1:
            raise InvalidRoll(f"dice[{at}].count must be 1 or more")
    if sum(count for _, count in pools) > MAX_DICE:
        raise InvalidRoll(f"dice must be at most {MAX_DICE} in all")
