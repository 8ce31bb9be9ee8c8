"""The usability of a tool for an NPC, and the remedies that would change it. Pure.

`judge` has no rules of its own. It asks the gate with the NPC's ceiling and the whole
budget of such a turn. If the gate refuses, it applies the first of the `remedies`, in
memory only, and asks again, until the gate permits. A remedy that does not change the
answer is not offered, so every offered remedy works when it is followed:

    judge(clock_now, grant_of_stan, Tier.FAST, DEFAULT_LIMITS).text
    "it declares 800 ms: raise Stan's budget_tier to standard, or set ..."
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

import attrs

from glyphoxa_trio.units import in_ms

from .estimate import Unknown
from .gate import Candidate, Grant, Reason, Refusal, why_slow
from .remedies import ANYWHERE, GateState, Places, Remedy, RemedyKind, ways
from .tier import Tier, TierLimits

# Each need has a different reason, and the gate has no more reasons than these that a
# remedy can remove.
_MOST_NEEDS: Final = 6


class Use(StrEnum):
    """The usability of a tool for an NPC."""

    NOW = "now"
    ASKED = "asked"  # when a person has approved the call
    LATER = "later"  # hidden for now; it comes back by itself
    NEVER = "never"  # until a remedy is followed


@attrs.frozen(kw_only=True)
class Need:
    """One reason why a tool cannot be used. Any one of ``remedies`` is enough.

    ``absent``: the reason is that the tool's server is not there.
    """

    reason: Reason
    because: str
    remedies: tuple[Remedy, ...] = ()
    absent: bool = False

    @property
    def text(self) -> str:
        return self._with(self.remedies)

    @property
    def short(self) -> str:
        """The need with the likeliest of its remedies only."""
        return self._with(self.remedies[:1])

    @property
    def waiting(self) -> str:
        """The need with what ends it by itself, if anything does."""
        return self._with(tuple(x for x in self.remedies if x.kind is RemedyKind.WAIT))

    def _with(self, remedies: tuple[Remedy, ...]) -> str:
        told = ", or ".join(remedy.text for remedy in remedies)
        return f"{self.because}: {told}" if told else self.because


@attrs.frozen(kw_only=True)
class Usability:
    """The usability of one tool for one NPC.

    Args:
      fastest: the fastest of the NPC's turns in which it can use the tool, as it can in
        all slower ones up to its ceiling; None if it cannot use it now.
      needs: the obstacles; all of them have to be removed.
    """

    npc: str
    tool: str
    exposed: str
    ceiling: Tier
    use: Use
    fastest: Tier | None = None
    needs: tuple[Need, ...] = ()

    @property
    def usable(self) -> bool:
        return self.use in (Use.NOW, Use.ASKED)

    @property
    def comes_back(self) -> str:
        """The reasons, each with the time at which it ends by itself, if one does."""
        return self._joined(need.waiting for need in self.needs)

    @property
    def server_absent(self) -> bool:
        """True if it cannot be used because its server is not there."""
        return any(need.absent for need in self.needs)

    @property
    def text(self) -> str:
        """The turns in which the NPC can use it, or the reasons and the remedies."""
        if self.fastest is None:
            return self._joined(need.text for need in self.needs)
        turns = [str(tier) for tier in Tier if self.fastest <= tier <= self.ceiling]
        asked = ", when a person approves the call" if self.use is Use.ASKED else ""
        return f"can be used in {' and '.join(turns)} turns{asked}"

    @property
    def short(self) -> str:
        """The same as `text`, with one remedy for each need."""
        return self._joined(need.short for need in self.needs) or self.text

    def _joined(self, texts: Iterable[str]) -> str:
        """Join what is said of each need; what was said before is not said again as if
        nothing had been advised."""
        joined, before = "", ""
        for need, text in zip(self.needs, texts, strict=True):
            again = bool(before) and need.because.startswith(before)
            joined += ("; and even then " if again else "; and ") + text
            before = need.because
        return joined.removeprefix("; and ")


def judge(
    candidate: Candidate,
    grant: Grant,
    ceiling: Tier,
    limits: TierLimits,
    *,
    unknown: Unknown = Unknown.TRIAL,
    places: Places = ANYWHERE,
) -> Usability:
    """Return the usability of the tool for the NPC of ``grant``.

    Args:
      ceiling: the slowest turns that the NPC has.
      unknown: the treatment of tools of unknown duration.
      places: the places of the NPC and the tool in the configuration.
    """
    state = GateState(
        candidate=candidate,
        grant=grant,
        ceiling=ceiling,
        limits=limits,
        unknown=unknown,
        places=places,
    )
    needs = _needs(state)
    fastest = next(
        (x for x in Tier if x <= ceiling and state.refusal(x) is None),
        None,
    )
    if fastest is not None:
        approved = candidate.agreed or grant.approves(
            candidate.definition, candidate.exposed
        )
        use = Use.NOW if approved else Use.ASKED
    else:
        comes = all(any(x.kind is RemedyKind.WAIT for x in n.remedies) for n in needs)
        use = Use.LATER if comes else Use.NEVER
    return Usability(
        npc=grant.npc,
        tool=candidate.definition.key,
        exposed=candidate.exposed,
        ceiling=ceiling,
        use=use,
        fastest=fastest,
        needs=needs,
    )


def _needs(state: GateState, most: int = _MOST_NEEDS) -> tuple[Need, ...]:
    """Return the needs of a state: one, and those that its likeliest remedy leaves.

    Of the other remedies those are offered that can take its place: they leave no need
    that it does not, and set no key and give no command of a later remedy.
    """
    no = state.refusal()
    if no is None or not most:
        return ()
    found = [
        (remedy, _needs(after, most - 1))
        for remedy, after in ways(no.reason, state)
        if (then := after.refusal()) is None or then.reason is not no.reason
    ]
    rest = found[0][1] if found else ()
    later = {_target(remedy) for need in rest for remedy in need.remedies} - {None}
    need = Need(
        reason=no.reason,
        because=_because(no, state),
        remedies=tuple(
            remedy
            for at, (remedy, left) in enumerate(found)
            if not at or (_target(remedy) not in later and {*left} <= {*rest})
        ),
        absent=no.reason is Reason.UNAVAILABLE and not state.candidate.obstacle,
    )
    return need, *rest


def _target(remedy: Remedy) -> object:
    """The key that the remedy sets, or the command; None if there is neither."""
    return remedy.where or remedy.value


def _because(no: Refusal, state: GateState) -> str:
    candidate, definition = state.candidate, state.definition
    match no.reason:
        case Reason.NOT_GRANTED:
            return "it is not granted"
        case Reason.CHANGED:
            return "it has changed since it was approved, and is held back"
        case Reason.NOT_TRUSTED:
            return "it is not approved, and turns ask no person"
        case Reason.NEEDS_APPROVAL:
            return "a fast turn has no time to ask for its approval"
        case Reason.UNAVAILABLE:
            return candidate.obstacle or f"the server {definition.group!r} is down"
        case Reason.HOLDS_LOOP if candidate.held is not None:
            return candidate.held.text
        case Reason.OVER_BUDGET:
            room = in_ms(state.limits.ceiling(state.ceiling))
            why = why_slow(definition, candidate.estimate)
            return f"{why}, and a {state.ceiling} turn has {room} for tools"
        case _:
            return why_slow(definition, candidate.estimate)
