"""The socket under every speech-to-speech model: one link for all vendors' wires.

`open_live_socket` carries a `Wire` (`providers.live_wire`) over trio-websocket;
`outbox` says what leaves first, `dialling` opens, `failures` says what an end means.
"""

from __future__ import annotations

from .dialling import Dial as Dial
from .dialling import dial as dial
from .socket import LiveSocket as LiveSocket
from .socket import open_live_socket as open_live_socket
