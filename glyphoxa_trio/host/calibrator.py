"""The calibrator: the actor that owns what was measured of every tool (D7, D9).

It is told every observation and asked for probes and reports. What follows from
a measurement, an `Estimate`, it hands to the catalogue.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Container, Iterable, Iterator, Mapping
from typing import Any

import attrs

import trio

from glyphoxa_trio.actors import Call, Inbox, Request
from glyphoxa_trio.tools.definition import ToolDefinition, ToolError
from glyphoxa_trio.tools.estimate import Estimate
from glyphoxa_trio.tools.instance import NoInstance, minimal_instance
from glyphoxa_trio.tools.outcome import ToolResult
from glyphoxa_trio.tools.recommendation import Evidence
from glyphoxa_trio.tools.schema import BadSchema
from glyphoxa_trio.tools.tier import Tier
from glyphoxa_trio.tools.window import Sample, SampleKind

from .catalogue import Catalogue, Listing
from .measurements import Measurements

PROBES = 5  # per tool: as many samples as "measured" needs (D1)


@attrs.frozen
class Observe(Request[None]):
    """Told: one sample of one tool."""

    key: str
    sample: Sample


@attrs.frozen
class HealthAnew(Request[None]):
    """Told: the tool's breaker has closed, its failures are of the past."""

    key: str


@attrs.frozen
class Disregard(Request[None]):
    """Told: the loop was late in that time, so what was measured in it, whole or in
    part, says nothing of the tools."""

    since: float
    until: float


@attrs.frozen
class Reckon(Request[None]):
    """Told: these tools are new, or back; estimate them from what is known."""

    keys: tuple[str, ...]


@attrs.frozen
class Forget(Request[None]):
    """Told: these tools are gone for good."""

    keys: tuple[str, ...]


@attrs.frozen(kw_only=True)
class Probed:
    """One tool has been probed: ``done`` of ``total``; ``note`` says if not well."""

    key: str
    samples: int
    done: int
    total: int
    note: str = ""


@attrs.frozen
class Sampled:
    """One sample was recorded, and the tool's estimate follows it. Probes too."""

    key: str
    sample: Sample


@attrs.frozen(kw_only=True)
class Calibrate(Request[tuple[Probed, ...]]):
    """Asked: probe ``keys``, or all; ``unsafe`` includes tools with side effects."""

    keys: tuple[str, ...] | None = None
    unsafe: bool = False


@attrs.frozen
class Report(Request[dict[str, Estimate]]):
    """Asked: the estimate of every tool as of now."""


@attrs.frozen
class Examine(Request[dict[str, Evidence]]):
    """Asked: what ``tier_by`` makes of every tool that was measured enough."""


Probe = Callable[..., Awaitable[ToolResult]]


@attrs.define(eq=False)
class Calibrator:
    """The actor's state and rules; `run` is its body.

    Args:
      probe: calls a tool past gate, cache and breaker (the executor's).
      tell: told of every sample, and as probes finish; must neither block nor raise.
      held: the keys of tools that nobody may call, so they are not probed either.
    """

    _measurements: Measurements
    _catalogue: Catalogue
    _probe: Probe
    _tell: Callable[[Probed | Sampled], None]
    _held: Callable[[], Container[str]] = frozenset
    _slots: trio.Semaphore = attrs.field(init=False)
    _late: Disregard = attrs.field(default=Disregard(math.inf, -math.inf), init=False)

    def __attrs_post_init__(self) -> None:
        self._slots = trio.Semaphore(self._measurements.settings.probe_concurrency)

    async def run(self, inbox: Inbox[Any]) -> None:
        """Read the mailbox until stopped; probes run beside it."""
        async with trio.open_nursery() as nursery:
            async for call in inbox:
                match call.request:
                    case Observe(key, sample):
                        self._record(key, sample)
                    case Disregard() as late:
                        self._disregard(late)
                    case HealthAnew(key):
                        self._start_health_anew(key)
                    case Reckon(keys):
                        for key in keys:
                            self._publish(key)
                    case Forget(keys):
                        for key in keys:
                            self._measurements.forget(key)
                    case Calibrate():
                        nursery.start_soon(self._calibrate, call)
                    case Report():
                        with call.answering():
                            call.reply(self._report())
                    case Examine():
                        with call.answering():
                            call.reply(self._measurements.evidence(self._listed()))

    def _record(self, key: str, sample: Sample) -> None:
        listing = self._catalogue.current.by_key.get(key)
        # A call that was on its way while the loop was late has waited for that, too.
        began, late = sample.at - sample.seconds, self._late
        if late.since <= sample.at and began < late.until and not sample.probe:
            return
        if listing is not None:  # else it has gone meanwhile
            self._measurements.record(listing.definition, sample)
            self._publish(key)
            self._tell(Sampled(key, sample))  # 0.4 µs if nobody listens

    def _disregard(self, late: Disregard) -> None:
        self._late = late
        self._measurements.withdraw(late.since)
        for key in self._catalogue.current.by_key:
            self._publish(key)

    def _start_health_anew(self, key: str) -> None:
        listing = self._catalogue.current.by_key.get(key)
        if listing is not None:
            self._measurements.window(listing.definition).start_health_anew()
            self._publish(key)

    def _publish(self, key: str) -> None:
        listing = self._catalogue.current.by_key.get(key)
        if listing is None:
            return
        known = listing.estimate
        fresh = self._measurements.estimate(listing.definition, known)
        # Every swap of the catalogue costs a copy of it, so a change that nobody
        # could act on is not published: Report has the exact figures.
        if (
            fresh.tier is not known.tier
            or fresh.tier_by_number is not known.tier_by_number
            or fresh.source is not known.source
            or fresh.degraded != known.degraded
            or abs(fresh.seconds - known.seconds) > max(0.001, 0.02 * known.seconds)
        ):
            self._catalogue.set_estimate(key, fresh)

    def _listed(self) -> list[ToolDefinition]:
        return [x.definition for x in self._catalogue.current.by_key.values()]

    def _report(self) -> dict[str, Estimate]:
        return {
            key: self._measurements.estimate(listing.definition, listing.estimate)
            for key, listing in self._catalogue.current.by_key.items()
        }

    async def _calibrate(self, call: Call[Calibrate]) -> None:
        with call.answering():
            request = call.request
            targets = [
                listing
                for key, listing in self._catalogue.current.by_key.items()
                if (request.keys is None or key in request.keys)
                and (request.unsafe or listing.definition.probeable)
                and key not in self._held()
            ]
            done: list[Probed] = []

            async def one(listing: Listing) -> None:
                async with self._slots:
                    samples, note = await self._probe_tool(listing)
                probed = Probed(
                    key=listing.key,
                    samples=samples,
                    done=len(done) + 1,
                    total=len(targets),
                    note=note,
                )
                done.append(probed)
                self._tell(probed)

            async with trio.open_nursery() as nursery:
                for listing in targets:
                    nursery.start_soon(one, listing)
            call.reply(tuple(done))

    async def _probe_tool(self, listing: Listing) -> tuple[int, str]:
        """Measure one tool; how many samples there are, and what went wrong.

        Probes never count towards health: only what ran is recorded, and an
        endless probe says no more than "longer than this".
        """
        try:
            arguments = next(_probe_arguments(listing))
        except (NoInstance, BadSchema) as error:
            return 0, f"no arguments to probe with: {error}"
        samples = 0
        for _ in range(PROBES):
            started = trio.current_time()
            deadline = started + self._measurements.settings.limits.ceiling(Tier.DEEP)
            kind = SampleKind.OK
            try:
                result = await self._probe(listing, arguments, deadline=deadline)
            except trio.TooSlowError as error:
                if trio.current_time() < deadline:  # it gave up, not we
                    return samples, f"{type(error).__name__}: {error}"
                kind = SampleKind.CENSORED
            except ToolError as error:
                return samples, str(error)
            except Exception as error:  # border: the handler is foreign code
                return samples, f"{type(error).__name__}: {error}"
            else:
                if result.is_error:
                    return samples, " ".join(result.text) or "the tool said no"
            now = trio.current_time()
            sample = Sample(kind=kind, seconds=now - started, at=now, probe=True)
            self._record(listing.key, sample)
            samples += 1
        return samples, ""


def _probe_arguments(listing: Listing) -> Iterator[Mapping[str, Any]]:
    """Configured or known arguments first, then a minimal instance (D9)."""
    examples: Iterable[Mapping[str, Any]] = listing.definition.examples
    yield from examples
    definition = listing.definition
    yield minimal_instance(definition.parameters, foreign=definition.external)
