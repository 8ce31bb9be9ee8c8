"""The client of NATS core: messages between machines, at most once each.

`protocol` is the wire, free of I/O; `handshake` opens a connection to one of the
`servers`; `link` keeps one and reconnects; `requests` has the replies to requests.
"""

from __future__ import annotations

from .errors import NatsDisconnected as NatsDisconnected
from .errors import NatsError as NatsError
from .errors import NatsRefused as NatsRefused
from .errors import NatsUnreachable as NatsUnreachable
from .errors import NoResponders as NoResponders
from .errors import OutgoingFull as OutgoingFull
from .errors import PayloadTooLarge as PayloadTooLarge
from .errors import RepliesLost as RepliesLost
from .link import NatsLink as NatsLink
from .link import open_nats as open_nats
from .options import NatsOptions as NatsOptions
from .options import NatsStatistics as NatsStatistics
from .protocol import NatsMessage as NatsMessage
from .requests import NatsRequests as NatsRequests
from .requests import Replies as Replies
from .requests import open_requests as open_requests
from .subscription import NatsMessages as NatsMessages
