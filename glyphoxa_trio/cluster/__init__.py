"""Sessions on several machines: any number of workers, and exactly one owner of each.

    async with open_runtime(config) as runtime, open_nats(url) as nats:
        async with cluster.serve(runtime, nats) as worker:
            await worker.drained()

    async with open_nats(url) as nats, cluster.connect(nats) as runtime:
        async with runtime.session("table-42").npc("Bartok").say("An ale!") as turn:
            ...

NATS carries the messages (`nats`), and the journal of a PostgreSQL database says who
has which session (`memory`). `messages` is what travels, and `wire` its bytes.
`ownership` is a worker's half of the protocol and `placement` a client's: both are
pure. Safety comes from the epochs of the journal alone: clocks decide only when
something is tried again.

The libraries are those of the extra ``cluster``.
"""

from __future__ import annotations

from .errors import ClusterError, ClusterRefused
from .media import MediaAddress
from .quotas import TenantQuota
from .remote import RemoteRuntime, connect
from .remote_session import RemoteNpc, RemoteScene, RemoteSession
from .worker import ClusterWorker, serve

__all__ = [
    "ClusterError",
    "ClusterRefused",
    "ClusterWorker",
    "MediaAddress",
    "RemoteNpc",
    "RemoteRuntime",
    "RemoteScene",
    "RemoteSession",
    "TenantQuota",
    "connect",
    "serve",
]
