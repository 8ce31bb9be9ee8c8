"""The calibrator: the actor that owns the measurements of all tools.

It receives every observation and answers requests for probes and reports. It hands the
`Estimate` that follows from the measurements to the catalogue.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Protocol

import attrs

import trio

from glyphoxa_trio.actors import Call, Inbox, Request
from glyphoxa_trio.errors import said, words
from glyphoxa_trio.tools.consent import Purpose, measured_unnamed, unasked
from glyphoxa_trio.tools.definition import Tool, ToolDefinition, ToolError
from glyphoxa_trio.tools.estimate import Estimate
from glyphoxa_trio.tools.gate import Grant
from glyphoxa_trio.tools.holding import REMEDY
from glyphoxa_trio.tools.instance import NoInstance, minimal_instance
from glyphoxa_trio.tools.isolated import IsolatedHandler
from glyphoxa_trio.tools.recommendation import Evidence
from glyphoxa_trio.tools.schema import BadSchema
from glyphoxa_trio.tools.tier import Tier
from glyphoxa_trio.tools.window import Sample, SampleKind
from glyphoxa_trio.units import in_ms

from .attempts import ProbeResult
from .catalogue import Catalogue, CatalogueEntry
from .measurements import Measurements

PROBES = 5  # per tool: the number of samples that a "measured" estimate needs


@attrs.frozen
class Observe(Request["Calibrator", None]):
    """Message: one sample of one tool."""

    key: str
    sample: Sample


@attrs.frozen
class HealthAnew(Request["Calibrator", None]):
    """Message: the tool's breaker has closed, so its failures are of the past."""

    key: str


@attrs.frozen
class Disregard(Request["Calibrator", None]):
    """Message: the loop was late in that time, so measurements that overlap with it do
    not count. Both times on trio's clock."""

    since: float
    until: float


@attrs.frozen
class LifeBegan(Request["Calibrator", None]):
    """Message: the server of these tools has started again."""

    keys: tuple[str, ...]


@attrs.frozen
class Missed(Request["Calibrator", None]):
    """Message: NPCs had ``seconds`` of turns in which these tools were hidden from them
    because of their measurements."""

    keys: tuple[str, ...]
    seconds: float


@attrs.frozen
class TrialBegan(Request["Calibrator", None]):
    """Message: a tool that is shown again for a trial has been called."""

    key: str


@attrs.frozen
class TrialSaidNothing(Request["Calibrator", None]):
    """Message: a call announced by `TrialBegan` has ended and left no sample."""

    key: str


@attrs.frozen
class MeasuredElsewhere(Request["Calibrator", None]):
    """Message: other processes have called tools, which run in the same place here."""

    samples: tuple[tuple[str, Sample], ...]


@attrs.frozen
class Reckon(Request["Calibrator", None]):
    """Message: these tools are new, or back; estimate them from known measurements."""

    keys: tuple[str, ...]


@attrs.frozen
class Forget(Request["Calibrator", None]):
    """Message: these tools are gone for good."""

    keys: tuple[str, ...]


@attrs.frozen(kw_only=True)
class Probed:
    """The end of one tool's probe, ``done`` of ``total``; ``note`` is an error."""

    key: str
    samples: int
    done: int
    total: int
    note: str = ""


@attrs.frozen
class Sampled:
    """A recorded sample, which the tool's estimate includes now; also of a probe."""

    key: str
    sample: Sample


class Word(StrEnum):
    """The authority on which tools are probed, which decides which of them may be."""

    NAMED = "named"  # the operator named them, or confirmed all: any tool
    UNNAMED = "unnamed"  # a request to measure: those `measured_unnamed` allows
    NOBODY = "nobody"  # no request: those that the grants consent to, if few samples


@attrs.frozen(kw_only=True)
class Calibrate(Request["Calibrator", tuple[Probed, ...]]):
    """Request: probe tools.

    Args:
      keys: only these tools; None is all.
      word: which of them may be probed. That is checked again before each call.
    """

    keys: tuple[str, ...] | None = None
    word: Word = Word.UNNAMED


@attrs.frozen
class ReportEstimates(Request["Calibrator", dict[str, Estimate]]):
    """Request: the estimate of every tool as of now."""


@attrs.frozen
class Examine(Request["Calibrator", dict[str, Evidence]]):
    """Request: the tier by each ``tier_by`` of every tool with enough samples."""


class Probe(Protocol):
    """A call of a tool past gate, cache and breaker, as `Attempts.probe` makes it."""

    async def __call__(
        self, listing: CatalogueEntry, arguments: dict[str, Any], *, deadline: float
    ) -> ProbeResult: ...


@attrs.define(eq=False)
class Calibrator:
    """The actor's state and rules; `run` is its body.

    Args:
      probe: calls a tool past gate, cache and breaker (the executor's).
      tell: called with every sample and every finished probe; must not block or raise.
      held: the keys of tools that are held back, so they are not probed either.
      agreed: the keys of tools that a person approved, for every NPC.
      granted: the grants of the NPCs now, for probes without a request.
      quiet: returns what waits until no turn runs, if there are turns. A handler that
        runs on the event loop may block it, so it is probed then only.
    """

    _measurements: Measurements
    _catalogue: Catalogue
    _probe: Probe
    _tell: Callable[[Probed | Sampled], None]
    _held: Callable[[], Container[str]] = frozenset
    _agreed: Callable[[], Container[str]] = frozenset
    _granted: Callable[[], Iterable[Grant]] = tuple
    _quiet: Callable[[], Callable[[], Awaitable[None]] | None] = lambda: None
    _slots: trio.Semaphore = attrs.field(init=False)
    _late: Disregard = attrs.field(default=Disregard(math.inf, -math.inf), init=False)

    def __attrs_post_init__(self) -> None:
        self._slots = trio.Semaphore(self._measurements.settings.probe_concurrency)

    async def run(self, inbox: Inbox[Calibrator]) -> None:
        """Handle messages until stopped; probes run concurrently."""
        async with trio.open_nursery() as nursery:
            async for call in inbox:
                match call.request:
                    case Observe(key, sample):
                        self._record(key, sample)
                    case Disregard() as late:
                        self._disregard(late)
                    case HealthAnew(key):
                        self._start_health_anew(key)
                    case LifeBegan(keys):
                        self._begin_life(keys)
                    case Missed(keys, seconds):
                        self._wait(keys, seconds)
                    case TrialBegan(key):
                        self._tried(key)
                    case TrialSaidNothing(key):
                        self._said_nothing(key)
                    case MeasuredElsewhere(samples):
                        self._learn(samples)
                    case Reckon(keys):
                        for key in keys:
                            self._publish(key)
                    case Forget(keys):
                        for key in keys:
                            self._measurements.forget(key)
                    case Calibrate() as request:
                        nursery.start_soon(self._calibrate, call, request)
                    case ReportEstimates():
                        with call.answering():
                            call.reply(self._report())
                    case Examine():
                        with call.answering():
                            call.reply(self._measurements.evidence(self._listed()))
                    case _:
                        with call.answering():
                            pass  # the caller gets an error: an unknown request

    def _record(self, key: str, sample: Sample) -> None:
        listing = self._catalogue.current.by_key.get(key)
        # A call that was running while the loop was late was delayed by that, too.
        began, late = sample.at - sample.seconds, self._late
        if late.since <= sample.at and began < late.until and not sample.probe:
            self._said_nothing(key)
            return
        if listing is not None:  # else it has gone meanwhile
            self._measurements.record(listing.definition, sample)
            self._publish(key)
            self._tell(Sampled(key, sample))  # 0.4 µs without a listener

    def _learn(self, samples: Iterable[tuple[str, Sample]]) -> None:
        touched: dict[str, None] = {}
        for key, sample in samples:
            listing = self._catalogue.current.by_key.get(key)
            if listing is not None:
                self._measurements.learn(listing.definition, sample)
                touched[key] = None
        for key in touched:
            self._publish(key)

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

    def _begin_life(self, keys: Sequence[str]) -> None:
        for key in keys:
            listing = self._catalogue.current.by_key.get(key)
            if listing is not None:
                self._measurements.begin_life(listing.definition)
                self._publish(key)

    def _wait(self, keys: Sequence[str], seconds: float) -> None:
        for key in keys:
            listing = self._catalogue.current.by_key.get(key)
            if listing is not None and self._measurements.wait(
                listing.definition, seconds
            ):
                self._publish(key)

    def _tried(self, key: str) -> None:
        listing = self._catalogue.current.by_key.get(key)
        if listing is not None:
            self._measurements.tried(listing.definition)
            self._publish(key)

    def _said_nothing(self, key: str) -> None:
        listing = self._catalogue.current.by_key.get(key)
        if listing is not None:
            self._measurements.said_nothing(listing.definition)
            self._publish(key)

    def _publish(self, key: str) -> None:
        listing = self._catalogue.current.by_key.get(key)
        if listing is None:
            return
        known = listing.estimate
        fresh = self._measurements.reckon(listing.definition, known)
        # Every swap of the catalogue costs a copy of it, so a change too small to act
        # on is not published: ReportEstimates has the exact figures.
        if (
            fresh.tier is not known.tier
            or fresh.tier_by_number is not known.tier_by_number
            or fresh.source is not known.source
            or fresh.degraded != known.degraded
            or fresh.bimodal is not known.bimodal
            or (fresh.next_trial is None) is not (known.next_trial is None)
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

    async def _calibrate(self, call: Call[Calibrator], request: Calibrate) -> None:
        with call.answering():
            granted = tuple(self._granted())
            targets = [
                listing
                for key, listing in self._catalogue.current.by_key.items()
                if (request.keys is None or key in request.keys)
                and self._is_meant(listing, request.word, granted)
            ]
            done: list[Probed] = []

            async def one(listing: CatalogueEntry) -> None:
                async with self._slots:
                    samples, note = await self._probe_tool(listing, request.word)
                probed = Probed(
                    key=listing.key,
                    samples=samples,
                    done=len(done) + 1,
                    total=len(targets),
                    note=note,
                )
                done.append(probed)
                self._tell(probed)

            left = iter(targets)

            async def some() -> None:
                for listing in left:  # the tasks share the iterator
                    await one(listing)

            # Not one task per tool: a server may rename its tools without end, and
            # each name would queue for a tool that is gone.
            async with trio.open_nursery() as nursery:
                for _ in range(self._measurements.settings.probe_concurrency):
                    nursery.start_soon(some)
            call.reply(tuple(done))

    def _is_meant(
        self, listing: CatalogueEntry, word: Word, granted: Iterable[Grant]
    ) -> bool:
        if word is Word.NAMED:
            return True  # if it may not be called, the note says why
        if self._why_not(listing, word, granted) is not None:
            return False
        window = self._measurements.window(listing.definition)
        few = window.latency_count(trio.current_time()) < PROBES
        return word is Word.UNNAMED or few

    def _why_not(
        self, listing: CatalogueEntry, word: Word, granted: Iterable[Grant]
    ) -> str | None:
        """Return why the tool may not be called now, in words; None if it may."""
        key, definition = listing.key, listing.definition
        now = self._catalogue.current.by_key.get(key)
        if now is None:
            return "the tool no longer exists"
        if now.definition != definition:
            return "its definition has changed"
        if key in self._held():
            return (
                "it has changed since it was approved; look at it with"
                f" glyphoxa mcp approve {key}"
            )
        if word is Word.NOBODY:
            return unasked(
                definition,
                Purpose.PROBE,
                granted,
                exposed=now.exposed,
                agreed=key in self._agreed(),
            )
        if word is Word.UNNAMED and not measured_unnamed(definition):
            return "it may do more than read local data"
        return None

    async def _probe_tool(self, listing: CatalogueEntry, word: Word) -> tuple[int, str]:
        """Measure one tool; return the number of samples, and what went wrong.

        It stops at the first call that fails, since the next one would fail as well.
        Probes never count towards health: a failure is not recorded, and a probe that
        times out only gives a lower bound of the latency.
        """
        try:
            arguments = _probe_arguments(listing.definition)
        except (NoInstance, BadSchema) as error:
            return 0, f"no arguments to probe with: {error}"
        ceiling = self._measurements.settings.limits.ceiling(Tier.DEEP)
        samples = 0
        while samples < PROBES:
            if _runs_on_loop(listing.tool) and (quiet := self._quiet()) is not None:
                await quiet()
            # A call takes time, and so does waiting for the semaphore: meanwhile the
            # tool may have changed, and a reload may have withdrawn its grant.
            why_not = self._why_not(listing, word, self._granted())
            if why_not is not None:
                return samples, f"not called: {why_not}"
            deadline = trio.current_time() + ceiling
            try:
                probed = await self._probe(listing, dict(arguments), deadline=deadline)
            except ToolError as error:
                return samples, words(error)
            except Exception as error:  # border: the handler is foreign code
                return samples, said(error)
            answer = probed.answer
            if answer is not None and answer.is_error:
                return samples, " ".join(answer.text) or "the tool returned an error"
            if probed.seconds is not None:
                kind = SampleKind.CENSORED if answer is None else SampleKind.OK
                now = trio.current_time()
                sample = Sample(kind=kind, seconds=probed.seconds, at=now, probe=True)
                self._record(listing.key, sample)
                samples += 1
            if probed.held_loop:  # the next one would block all turns again
                return samples, f"it held the event loop: {REMEDY}"
            if answer is None:
                return samples, f"no answer after {in_ms(ceiling)}"
        return samples, ""


def _runs_on_loop(tool: Tool) -> bool:
    apart = tool.remote or tool.blocking or isinstance(tool.handler, IsolatedHandler)
    return not apart


def _probe_arguments(definition: ToolDefinition) -> Mapping[str, Any]:
    """Return the configured arguments, else an example by the tool's author, else a
    minimal instance of its schema.

    Raises:
      NoInstance, BadSchema: if the schema gives none.
    """
    if definition.probe is not None:
        return definition.probe
    for example in definition.examples:
        return example
    return minimal_instance(definition.parameters, foreign=definition.external)
