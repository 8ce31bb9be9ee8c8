"""One metric as plain data, for those who read it and those who write it out."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import attrs

from glyphoxa_trio.errors import GlyphoxaError

from .figures import Histogram, Labels


class MetricsError(GlyphoxaError):
    """The metrics cannot be had: a registry that has them, a port that is taken."""


class MetricKind(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@attrs.frozen
class Family:
    """The values of one metric, by the values of its ``labels``.

    ``name`` is without the ``_total`` that a counter is shown with. Nothing in here
    changes any more, so it may be read in any thread.
    """

    kind: MetricKind
    name: str
    help: str
    labels: Labels
    values: Mapping[Labels, float | Histogram]


def counter(
    name: str, text: str, values: Mapping[Labels, float] | float, *labels: str
) -> Family:
    return Family(MetricKind.COUNTER, name, text, labels, _labelled(values))


def gauge(
    name: str, text: str, values: Mapping[Labels, float] | float, *labels: str
) -> Family:
    return Family(MetricKind.GAUGE, name, text, labels, _labelled(values))


def histogram(
    name: str, text: str, values: Mapping[Labels, Histogram], *labels: str
) -> Family:
    frozen = {key: histogram.copy() for key, histogram in values.items()}
    return Family(MetricKind.HISTOGRAM, name, text, labels, frozen)


def _labelled(values: Mapping[Labels, float] | float) -> Mapping[Labels, float]:
    return dict(values) if isinstance(values, Mapping) else {(): values}
