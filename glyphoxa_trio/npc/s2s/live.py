"""A conversation with a speech-to-speech model, over any number of sockets.

It belongs to the NPC's session, and so does what is owed in it: a socket that closes
takes nothing with it. Everything here is told at once and waits for nothing; the
sockets are opened and read in `Live.run`. Above 300 lines: whose event it is, and
whether it still counts, is decided from the same state.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Final

import attrs

import trio

from glyphoxa_trio.actors import Signal
from glyphoxa_trio.providers.llm import ErrorKind, Usage
from glyphoxa_trio.providers.s2s import (
    S2S,
    AudioOut,
    CallReady,
    CallsCancelled,
    Cancel,
    Capabilities,
    Command,
    Complaint,
    Event,
    GoingAway,
    HandleIssued,
    Heard,
    InteractionEnded,
    Interrupted,
    Line,
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
    Truncate,
    UsageSeen,
)
from glyphoxa_trio.tools.outcome import ToolCall

from .interaction import (
    BargedIn,
    Calls,
    Happening,
    Interaction,
    LinkBack,
    LinkGone,
    LinkLost,
)
from .ledger import Ledger, Way
from .sockets import LiveSettings, Socket, Sockets

CANCELLED: Final = '{"status": "cancelled", "message": "It is not wanted any more."}'
# An internal error so soon after a result was probably about it. Seconds.
_BLAMED: Final = 2.0
_SHORTENED: Final = 300  # characters of a result that is told again
_COMMANDS_KEPT: Final = 256


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


@attrs.frozen(eq=False, kw_only=True)
class Owner:
    """Whoever makes something of what the model hears.

    Args:
      spoken: told of each utterance that the server has heard; None ends each of them.
      speech: told when somebody begins to speak.
      history: what was said before, for a socket that has to be told.
      usage, complaint: told of tokens, and of what a server did not take.
    """

    spoken: Callable[[Interaction], None] | None
    speech: Callable[[], None] = lambda: None
    history: Callable[[], tuple[Line, ...]] = tuple
    usage: Callable[[Usage], None] = lambda _: None
    complaint: Callable[[Complaint], None] = lambda _: None


_NOBODY: Final = Owner(spoken=None)


@attrs.define(eq=False, kw_only=True)
class Live:
    """The conversation. `run` must run as long as it is used.

    Args:

    Somebody owns it (`belong_to`), or nobody is told of what it hears. ``fault`` says
    why there is no socket, if one was lost or could not be had.
    """

    provider: S2S
    instructions: str = ""
    voice: str | None = None
    language: str | None = None
    automatic: bool = True
    speaks: bool = True
    settings: LiveSettings = attrs.field(factory=LiveSettings)
    _owner: Owner = attrs.field(default=_NOBODY, init=False)
    fault: LinkClosed | None = attrs.field(default=None, init=False)
    _sockets: Sockets = attrs.field(init=False)
    _handle: str | None = attrs.field(default=None, init=False)
    _tools: tuple[S2STool, ...] = attrs.field(default=(), init=False)
    _revision: int = attrs.field(default=0, init=False)
    _in_force: int = attrs.field(default=0, init=False)
    _declared: int = attrs.field(default=0, init=False)  # on the newest socket
    _enforced: Signal = attrs.field(factory=Signal, init=False)
    _ledger: Ledger = attrs.field(factory=Ledger, init=False)
    _answers: Counter[Way] = attrs.field(factory=Counter, init=False)
    _told: deque[tuple[float, str, str]] = attrs.field(
        factory=lambda: deque(maxlen=16), init=False
    )
    _pending: deque[Command] = attrs.field(factory=deque, init=False)
    _audio: deque[bytes] = attrs.field(factory=deque, init=False)
    _audio_bytes: int = attrs.field(default=0, init=False)
    _audio_dropped: int = attrs.field(default=0, init=False)
    _commands_dropped: int = attrs.field(default=0, init=False)
    _texts: deque[Command] = attrs.field(factory=lambda: deque(maxlen=16), init=False)
    _asked: bool = attrs.field(default=False, init=False)  # and not begun yet
    _unwanted: bool = attrs.field(default=False, init=False)  # the next response
    # Calls that were owed when the utterance began that is answered now.
    _earlier: frozenset[str] = attrs.field(default=frozenset(), init=False)
    _void: set[str] = attrs.field(factory=set, init=False)  # responses for nobody
    _lost: bool = attrs.field(default=False, init=False)  # the turn lost its socket
    _ready: list[ToolCall] = attrs.field(factory=list, init=False)
    _responding: str | None = attrs.field(default=None, init=False)
    _speaking: bool = attrs.field(default=False, init=False)
    _current: Interaction | None = attrs.field(default=None, init=False)
    _unheard: Interaction | None = attrs.field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self._sockets = Sockets(self.provider, self.settings, self)

    @property
    def owned(self) -> bool:
        """Whether somebody is told of what it hears."""
        return self._owner.spoken is not None

    def belong_to(self, owner: Owner | None) -> None:
        """Tell this one from now on, or nobody."""
        self._owner = owner or _NOBODY

    def ignore_speech(self) -> None:
        """Whatever is spoken from now on is ended at once."""
        self._owner = attrs.evolve(self._owner, spoken=None)

    def history(self) -> tuple[Line, ...]:
        """What was said before, as its owner has it."""
        return self._owner.history()

    async def run(self) -> None:
        """Keep a socket while one is wanted. Ends when it is cancelled."""
        await self._sockets.run()

    @property
    def capabilities(self) -> Capabilities:
        return self.provider.capabilities

    @property
    def quiet(self) -> bool:
        """Nobody speaks, no turn runs, and nothing is owed."""
        return (
            self._rests
            # What is said for nobody may be cut short.
            and (self._responding is None or self._responding in self._void)
            and not self._speaking
            and not self._ledger.owed
        )

    @property
    def _rests(self) -> bool:
        return self._current is None or self._current.over

    # What a turn and a microphone ask for. None of it waits.

    def begin(self) -> Interaction:
        """What comes from now on belongs to this utterance, until `end`."""
        return self._begin(Interaction(), stop=True)

    def end(self, interaction: Interaction) -> None:
        """Nobody listens to it any more.

        A response that has begun since is another utterance's; a call that nobody has
        taken is answered, and not run.
        """
        left = interaction.end()
        for at, event in enumerate(left):
            if isinstance(event, ResponseStarted) and event.response not in self._void:
                if self._current is interaction and self._owner.spoken is not None:
                    self._hear_out()
                    for later in left[at:]:
                        self._pass_on(later)
                    del left[at:]
                break
        for event in left:
            if isinstance(event, Calls):
                self.refuse(event.calls)
        self._sockets.look()

    def open(self) -> None:
        """Somebody is going to speak: have a socket by then."""
        self._sockets.want()

    def hear(self, pcm: bytes) -> None:
        """A piece of the microphone, at the capabilities' ``input_rate``."""
        if not self._sockets.send(SendAudio(pcm)):
            self._audio.append(pcm)
            self._audio_bytes += len(pcm)
            most = int(self.settings.audio * self.capabilities.input_rate) * 2
            while len(self._audio) > 1 and self._audio_bytes > most:
                self._audio_bytes -= len(self._audio.popleft())
                self._audio_dropped += 1

    def speech_begins(self) -> None:
        """Somebody begins to speak, says the embedder; not when ``automatic``."""
        self._hear_speech()
        self._speaking = True
        self._send(SpeechBegins())

    def speech_ends(self) -> None:
        """They have finished. `respond` asks for the answer."""
        self._speaking = False
        self._send(SpeechEnds())
        self._hear_out(stop=self.capabilities.asks_for_responses)

    def say(self, line: Line, *, reply: bool = True) -> None:
        """Something said in text. With ``reply`` it is to be answered."""
        self._send(SendText(line, reply=reply))
        if reply:
            self.respond()

    def remember(self, line: Line) -> None:
        """Something was said that the model did not hear, and is not to answer.

        Without a socket it is in the history of the next one, or waits for it if the
        model goes on where it was.
        """
        text = SendText(line, reply=False)
        socket = self._sockets.current
        if socket is not None:
            socket.link.send(text)
        elif self._handle is not None:
            self._texts.append(text)

    def become(self, successor: Live) -> None:
        """Go on with another model, or voice, as the configuration has it now."""
        same = successor._spoken_with == self._spoken_with
        # Also if it speaks the same way: the next socket may need another key.
        self.provider = self._sockets.provider = successor.provider
        self.voice, self.language = successor.voice, successor.language
        self.automatic = successor.automatic
        self.settings = self._sockets.settings = successor.settings
        if not same:
            self._handle = None
            if self._sockets.current is not None:
                self._sockets.replace(within=self.settings.swap)
        self._sockets.look()  # a socket may be too old or idle by the new settings

    @property
    def _spoken_with(self) -> tuple[str, str | None, str | None, bool]:
        """What a socket was opened with: if it changes, the socket is replaced."""
        return self.provider.label, self.voice, self.language, self.automatic

    def respond(
        self, *, instructions: str | None = None, tools_forbidden: bool = False
    ) -> None:
        """The model is to go on, where it does not do so by itself."""
        self._asked = True
        if self.capabilities.asks_for_responses:
            self._send(
                Respond(
                    instructions=instructions,
                    tools_forbidden=tools_forbidden and self.capabilities.forbids_tools,
                )
            )

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
        way = self._ledger.settle(call.id)
        self._answers[way] += 1
        silent = schedule is Schedule.SILENT
        asks = self.capabilities.asks_for_responses
        if not wanted and not asks and call.id not in self._earlier:
            self._unwanted = True  # some speak of it all the same
        if way is Way.RESULT:
            self._told.append((trio.current_time(), call.name, output))
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
            self._tell_again(call.name, output, reply=not silent)
        self._sockets.look()
        return way

    def refuse(self, calls: Iterable[ToolCall]) -> None:
        """Answer those that are still owed one: they are not run any more."""
        for call in calls:
            if self._ledger.owes(call.id):
                self.answer(
                    call,
                    CANCELLED,
                    is_error=True,
                    schedule=Schedule.SILENT,
                    wanted=False,
                )

    def interrupt(self, heard: Mapping[str, float], *, of: Interaction) -> None:
        """Stop what is being said to that utterance. ``heard``: seconds of each item
        that was cut.

        What the model says all the same is for nobody. Once another utterance has
        begun, what is said is said to that.
        """
        if of is self._current:
            self._stop()
        self.truncate(heard)

    def _stop(self) -> None:
        cancels = self.capabilities.cancels
        stop = self._asked or self._responding is not None
        if self._responding is not None:
            self._void.add(self._responding)
        elif self._asked:
            self._unwanted = not cancels
        self._asked = False
        socket = self._sockets.current
        if stop and cancels and socket is not None:
            socket.link.send(Cancel())

    def truncate(self, heard: Mapping[str, float]) -> None:
        """Of these items only so many seconds were heard: the model is not to think
        that it said more."""
        socket = self._sockets.current
        if socket is not None and self.capabilities.truncates:
            for item, seconds in heard.items():
                socket.link.send(Truncate(item, int(seconds * 1000)))

    def set_instructions(self, text: str) -> None:
        if text != self.instructions:
            self.instructions = text
            if self._sockets.current is not None:
                self._send(SetInstructions(text))

    def set_tools(self, tools: Iterable[S2STool]) -> int:
        """Declare these in place of the others; the last one counts.

        Returns the revision, for `tools_in_force`.
        """
        wanted = tuple(tools)[: self.capabilities.max_tools]
        if wanted == self._tools:
            return self._revision
        self._tools = wanted
        self._revision += 1
        if self._sockets.current is not None:
            self._declare()
        return self._revision

    def is_in_force(self, revision: int) -> bool:
        """Whether the model has been told of these tools, or of later ones."""
        return self._in_force >= revision

    async def tools_in_force(self, revision: int) -> None:
        """Return once they are declared. Has no end of its own."""
        self._sockets.want()
        await self._enforced.until(lambda: self.is_in_force(revision))

    def statistics(self) -> LiveStatistics:
        return LiveStatistics(
            connected=self._sockets.current is not None,
            sockets=self._sockets.opened,
            failures=self._sockets.failed,
            answers=dict(self._answers),
            audio_dropped=self._audio_dropped,
            commands_dropped=self._commands_dropped,
            owed=len(self._ledger.owed),
        )

    # What becomes of the sockets.

    def setup(self) -> Setup:
        """What the next socket begins with."""
        self._declared = self._revision
        return Setup(
            instructions=self.instructions,
            tools=self._tools,
            voice=self.voice,
            language=self.language,
            automatic=self.automatic,
            speaks=self.speaks,
            history=() if self._handle is not None else self.history(),
            handle=self._handle,
        )

    def opened(self, socket: Socket, old: Socket | None, *, resumed: bool) -> None:
        """Say on it what waited for it."""
        self.fault = None
        if old is not None:
            self._ledger.gone(old.number)
            self._forget_responses()
        if not resumed:  # its history has it, and a turn that runs tells it again
            self._handle = None
            self._texts.clear()
        self._enforce(self._declared)
        if self._declared != self._revision:
            self._declare()
        for waiting in (self._pending, self._texts):
            while waiting:
                self._send(waiting.popleft())
        while self._audio:
            socket.link.send(SendAudio(self._audio.popleft()))
        self._audio_bytes = 0
        if self._current is not None and (old is not None or self._lost):
            self._current.put(LinkBack(resumed))
        self._lost = False

    def lost(self, socket: Socket | None, closed: LinkClosed) -> None:
        """What it is owed is told as text on the next one."""
        self.fault = closed
        self._forget_responses()
        self._speaking = False
        if socket is not None:
            self._ledger.gone(socket.number)
            self._blame(closed)
            if self._current is not None:
                self._lost = not self._current.over
                self._current.put(LinkLost(closed))

    def gave_up(self, closed: LinkClosed) -> None:
        """Nothing is owed any more, since nobody can be told."""
        self._pending.clear()
        self._texts.clear()
        self._lost = False
        self._ledger.cancelled([call.id for call in self._ledger.owed])
        if self._current is not None:
            self._current.put(LinkGone(closed))

    def refused(self, closed: LinkClosed) -> None:
        """The old socket serves on, with the tools that it has."""
        self.fault = closed

    def handle_failed(self) -> None:
        """The next socket is told what was said."""
        self._handle = None

    def _forget_responses(self) -> None:
        self._responding, self._asked, self._unwanted = None, False, False
        self._void.clear()
        self._ledger.cancelled([call.id for call in self._ready])  # half a message
        self._ready.clear()

    def _blame(self, closed: LinkClosed) -> None:
        """Tell again, in short, what the server probably died of (1011)."""
        if closed.code == 1011:
            now = trio.current_time()
            for at, name, output in self._told:
                if now - at < _BLAMED:
                    short = output[:_SHORTENED]
                    self._tell_again(name, short, reply=not self._rests)
        self._told.clear()

    def _tell_again(self, name: str, output: str, *, reply: bool) -> None:
        line = Line("system", f"Result of the earlier call of {name}: {output}")
        text = SendText(line, reply=reply)
        if not self._sockets.send(text):
            self._texts.append(text)

    def _declare(self) -> None:
        """The tools have changed while there is a socket."""
        socket = self._sockets.current
        assert socket is not None
        if self.capabilities.live_tools:
            self._send(SetTools(self._tools, self._revision))
        elif self._tools == socket.setup.tools:
            self._sockets.keep()  # there and back again
            self._enforce(self._revision)
        else:
            self._sockets.replace(within=self.settings.swap)

    def _enforce(self, revision: int) -> None:
        if revision > self._in_force:
            self._in_force = revision
            self._enforced.set()

    def _send(self, command: Command) -> None:
        try:
            sent = self._sockets.send(command)
        except ValueError as error:  # the wire does not take it, now or ever
            self._complain(error)
            return
        if not sent:
            if len(self._pending) >= _COMMANDS_KEPT:
                self._pending.popleft()
                self._commands_dropped += 1
            self._pending.append(command)

    # What the socket says.

    def take(self, socket: Socket, event: Event) -> None:
        """What the socket that counts has said."""
        match event:
            case ToolsInForce(revision):
                self._enforce(revision)
            case HandleIssued(handle):
                self._handle = handle
            case GoingAway(seconds):
                self._sockets.replace(within=max(0.0, seconds - self.settings.leave))
            case SpeechStarted():
                self._speaking = True
                self._hear_speech()
            case SpeechStopped():
                self._speaking = False
                self._hear_out(stop=self.capabilities.asks_for_responses)
            case Interrupted():
                if self._responding not in self._void:
                    self._hear_speech()
            case Heard(text, final):
                self._understand(text, final=final)
            case UsageSeen(usage):
                self._count(usage)
            case Complaint():
                self._tell_complaint(event)
            case ResponseStarted(response):
                self._start_response(response)
            case CallReady():
                self._call(socket, event)
            case AudioOut(response=response) | Spoken(response=response):
                if response not in self._void:
                    self._pass_on(event)
            case ResponseEnded():
                self._end_response(socket, event)
            case CallsCancelled(ids):
                if gone := self._ledger.cancelled(ids):
                    ended = tuple(call.id for call in gone)
                    self._pass_on(CallsCancelled(ended))
            case InteractionEnded():
                self._responding = None
                self._pass_on(event)
            case _:
                self._pass_on(event)
        if self.quiet:
            self._sockets.look()

    def _start_response(self, response: str) -> None:
        self._responding, self._asked = response, False
        if self._unwanted:
            self._unwanted = False
            self._void.add(response)
        else:
            if self._current is None or self._current.over:
                self._hear_out()  # it speaks by itself
            self._pass_on(ResponseStarted(response))

    def _end_response(self, socket: Socket, event: ResponseEnded) -> None:
        if self._responding == event.response:
            self._responding = None
        if event.usage is not None:
            self._count(event.usage)
        void = event.response in self._void
        self._void.discard(event.response)
        if self.capabilities.asks_for_responses:
            for call in event.calls:
                self._ledger.take(call, socket.number)
            self._call_all(event.response, event.calls, void=void)
        for id_ in event.void:
            call = ToolCall(id_, "")
            if self._ledger.take(call, socket.number):
                self.refuse((call,))
        if not void:
            self._pass_on(event)

    def _call(self, socket: Socket, event: CallReady) -> None:
        """A call that is complete, where no response is discarded once it calls;
        elsewhere it waits for the end of its own."""
        if self.capabilities.asks_for_responses:
            return
        if self._ledger.take(event.call, socket.number):
            self._ready.append(event.call)
        if not event.more:
            calls, self._ready = tuple(self._ready), []
            void = event.response in self._void
            self._call_all(event.response, calls, void=void)

    def _call_all(
        self, response: str, calls: tuple[ToolCall, ...], *, void: bool
    ) -> None:
        owed = tuple(call for call in calls if self._ledger.owes(call.id))
        if void or self._current is None or self._current.over:
            self.refuse(owed)
        elif owed:
            self._current.put(Calls(response, owed))

    def _begin(self, interaction: Interaction, *, stop: bool) -> Interaction:
        self._barge_in()
        if stop and not self._rests:
            self._stop()
        self._current = interaction
        self._asked = self._unwanted = False
        self._earlier = frozenset(call.id for call in self._ledger.owed)
        self._sockets.want()
        return interaction

    def _hear_speech(self) -> None:
        self._barge_in()
        self._owner.speech()

    def _barge_in(self) -> None:
        if self._current is not None:
            self._current.put(BargedIn())

    def _hear_out(self, *, stop: bool = False) -> None:
        """Somebody has spoken: what comes from now on answers them. ``stop``: what was
        asked for before is to be stopped by us."""
        if self._owner.spoken is not None:
            heard = Interaction(spoken=True, automatic=self.automatic)
            self._unheard = self._begin(heard, stop=stop)
            self._owner.spoken(heard)

    def _understand(self, text: str, *, final: bool) -> None:
        # Transcripts are not ordered: this one may come before the turn, in it, or when
        # it is over. Where speech is not announced, it is the first sign of it.
        if self._unheard is None:
            self._hear_out()
        heard = self._unheard
        if heard is not None:
            heard.understand(text, final=final)
            heard.put(Heard(heard.words, final))
            if final:
                self._unheard = None

    def _complain(self, error: ValueError) -> None:
        kind = ErrorKind.BAD_REQUEST
        told = Complaint(kind=kind, code="refused", detail=str(error))
        self._tell_complaint(told)

    def _tell_complaint(self, complaint: Complaint) -> None:
        self._owner.complaint(complaint)
        self._pass_on(complaint)

    def _count(self, usage: Usage) -> None:
        self._owner.usage(usage)

    def _pass_on(self, event: Happening) -> None:
        if self._current is not None:
            self._current.put(event)


@asynccontextmanager
async def open_live(live: Live) -> AsyncIterator[Live]:
    """Run a conversation until the block is left; its sockets are closed then."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(live.run)
        try:
            yield live
        finally:
            nursery.cancel_scope.cancel("the conversation was left")
