"""An NPC in a room of LiveKit, until the room is empty.

    pip install 'glyphoxa-trio[livekit]'
    python docs/examples/frameworks/livekit_agent.py console

`console`, `dev` and `start` are LiveKit's own commands; they take LIVEKIT_URL,
LIVEKIT_API_KEY and LIVEKIT_API_SECRET from the environment.
"""

import asyncio
from pathlib import Path

from livekit.agents import AgentServer, AgentSession, JobContext, cli

from glyphoxa_trio import aio
from glyphoxa_trio.livekit import NpcAgent

TAVERN = Path(__file__).parents[3] / "config" / "tavern.yaml"
server = AgentServer()


@server.rtc_session()
async def table(ctx: JobContext) -> None:
    async with aio.open_runtime(TAVERN) as runtime:
        # Speech is LiveKit's: any of its plugins, or a model of its inference by name.
        session = AgentSession(stt="deepgram/nova-3", tts="cartesia/sonic-3")
        closed = asyncio.Event()
        session.once("close", lambda _: closed.set())
        await session.start(NpcAgent(runtime.npc("Greymantle")), room=ctx.room)
        await closed.wait()


if __name__ == "__main__":
    cli.run_app(server)
