"""Speech-to-speech NPCs: the conversation, which outlives sockets, and the bridge.

`live` is the conversation, and `machine` decides what happens in it; `bridge` runs the
calls through the host's gate; `engines/speech` makes turns of it.
"""

from .bridge import TOOL_TIMEOUT, ToolBridge
from .interaction import Interaction
from .pending_calls import Way
from .realtime_conversation import RealtimeConversation, open_live
from .sockets import LiveSettings
from .standing import StandingBridge, open_bridge

__all__ = [
    "TOOL_TIMEOUT",
    "Interaction",
    "LiveSettings",
    "RealtimeConversation",
    "StandingBridge",
    "ToolBridge",
    "Way",
    "open_bridge",
    "open_live",
]
