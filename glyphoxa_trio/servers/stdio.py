"""A server on stdin and stdout: one message a line, and nothing else on stdout.

It works without the SDK, whose import takes longer than all of this: `dispatch` answers
the requests, `peer` schedules them.
"""

from __future__ import annotations

import trio

from .dispatch import Dispatch
from .peer import Peer
from .pipes import own_stdio as own_stdio


async def serve_stdio(
    dispatch: Dispatch,
    version: str,
    incoming: trio.abc.ReceiveStream,
    outgoing: trio.abc.SendStream,
) -> None:
    """Serve the client behind two streams until it disconnects.

    Args:
      version: the version of this program.
      incoming, outgoing: the streams that `own_stdio` yields.
    """
    peer = Peer(dispatch, version)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_warm, peer, dispatch)
        await peer.serve(incoming, outgoing)
        nursery.cancel_scope.cancel()


async def _warm(peer: Peer, dispatch: Dispatch) -> None:
    """Compile the schemas while the client reads the first answer."""
    await peer.asked.wait()
    # Not abandoned when cancelled: a thread in a library's compiled code must not
    # outlive the program.
    await trio.to_thread.run_sync(dispatch.warm)
