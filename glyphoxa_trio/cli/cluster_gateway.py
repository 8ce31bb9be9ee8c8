"""``glyphoxa cluster gateway``: the service in front of a cluster."""

from __future__ import annotations

from glyphoxa_trio.cluster.gateway import open_gateway
from glyphoxa_trio.service import ServiceOptions

from .cluster_runs import remote
from .common import run_orderly
from .leaving import two_signals
from .serving import serve_until_told


def serve_gateway(
    nats: str, options: ServiceOptions, *, deployment: str, tenant: str
) -> int:
    """Serve until a signal comes; return the exit status."""

    async def main() -> int:
        async with (
            two_signals() as leaving,
            remote(nats, deployment, tenant) as runtime,
            open_gateway(runtime, options) as service,
        ):
            found = len(runtime.workers)
            s = "s"[: found != 1]
            what = f"the NPCs of {found} worker{s}"
            await serve_until_told(service, leaving, what)
        return leaving.status

    return run_orderly(main)
