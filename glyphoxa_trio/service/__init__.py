"""The service: a runtime behind HTTP and a WebSocket, for programs in any language.

`open_service` opens it beside a runtime; ``glyphoxa run`` is the command. What clients
say and hear is in `protocol`.
"""

from .opening import DRAIN, Service, open_service
from .options import DEFAULT_ADDRESS, ServiceOptions, read_tokens, service_options
from .rights import RIGHTS, ClientRole, Right

__all__ = [
    "DEFAULT_ADDRESS",
    "DRAIN",
    "RIGHTS",
    "ClientRole",
    "Right",
    "Service",
    "ServiceOptions",
    "open_service",
    "read_tokens",
    "service_options",
]
