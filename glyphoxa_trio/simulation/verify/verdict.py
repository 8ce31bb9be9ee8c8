"""The verdict on a configuration, before a player talks to it.

    verdict = verify(config, Known(offers=survey.offers))
    verdict.errors, verdict.reaches, verdict.findings

First every NPC calls every tool it can reach, in every tier, once, at the tool's
usual latency (`reach`): what can be reached, what not and why, and whether it
answers in time. Then random evenings at this very table (`scenarios`): slow,
dying and stubborn tools, models that misbehave, interruptions, elevations, reloads;
the promises are watched all the while, and one that is broken is shrunk to the
shortest evening that breaks it. All of it on virtual time.

Broken promises are faults of ours. What a configuration can break by itself are
expectations: `Finding` says which, and whether it is an error. An error is a
configured expectation that cannot be met; a warning depends on facts that are not known
yet, or on an approver's answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

import attrs

from glyphoxa_trio.simulation.latency import Latency
from glyphoxa_trio.simulation.plans import RehearsalPlan
from glyphoxa_trio.tools.gate import Refusal
from glyphoxa_trio.tools.history import Measured
from glyphoxa_trio.tools.outcome import Limit, Status
from glyphoxa_trio.tools.tier import Tier


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"


@attrs.frozen(kw_only=True)
class VerifyInputs:
    """The knowledge beside the configuration.

    Args:
      offers: what each server lists.
      absent: why a server could not be asked, by its name.
      stated: how long tools take, as a file says, by their key.
      measured: what earlier runs measured.
      approver: there is one, who answers questions about tools.
    """

    offers: Mapping[str, tuple[Mapping[str, Any], ...]] = attrs.field(factory=dict)
    absent: Mapping[str, str] = attrs.field(factory=dict)
    stated: Mapping[str, Latency] = attrs.field(factory=dict)
    measured: tuple[Measured, ...] = ()
    approver: bool = False


@attrs.frozen(kw_only=True)
class Called:
    """A tool that an NPC can reach in a tier, called once. Seconds.

    Args:
      usual: what it usually takes, and how that is known.
      status, limit, took: what became of the call.
      searched: the model was not shown it, and found it by a search in the same turn.
    """

    key: str
    usual: Latency
    status: Status
    limit: Limit | None
    took: float
    searched: bool = False


@attrs.frozen(kw_only=True)
class NpcReach:
    """One NPC in turns of one tier. Seconds.

    Args:
      called: what it can reach.
      hidden: by key, what it is granted and cannot reach, and why.
      worst_tools, worst_model, worst_total: of all turns that were played.
    """

    npc: str
    tier: Tier
    ceiling: float
    model_limit: float
    called: tuple[Called, ...]
    hidden: Mapping[str, Refusal]
    worst_tools: float = 0.0
    worst_model: float = 0.0
    worst_total: float = 0.0


@attrs.frozen(kw_only=True)
class Finding:
    """Something that is not as it should be.

    Args:
      what: short and always the same for the same kind of finding.
      example: the shortest evening that shows it.
    """

    severity: Severity
    what: str
    text: str
    npc: str = ""
    tool: str = ""
    remedy: str = ""
    example: RehearsalPlan | None = attrs.field(default=None, eq=False, repr=False)


@attrs.frozen(kw_only=True)
class Verdict:
    """The findings, and how much was looked at.

    Args:
      evenings, turns: how many evenings were played, with how many turns.
      complete: false if the time was up before all of them were.
    """

    reaches: tuple[NpcReach, ...]
    findings: tuple[Finding, ...]
    evenings: int
    turns: int
    complete: bool

    @property
    def errors(self) -> tuple[Finding, ...]:
        return tuple(x for x in self.findings if x.severity is Severity.ERROR)


NOTHING: Final = "can reach nothing"
