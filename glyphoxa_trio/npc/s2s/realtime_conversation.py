"""A conversation with a speech-to-speech model, over any number of sockets.

It belongs to the NPC's session, and so does what is owed in it: a socket that closes
takes nothing with it. What happens when is decided in `machine`, which is pure; this
opens and reads sockets (`RealtimeConversation.run`) and carries out what the machine wants. Everything
here is told at once and waits for nothing, but for what says so.

Above 300 lines, because all that can be asked of a conversation is read in one place.
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
    """Since the conversation began. ``answers`` by how they were given;
    ``audio_dropped`` and ``commands_dropped`` while there was no socket."""

    connected: bool
    sockets: int
    failures: int
    answers: Mapping[Way, int]
    audio_dropped: int
    commands_dropped: int
    owed: int


class RealtimeConversation:
    """The conversation. `run` must run as long as it is used.

    Somebody owns it (`belong_to`), or nobody is told of what it hears. ``asked_for`` is
    whatever else a socket was opened with: if a successor has another one, the socket
    is replaced. ``choices`` are the models if there are several, of which ``provider``
    is the first.
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
        return self._sockets.provider

    @property
    def capabilities(self) -> Capabilities:
        return self._machine.capabilities

    @property
    def voice(self) -> str | None:
        return self._machine.setup.voice

    @property
    def language(self) -> str | None:
        return self._machine.setup.language

    @property
    def automatic(self) -> bool:
        """The server hears when somebody begins and ends to speak."""
        return self._machine.setup.automatic

    @property
    def answers(self) -> bool:
        """And it answers without being asked."""
        return self._machine.answers

    @property
    def fault(self) -> LinkClosed | None:
        """Why there is no socket, if one was lost or could not be had."""
        return self._sockets.fault

    @property
    def quiet(self) -> bool:
        """Nobody speaks, no turn runs, and nothing is owed."""
        return self._shell.quiet

    @property
    def connected(self) -> bool:
        return self._sockets.current is not None

    @property
    def owned(self) -> bool:
        """Whether somebody is told of what it hears."""
        return self._shell.owner.spoken is not None

    def belong_to(self, owner: ConversationOwner | None) -> None:
        """Tell this one from now on, or nobody."""
        self._shell.belong_to(owner)

    def ignore_speech(self) -> None:
        """Nobody is told any more of what is spoken."""
        self.belong_to(attrs.evolve(self._shell.owner, spoken=None))

    def history(self) -> tuple[TranscriptLine, ...]:
        """What was said before, as its owner has it."""
        return self._shell.owner.history()

    async def run(self) -> None:
        """Keep a socket while one is wanted. Ends when it is cancelled."""
        await self._sockets.run()

    # What a turn and a microphone ask for.

    def begin(self) -> Interaction:
        """What comes from now on belongs to this utterance, until `end`."""
        began = self._machine.begin()
        self._shell.carry_out()
        return began

    def end(self, interaction: Interaction) -> None:
        """Nobody listens to it any more.

        A response that has begun since is another utterance's; a call that nobody has
        taken is answered, and not run.
        """
        self._shell.end(interaction)

    def open(self) -> None:
        """Somebody is going to speak: have a socket by then."""
        self._sockets.want()

    def hear(self, pcm: bytes, *, speech: bool = True) -> None:
        """A piece of the microphone, at the capabilities' ``input_rate``. If it is no
        ``speech`` it keeps no socket open, and opens none."""
        if speech:
            self._sockets.want(patient=True)
        self._machine.hear(pcm, speech=speech)
        self._shell.carry_out()

    def speech_begins(self) -> None:
        """Somebody begins to speak, says the embedder; not when ``automatic``."""
        self._machine.speech_begins()
        self._shell.carry_out()

    def speech_ends(self) -> None:
        """They have finished. `respond` asks for the answer."""
        self._machine.speech_ends()
        self._shell.carry_out()

    def say(self, line: TranscriptLine, *, reply: bool = True) -> None:
        """Something said in text. With ``reply`` it is to be answered."""
        self._machine.say(line, reply=reply)
        self._shell.carry_out()

    def tell(self, line: TranscriptLine | str, *, reply: bool = False) -> None:
        """Something that nobody has said to the model, when that disturbs nobody. With
        ``reply`` it is to speak of it.

        What it did not hear is a `TranscriptLine`; a text is told as data, and in nobody's name.
        """
        line = TranscriptLine("user", f"({line})") if isinstance(line, str) else line
        self._machine.tell(line, reply=reply)
        self._shell.carry_out()

    def tell_result(self, name: str, output: str) -> None:
        """What a call came to that another model has made."""
        self._machine.tell(earlier(name, output), kept=True)
        self._shell.carry_out()

    def know(self, text: str) -> None:
        """This holds at the moment, and nothing else: only a change is told."""
        self._machine.know(text)
        self._shell.carry_out()

    def respond(
        self, *, instructions: str | None = None, tools_forbidden: bool = False
    ) -> None:
        """The model is to go on, where it does not do so by itself."""
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
        """Answer a call, once; a second answer goes nowhere.

        ``output`` is a JSON object as text, no longer than the capabilities say.
        Unless it is ``wanted``, what the model says to it is for nobody.
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
        """It goes on, and no turn waits for it any more; `finish` says what came of it.

        ``interim`` is said to it meanwhile, as in `answer`, where the model waits for
        it; without, it stays owed.
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
        """What a call that was left came to. The model is told when nobody speaks, and
        asked to speak of it, unless it is silent or old by then. Nothing is told if its
        server wants no answer any more and it has changed nothing (``matters``)."""
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
        """Whether its model has made this call."""
        return self._machine.calls.knows(call.id)

    def owes(self, call: ToolCall) -> bool:
        """Whether the model, as it is there, waits for an answer to this call."""
        return self._machine.calls.is_owed_here(call.id)

    def goes_on(self, call: ToolCall) -> bool:
        """Whether it was left, and what came of it is not told yet."""
        return call.id in self._machine.calls.left

    @property
    def has_left(self) -> bool:
        """Whether any call goes on that no turn waits for."""
        return bool(self._machine.calls.left)

    def refuse(self, calls: Iterable[ToolCall]) -> None:
        """Answer those that are still owed one: they are not run any more. Not those
        that were left."""
        self._machine.refuse(calls, trio.current_time())
        self._shell.carry_out()

    def interrupt(self, heard: Mapping[str, float], *, of: Interaction) -> None:
        """Stop what is being said to that utterance. ``heard``: seconds of each item
        that was cut.

        What the model says all the same is for nobody. Once another utterance has
        begun, what is said is said to that.
        """
        self._machine.interrupt(heard, of=of)
        self._shell.carry_out()

    def truncate(self, heard: Mapping[str, float]) -> None:
        """Of these items only so many seconds were heard: the model is not to think
        that it said more."""
        self._machine.truncate(heard)
        self._shell.carry_out()

    @asynccontextmanager
    async def recite(self, text: str) -> AsyncIterator[Recital]:
        """Have the model say ``text`` as it stands, beside the conversation, which
        knows nothing of it. Only if it ``recites``. Leaving stops it.

        Entering waits for a socket, and has no end of its own.
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
        self._machine.instruct(text)
        self._shell.carry_out()

    def set_tools(self, tools: Iterable[S2STool]) -> int:
        """Declare these in place of the others; the last one counts.

        Returns the revision, for `tools_in_force`.
        """
        revision = self._machine.declare(tools)
        self._shell.carry_out()
        return revision

    def is_in_force(self, revision: int) -> bool:
        """Whether the model has been told of these tools, or of later ones."""
        return self._machine.tools.in_force >= revision

    async def tools_in_force(self, revision: int) -> None:
        """Return once they are declared. Has no end of its own."""
        self._sockets.want()
        await self._shell.enforced.until(lambda: self.is_in_force(revision))

    def become(self, successor: RealtimeConversation) -> None:
        """Go on with another model, or voice, as the configuration has it now."""
        # Also if it speaks the same way: the next socket may need another key.
        anew = successor._spoken_with != self._spoken_with
        self._asked_for = successor._asked_for
        self._shell.become(successor._shell, anew=anew)

    @property
    def _spoken_with(self) -> tuple[object, ...]:
        """What a socket of the first model is opened with, whichever serves: if it
        changes, the socket is replaced."""
        first, asked_for = self._sockets.choices.of[0], self._asked_for
        label = first.provider.label
        return label, first.voice, first.language, self.automatic, asked_for

    def statistics(self) -> LiveStatistics:
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
    """Run a conversation until the block is left; its sockets are closed then."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(live.run)
        try:
            yield live
        finally:
            nursery.cancel_scope.cancel("the conversation was left")
