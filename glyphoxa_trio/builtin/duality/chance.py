"""The source of dice, and repeating a roll by its seed.

A live roll uses the operating system's randomness. A roll that is to be replayed comes
from a seed, by an algorithm that is written down here, so that it gives the same dice
in every process, on every version of Python, and in any other language. The label of
the algorithm is `ALGORITHM`; a change of the algorithm must change the label, too.

    word i   = 8 bytes, big-endian, at offset 8 * (i % 4) of
               SHA-256(label as ASCII ‖ seed as 8 bytes ‖ i // 4 as 8 bytes),
               numbers big-endian, i from 0
    a die    = word % sides + 1, of the next word that is below the largest
               multiple of its sides in 2**64: higher ones would favour low faces

Hope is rolled before Fear, and the dice of a pool in the order in which they are named.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from typing import Any, Final

from .rules import InvalidRoll

ALGORITHM: Final = "SHA256_CTR_V1"
SEED_BITS: Final = 53  # every JSON parser reads integers of this size exactly
MAX_SEED: Final = 2**SEED_BITS - 1

_WORDS: Final = 2**64

Face = Callable[[int], int]  # rolls a die with the given number of sides


class Seeded:
    """The dice of one seed: each call with a number of sides rolls the next one."""

    def __init__(self, seed: int) -> None:
        self._words = _words(seed)

    def __call__(self, sides: int) -> int:
        fair = _WORDS - _WORDS % sides
        return next(word for word in self._words if word < fair) % sides + 1


def _words(seed: int) -> Iterator[int]:
    start = ALGORITHM.encode() + seed.to_bytes(8, "big")
    block = 0
    while True:
        digest = sha256(start + block.to_bytes(8, "big")).digest()
        for offset in range(0, len(digest), 8):
            yield int.from_bytes(digest[offset : offset + 8], "big")
        block += 1


def dice_for(
    wanted: Mapping[str, Any] | None, chance: random.Random
) -> tuple[Face, dict[str, Any]]:
    """Return the dice for one roll, and its answer's ``rng``, if one was asked for.

    Args:
      wanted: the argument ``rng`` of a call. A ``seed`` means a replay. Without one the
        roll is live, and its answer names the seed with which it can be replayed.

    Raises:
      InvalidArgument: for a seed that would not be used, or is missing.
    """
    if wanted is None:
        return lambda sides: chance.randint(1, sides), {}
    seed = wanted.get("seed")
    replay = seed is not None
    mode = wanted.get("roll_mode") or ("REPLAY" if replay else "LIVE")
    if mode not in ("LIVE", "REPLAY"):
        raise InvalidRoll(f"rng.roll_mode must be LIVE or REPLAY, got {mode!r}")
    if mode == "REPLAY" and not replay:
        raise InvalidRoll("rng.seed is needed for a REPLAY")
    if mode == "LIVE" and replay:
        raise InvalidRoll("rng.seed is only for a REPLAY")
    used = chance.getrandbits(SEED_BITS) if seed is None else int(seed)
    if not 0 <= used <= MAX_SEED:
        raise InvalidRoll(f"rng.seed must be from 0 to {MAX_SEED}")
    return Seeded(used), {
        "rng": {
            "seed_used": used,
            "rng_algo": ALGORITHM,
            "seed_source": "CLIENT" if replay else "SERVER",
            "roll_mode": mode,
        }
    }
