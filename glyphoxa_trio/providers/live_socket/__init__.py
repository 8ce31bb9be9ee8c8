"""The WebSocket under every model that hears or speaks live: one link for all wires.

`open_live_socket` runs a `Wire` (`providers.live_wire`) over trio-websocket; `outbox`
orders the frames, `dialling` opens the socket, `failures` converts the errors.
"""

from __future__ import annotations

from .dialling import Dial as Dial
from .dialling import dial as dial
from .socket import LiveSocket as LiveSocket
from .socket import open_live_socket as open_live_socket
