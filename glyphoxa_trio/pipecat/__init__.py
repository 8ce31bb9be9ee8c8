"""NPCs in a pipeline of Pipecat, where its language model stands.

    npc = NpcProcessor(runtime.npc("Greymantle"))
    Pipeline(
        [
            transport.input(),
            stt,
            UserTurnProcessor(),
            npc,
            tts,
            transport.output(),
            npc.heard,
        ]
    )

This stands above `glyphoxa_trio.aio`, whose objects it is given, and needs the extra
``pipecat``. `processor` answers, and `user_turns` has the words that wait for that.
`answer` is the state of one answer, `frames` has its events as frames, and `heard`
notes what was spoken. docs/pipecat.md is the page for users.
"""

from glyphoxa_trio.extras import require_version

# Before names are imported that another version may not have. 1.14 is the first that
# has frames for calls which ran outside of a pipeline.
require_version("an NPC in Pipecat", "pipecat", "pipecat-ai", (1, 14))

from .heard import HeardProcessor as HeardProcessor  # noqa: E402
from .processor import NpcProcessor as NpcProcessor  # noqa: E402

__all__ = ["HeardProcessor", "NpcProcessor"]
