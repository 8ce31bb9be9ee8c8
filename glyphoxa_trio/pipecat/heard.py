"""The processor behind the loudspeaker, which sees what was really spoken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pipecat.frames.frames import (
    AggregatedTextFrame,
    Frame,
    LLMFullResponseEndFrame,
    TTSTextFrame,
)
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor


class HeardProcessor(FrameProcessor):
    """Behind the output of the transport: tells the NPC what of its words was heard.

    Made by `NpcProcessor`, as its ``heard``. Passes on every frame.

    Args:
      hear: called with the id of a frame, and text made of it that was heard.
    """

    def __init__(self, hear: Callable[[int, str], None], **options: Any) -> None:
        super().__init__(**options)
        self._hear = hear

    @property
    def used(self) -> bool:
        """True if it is in a pipeline."""
        return self.previous is not None

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        """Note what a frame means, and pass it on."""
        await super().process_frame(frame, direction)
        match frame:
            case TTSTextFrame(segment_id=int(segment), text=text):
                self._hear(segment, text)
            case AggregatedTextFrame(will_be_spoken=False, text=text):
                self._hear(frame.id, text)  # shown, since nothing here speaks
            case LLMFullResponseEndFrame():
                self._hear(frame.id, "")
            case _:
                pass
        await self.push_frame(frame, direction)
