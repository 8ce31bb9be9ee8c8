"""Look at a configuration from all sides: `verify`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from glyphoxa_trio.config import Config
from glyphoxa_trio.extras import require
from glyphoxa_trio.simulation.verify.expect import expectations
from glyphoxa_trio.simulation.verify.reach import reaches, scout
from glyphoxa_trio.tools.tier import Tier

from .verdict import NOTHING, Finding, Severity, Verdict, VerifyInputs

EVENINGS: Final = 100
Tell = Callable[[int, int], None]


def _rank(finding: Finding) -> tuple[bool, bool]:
    return finding.what != NOTHING, finding.severity is Severity.WARNING


def verify(
    config: Config,
    known: VerifyInputs,
    *,
    evenings: int = EVENINGS,
    seconds: float | None = None,
    seed: int = 0,
    tell: Tell = lambda done, total: None,
) -> Verdict:
    """Look at a configuration from all sides. Blocks; not from within a trio run.

    Args:
      evenings: how many random evenings. The same number with the same ``seed`` gives
        the same verdict.
      seconds: real time for them, shrinking included; None is without limit.
      tell: told after each rehearsal how many of how many are done.

    Raises:
      ConfigError: if nothing can be opened with it at all.
      ExtraMissing: without Hypothesis, which makes up the evenings.
    """
    require("verify", "verify")
    from .scenarios import explore  # it imports Hypothesis, which is an extra

    scene = scout(config, known)
    rows = sum(tier <= npc.budget_tier for npc in scene.config.npcs for tier in Tier)
    done = 0

    def count() -> None:
        nonlocal done
        done += 1
        tell(min(done, rows + evenings), rows + evenings)

    reached = reaches(scene, count)
    found = explore(scene, evenings=evenings, seconds=seconds, seed=seed, tell=count)
    reached = [found.worst_of(reach) for reach in reached]
    findings = [*found.findings, *expectations(scene, reached)]
    return Verdict(
        reaches=tuple(reached),
        findings=tuple(sorted(findings, key=_rank)),
        evenings=found.evenings,
        turns=found.turns,
        complete=found.complete,
    )
