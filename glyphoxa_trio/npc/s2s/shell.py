"""The shell of a conversation: it carries out what the conversation's machine decides.

`Sockets` reports what happens to the sockets and what the open one receives. The
machine decides, and its effects are carried out at once and in order. Nothing here
waits.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

import trio

from glyphoxa_trio.actors import Signal
from glyphoxa_trio.providers.llm import ErrorKind, Switched, Usage
from glyphoxa_trio.providers.s2s import (
    Command,
    Complaint,
    Event,
    LinkClosed,
    RecitalEnded,
    Recited,
    SendAudio,
    Setup,
    TranscriptLine,
)

from .choice import Choices
from .effects import Put, Replace, Settled, SimpleEffect, TellSpoken, Understood
from .interaction import Interaction
from .machine import LiveMachine
from .reciting import Recitals
from .sockets import LiveSettings, Sockets
from .unsent import UnsentCommands


@attrs.frozen(eq=False, kw_only=True)
class ConversationOwner:
    """The callbacks of the owner of a conversation.

    Args:
      spoken: called with the interaction of each utterance that the server has heard.
        None ends each of them.
      speech: called when a user starts to speak.
      history: returns what was said before, for a socket that does not know it.
      settled: called with the id of a call that was left, when its outcome was told.
      usage, complaint: called with token counts, and with what a server refused.
      switched: called when another model than the preferred one continues.
    """

    spoken: Callable[[Interaction], None] | None
    speech: Callable[[], None] = lambda: None
    history: Callable[[], tuple[TranscriptLine, ...]] = tuple
    settled: Callable[[str], None] = lambda _: None
    usage: Callable[[Usage], None] = lambda _: None
    complaint: Callable[[Complaint], None] = lambda _: None
    switched: Callable[[Switched], None] = lambda _: None


class Shell:
    """The shell around the machine of one conversation.

    ``enforced`` is set when other tools are in force.
    """

    def __init__(self, choices: Choices, setup: Setup, settings: LiveSettings) -> None:
        self.owner = ConversationOwner(spoken=None)
        self.enforced = Signal()
        self.recitals = Recitals()
        self.sockets = Sockets(choices, settings, self)
        self.at = 0  # the index of the model that the machine is set up for
        self.machine = LiveMachine(
            new=self._new,
            capabilities=choices.of[0].provider.capabilities,
            setup=setup,
            unsent=UnsentCommands(self.sockets.audio_limit),
        )

    def _new(self, spoken: bool, reports: bool) -> Interaction:
        automatic = self.machine.answers
        return Interaction(spoken=spoken, automatic=automatic, reports=reports)

    def belong_to(self, owner: ConversationOwner | None) -> None:
        """Report to this owner from now on; None drops the reports."""
        self.owner = owner or ConversationOwner(spoken=None)
        self.machine.tell_spoken(told=self.owner.spoken is not None)

    def become(self, other: Shell, *, anew: bool) -> None:
        """Continue with the models of ``other``.

        ``anew``: they cannot resume the conversation.
        """
        theirs = other.sockets
        if self.at and not anew:  # the current model stays
            mine, given = self.sockets.choices, theirs.choices
            same = [x.name for x in mine.of] == [x.name for x in given.of]
            # The key may have changed, so the first model deserves another attempt.
            self.sockets.become(given if same else mine, theirs.settings)
            return
        self.at = 0
        self.sockets.become(theirs.choices, theirs.settings)
        self.machine.unsent.limit_audio(self.sockets.audio_limit)
        capabilities, setup = other.machine.capabilities, other.machine.setup
        self.machine.become(capabilities, setup, anew=anew)
        self.carry_out()

    @property
    def quiet(self) -> bool:
        """True if no user speaks, no turn runs and nothing is owed or recited."""
        return self.machine.quiet and not self.recitals.busy

    # Events of the sockets.

    def setup(self, at: int) -> Setup:
        """Return what the next socket, with the model number ``at``, is opened with."""
        setup = self.machine.next_setup()
        if at != self.at:
            model = self.sockets.choices.of[at]
            voice, language = model.voice, model.language
            setup = attrs.evolve(setup, voice=voice, language=language, handle=None)
        if setup.handle is not None:
            return setup
        return attrs.evolve(setup, history=self.owner.history())

    def opened(self, at: int, why: LinkClosed | None, *, resumed: bool) -> None:
        """Handle that a socket is open; see `sockets.ConversationOwner.opened`."""
        self.recitals.lose("its connection was replaced")
        if at != self.at:
            self.at, of = at, self.sockets.choices.of
            model = of[at]
            self.machine.switch(
                model.provider.capabilities, model.voice, model.language
            )
            if at > 0:
                name, first = model.name, of[0].name
                reason = "it is not available" if why is None else str(why)
                self.owner.switched(
                    Switched(model=name, instead_of=first, reason=reason)
                )
        self.machine.opened(resumed=resumed)
        self.carry_out()

    def lost(self, closed: LinkClosed) -> None:
        """Handle that the socket was lost."""
        self.recitals.lose("its connection was lost")
        self.machine.lost(closed, trio.current_time())
        self.carry_out()

    def rested(self) -> None:
        """Handle that the socket was closed because it was not needed."""
        self.recitals.lose("its connection was closed")
        self.machine.rested()
        self.carry_out()

    def gave_up(self, closed: LinkClosed) -> None:
        """Handle that no socket can be opened."""
        self.machine.gave_up(closed)
        self.carry_out()

    def handle_failed(self) -> None:
        """Handle that the conversation cannot be resumed."""
        self.machine.forget_handle()

    def take(self, event: Event, now: float) -> None:
        """Handle an event of the current socket."""
        if isinstance(event, Recited | RecitalEnded):
            self.recitals.take(event)
            if isinstance(event, RecitalEnded) and event.usage is not None:
                self.owner.usage(event.usage)
            self.sockets.look()
            return
        self.machine.receive(event, now)
        self.carry_out()

    def end(self, interaction: Interaction) -> None:
        """End an interaction, whose listener has stopped."""
        left = interaction.end()
        self.machine.end(interaction, left, trio.current_time())
        self.carry_out()

    # Effects of the machine.

    def carry_out(self) -> None:
        """Carry out all effects in order. A callback may call this again."""
        effects = self.machine.effects
        while effects:
            match effects.popleft():
                case Put() as put:  # frequent: one for each piece of received audio
                    if not put.interaction.put(put.happening):
                        self.machine.not_taken(put, trio.current_time())
                case SendAudio() as audio:  # frequent: one for each piece of sent audio
                    self._send(audio)
                case SimpleEffect.WANT:
                    self.sockets.want()
                case SimpleEffect.LOOK:
                    self.sockets.look()
                case SimpleEffect.KEEP_SOCKET:
                    self.sockets.keep()
                case SimpleEffect.TELL_SPEECH:
                    self.owner.speech()
                case SimpleEffect.TELL_TOOLS:
                    self.enforced.set()
                case Replace(closes_in):
                    self.sockets.replace(closes_in)
                case Understood(interaction, text, final):
                    interaction.on_transcript(text, final=final)
                case TellSpoken(interaction):
                    self._tell_spoken(interaction)
                case Settled(call_id):
                    self.owner.settled(call_id)
                case Usage() as usage:
                    self.owner.usage(usage)
                case Complaint() as complaint:
                    self.owner.complaint(complaint)
                case command:
                    self._send(command)

    def _tell_spoken(self, interaction: Interaction) -> None:
        if self.owner.spoken is not None:
            self.owner.spoken(interaction)
        else:  # the owner has just left
            self.end(interaction)

    def send(self, command: Command) -> None:
        """Send a command on the open socket."""
        self._send(command)

    def _send(self, command: Command) -> None:
        socket = self.sockets.current
        assert socket is not None
        try:
            socket.link.send(command)
        except ValueError as error:  # the wire does not accept it, now or ever
            kind, detail = ErrorKind.BAD_REQUEST, str(error)
            refused = Complaint(kind=kind, code="refused", detail=detail)
            self.take(refused, trio.current_time())
