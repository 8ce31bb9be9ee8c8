"""The signals of workers and gateways for Prometheus, and probes of a worker.

    async with cluster.serve(runtime, nats) as worker:
        async with open_worker_probes(runtime, worker, probes_options("0.0.0.0:9464")):
            await worker.drained()

`docs/cluster-operations.md` names the metrics, with an alert for each.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from glyphoxa_trio.npc.events import TurnEnd
from glyphoxa_trio.observability import open_metrics
from glyphoxa_trio.observability.family import Family, counter, gauge, histogram
from glyphoxa_trio.observability.metrics import new_registry, shown
from glyphoxa_trio.runtime import Runtime
from glyphoxa_trio.servers.http.options import HttpOptions
from glyphoxa_trio.service.gateway import NpcGateway
from glyphoxa_trio.service.probing import (
    health_endpoints,
    metrics_endpoint,
    open_probes,
)

from .call_sharing import SharedCallEnd
from .messages import OwnerSilence, RefusalReason
from .remote import RemoteRuntime
from .signals import ClaimResult
from .worker import ClusterWorker

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

_OTHER: Final = "other"
# A reason comes from a worker, perhaps a newer one: what is unknown here is other.
_FAULTS: Final = frozenset(
    {
        *(f"refused_{x}" for x in RefusalReason),
        *(x.value for x in OwnerSilence),
        *("outdated_owner", "gaps", "invalid", "unsent"),
    }
)


class WorkerReadiness(StrEnum):
    """The answers of ``/readyz`` at a worker; only ``ready`` has status 200."""

    READY = "ready"
    DRAINING = "draining"
    STILL = "still"
    NO_BUS = "no_bus"


def readiness_of(worker: ClusterWorker) -> WorkerReadiness:
    """Return if a worker takes sessions, or why it does not."""
    state = worker.state()
    if state.draining:
        return WorkerReadiness.DRAINING
    if not worker.connected:
        return WorkerReadiness.NO_BUS
    return WorkerReadiness.STILL if state.still else WorkerReadiness.READY


@asynccontextmanager
async def open_worker_probes(
    runtime: Runtime, worker: ClusterWorker, http: HttpOptions
) -> AsyncGenerator[str]:
    """Serve ``/healthz``, ``/readyz`` and ``/metrics`` of a worker, without a token,
    until the block is left; yield the address.

    The metrics are those of its runtime, of the cluster, and of the process.

    Args:
      http: from `service.options.probes_options`.

    Raises:
      CannotServe: the address is taken.
    """
    registry = await new_registry(process=True)
    health = health_endpoints(lambda: readiness_of(worker))
    endpoints = [*health, metrics_endpoint(registry, None)]
    async with open_metrics(runtime, registry=registry):
        with show_worker(worker, registry):
            async with open_probes(http, endpoints) as url:
                yield url


def show_worker(
    worker: ClusterWorker, registry: CollectorRegistry
) -> AbstractContextManager[None]:
    """Show the signals of a worker in a registry, inside the block.

    Raises:
      MetricsError: the registry has those of another worker.
    """
    return shown(registry, lambda: tuple(_of_worker(worker)))


def show_gateway(
    runtime: RemoteRuntime, gateway: NpcGateway, registry: CollectorRegistry
) -> AbstractContextManager[None]:
    """Show the signals of a gateway in a registry, inside the block."""
    return shown(registry, lambda: tuple(_of_gateway(runtime, gateway)))


def _of_worker(worker: ClusterWorker) -> Iterator[Family]:
    state, signals = worker.state(), worker.signals
    yield gauge(
        "glyphoxa_cluster_worker_info",
        "1; the labels say which worker this is.",
        {(state.worker, state.deployment, state.version): 1},
        *("worker", "deployment", "version"),
    )
    yield gauge("glyphoxa_cluster_sessions", "Sessions held.", state.sessions)
    yield gauge(
        "glyphoxa_cluster_room", "Sessions that it would still take.", state.room
    )
    yield gauge(
        "glyphoxa_cluster_turns_running",
        "Utterances of sessions held that run or wait.",
        state.turns,
    )
    yield counter(
        "glyphoxa_cluster_turns",
        "Turns of sessions held by how they ended; lost are those of lost sessions.",
        {(end.value,): signals.turns[end] for end in TurnEnd},
        "end",
    )
    yield counter(
        "glyphoxa_cluster_refusals",
        "Utterances and other requests that were refused, by reason.",
        {(reason.value,): signals.refusals[reason] for reason in RefusalReason},
        "reason",
    )
    yield gauge(
        "glyphoxa_cluster_shed_ratio",
        "Share of the turns of the last minute that were turned away.",
        signals.shed,
    )
    yield histogram(
        "glyphoxa_cluster_loop_late_seconds",
        "How late the event loop was, ten times a second.",
        {(): signals.late},
    )
    yield gauge(
        "glyphoxa_cluster_loop_late_p99_seconds",
        "The 99th percentile of that in the last half minute.",
        signals.late_p99,
    )
    yield counter(
        "glyphoxa_cluster_claims",
        "Claims of sessions by how they ended; taken are those from silent workers.",
        {(result.value,): signals.claims[result] for result in ClaimResult},
        "result",
    )
    yield counter(
        "glyphoxa_cluster_restores",
        "Sessions claimed that a worker had had before, with their conversation.",
        signals.restores,
    )
    yield counter(
        "glyphoxa_cluster_fenced",
        "Sessions lost since a write was refused: another worker has claimed them.",
        signals.fenced,
    )
    yield gauge(
        "glyphoxa_cluster_journal_lag_seconds",
        "How long the oldest turn waits that is not written yet.",
        state.journal_lag_ms / 1000,
    )
    yield counter(
        "glyphoxa_cluster_stood_still",
        "Times that the worker stood still, and refused until its beat came back.",
        signals.stood_still,
    )
    yield gauge(
        "glyphoxa_cluster_draining", "1 while it takes no sessions.", state.draining
    )
    yield counter(
        "glyphoxa_cluster_shared_calls",
        "Calls of tools that belong to others by how they ended, and made for others.",
        {(end.value,): worker.calls.ends[end] for end in SharedCallEnd},
        "end",
    )
    yield _connected(connected=worker.connected)
    yield counter(
        "glyphoxa_cluster_messages_ignored",
        "Messages that could not be read or sent, by reason.",
        {(reason,): n for reason, n in worker.counts.items()},
        "reason",
    )


def _of_gateway(runtime: RemoteRuntime, gateway: NpcGateway) -> Iterator[Family]:
    workers = runtime.workers
    yield gauge("glyphoxa_cluster_workers", "Workers that beat.", len(workers))
    yield gauge(
        "glyphoxa_cluster_workers_room",
        "Sessions that all of them together would still take.",
        sum(x.room for x in workers),
    )
    yield gauge(
        "glyphoxa_cluster_gateway_connections",
        "WebSockets that are open.",
        gateway.connections,
    )
    yield gauge(
        "glyphoxa_cluster_gateway_turns_running",
        "Utterances of its clients that run.",
        gateway.utterances.running,
    )
    yield counter(
        "glyphoxa_cluster_gateway_faults",
        "Refusals of workers, owners found silent, gaps and bad messages, by reason.",
        _known(runtime.counts),
        "reason",
    )
    yield _connected(connected=runtime.connected)


def _connected(*, connected: bool) -> Family:
    return gauge(
        "glyphoxa_cluster_bus_connected", "1 while NATS is connected.", connected
    )


def _known(counts: Mapping[str, int]) -> dict[tuple[str, ...], float]:
    found: dict[tuple[str, ...], float] = {(x,): 0.0 for x in sorted(_FAULTS)}
    for reason, n in counts.items():
        label = (reason if reason in _FAULTS else _OTHER,)
        found[label] = found.get(label, 0.0) + n
    return found
