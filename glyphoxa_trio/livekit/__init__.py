"""NPCs in LiveKit Agents: an NPC, or a scene, answers where an agent's model would.

    async with aio.open_runtime("config/tavern.yaml") as runtime:
        session = AgentSession(stt=..., tts=..., vad=...)
        await session.start(NpcAgent(runtime.npc("Greymantle")), room=ctx.room)

Speech recognition, voices, turn detection and the room stay LiveKit's. The NPC has its
own conversation and its own tools: of LiveKit's chat context it is told the newest
message of the user, and of its own words it remembers what LiveKit has played.

Needs the extra `livekit`, that is `livekit-agents` 1.8 or a later 1.x. `agent` is
LiveKit's side of an NPC, `answers` what becomes of its words, and `model` tells LiveKit
of tokens, times and errors.
"""

from glyphoxa_trio.extras import require_version

# Before names are imported that another version may not have.
require_version("an NPC in LiveKit Agents", "livekit", "livekit-agents", (1, 8))

from .agent import NpcAgent  # noqa: E402

__all__ = ["NpcAgent"]
