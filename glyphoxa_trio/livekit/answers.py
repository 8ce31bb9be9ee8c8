"""An answer of an NPC while LiveKit speaks it, and the report of what was played.

LiveKit plays an answer after it was written, in its own time, and then adds a message
with the words that were played to its chat context. Until then the NPC's turn stays
open: what it remembers, and what the other NPCs of a scene have heard, is decided by
that report.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import attrs
from livekit.agents import ConversationItemAddedEvent, llm

from glyphoxa_trio.aio import SceneTurn, Turn
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.npc import Filler, Sentence, TurnEvent
from glyphoxa_trio.npc.markdown import SpokenForm
from glyphoxa_trio.npc.reading_aloud import AnswerReader
from glyphoxa_trio.npc.spoken_audio import USUAL

AnyTurn: TypeAlias = Turn | SceneTurn

# How long a turn stays open for the report of what was played. Seconds.
PLAYING: Final = 60.0
_KEY: Final = "glyphoxa_turn"  # in LiveKit's messages: which answer it is


@attrs.define(eq=False)
class AgentAnswer:
    """One answer. ``tell`` is called with the events that come when it is over."""

    turn: AnyTurn
    _tell: Callable[[TurnEvent], None]
    _reader: AnswerReader = attrs.field(factory=AnswerReader, init=False)
    # What is spoken of the answer; of a filler nothing is remembered.
    _pieces: list[tuple[SpokenForm, bool]] = attrs.field(factory=list, init=False)
    spoken: bool = attrs.field(default=False, init=False)  # LiveKit got words of it
    _over: asyncio.Event = attrs.field(factory=asyncio.Event, init=False)

    @property
    def key(self) -> str:
        """The id that LiveKit's message of this answer has."""
        return f"{id(self):x}"

    def chunk(self, piece: Sentence | Filler) -> llm.ChatChunk | None:
        """Return what is spoken of the next piece as a model of LiveKit's would stream
        it; None for nothing."""
        form = self._reader.read(piece)
        self._pieces.append((form, isinstance(piece, Sentence)))
        if not form.text:
            return None
        text = f" {form.text}" if self.spoken else form.text
        self.spoken = True
        delta = llm.ChoiceDelta(role="assistant", content=text, extra={_KEY: self.key})
        return llm.ChatChunk(id=self.key, delta=delta)

    def played(self, text: str) -> None:
        """Report that this beginning of all pieces was played, and no more will be.

        A filler is no part of the answer, although it was played.
        """
        left, heard = len(text.split()), list[str]()
        for form, remembered in self._pieces:
            if remembered:
                heard.append(form.heard(left))
            left -= len(form.text.split())
            if left < 0:
                break
        self.turn.heard(" ".join(heard), over=True)
        self.drop()

    def drop(self) -> None:
        """Wait no longer for a report."""
        self._over.set()

    async def settle(self) -> None:
        """Take the rest of the events, wait for the report, and leave the turn."""
        try:
            async with asyncio.timeout(PLAYING):
                async for event in self.turn:
                    self._tell(event)
                await self._over.wait()
        except (TimeoutError, GlyphoxaError):  # the runtime has ended
            pass
        finally:
            await self.turn.__aexit__(None, None, None)


@attrs.define(eq=False)
class AgentAnswers:
    """The answers of one agent that are written or played."""

    _answers: dict[str, AgentAnswer] = attrs.field(factory=dict, init=False)
    _tasks: set[asyncio.Task[None]] = attrs.field(factory=set, init=False)
    _output: Any = attrs.field(default=None, init=False)
    # The seconds that were played since the newest answer began, while LiveKit does not
    # know which words they were.
    _seconds: float | None = attrs.field(default=None, init=False)

    def begin(self, answer: AgentAnswer, output: Any) -> None:
        """Add an answer. ``output``: LiveKit's loudspeaker, if there is any."""
        self._answers[answer.key] = answer
        self._seconds = None
        if output is not None and output is not self._output:
            self._output = output
            output.on("playback_finished", self._count)

    def end(self, answer: AgentAnswer) -> None:
        """End the turn, if it has not ended, and keep it until it was played."""
        if answer.turn.done is None:
            answer.turn.interrupt("LiveKit interrupted the answer")
        if not answer.spoken:
            answer.played("")  # LiveKit has nothing to report
        task = asyncio.create_task(answer.settle())
        self._tasks.add(task)

        def gone(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            self._answers.pop(answer.key, None)

        task.add_done_callback(gone)

    def _count(self, event: Any) -> None:
        known = event.synchronized_transcript is not None
        before = self._seconds or 0.0
        self._seconds = None if known else before + event.playback_position

    def take(self, event: ConversationItemAddedEvent) -> None:
        """Report a message that LiveKit has kept, if it is an answer's."""
        item = event.item
        if not isinstance(item, llm.ChatMessage):
            return
        if (answer := self._answers.get(item.extra.get(_KEY, ""))) is not None:
            text = item.text_content or ""
            if item.interrupted and self._seconds is not None:
                text = _said_within(self._seconds, text)
            answer.played(text)

    def close(self, _: object) -> None:
        """Wait for no more reports: the session is over."""
        for answer in self._answers.values():
            answer.drop()


def _said_within(seconds: float, text: str) -> str:
    """Return the words of ``text`` that a person who speaks slowly says in this time.

    For a loudspeaker that reports its time and no words, where LiveKit keeps all of
    them.
    """
    words = text.split()
    while words and len(" ".join(words)) > seconds * USUAL:
        words.pop()
    return " ".join(words)
