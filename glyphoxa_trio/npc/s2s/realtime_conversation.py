"""A realtime conversation with a speech-to-speech model, over any number of sockets.

The conversation and its pending calls belong to the NPC's session: closing a socket
loses neither. `machine`, which is pure, decides what happens; this module opens and
reads the sockets (`RealtimeConversation.run`) and carries out what the machine decides.
The methods return at once unless they are coroutines.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager

import attrs

import trio

from glyphoxa_trio.providers.s2s import (
    S2S,
    Capabilities,
    LinkClosed,
    Recite,
    S2STool,
    Schedule,
    Setup,
    StopReciting,
    TranscriptLine,
)
from glyphoxa_trio.tools.outcome import ToolCall

from .choice import Choices
from .interaction import Interaction
from .machine import earlier
from .pending_calls import LateOutput, Way
from .reciting import Recital
from .shell import ConversationOwner, Shell
from .sockets import LiveSettings


@attrs.frozen(kw_only=True)
class LiveStatistics:
    """Counters since the conversation began.

    ``answers``: the answers to calls, by the way of their delivery. ``audio_dropped``
    and ``commands_dropped``: what was dropped while there was no socket. ``owed``: the
    calls that wait for an answer now.
    """

    connected: bool
    sockets: int
    failures: int
    answers: Mapping[Way, int]
    audio_dropped: int
    commands_dropped: int
    owed: int


class RealtimeConversation:
    """A realtime conversation. `run` must run as long as the conversation is used.

    What the conversation hears is reported to its owner (`belong_to`); without an owner
    it is dropped.

    Args:
      provider: the model; with ``choices``, the first of them.
      instructions, voice, language: what a socket is opened with.
      automatic: the server detects where users start and stop speaking.
      speaks: the model answers with audio.
      settings: the timing of the sockets.
      asked_for: anything else that a socket was opened with. If it differs in a
        successor, the socket is replaced (`become`).
      choices: the models to choose from, if there are several.
    """

    def __init__(
        self,
        *,
        provider: S2S,
        instructions: str = "",
        voice: str | None = None,
        language: str | None = None,
        automatic: bool = True,
        speaks: bool = True,
        settings: LiveSettings | None = None,
        asked_for: object = None,
        choices: Choices | None = None,
    ) -> None:
        self._asked_for = asked_for
        setup = Setup(
            instructions=instructions,
            voice=voice,
            language=language,
            automatic=automatic,
            speaks=speaks,
        )
        choices = choices or Choices.only(provider, voice, language)
        self._shell = Shell(choices, setup, settings or LiveSettings())
        self._machine, self._sockets = self._shell.machine, self._shell.sockets

    @property
    def provider(self) -> S2S:
        """The model of the open socket; without one, the preferred model."""
        return self._sockets.provider

    @property
    def capabilities(self) -> Capabilities:
        """The capabilities of the model's wire."""
        return self._machine.capabilities

    @property
    def voice(self) -> str | None:
        """The name of the model's voice; None is the vendor's default."""
        return self._machine.setup.voice

    @property
    def language(self) -> str | None:
        """The language of the conversation; None leaves it to the model."""
        return self._machine.setup.language

    @property
    def automatic(self) -> bool:
        """True if the server detects where users start and stop speaking."""
        return self._machine.setup.automatic

    @property
    def answers(self) -> bool:
        """True if the model also answers speech without being asked."""
        return self._machine.answers

    @property
    def fault(self) -> LinkClosed | None:
        """The reason why there is no socket, if one was lost or could not be opened."""
        return self._sockets.fault

    @property
    def quiet(self) -> bool:
        """True if no user speaks, no turn runs and no call is owed an answer."""
        return self._shell.quiet

    @property
    def connected(self) -> bool:
        """True while a socket is open."""
        return self._sockets.current is not None

    @property
    def owned(self) -> bool:
        """True if an owner is told of what the conversation hears."""
        return self._shell.owner.spoken is not None

    def belong_to(self, owner: ConversationOwner | None) -> None:
        """Report to this owner from now on; None drops the reports."""
        self._shell.belong_to(owner)

    def ignore_speech(self) -> None:
        """Stop telling the owner of spoken utterances."""
        self.belong_to(attrs.evolve(self._shell.owner, spoken=None))

    def history(self) -> tuple[TranscriptLine, ...]:
        """Return what was said before, as the owner remembers it."""
        return self._shell.owner.history()

    async def run(self) -> None:
        """Keep a socket open while one is needed. Runs until it is cancelled."""
        await self._sockets.run()

    # Requests of a turn and of a microphone.

    def begin(self) -> Interaction:
        """Begin an interaction: what the model says belongs to it until `end`."""
        began = self._machine.begin()
        self._shell.carry_out()
        return began

    def end(self, interaction: Interaction) -> None:
        """End an interaction, whose listener has stopped.

        A response that has begun since belongs to another utterance. Calls that the
        listener did not take are answered and not run.
        """
        self._shell.end(interaction)

    def open(self) -> None:
        """Open a socket ahead of speech."""
        self._sockets.want()

    def hear(self, pcm: bytes, *, speech: bool = True) -> None:
        """Send a piece of microphone audio, at ``input_rate`` of the capabilities.

        Audio without ``speech`` neither opens a socket nor keeps one open.
        """
        if speech:
            self._sockets.want(patient=True)
        self._machine.hear(pcm, speech=speech)
        self._shell.carry_out()

    def speech_begins(self) -> None:
        """Record that the user starts speaking, if the server does not detect it."""
        self._machine.speech_begins()
        self._shell.carry_out()

    def speech_ends(self) -> None:
        """Record that the user has stopped speaking. `respond` asks for the answer."""
        self._machine.speech_ends()
        self._shell.carry_out()

    def say(self, line: TranscriptLine, *, reply: bool = True) -> None:
        """Send a line of text. With ``reply`` the model is to answer it."""
        self._machine.say(line, reply=reply)
        self._shell.carry_out()

    def tell(self, line: TranscriptLine | str, *, reply: bool = False) -> None:
        """Tell the model something that no user said.

        Args:
          line: a `TranscriptLine` that the model did not hear, or a text, which is sent
            as data and has no speaker.
          reply: whether the model should speak of it.
        """
        line = TranscriptLine("user", f"({line})") if isinstance(line, str) else line
        self._machine.tell(line, reply=reply)
        self._shell.carry_out()

    def tell_result(self, name: str, output: str) -> None:
        """Tell the model the outcome of a call that another model made."""
        self._machine.tell(earlier(name, output), kept=True)
        self._shell.carry_out()

    def know(self, text: str) -> None:
        """Set the text that holds at the moment. Only a change of it is sent."""
        self._machine.know(text)
        self._shell.carry_out()

    def respond(
        self, *, instructions: str | None = None, tools_forbidden: bool = False
    ) -> None:
        """Ask the model to continue, where it does not do so by itself."""
        self._machine.respond(
            instructions=instructions, tools_forbidden=tools_forbidden
        )
        self._shell.carry_out()

    def answer(
        self,
        call: ToolCall,
        output: str,
        *,
        is_error: bool = False,
        schedule: Schedule = Schedule.WHEN_IDLE,
        wanted: bool = True,
    ) -> Way:
        """Answer a call once; a second answer is dropped. Return how it was delivered.

        Args:
          call: the call.
          output: a JSON object as text, no longer than the capabilities permit.
          is_error: whether the call failed.
          schedule: what the model should do with the answer.
          wanted: if False, a response that the model makes to the answer is void.
        """
        way = self._machine.answer(
            call,
            output,
            trio.current_time(),
            is_error=is_error,
            schedule=schedule,
            wanted=wanted,
        )
        self._shell.carry_out()
        return way

    def leave(
        self, call: ToolCall, *, interim: str | None = None, wanted: bool = True
    ) -> None:
        """Leave a call running that no turn waits for, until `finish`.

        Where the model waits for the call, ``interim`` answers it meanwhile (``wanted``
        is as in `answer`). Without ``interim`` the call stays owed.
        """
        now = trio.current_time()
        self._machine.leave(call, now, interim=interim, wanted=wanted)
        self._shell.carry_out()

    def finish(
        self,
        call: ToolCall,
        output: str,
        *,
        is_error: bool = False,
        schedule: Schedule = Schedule.WHEN_IDLE,
        matters: bool = False,
    ) -> None:
        """Give the outcome of a call that was left running.

        The model is told when no user speaks. It is asked to speak of the outcome
        unless the schedule is silent or the outcome is older than 30 s by then. If the
        server accepts no answer any more, the model is told only if the call has side
        effects (``matters``).
        """
        late = LateOutput(
            call=call,
            output=output,
            at=trio.current_time(),
            is_error=is_error,
            schedule=schedule,
            matters=matters,
        )
        self._machine.finish(late)
        self._shell.carry_out()

    def knows(self, call: ToolCall) -> bool:
        """Return True if the model of this conversation has made the call."""
        return self._machine.calls.knows(call.id)

    def owes(self, call: ToolCall) -> bool:
        """Return True if the open socket waits for an answer to this call."""
        return self._machine.calls.is_owed_here(call.id)

    def goes_on(self, call: ToolCall) -> bool:
        """Return True if the call was left and its outcome is not told yet."""
        return call.id in self._machine.calls.left

    @property
    def has_left(self) -> bool:
        """True if any call was left that still runs."""
        return bool(self._machine.calls.left)

    def refuse(self, calls: Iterable[ToolCall]) -> None:
        """Answer those of ``calls`` that are still owed an answer, with "cancelled".

        These calls are not run any more. Calls that were left running are skipped.
        """
        self._machine.refuse(calls, trio.current_time())
        self._shell.carry_out()

    def interrupt(self, heard: Mapping[str, float], *, of: Interaction) -> None:
        """Stop the response to that interaction.

        What the model still says of it is dropped. If another interaction has begun
        since, its response is not stopped.

        Args:
          heard: the seconds that were heard of each item that was cut.
          of: the interaction.
        """
        self._machine.interrupt(heard, of=of)
        self._shell.carry_out()

    def truncate(self, heard: Mapping[str, float]) -> None:
        """Tell the model how many seconds of these items were heard.

        It must not assume that the user heard the rest.
        """
        self._machine.truncate(heard)
        self._shell.carry_out()

    @asynccontextmanager
    async def recite(self, text: str) -> AsyncIterator[Recital]:
        """Have the model say ``text`` literally, outside the conversation.

        The conversation does not record it. The model must be able to (``recites`` of
        the capabilities). Leaving the block stops the model.

        Entering waits for a socket without a limit of its own; wrap it in a timeout.
        """
        shell = self._shell
        self._sockets.want()
        await shell.enforced.until(lambda: self.connected)
        recital = shell.recitals.begin()
        try:
            shell.send(Recite(recital.name, text))
            yield recital
        finally:
            if shell.recitals.leave(recital) and self.connected:
                shell.send(StopReciting(recital.name))
            self._sockets.look()

    def set_instructions(self, text: str) -> None:
        """Set the system prompt."""
        self._machine.instruct(text)
        self._shell.carry_out()

    def set_tools(self, tools: Iterable[S2STool]) -> int:
        """Declare these tools in place of the others; of several calls the last counts.

        Return the revision, for `tools_in_force`.
        """
        revision = self._machine.declare(tools)
        self._shell.carry_out()
        return revision

    def is_in_force(self, revision: int) -> bool:
        """Return True if the model was told of these tools, or of later ones."""
        return self._machine.tools.in_force >= revision

    async def tools_in_force(self, revision: int) -> None:
        """Wait, without a limit, until the model was told of these or later tools."""
        self._sockets.want()
        await self._shell.enforced.until(lambda: self.is_in_force(revision))

    def become(self, successor: RealtimeConversation) -> None:
        """Continue with the model, voice and settings of ``successor``."""
        # The choices are replaced in any case: the next socket may need another key.
        anew = successor._spoken_with != self._spoken_with
        self._asked_for = successor._asked_for
        self._shell.become(successor._shell, anew=anew)

    @property
    def _spoken_with(self) -> tuple[object, ...]:
        """The parameters of a socket to the first model, even while another serves.

        If it changes, the socket is replaced.
        """
        first, asked_for = self._sockets.choices.of[0], self._asked_for
        label = first.provider.label
        return label, first.voice, first.language, self.automatic, asked_for

    def statistics(self) -> LiveStatistics:
        """Return the counters."""
        machine, sockets = self._machine, self._sockets
        return LiveStatistics(
            connected=sockets.current is not None,
            sockets=sockets.opened,
            failures=sockets.failed,
            answers=machine.calls.answers,
            audio_dropped=machine.unsent.audio_dropped,
            commands_dropped=machine.unsent.commands_dropped,
            owed=len(machine.calls.owed),
        )


@asynccontextmanager
async def open_live(live: RealtimeConversation) -> AsyncIterator[RealtimeConversation]:
    """Run a conversation until the block is left, and close its sockets then."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(live.run)
        try:
            yield live
        finally:
            nursery.cancel_scope.cancel("the conversation was closed")
