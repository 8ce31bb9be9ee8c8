"""The limits of the service. Data only."""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class ServiceLimits:
    """Limits of time, in seconds, and number.

    Args:
      hello_within: a client of the gateway must say hello within this time.
      heartbeat: a client that sends nothing for this time is taken for dead.
      ack_within: time for a client to acknowledge the last events of an answer, and to
        report more playback; then the rest counts as not delivered.
      turns: utterances of one connection that run at once.
      bad: messages of one connection that are none, before it is closed.
      goodbye: time for a client to answer a close.
      sockets: connections of the gateway with one token, or from one address without.
      rate: requests a second of one token, or of one address without, and as many at
        once; None means no limit.
    """

    hello_within: float = 5.0
    heartbeat: float = 60.0
    ack_within: float = 10.0
    turns: int = 32
    bad: int = 100
    goodbye: float = 1.0
    sockets: int = 2048
    rate: float | None = None
