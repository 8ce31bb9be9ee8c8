"""A control socket of a running runtime, for `glyphoxa status` and other clients.

    async with open_runtime(path) as runtime, open_control(runtime):
        ...

It is a Unix domain socket of the user's own: file 0600 in a folder 0700, so the
file system says who may ask. A request is a line of JSON, ``{"do": "status"}``, and
so is the answer: ``{"status": …}``, or ``{"error": "…"}``. Likewise ``reload``, and
``tool`` and ``approve`` for one that is held back. Everything is bounded:
clients, the length of a line, and how long a client is waited for.
"""

from .admin_socket import open_control
from .sockets import ControlError, ask, control_folders, running
from .status import status_of

__all__ = [
    "ControlError",
    "ask",
    "control_folders",
    "open_control",
    "running",
    "status_of",
]
