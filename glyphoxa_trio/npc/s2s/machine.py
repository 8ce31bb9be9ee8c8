"""What happens in a conversation with a speech-to-speech model: pure state.

No socket, no clock, no task: the machine is told one thing that has happened, and what
is to be done about it is in its `effects` then, in order. `shell` carries that out.

Theory of operation. The conversation outlives its sockets, of which one is open or
none. What a server says belongs to the *current* interaction, the answer to the
utterance that began last; few servers say to whom they speak, so what belongs to whom
is decided here and nowhere else.

*Interactions.* One begins when somebody writes (`begin`), when somebody has spoken
(whose words have a name then, or get one later), and when the model begins a response
to something that no interaction answers: by its name, or since nobody listens to the
current one. Words (`utterances`) are filled in whenever they come, by that name; they
never begin, end or stop anything. What an interaction that has ended did not
take is looked through once more: a response that is wanted and that it did not see is
another utterance's, and calls that nobody took are answered, and not run.

*Responses.* Which one is wanted is the table in `responses`. Nothing of a void one is
passed on; its calls are answered, and not run.

*Calls.* Each is answered once (`pending_calls`): as a result on the socket that asked,
as text on a later one, or not at all, because its server has cancelled it, nobody can
be told, or the whole message of it never came. One that takes longer than its turn is
left (`leave`). What it came to (`finish`) is told when nobody is answered, nothing is
said and nobody speaks; where results ask for nothing, at once. All that is told in one
moment has one reply, in an interaction of its own, unless the model has begun to speak
since; what is silent, or older than 30 s by then, asks for none.

*Tools* are revisions, and what is in force never goes back (`tool_revisions`). Where
they can be replaced on an open socket, that waits until the model says nothing: several
changes until then are one.

*The socket and the microphone*::

                    no socket                        a socket
    a command       waits (`unsent`), wants one      is sent
    opened          what waits is sent               and the old one is lost first
    lost            -                                what runs and what is asked for is
                                                     forgotten, calls become text
    given up        nothing waits, nothing is owed   -

    SpeechStarted, SpeechBegins    somebody SPEAKS: the current interaction is told
    SpeechStopped, SpeechEnds      nobody does: another interaction begins
    the socket is lost             nobody does

An effect may come too late for its interaction, since whoever is told of something may
end one: the shell says so (`not_taken`), and calls that were in it are answered.

Above 300 lines: whose event it is, and whether it still counts, is one decision.
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

CANCELLED: Final = '{"status": "cancelled", "message": "It is not wanted any more."}'

I = TypeVar("I")  # noqa: E741  an interaction


def earlier(name: str, output: str) -> TranscriptLine:
    """A result that cannot be given as one. As data, and not in the system's name: what
    a tool has said is no instruction."""
    return TranscriptLine(
        "user", f"(Result of the earlier call of {name}, as data: {output})"
    )


@attrs.define(eq=False)
class Interactions(Generic[I]):
    """Who is being answered.

    ``listening`` are those that have not ended; ``earlier`` are the calls that were
    owed when the current one began; ``lost``: its socket was lost, and it was not told
    of another one yet; ``carried_over``: the response that it took over from another
    one; ``spoken``: the current one, if it was spoken; ``again``: the one whose words a
    new socket is hearing again.
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
        """Nobody listens to what the model says."""
        return self.current not in self.listening


@attrs.define(eq=False, kw_only=True)
class LiveMachine(Generic[I]):
    """The state of one conversation.

    Args:
      new: makes an interaction; it is told whether it was spoken, and whether it is of
        what calls came to.
      setup: what a socket begins with, but for the tools and what was said.
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
    _told: bool = attrs.field(default=False, init=False)  # somebody, of what is spoken
    _tools_due: bool = attrs.field(default=False, init=False)
    _known: KnownContext = attrs.field(factory=KnownContext, init=False)
    _unspoken: list[LateOutput] = attrs.field(factory=list, init=False)  # and told

    def __attrs_post_init__(self) -> None:
        self._unanswered = Unanswered(self.capabilities.input_rate)

    @property
    def quiet(self) -> bool:
        """Nobody speaks, no turn runs, and nothing is owed."""
        return self._rests and not self.calls.owed

    @property
    def _rests(self) -> bool:
        """Nobody is answered, nothing is said to anybody, and nobody speaks. What is
        said for nobody may be cut short."""
        said = self._responses.runs is Runs.WANTED
        return self._interactions.rest and not said and not self._speaking

    @property
    def answers(self) -> bool:
        """What is spoken is answered without being asked."""
        return self.setup.automatic and self.capabilities.answers_speech

    def tell_spoken(self, *, told: bool) -> None:
        """Somebody makes something of what is spoken from now on, or nobody does."""
        self._told = told

    # What a turn and a microphone ask for.

    def begin(self) -> I:
        """Something is written: what comes from now on is the answer to it."""
        self._forget_unanswered()
        return self._begin(spoken=False, stop=True)

    def end(self, interaction: I, left: Sequence[Happening], now: float) -> None:
        """Nobody listens to it any more, and ``left`` was not taken."""
        current = interaction == self._interactions.current
        self._interactions.listening.discard(interaction)
        if current and not self._speaking:
            self._forget_unanswered()
        for at, event in enumerate(left):
            if isinstance(event, ResponseStarted) and not self._responses.is_void(
                event.response
            ):
                # Whoever did not want it either is not followed by a third.
                once = event.response != self._interactions.carried_over
                # Nor is an answer to the words of this one anybody else's.
                if current and self._told and once and event.heard is None:
                    self._interactions.carried_over = event.response
                    self._hear_out(None)
                    offered, left = left[at:], left[:at]
                    for later in offered:
                        if isinstance(later, Heard):  # these words stay here
                            continue
                        of = getattr(later, "response", None)
                        if of is None or not self._responses.is_void(of):
                            self._pass_on(later)
                        else:  # another one, which was stopped
                            left = [*left, later]
                break
        for event in left:
            if isinstance(event, CallsReady):
                self.refuse(event.calls, now)
        self._tell_late(now)
        self.effects.append(SimpleEffect.LOOK)

    def not_taken(self, put: Put[I], now: float) -> None:
        """It has ended meanwhile, or listens no more."""
        self._interactions.listening.discard(put.interaction)
        if isinstance(put.happening, CallsReady):
            self.refuse(put.happening.calls, now)

    def hear(self, pcm: bytes, *, speech: bool = True) -> None:
        """A piece of the microphone. Nothing is lost if one without ``speech`` is."""
        if self._connected:
            self._unanswered.hear(pcm)
            self.effects.append(SendAudio(pcm))
        else:
            self.unsent.keep_audio(SendAudio(pcm), matters=speech)

    def speech_begins(self) -> None:
        self._hear_speech()
        self._interactions.again = None
        self._speaking = True
        self._unanswered.begin()
        self._mark(SpeechBegins())

    def speech_ends(self) -> None:
        self._speaking = False
        self._mark(SpeechEnds())
        self._hear_out(None, stop=self.capabilities.asks_for_responses)

    def say(self, line: TranscriptLine, *, reply: bool) -> None:
        self._send(SendText(line, reply=reply))
        if reply:
            self.respond()

    def tell(
        self, line: TranscriptLine, *, reply: bool = False, kept: bool = False
    ) -> None:
        """Something that nobody has said to it. With ``reply`` it is to speak of it.

        Without a socket it is in the history of the next one, or waits for it if the
        model goes on where it was; in any case if it is ``kept``.
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
        """This holds at the moment; only what has changed is told."""
        self._known.holds(text)
        if self._connected:
            self._tell_known()

    def _tell_known(self) -> None:
        self.effects.extend(self._known.tell(forgets=self.capabilities.forgets_text))

    def respond(
        self, *, instructions: str | None = None, tools_forbidden: bool = False
    ) -> None:
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
        """Answer a call, once. Unless it is ``wanted``, what the model says to it is
        for nobody."""
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
        """Answer those that are still owed one: they are not run any more."""
        silent = Schedule.SILENT
        for call in calls:
            if call.id in self.calls.owed and call.id not in self.calls.left:
                self.answer(
                    call, CANCELLED, now, is_error=True, schedule=silent, wanted=False
                )

    def leave(
        self, call: ToolCall, now: float, *, interim: str | None, wanted: bool
    ) -> None:
        """It goes on, and no turn waits for it. ``interim`` is its answer meanwhile."""
        self.calls.leave(call)
        if interim is not None:
            schedule = Schedule.WHEN_IDLE if wanted else Schedule.SILENT
            way = self.answer(call, interim, now, schedule=schedule, wanted=wanted)
            if way is not Way.NOTHING:
                self.calls.put_off(call)

    def finish(self, late: LateOutput) -> None:
        """What a call that was left came to."""
        self.calls.finish(late)
        self._tell_late(late.at)

    def _tell_late(self, now: float) -> None:
        """Tell what calls came to that were left, if this is a moment for it."""
        asks = self.capabilities.asks_for_responses
        if asks:  # nothing is said to a result by itself
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
        # A result asks before a text does, and the last of all is spoken of.
        told.sort(key=lambda one: (self._is_spoken_of(one[0], now), one[1] is Way.TEXT))
        reply = self._told and bool(told) and self._is_spoken_of(told[-1][0], now)
        if reply:
            self._report()
        for late, way in told:
            self._tell(late, way, reply=reply and late is told[-1][0])

    def _is_spoken_of(self, late: LateOutput, now: float) -> bool:
        # A model that answers all text would not be told in time without.
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
            self._send(text)  # no turn tells it again, whatever socket comes next

    def _report(self) -> None:
        """What comes from now on is said of what calls came to."""
        self.effects.append(
            TellSpoken(self._begin(spoken=True, stop=False, reports=True))
        )

    def interrupt(self, heard: Mapping[str, float], *, of: I) -> None:
        """Stop what is being said to that interaction, if it is the current one."""
        if of == self._interactions.current:
            self._stop()
        self.truncate(heard)

    def truncate(self, heard: Mapping[str, float]) -> None:
        if self._connected and self.capabilities.truncates:
            for item, seconds in heard.items():
                self.effects.append(Truncate(item, int(seconds * 1000)))

    def instruct(self, text: str) -> None:
        if text != self.setup.instructions:
            self.setup = attrs.evolve(self.setup, instructions=text)
            if self._connected:
                self._send(SetInstructions(text))

    def declare(self, tools: Iterable[S2STool]) -> int:
        """Returns the revision of these tools."""
        wanted = tuple(tools)[: self.capabilities.max_tools]
        if self.tools.want(wanted) and self._connected:
            self._declare()
        return self.tools.revision

    def become(self, capabilities: Capabilities, setup: Setup, *, anew: bool) -> None:
        """Go on with this model. ``anew``: it cannot take up what there is."""
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
        )  # a socket may be too old by the new settings

    def switch(
        self, capabilities: Capabilities, voice: str | None, language: str | None
    ) -> None:
        """The next socket is of another model, which knows nothing of all this."""
        if capabilities.input_rate != self.capabilities.input_rate:
            self._unanswered = Unanswered(capabilities.input_rate)
        self.capabilities = capabilities
        self.setup = attrs.evolve(
            self.setup, voice=voice, language=language, handle=None
        )
        self.unsent.adapt(asks=capabilities.asks_for_responses)

    # What becomes of the sockets.

    def next_setup(self) -> Setup:
        """What the next socket begins with, but for what was said."""
        return attrs.evolve(self.setup, tools=self.tools.offer())

    def opened(self, *, resumed: bool) -> None:
        """A socket is open, with the setup that was asked for last."""
        replaced, self._connected = self._connected, True
        if replaced:
            self._leave_socket()
        if not resumed:  # its history has it, and a turn that runs tells it again
            self.forget_handle()
            self.unsent.forget_texts()
            if self._interactions.lost:  # who is told of this socket asks again
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
        """The socket is gone; what it is owed is told as text on the next one."""
        self.rested()
        suspects = self.calls.suspects(now)
        if closed.code == 1011:  # it probably died of a result: that again, in short
            for name, short in suspects:
                self._tell_again(name, short, reply=not self._interactions.rest)
        self._interactions.lost = not self._interactions.rest
        self._pass_on(LinkLost(closed))
        self._tell_late(now)

    def rested(self) -> None:
        """The socket was closed, since it was not wanted."""
        self._leave_socket()
        self._connected = self._speaking = False

    def gave_up(self, closed: LinkClosed) -> None:
        """Nobody can be told: nothing waits, and nothing is owed."""
        self.unsent.give_up()
        self._forget_unanswered()
        self.calls.cancel(list(self.calls.owed))
        self._responses.forget()
        self._interactions.lost = self._speaking = False
        self._pass_on(LinkGone(closed))

    def forget_handle(self) -> None:
        """The conversation cannot be resumed: the next socket is told what was said."""
        self.setup = attrs.evolve(self.setup, handle=None)

    def _leave_socket(self) -> None:
        self._tools_due = False  # the next one begins with them
        self._keep_unanswered()
        self._utterances.forget_nameless()
        self.calls.lose_socket()
        self._responses.forget()
        self._interactions.carried_over = None

    def _keep_unanswered(self) -> None:
        """What this socket has heard for nothing: the next one hears it."""
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
        """Nobody waits for an answer to it any more."""
        self._unanswered.settle()
        if self._interactions.again is not None:
            self._interactions.again = None
            self.unsent.keep_utterance(())

    # What the socket says.

    def receive(self, event: Event, now: float) -> None:
        """What the open socket has said."""
        match event:
            case AudioOut(response=response) | Spoken(response=response):
                if not self._responses.is_void(response):
                    self._pass_on(event)
                return  # often, and nobody is quieter for it
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
                # Where a response that calls can still be discarded, its end says so.
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
            self._hear_out(heard)  # of which nothing was said before
        if not self._responses.start(event.response):
            return
        self._unspoken.clear()  # it knows of them
        if heard is None and self._interactions.rest:
            self._hear_out(None)  # it speaks by itself
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
        """The server has heard somebody out, for the first time or again."""
        again, self._interactions.again = self._interactions.again, None
        if again is not None:
            self._utterances.begin(again, item)
        else:
            self._hear_out(item, stop=self.capabilities.asks_for_responses)

    def _hear_out(self, item: str | None, *, stop: bool = False) -> None:
        """Somebody has spoken: what comes from now on answers them. ``stop``: what was
        asked for before is to be stopped by us."""
        if not self._told:
            return
        heard = self._interactions.spoken = self._begin(spoken=True, stop=stop)
        words = self._utterances.begin(heard, item)
        # Before anybody is told of it, who may make a turn of its words.
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
        """The words of that interaction, if it is known which; it may be over."""
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
        self._interactions.lost = False  # the one whose socket it was is over
        self._interactions.listening.add(began)
        self._interactions.earlier = frozenset(self.calls.owed)
        self.effects.append(SimpleEffect.WANT)
        return began

    def _stop(self) -> None:
        cancels = self.capabilities.cancels and self._connected
        if not self._connected and self.unsent.withdraw_questions():
            self._responses.forget()  # it was never asked
        elif self._responses.stop(cancels=cancels):
            self.effects.append(Cancel())

    def _declare(self) -> None:
        """The tools have changed while there is a socket."""
        self._tools_due = False
        if self.capabilities.live_tools:
            if self._responses.runs is not Runs.NOTHING:
                self._tools_due = True
            else:
                self._send(SetTools(self.tools.wanted, self.tools.revision))
        elif self.tools.are_those_opened_with:  # there and back again
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
        """Somebody begins or ends to speak here, among what the microphone hears."""
        self.effects.append(SimpleEffect.WANT)
        if self._connected:
            self.effects.append(command)
        else:
            self.unsent.keep_audio(command)

    def _pass_on(self, event: Happening) -> None:
        """To whoever listens to the answer, if anybody does."""
        current = self._interactions.current
        if current is not None and current in self._interactions.listening:
            self.effects.append(Put(current, event))
