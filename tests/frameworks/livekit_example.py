"""Plays LiveKit's part of `docs/examples/frameworks/livekit_agent.py`, in text.

    python -m tests.frameworks.livekit_example WORDS

Prints the conversation: the greeting, the words, and the answer to them.
"""

from __future__ import annotations

import asyncio
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from livekit import agents

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples" / "frameworks"


class Session(agents.AgentSession[None]):
    """The one that the example makes, without speech, which is elsewhere."""

    started: asyncio.Future[Session]

    def __init__(self, *, stt: str, tts: str) -> None:
        super().__init__(stt=None, tts=None)

    async def start(self, *arguments: Any, **options: Any) -> Any:
        await super().start(*arguments, **options)
        self.started.set_result(self)


async def main(words: str) -> None:
    Session.started = asyncio.get_running_loop().create_future()
    agents.AgentSession = Session
    example = runpy.run_path(str(EXAMPLES / "livekit_agent.py"))
    context = SimpleNamespace(room=agents.NOT_GIVEN)
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(example["table"](context))
        session = await Session.started
        await session.wait_for_idle()
        await session.run(user_input=words)
        said = [x.text_content for x in session.history.messages()]
        await session.aclose()
    sys.stdout.write("\n".join(map(str, said)) + "\n")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
