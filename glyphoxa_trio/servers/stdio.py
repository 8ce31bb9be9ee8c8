"""A server on stdin and stdout: one message a line, nothing else on stdout.

It answers at once and alone, without the SDK, whose import takes longer than all
of this: `dispatch` says what, `peer` when.
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
    """Serve the client behind two streams until it hangs up.

    Args:
      version: of this program.
      incoming, outgoing: as `own_stdio` gives them.
    """
    peer = Peer(dispatch, version)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_warm, peer, dispatch)
        await peer.serve(incoming, outgoing)
        nursery.cancel_scope.cancel()


async def _warm(peer: Peer, dispatch: Dispatch) -> None:
    """What the first call needs, prepared while the client reads who answers."""
    await peer.asked.wait()
    # Abandoned at the end: an import cannot be stopped, and nobody needs it.
    # Not abandoned: a thread in a library's compiled code must not outlive the program.
    await trio.to_thread.run_sync(dispatch.warm)
