"""Prometheus metrics of a runtime, for the operator.

    async with open_runtime(config) as runtime:
        async with open_metrics(runtime, port=9464) as metrics:
            ...  # http://127.0.0.1:9464/metrics

Events are counted in plain numbers as they come; Prometheus' own library is used
only during a scrape. Each runtime has a registry
of its own, or the one that is passed in. `docs/operating.md` names the metrics.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs

import trio

from glyphoxa_trio.actors import lone_errors
from glyphoxa_trio.host import Sampled, ToolStalled
from glyphoxa_trio.loading import load
from glyphoxa_trio.npc import TurnEvent
from glyphoxa_trio.runtime import Runtime

from .family import Family, MetricKind, MetricsError
from .figures import COUNTED, Figures, Histogram
from .readings import read

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Metric


@attrs.define(eq=False)
class Metrics:
    """Made by `open_metrics`: figures, and a registry that shows them.

    ``url`` is where they can be scraped, if a port was asked for.
    """

    registry: CollectorRegistry
    figures: Figures
    url: str | None = None


@asynccontextmanager
async def open_metrics(
    runtime: Runtime,
    *,
    registry: CollectorRegistry | None = None,
    port: int | None = None,
) -> AsyncGenerator[Metrics]:
    """Count what ``runtime`` does for as long as the block lasts.

    Args:
      registry: where the metrics are shown, and gone again at the end; without one
        they get a registry of their own. It may be scraped from any thread.
      port: serve them on this port of 127.0.0.1, 0 being any that is free; None
        serves nothing, for those who have a server already.

    Raises:
      MetricsError: if the registry has metrics of these names, or the port is taken.
    """
    chosen = await new_registry() if registry is None else registry
    figures = Figures(runtime.host.settings.limits)
    async with AsyncExitStack() as stack:
        stack.enter_context(lone_errors())
        stack.enter_context(counted(runtime, figures))
        stack.enter_context(shown(chosen, partial(read, runtime, figures)))
        metrics = Metrics(chosen, figures)
        if port is not None:
            from .exposition import open_exposition

            serving = open_exposition(chosen, port=port)
            metrics.url = await stack.enter_async_context(serving)
        yield metrics


@contextmanager
def shown(
    registry: CollectorRegistry, families: Callable[[], Sequence[Family]]
) -> Generator[None]:
    """Show what ``families`` returns in a registry until the block is left.

    Args:
      families: called in trio's thread for each scrape; always the same names.

    Raises:
      MetricsError: the registry has metrics of these names.
    """
    collector = _Collector(families, trio.lowlevel.current_trio_token())
    try:
        registry.register(collector)
    except ValueError:
        raise MetricsError(
            "this registry has the metrics of another runtime: give each its own"
        ) from None
    try:
        yield
    finally:
        registry.unregister(collector)


@contextmanager
def counted(runtime: Runtime, figures: Figures) -> Generator[None]:
    """Have ``figures`` take every event of ``runtime`` inside the block: those of its
    turns, and each sample that its calibrator has recorded.

    In the task that publishes it, because that is cheaper than to wake another one,
    and the moment is the right one.
    """

    def take(event: TurnEvent) -> None:
        if type(event) in COUNTED:
            try:
                figures.take(event, trio.current_time())
            except Exception:  # whatever is wrong here must not end a turn
                figures.miss()

    def measured(event: object) -> None:
        if type(event) is Sampled:
            try:
                figures.sample(event.key, event.sample)
            except Exception:  # nor end the calibrator
                figures.miss()
        elif type(event) is ToolStalled:
            figures.stalled(event.key)

    with runtime.events.tap(take), runtime.host.events.tap(measured):
        yield


@attrs.define(eq=False)
class _Collector:
    """The collector that a registry asks during a scrape, in any thread."""

    _read: Callable[[], Sequence[Family]]
    _trio: trio.lowlevel.TrioToken

    def describe(self) -> Iterator[Metric]:
        """Which names there are; asked once, when it is registered."""
        return self.collect()

    def collect(self) -> Iterator[Metric]:
        """All families as of now.

        The figures are read in trio's thread, where nothing changes meanwhile; what
        is made of them, and written, costs that thread nothing.
        """
        return map(_made, self._in_trio())

    def _in_trio(self) -> Sequence[Family]:
        if trio.lowlevel.in_trio_run() and (
            trio.lowlevel.current_trio_token() is self._trio
        ):
            return self._read()
        try:
            return trio.from_thread.run_sync(self._read, trio_token=self._trio)
        except trio.RunFinishedError:
            return ()


def _made(family: Family) -> Metric:
    from prometheus_client.core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
    )

    kinds = {
        MetricKind.COUNTER: CounterMetricFamily,
        MetricKind.GAUGE: GaugeMetricFamily,
        MetricKind.HISTOGRAM: HistogramMetricFamily,
    }
    made: Any = kinds[family.kind](family.name, family.help, labels=family.labels)
    for labels, value in family.values.items():
        if isinstance(value, Histogram):
            made.add_metric(labels, _buckets(value), sum_value=value.total)
        else:
            made.add_metric(labels, float(value))
    metric: Metric = made
    return metric


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    """Cumulative, as Prometheus has them."""
    buckets, below = [], 0
    bounds = (*map(str, histogram.bounds), "+Inf")
    for bound, count in zip(bounds, histogram.counts, strict=True):
        below += count
        buckets.append((bound, float(below)))
    return buckets


async def new_registry(*, process: bool = False) -> CollectorRegistry:
    """Return a registry that shows nothing yet, once Prometheus' library is loaded.

    Args:
      process: show the processor time, memory and files of this process, by the names
        that every program of Prometheus' library has; on Linux.
    """
    await load("prometheus_client.core")
    from prometheus_client import CollectorRegistry, ProcessCollector

    registry = CollectorRegistry()
    if process:
        ProcessCollector(registry=registry)
    return registry
