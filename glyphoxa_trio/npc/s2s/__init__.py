"""Speech-to-speech NPCs: the realtime conversation and the bridge to the tools.

A conversation outlives its sockets. `realtime_conversation` is the conversation, and
`machine` decides what happens in it. `bridge` runs the model's calls through the host's
gate. `engines/speech` makes turns of the conversation.
"""

from typing import TYPE_CHECKING

from glyphoxa_trio.renamed import renamed

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

if not TYPE_CHECKING:
    __getattr__ = renamed(__name__, Bridge="ToolBridge", Live="RealtimeConversation")
