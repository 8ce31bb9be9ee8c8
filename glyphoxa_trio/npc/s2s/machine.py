"""The state machine of a conversation with a speech-to-speech model.

The machine is pure: it has no socket, no clock and no task. It is told of one event at
a time, and appends to `effects`, in order, what has to be done about it. `shell`
carries the effects out.

Theory of operation. The conversation outlives its sockets, of which at most one is
open. What a server says belongs to the *current* interaction, which is the answer to
the utterance that began last. Few servers say which utterance they answer, so this
module decides which interaction each event belongs to, and no other module does.

*Interactions.* One begins when a user writes (`begin`); when a user has spoken (the
utterance has an item name then, or gets one later); and when the model begins a
response to something that no interaction answers, either because the response names an
unknown utterance or because the current interaction has ended. The words of an
utterance (`spoken_interactions`) are filled in by its item name whenever they arrive;
they never begin, end or stop anything. When an interaction ends, the events that it did
not take
are examined once more: a wanted response that it did not see is the answer to another
utterance, and calls that it did not take are answered and not run.

*Responses.* The table in `responses` says which response is wanted. Nothing of a void
response is passed on; its calls are answered and not run.

*Calls.* Each call is answered once (`pending_calls`): as a result on the socket that
asked; as text on a later socket; or not at all, because its server has cancelled it,
because the conversation was given up, or because the message with the call never
arrived completely. A call that takes longer than its turn is left running (`leave`).
Its outcome (`finish`) is told when no interaction is being answered, nothing is being
said and no user speaks; with a model that does not answer results by itself, it is told
at once. All outcomes that are told in one moment get one reply, in an interaction of
its own, unless the model has begun to speak since. An outcome that is silent, or older
than 30 s by then, asks for no reply.

*Tools* are numbered revisions, and the revision in force never decreases
(`tool_revisions`). Where the wire can replace tools on an open socket, the replacement
waits until the model says nothing; several changes until then are sent as one.

*The socket and the microphone*::

                    no socket                        a socket
    a command       waits (`unsent`), wants one      is sent
    opened          what waits is sent               and the old one is lost first
    lost            -                                responses are forgotten,
                                                     pending calls become text
    given up        nothing waits, nothing is owed   -

    SpeechStarted, SpeechBegins    a user speaks: the current interaction is told
    SpeechStopped, SpeechEnds      no user speaks: another interaction begins
    the socket is lost             no user speaks

An effect may come too late for its interaction, because a callback that an earlier
effect calls may end that interaction. The shell reports this (`not_taken`), and the
calls in the effect are answered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Generic, TypeVar

import attrs

from glyphoxa_trio.providers.s2s import (
    AudioOut,
    CallReady,
    CallsCancelled,
    Cancel,
    Capabilities,
    Command,
    Committed,
    Complaint,
    Event,
    GoingAway,
    HandleIssued,
    Heard,
    InteractionEnded,
    Interrupted,
    LinkClosed,
    Respond,
    ResponseEnded,
    ResponseStarted,
    S2STool,
    Schedule,
    SendAudio,
    SendResult,
    SendText,
    SetInstructions,
    SetTools,
    Setup,
    SpeechBegins,
    SpeechEnds,
    SpeechStarted,
    SpeechStopped,
    Spoken,
    ToolsInForce,
    TranscriptLine,
    Truncate,
    UsageSeen,
)
from glyphoxa_trio.tools.outcome import ToolCall

from .effects import Effect, Put, Replace, Settled, SimpleEffect, TellSpoken, Understood
from .happenings import BargedIn, CallsReady, Happening, LinkBack, LinkGone, LinkLost
from .known import KnownContext
from .pending_calls import LateOutput, PendingCalls, Way
from .responses import Next, OpenResponses, Runs
from .spoken_interactions import SpokenInteractions, Words
from .tool_revisions import ToolRevisions
from .unanswered import Unanswered
from .unsent import UnsentCommands

CANCELLED: Final = '{"status": "cancelled", "message": "The call is no longer needed."}'

I = TypeVar("I")  # noqa: E741  an interaction


def earlier(name: str, output: str) -> TranscriptLine:
    """Return a result as a line of text, where it cannot be given as a result.

    The line is marked as data and has the role of the user, because what a tool returns
    is no instruction.
    """
    return TranscriptLine(
        "user", f"(Result of the earlier call of {name}, as data: {output})"
    )


@attrs.define(eq=False)
class Interactions(Generic[I]):
    """The interaction that is answered now, and the state around it.

    ``listening``: the interactions that have not ended. ``earlier``: the ids of the
    calls that were owed an answer when the current interaction began. ``lost``: the
    socket of the current interaction was lost, and it was not yet told of another one.
    ``carried_over``: the response that the current interaction took over from the one
    before it. ``spoken``: the current interaction, if its utterance was spoken.
    ``again``: the interaction whose utterance is being played to a new socket.
    """

    current: I | None = None
    listening: set[I] = attrs.field(factory=set)
    earlier: frozenset[str] = frozenset()
    lost: bool = False
    carried_over: str | None = None
    spoken: I | None = None
    again: I | None = None

    @property
    def rest(self) -> bool:
        """True if no listener takes what the model says."""
        return self.current not in self.listening


@attrs.define(eq=False, kw_only=True)
class LiveMachine(Generic[I]):
    """The state of one conversation.

    Args:
      new: makes an interaction. Its arguments say whether the utterance was spoken, and
        whether the interaction reports the outcomes of calls.
      capabilities: what the model's wire can do.
      setup: what a socket is opened with, except for the tools and the history.
      unsent: where commands and audio wait while there is no socket.
    """

    _new: Callable[[bool, bool], I]
    capabilities: Capabilities
    setup: Setup
    unsent: UnsentCommands
    calls: PendingCalls = attrs.field(factory=PendingCalls, init=False)
    tools: ToolRevisions = attrs.field(factory=ToolRevisions, init=False)
    effects: deque[Effect[I]] = attrs.field(factory=deque, init=False)
    _responses: OpenResponses = attrs.field(factory=OpenResponses, init=False)
    _interactions: Interactions[I] = attrs.field(factory=Interactions, init=False)
    _utterances: SpokenInteractions[I] = attrs.field(
        factory=SpokenInteractions, init=False
    )
    _unanswered: Unanswered = attrs.field(init=False)
    _connected: bool = attrs.field(default=False, init=False)
    _speaking: bool = attrs.field(default=False, init=False)
    _told: bool = attrs.field(default=False, init=False)  # the owner is told of speech
    _tools_due: bool = attrs.field(default=False, init=False)
    _known: KnownContext = attrs.field(factory=KnownContext, init=False)
    # and told to the model
    _unspoken: list[LateOutput] = attrs.field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        self._unanswered = Unanswered(self.capabilities.input_rate)

    @property
    def quiet(self) -> bool:
        """True if no user speaks, no turn runs and no call is owed an answer."""
        return self._rests and not self.calls.owed

    @property
    def _rests(self) -> bool:
        """True if no user speaks, no interaction listens, and no response is wanted.

        A void response may be running: cutting it short does no harm.
        """
        said = self._responses.runs is Runs.WANTED
        return self._interactions.rest and not said and not self._speaking

    @property
    def answers(self) -> bool:
        """True if the model answers speech without being asked to."""
        return self.setup.automatic and self.capabilities.answers_speech

    def tell_spoken(self, *, told: bool) -> None:
        """Record whether the owner is told of utterances from now on."""
        self._told = told

    # Requests of a turn and of a microphone.

    def begin(self) -> I:
        """Begin an interaction for a written utterance and return it.

        What the model says from now on belongs to it; a running response is stopped.
        """
        self._forget_unanswered()
        return self._begin(spoken=False, stop=True)

    def end(self, interaction: I, left: Sequence[Happening], now: float) -> None:
        """End an interaction.

        Args:
          interaction: the one whose listener has stopped.
          left: the events that its listener did not take.
          now: the time on trio's clock, in seconds.
        """
        current = interaction == self._interactions.current
        self._interactions.listening.discard(interaction)
        if current and not self._speaking:
            self._forget_unanswered()
        for at, event in enumerate(left):
            if isinstance(event, ResponseStarted) and not self._responses.is_void(
                event.response
            ):
                # A response that two interactions in a row did not take is offered to
                # no third.
                once = event.response != self._interactions.carried_over
                # A response that names this interaction's utterance belongs to no other
                # one.
                if current and self._told and once and event.heard is None:
                    self._interactions.carried_over = event.response
                    self._hear_out(None)
                    offered, left = left[at:], left[:at]
                    for later in offered:
                        if isinstance(later, Heard):  # words of the ended interaction
                            continue
                        of = getattr(later, "response", None)
                        if of is None or not self._responses.is_void(of):
                            self._pass_on(later)
                        else:  # of another response, which was stopped
                            left = [*left, later]
                break
        for event in left:
            if isinstance(event, CallsReady):
                self.refuse(event.calls, now)
        self._tell_late(now)
        self.effects.append(SimpleEffect.LOOK)

    def not_taken(self, put: Put[I], now: float) -> None:
        """Record that an interaction has ended, and answer the calls in ``put``."""
        self._interactions.listening.discard(put.interaction)
        if isinstance(put.happening, CallsReady):
            self.refuse(put.happening.calls, now)

    def hear(self, pcm: bytes, *, speech: bool = True) -> None:
        """Send a piece of microphone audio, or keep it until there is a socket.

        A dropped piece without ``speech`` does not count as a loss.
        """
        if self._connected:
            self._unanswered.hear(pcm)
            self.effects.append(SendAudio(pcm))
        else:
            self.unsent.keep_audio(SendAudio(pcm), matters=speech)

    def speech_begins(self) -> None:
        """Record that the user starts speaking, as the client has detected."""
        self._hear_speech()
        self._interactions.again = None
        self._speaking = True
        self._unanswered.begin()
        self._mark(SpeechBegins())

    def speech_ends(self) -> None:
        """Record that the user has stopped, and begin an interaction."""
        self._speaking = False
        self._mark(SpeechEnds())
        self._hear_out(None, stop=self.capabilities.asks_for_responses)

    def say(self, line: TranscriptLine, *, reply: bool) -> None:
        """Send a line of text. With ``reply`` the model is to answer it."""
        self._send(SendText(line, reply=reply))
        if reply:
            self.respond()

    def tell(
        self, line: TranscriptLine, *, reply: bool = False, kept: bool = False
    ) -> None:
        """Tell the model something that no user said; with ``reply``, ask it to speak.

        Without a socket, the line is sent on the next one in these cases: it is
        ``kept``, a reply is wanted, or the next socket resumes the conversation.
        Otherwise the history that the next socket begins with contains it.
        """
        if reply and self._told and self._rests:
            self._report()
        text = SendText(line, reply=reply)
        if self._connected:
            self.effects.append(text)
        elif kept or reply:
            self.unsent.keep(text)
        elif self.setup.handle is not None:
            self.unsent.keep_text(text)
        if reply:
            self.respond()

    def know(self, text: str) -> None:
        """Set the text that holds at the moment. Only a change of it is sent."""
        self._known.holds(text)
        if self._connected:
            self._tell_known()

    def _tell_known(self) -> None:
        self.effects.extend(self._known.tell(forgets=self.capabilities.forgets_text))

    def respond(
        self, *, instructions: str | None = None, tools_forbidden: bool = False
    ) -> None:
        """Ask the model to continue, where it does not do so by itself."""
        self._responses.ask()
        if self.capabilities.asks_for_responses:
            forbidden = tools_forbidden and self.capabilities.forbids_tools
            wanted = Respond(instructions=instructions, tools_forbidden=forbidden)
            if self._interactions.again is not None and not self._connected:
                self.unsent.keep_after_utterance(wanted)
            else:
                self._send(wanted)

    def answer(
        self,
        call: ToolCall,
        output: str,
        now: float,
        *,
        is_error: bool = False,
        schedule: Schedule = Schedule.WHEN_IDLE,
        wanted: bool = True,
    ) -> Way:
        """Answer a call once, and return how the answer was delivered.

        Unless the answer is ``wanted``, a response that the model makes to it is void.
        """
        way = self.calls.settle(call, output, now)
        if way is Way.RESULT:
            asks = self.capabilities.asks_for_responses
            if not (wanted or asks or call.id in self._interactions.earlier):
                self._responses.expect_unwanted()
            self._send(
                SendResult(
                    call_id=call.id,
                    name=call.name,
                    output=output,
                    is_error=is_error,
                    schedule=schedule,
                )
            )
        elif way is Way.TEXT:
            reply = schedule is not Schedule.SILENT
            self._tell_again(call.name, output, reply=reply)
        self.effects.append(SimpleEffect.LOOK)
        return way

    def refuse(self, calls: Iterable[ToolCall], now: float) -> None:
        """Answer those of ``calls`` that are still owed an answer, with "cancelled".

        These calls are not run any more. Calls that were left running are skipped.
        """
        silent = Schedule.SILENT
        for call in calls:
            if call.id in self.calls.owed and call.id not in self.calls.left:
                self.answer(
                    call, CANCELLED, now, is_error=True, schedule=silent, wanted=False
                )

    def leave(
        self, call: ToolCall, now: float, *, interim: str | None, wanted: bool
    ) -> None:
        """Leave a call running that no turn waits for.

        Args:
          call: the call.
          now: the time on trio's clock, in seconds.
          interim: the answer that the model gets meanwhile; None leaves the call
            unanswered.
          wanted: whether the model should speak about the interim answer.
        """
        self.calls.leave(call)
        if interim is not None:
            schedule = Schedule.WHEN_IDLE if wanted else Schedule.SILENT
            way = self.answer(call, interim, now, schedule=schedule, wanted=wanted)
            if way is not Way.NOTHING:
                self.calls.put_off(call)

    def finish(self, late: LateOutput) -> None:
        """Record the outcome of a call that was left running."""
        self.calls.finish(late)
        self._tell_late(late.at)

    def _tell_late(self, now: float) -> None:
        """Tell the model the outcomes of calls that were left, if it may be told."""
        asks = self.capabilities.asks_for_responses
        if asks:  # results start no response by themselves
            for late in self._take_late():
                way = self.calls.settle_late(late, now)
                if way is not Way.NOTHING:
                    self._tell(late, way, reply=False)
                    self._unspoken.append(late)
        if not self._rests:
            return
        if asks:
            news, self._unspoken = self._unspoken, []
            if self._told and any(self._is_spoken_of(x, now) for x in news):
                self._report()
                self.respond()
            return
        ways = [(x, self.calls.settle_late(x, now)) for x in self._take_late()]
        told = [(x, way) for x, way in ways if way is not Way.NOTHING]
        # Results are sent before texts, and the last item is the one that asks for a
        # reply.
        told.sort(key=lambda one: (self._is_spoken_of(one[0], now), one[1] is Way.TEXT))
        reply = self._told and bool(told) and self._is_spoken_of(told[-1][0], now)
        if reply:
            self._report()
        for late, way in told:
            self._tell(late, way, reply=reply and late is told[-1][0])

    def _is_spoken_of(self, late: LateOutput, now: float) -> bool:
        # A model that answers every text could otherwise be told only much later.
        only_so = late.matters and not self.capabilities.silent_text
        return only_so or late.is_spoken_of(now)

    def _take_late(self) -> list[LateOutput]:
        late = self.calls.take_late()
        self.effects.extend(Settled(x.call.id) for x in late)
        return late

    def _tell(self, late: LateOutput, way: Way, *, reply: bool) -> None:
        if reply:
            self._responses.ask()
        if way is Way.RESULT:
            result = SendResult(
                call_id=late.call.id,
                name=late.call.name,
                output=late.output,
                is_error=late.is_error,
                schedule=late.schedule if reply else Schedule.SILENT,
            )
            self._send(result)
        elif way is Way.TEXT:
            text = SendText(earlier(late.call.name, late.output), reply=reply)
            self._send(text)  # sent as a command, so it reaches the next socket too

    def _report(self) -> None:
        """Begin an interaction in which the model reports the outcomes of calls."""
        self.effects.append(
            TellSpoken(self._begin(spoken=True, stop=False, reports=True))
        )

    def interrupt(self, heard: Mapping[str, float], *, of: I) -> None:
        """Stop the response to that interaction, if it is the current one.

        ``heard`` is as in `truncate`.
        """
        if of == self._interactions.current:
            self._stop()
        self.truncate(heard)

    def truncate(self, heard: Mapping[str, float]) -> None:
        """Tell the model how many seconds of these items were heard."""
        if self._connected and self.capabilities.truncates:
            for item, seconds in heard.items():
                self.effects.append(Truncate(item, int(seconds * 1000)))

    def instruct(self, text: str) -> None:
        """Set the system prompt."""
        if text != self.setup.instructions:
            self.setup = attrs.evolve(self.setup, instructions=text)
            if self._connected:
                self._send(SetInstructions(text))

    def declare(self, tools: Iterable[S2STool]) -> int:
        """Set the tools the model should have, and return their revision."""
        wanted = tuple(tools)[: self.capabilities.max_tools]
        if self.tools.want(wanted) and self._connected:
            self._declare()
        return self.tools.revision

    def become(self, capabilities: Capabilities, setup: Setup, *, anew: bool) -> None:
        """Continue with another model. ``anew``: it cannot resume."""
        self.capabilities = capabilities
        self.setup = attrs.evolve(
            self.setup,
            voice=setup.voice,
            language=setup.language,
            automatic=setup.automatic,
            handle=None if anew else self.setup.handle,
        )
        if anew:
            self._unanswered = Unanswered(capabilities.input_rate)
            if self._connected:
                self.effects.append(Replace())
        self.effects.append(
            SimpleEffect.LOOK
        )  # under the new settings the socket may be too old

    def switch(
        self, capabilities: Capabilities, voice: str | None, language: str | None
    ) -> None:
        """Prepare for a socket with another model, which knows nothing of the past."""
        if capabilities.input_rate != self.capabilities.input_rate:
            self._unanswered = Unanswered(capabilities.input_rate)
        self.capabilities = capabilities
        self.setup = attrs.evolve(
            self.setup, voice=voice, language=language, handle=None
        )
        self.unsent.adapt(asks=capabilities.asks_for_responses)

    # Events of the sockets.

    def next_setup(self) -> Setup:
        """Return what the next socket is opened with, except for the history."""
        return attrs.evolve(self.setup, tools=self.tools.offer())

    def opened(self, *, resumed: bool) -> None:
        """Record that a socket was opened, with the last setup of `next_setup`.

        ``resumed``: the model remembers the conversation so far.
        """
        replaced, self._connected = self._connected, True
        if replaced:
            self._leave_socket()
        # the history contains the texts, and a running turn tells its part again
        if not resumed:
            self.forget_handle()
            self.unsent.forget_texts()
            # the interaction is told of this socket and asks again
            if self._interactions.lost:
                self.unsent.forget_asking()
            self._known.lost()
        newer = self.tools.open()
        self.effects.append(SimpleEffect.TELL_TOOLS)
        if newer:
            self._declare()
        self._tell_known()
        for command in self.unsent.take():
            if isinstance(command, SendAudio):
                self._unanswered.hear(command.pcm)
                if command.again:
                    self._unanswered.begin()
            elif isinstance(command, Respond):
                self._responses.ask()
            self.effects.append(command)
        again = self._interactions.again
        if again is not None and not self.setup.automatic:
            self._utterances.begin(again, None)
        if replaced or self._interactions.lost:
            self._pass_on(LinkBack(resumed, heard_again=again is not None))
        self._interactions.lost = False

    def lost(self, closed: LinkClosed, now: float) -> None:
        """Record that the socket was lost.

        Its pending calls are answered as text on the next socket.
        """
        self.rested()
        suspects = self.calls.suspects(now)
        # a result probably caused the error: repeat it, shortened
        if closed.code == 1011:
            for name, short in suspects:
                self._tell_again(name, short, reply=not self._interactions.rest)
        self._interactions.lost = not self._interactions.rest
        self._pass_on(LinkLost(closed))
        self._tell_late(now)

    def rested(self) -> None:
        """Record that the socket was closed because it was not needed."""
        self._leave_socket()
        self._connected = self._speaking = False

    def gave_up(self, closed: LinkClosed) -> None:
        """Drop everything that waits for a socket, since no socket can be opened.

        No call is owed an answer afterwards.
        """
        self.unsent.give_up()
        self._forget_unanswered()
        self.calls.cancel(list(self.calls.owed))
        self._responses.forget()
        self._interactions.lost = self._speaking = False
        self._pass_on(LinkGone(closed))

    def forget_handle(self) -> None:
        """Record that the conversation cannot be resumed and needs its history."""
        self.setup = attrs.evolve(self.setup, handle=None)

    def _leave_socket(self) -> None:
        self._tools_due = False  # the next socket is opened with them
        self._keep_unanswered()
        self._utterances.forget_nameless()
        self.calls.lose_socket()
        self._responses.forget()
        self._interactions.carried_over = None

    def _keep_unanswered(self) -> None:
        """Keep the audio of an unanswered utterance for the next socket."""
        of = self._interactions
        listened = of.spoken is not None and not of.rest
        waited_for = listened or (self._speaking and self._told)
        of.again = None
        if not (pieces := self._unanswered.take()) or not waited_for:
            return
        commands: list[Command] = [SendAudio(pcm, again=True) for pcm in pieces]
        if not self.setup.automatic:
            commands.insert(0, SpeechBegins())
            if not self._speaking:
                commands.append(SpeechEnds())
        if not self._speaking:
            of.again = of.current
            if (
                self._responses.next is Next.ASKED
                and self.capabilities.asks_for_responses
            ):
                commands.append(Respond())
        self.unsent.keep_utterance(tuple(commands))
        self.effects.append(SimpleEffect.WANT)

    def _forget_unanswered(self) -> None:
        """Drop the unanswered utterance: no listener waits for an answer to it."""
        self._unanswered.settle()
        if self._interactions.again is not None:
            self._interactions.again = None
            self.unsent.keep_utterance(())

    # Events of the open socket.

    def receive(self, event: Event, now: float) -> None:
        """Handle an event of the open socket. ``now`` is in seconds."""
        match event:
            case AudioOut(response=response) | Spoken(response=response):
                if not self._responses.is_void(response):
                    self._pass_on(event)
                # these events are frequent, and none of them makes the conversation
                # quiet
                return
            case ToolsInForce(revision):
                self.tools.enforce(revision)
                self.effects.append(SimpleEffect.TELL_TOOLS)
            case HandleIssued(handle):
                self.setup = attrs.evolve(self.setup, handle=handle)
            case GoingAway(seconds):
                self.effects.append(Replace(seconds))
            case SpeechStarted():
                self._speaking = True
                self._unanswered.begin()
                if self._interactions.again is None:
                    self._hear_speech()
            case SpeechStopped(item):
                self._speaking = False
                if item is None or not self._utterances.knows(item):
                    self._has_spoken(item)
            case Committed(item):
                self._commit(item)
            case Interrupted():
                if self._responses.runs is not Runs.VOID:
                    self._hear_speech()
            case Heard(text, final, item):
                heard = self._utterances.hear(item, words := Words(text, final))
                self._understand(heard, words)
            case UsageSeen(usage):
                self.effects.append(usage)
            case Complaint():
                self.effects.append(event)
                self._pass_on(event)
            case ResponseStarted():
                self._start_response(event)
            case CallReady():
                # Where the wire asks for responses, a response with calls may still be
                # discarded, so its calls are taken from the event that ends it.
                if not self.capabilities.asks_for_responses:
                    calls = self.calls.collect(event.call, more=event.more)
                    self._call(event.response, calls, now)
            case ResponseEnded():
                self._end_response(event, now)
            case CallsCancelled(ids):
                if gone := self.calls.cancel(ids):
                    self._pass_on(CallsCancelled(gone))
            case InteractionEnded():
                self._responses.rest()
                self._pass_on(event)
            case _:
                self._pass_on(event)
        if self._tools_due and self._responses.runs is Runs.NOTHING:
            self._declare()
        self._tell_late(now)
        if self.quiet:
            self.effects.append(SimpleEffect.LOOK)

    def _start_response(self, event: ResponseStarted) -> None:
        if not self._speaking:
            self._unanswered.settle()
            self._interactions.again = None
        heard = event.heard
        if heard is not None and not self._utterances.knows(heard):
            self._hear_out(heard)  # an utterance that was not mentioned before
        if not self._responses.start(event.response):
            return
        self._unspoken.clear()  # the model knows these outcomes now
        if heard is None and self._interactions.rest:
            self._hear_out(None)  # the model speaks unasked
        self._pass_on(event)

    def _end_response(self, event: ResponseEnded, now: float) -> None:
        if event.usage is not None:
            self.effects.append(event.usage)
        if self.capabilities.asks_for_responses:
            calls = tuple(call for call in event.calls if self.calls.take(call))
            self._call(event.response, calls, now)
        for id_ in event.void:
            if self.calls.take(call := ToolCall(id_, "")):
                self.refuse((call,), now)
        if self._responses.end(event.response):
            self._pass_on(event)

    def _call(self, response: str, calls: tuple[ToolCall, ...], now: float) -> None:
        owed = tuple(call for call in calls if call.id in self.calls.owed)
        if self._responses.is_void(response) or self._interactions.rest:
            self.refuse(owed, now)
        elif owed:
            self._pass_on(CallsReady(response, owed))

    def _hear_speech(self) -> None:
        self._pass_on(BargedIn())
        self.effects.append(SimpleEffect.TELL_SPEECH)

    def _has_spoken(self, item: str | None) -> None:
        """Handle the end of a spoken utterance, heard for the first time or again."""
        again, self._interactions.again = self._interactions.again, None
        if again is not None:
            self._utterances.begin(again, item)
        else:
            self._hear_out(item, stop=self.capabilities.asks_for_responses)

    def _hear_out(self, item: str | None, *, stop: bool = False) -> None:
        """Begin the interaction that answers a spoken utterance.

        Args:
          item: the server's name of the utterance; None if it is not known yet.
          stop: whether we have to stop the response that was asked for before.
        """
        if not self._told:
            return
        heard = self._interactions.spoken = self._begin(spoken=True, stop=stop)
        words = self._utterances.begin(heard, item)
        # The words come first, because the owner may make a turn of them when told.
        if words is not None:
            self.effects.append(Understood(heard, words.text, words.final))
        self.effects.append(TellSpoken(heard))
        if words is not None:
            self.effects.append(Put(heard, Heard(words.text, words.final)))

    def _commit(self, item: str) -> None:
        heard = self._utterances.name(item)
        if heard is not None and (words := self._utterances.words(item)) is not None:
            self._understand(heard, words)

    def _understand(self, heard: I | None, words: Words) -> None:
        """Pass on the words of an interaction, if it is known; it may have ended."""
        if heard is not None:
            current = heard == self._interactions.current
            if words.final and current and not self._speaking:
                self._unanswered.settle()
            self.effects.append(Understood(heard, words.text, words.final))
            if heard in self._interactions.listening:
                self.effects.append(Put(heard, Heard(words.text, words.final)))

    def _begin(self, *, spoken: bool, stop: bool, reports: bool = False) -> I:
        self._pass_on(BargedIn())
        if stop and not self._interactions.rest:
            self._stop()
        self._responses.begin()
        began = self._new(spoken, reports)
        self._interactions.current, self._interactions.spoken = began, None
        # the interaction that used the lost socket is over
        self._interactions.lost = False
        self._interactions.listening.add(began)
        self._interactions.earlier = frozenset(self.calls.owed)
        self.effects.append(SimpleEffect.WANT)
        return began

    def _stop(self) -> None:
        cancels = self.capabilities.cancels and self._connected
        if not self._connected and self.unsent.withdraw_questions():
            self._responses.forget()  # the question was never sent
        elif self._responses.stop(cancels=cancels):
            self.effects.append(Cancel())

    def _declare(self) -> None:
        """Apply a change of the tools while a socket is open."""
        self._tools_due = False
        if self.capabilities.live_tools:
            if self._responses.runs is not Runs.NOTHING:
                self._tools_due = True
            else:
                self._send(SetTools(self.tools.wanted, self.tools.revision))
        elif self.tools.are_those_opened_with:  # the tools changed and changed back
            self.tools.enforce(self.tools.revision)
            self.effects += (SimpleEffect.KEEP_SOCKET, SimpleEffect.TELL_TOOLS)
        else:
            self.effects.append(Replace())

    def _tell_again(self, name: str, output: str, *, reply: bool) -> None:
        text = SendText(earlier(name, output), reply=reply)
        self.effects.append(SimpleEffect.WANT)
        if self._connected:
            self.effects.append(text)
        else:
            self.unsent.keep_text(text)

    def _send(self, command: Command) -> None:
        self.effects.append(SimpleEffect.WANT)
        if self._connected:
            self.effects.append(command)
        else:
            self.unsent.keep(command)

    def _mark(self, command: SpeechBegins | SpeechEnds) -> None:
        """Record, between pieces of audio, that speech starts or stops."""
        self.effects.append(SimpleEffect.WANT)
        if self._connected:
            self.effects.append(command)
        else:
            self.unsent.keep_audio(command)

    def _pass_on(self, event: Happening) -> None:
        """Deliver an event to the current interaction, if it still listens."""
        current = self._interactions.current
        if current is not None and current in self._interactions.listening:
            self.effects.append(Put(current, event))
