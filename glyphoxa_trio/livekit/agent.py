"""An agent of LiveKit that is an NPC, or a scene."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any

from livekit.agents import (
    Agent,
    AgentSession,
    FlushSentinel,
    ModelSettings,
    UserInputTranscribedEvent,
    llm,
)

from glyphoxa_trio.aio import Npc, Scene
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.npc import Filler, Flush, NobodyAddressed, Sentence, TurnEvent

from .answers import AgentAnswer, AgentAnswers, AnyTurn
from .model import AnswerMetrics, NpcModel


class NpcAgent(Agent):
    """An agent of LiveKit whose words are those of an NPC, or of the NPCs of a scene.

    LiveKit cannot call the NPC's tools, and the NPC cannot call LiveKit's. Preemptive
    generation is off, whatever the session says: a turn is said once, and may have side
    effects. An NPC with a greeting says it when the agent enters.
    """

    def __init__(
        self, npc: Npc | Scene, *, speaker: str | None = None, **options: Any
    ) -> None:
        """Make the agent of an NPC.

        Args:
          npc: the one that answers.
          speaker: the player who speaks. None means the participant that LiveKit
            listens to, by identity; without a room it is ``player``.
          options: other arguments of LiveKit's `Agent`, such as ``tts``.

        Raises:
          ValueError: there are function tools, as an argument or as methods.
        """
        name = npc.name if isinstance(npc, Npc) else "scene"
        settings: dict[str, Any] = {"instructions": "", **options}
        model = settings["llm"] = NpcModel(name)
        settings["turn_handling"] = {
            **settings.get("turn_handling", {}),
            "preemptive_generation": {"enabled": False},
        }
        super().__init__(**settings)
        if self.tools:
            raise ValueError(
                "an NPC cannot call LiveKit's function tools: open its runtime with"
                " tools=[...], which aio.tool makes of coroutines"
            )
        self.npc = npc
        self._npc_model = model
        self._speaker = speaker
        self._answers = AgentAnswers()
        self._heard: AgentSession[Any] | None = None
        self._answered = ""  # the id of the newest message that was said to the NPC
        self._partial: asyncio.Task[None] | None = None

    @property
    def speaker(self) -> str:
        """The player who speaks now."""
        if self._speaker is not None:
            return self._speaker
        with suppress(RuntimeError):  # there is no room
            if (linked := self.session.room_io.linked_participant) is not None:
                return str(linked.identity)
        return "player"

    def turn_for(self, message: llm.ChatMessage) -> AnyTurn:
        """Return the turn that answers a message of the user.

        Override it to choose the speaker, the tier, or whom words to a scene are for:
        ``return self.npc.say(message.text_content, speaker=..., tier=...)``.
        """
        return self.npc.say(message.text_content or "", speaker=self.speaker)

    def on_turn_event(self, event: TurnEvent) -> None:
        """Take an event of a turn, such as a `ToolsShown` with the time that remains.

        Does nothing; override it. Called on the loop, in order, also with the last
        events of a turn that was interrupted. It must not raise.
        """

    async def on_enter(self) -> None:
        """Begin to listen, and have the NPC say its greeting."""
        self._listen()
        if isinstance(self.npc, Npc) and self.npc.config.greeting:
            self.session.generate_reply()

    async def on_exit(self) -> None:
        """Listen no more to the user. What is still played is reported all the same."""
        if self._heard is not None:
            self._heard.off("user_input_transcribed", self._hear)
            self._heard = None

    async def llm_node(
        self,
        chat_ctx: llm.ChatContext,
        tools: list[llm.Tool],
        model_settings: ModelSettings,
    ) -> AsyncGenerator[llm.ChatChunk | FlushSentinel, None]:
        """Yield the NPC's answer to the newest message, sentence by sentence.

        When the user interrupts, LiveKit cancels this, which interrupts the turn. A
        message that was answered before has no other answer, nor have words that
        address nobody in a scene.

        Raises:
          GlyphoxaError: the NPC cannot be spoken to, as entering a turn says.
        """
        self._listen()
        asked = next((x for x in chat_ctx.messages()[::-1] if x.role == "user"), None)
        turn = self._turn(asked)
        if turn is None:
            return
        try:
            await turn.__aenter__()
        except NobodyAddressed:
            return
        self._answered = "" if asked is None else asked.id
        turn.heard("")

        def tell(event: TurnEvent) -> None:
            metrics.take(event)
            self.on_turn_event(event)

        answer = AgentAnswer(turn, tell)
        metrics = AnswerMetrics(self._npc_model, answer.key)
        self._answers.begin(answer, self.session.output.audio)
        try:
            async for event in turn:
                tell(event)
                match event:
                    case Sentence():
                        if (chunk := answer.chunk(event)) is not None:
                            yield chunk
                    case Filler():
                        if (chunk := answer.chunk(event)) is not None:
                            yield chunk
                            yield FlushSentinel()  # say it now: the rest takes a while
                    case Flush():  # it was not LiveKit, which would speak on
                        self._stop_speaking()
        finally:
            self._answers.end(answer)

    def _turn(self, asked: llm.ChatMessage | None) -> AnyTurn | None:
        if asked is not None:
            return None if asked.id == self._answered else self.turn_for(asked)
        if isinstance(self.npc, Scene):
            return None
        return self.npc.greet(speaker=self.speaker)

    def _stop_speaking(self) -> None:
        speech = self.session.current_speech
        if speech is not None and speech.allow_interruptions and not speech.interrupted:
            speech.interrupt()

    def _listen(self) -> None:
        """Hear what the session reports, from now on."""
        if self._heard is not self.session:
            self._heard = session = self.session
            session.on("user_input_transcribed", self._hear)
            session.on("conversation_item_added", self._answers.take)
            session.once("close", self._answers.close)

    def _hear(self, event: UserInputTranscribedEvent) -> None:
        """Tell the NPC the words of a user who is still speaking.

        What comes while it is told others is left out: more will follow.
        """
        if not event.is_final and (self._partial is None or self._partial.done()):
            self._partial = asyncio.create_task(self._tell(event.transcript))

    async def _tell(self, text: str) -> None:
        with suppress(GlyphoxaError):  # the turn itself will say it
            await self.npc.hearing(text, speaker=self.speaker)
