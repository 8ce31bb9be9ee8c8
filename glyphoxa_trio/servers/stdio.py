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
    await Peer(dispatch, version).serve(incoming, outgoing)
