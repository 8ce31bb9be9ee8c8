"""The Gemini Live protocol without I/O: commands in, messages in and out, events out.

`messages` builds messages, and `turn` interprets the model's turns; this module decides
what may be sent when, by the model's profile.

Text that requests no answer would stop the model in the middle of a word, or make it
drop a call that it waits for. So such text is held until the model has finished; if the
protocol has no text without an answer, until text is sent that requests one.
"""

from __future__ import annotations

import uuid
from collections import Counter, deque
from collections.abc import Mapping
from typing import Any, Final

import attrs

from glyphoxa_trio.providers.live_wire import Frame, Lane
from glyphoxa_trio.providers.llm import ErrorKind
from glyphoxa_trio.providers.s2s import (
    Calling,
    Cancel,
    Command,
    Committed,
    Event,
    GoingAway,
    HandleIssued,
    LinkClosed,
    Ready,
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
    ToolsInForce,
    TranscriptLine,
    UsageSeen,
)
from glyphoxa_trio.providers.schemas.values import mapping
from glyphoxa_trio.secret import Secret

from . import incoming, messages
from .encoding import encoded
from .hearing import Hearing
from .microphone import GeminiMicrophone
from .options import SessionOptions
from .profiles import Profile
from .turn import Turns

MAX_HELD: Final = 64  # lines that are held


def _random_prefix() -> str:
    return uuid.uuid4().hex[:12]


@attrs.define(eq=False, kw_only=True)
class GeminiWire:
    """One socket's conversation with a model; a `Wire`.

    Args:
      model: the model's name.
      profile: what its family supports.
      setup: the session's setup.
      options: the session's options.
      secret: removed from the server's words that are quoted.
      prefix: of the ids that are made here; different for every socket.
    """

    model: str
    profile: Profile
    setup: Setup
    options: SessionOptions = attrs.field(factory=SessionOptions)
    secret: Secret | None = None
    prefix: str = attrs.field(factory=_random_prefix)
    ready: bool = attrs.field(default=False, init=False)
    unknown: Counter[str] = attrs.field(factory=Counter, init=False)
    _turns: Turns = attrs.field(init=False)
    _frames: list[Frame] = attrs.field(factory=list, init=False)
    _calling: dict[str, Calling] = attrs.field(factory=dict, init=False)
    _held: deque[TranscriptLine] = attrs.field(factory=deque, init=False)
    _ids: int = attrs.field(default=0, init=False)
    # Events about what was sent, and since when they wait.
    _due: list[Event] = attrs.field(factory=list, init=False)
    _due_at: float = attrs.field(default=0.0, init=False)
    _microphone: GeminiMicrophone = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._turns = Turns(
            new_id=self._new_id,
            speaks=self.setup.speaks,
            ends_with_status=self.profile.ends_with_status,
            hearing=Hearing(self.prefix),
        )
        self._microphone = GeminiMicrophone(
            self.setup.automatic, interrupts=self.options.interrupts
        )
        self._declare(self.setup.tools)

    # Time and frames.

    @property
    def alarm(self) -> float | None:
        if not self.ready:  # before, a frame of `wake` would be taken for the setup
            return None
        due = self._due_at if self._due else None
        times = (due, self._turns.hearing.due, self._microphone.due)
        return min((time for time in times if time is not None), default=None)

    def wake(self, now: float) -> list[Event]:
        events = self._take_due() + self._turns.hearing.wake(now)
        if self._microphone.is_off(now):
            self._put(messages.realtime(audioStreamEnd=True), Lane.AFTER_AUDIO)
        return events

    def outgoing(self) -> list[Frame]:
        frames, self._frames = self._frames, []
        return frames

    def opening(self, now: float) -> None:
        said = self.setup, self.model, self.profile, self.options
        self._put(messages.setup_message(*said))

    # Commands.

    def send(self, command: Command, now: float) -> None:
        match command:
            case SendAudio(pcm, again):
                if pcm:
                    lane = Lane.AFTER_AUDIO if again else Lane.AUDIO
                    self._put(messages.audio(pcm), lane)
                    self._microphone.hear(now)
            case SpeechBegins() | SpeechEnds() if not self.setup.automatic:
                self._send_activity(isinstance(command, SpeechBegins), now)
            case SendText(line, reply):
                self._send_text(line, reply=reply, now=now)
            case SendResult():
                self._send_result(command)
            case SetTools(tools, revision) if self.profile.updates:
                self._put(messages.new_tools(tools, self.profile))
                self._declare(tools)
                # There is no acknowledgement. Inputs are processed in order, so a
                # response that starts after this knows the new tools.
                self._tell(ToolsInForce(revision), now)
            case SetInstructions(text) if self.profile.updates:
                self._put(messages.new_instructions(text))
            case SetInstructions(text):
                # A new socket starts with them; this one is told in a line of text.
                self._send_text(TranscriptLine("system", text), reply=False, now=now)
            case Cancel() if self.profile.cancels:
                if self._turns.is_busy:
                    self._put(messages.stop())
                    self._turns.cancel(now)
            case _:
                what = type(command).__name__
                raise ValueError(f"{self.model} cannot be sent {what} in this session")

    def _send_activity(self, begins: bool, now: float) -> None:
        """Send that the user starts or stops speaking."""
        if not self._microphone.switch(begins):
            return
        if begins:
            self._turns.hearing.begins(now)
            self._put(messages.realtime(activityStart={}), Lane.AFTER_AUDIO)
            if self._held and not self.profile.turns:
                self._put(messages.realtime(text=messages.text_of(self._take_held())))
        else:
            self._put(messages.realtime(activityEnd={}), Lane.AFTER_AUDIO)
            self._tell(Committed(self._turns.hearing.ends(now)), now)
            self._turns.ask(to_text=False)

    def _send_text(self, line: TranscriptLine, *, reply: bool, now: float) -> None:
        """Send a line, or hold it if it requests no answer."""
        if line.text:
            self._held.append(line)
        if not reply:
            self._let_go(now)
            return
        lines = self._take_held()
        if not lines:
            return
        spoken = len(lines) == 1 and line.role == "user"
        if self.profile.turns and (self.profile.text_as_turn or not spoken):
            self._put(messages.turns(lines, complete=True))
        else:
            self._put_as_speech(messages.text_of(lines))
        if self._turns.is_busy:
            # The text interrupts the model, and nothing else does.
            self._turns.cancel(now)
        self._turns.ask()

    def _put_as_speech(self, text: str) -> None:
        """Send text as real-time input, with start and end if the client sends them."""
        alone = not self.setup.automatic and not self._microphone.active
        if alone:
            self._put(messages.realtime(activityStart={}))
        self._put(messages.realtime(text=text))
        if alone:
            self._put(messages.realtime(activityEnd={}))

    def _let_go(self, now: float) -> None:
        """Send the lines that are held, if that does not disturb the model now."""
        if not self._held:
            return
        idle = self._turns.is_idle(now) and not self._microphone.active
        is_idle = self.ready and idle
        too_many = len(self._held) > MAX_HELD
        if self.profile.turns:
            if is_idle or too_many:
                self._put(messages.silent_turns(self._take_held(), self.profile))
        elif too_many:
            self._held.popleft()
            detail = f"more than {MAX_HELD} lines wait for one that requests an answer"
            self._tell(incoming.complaint("line_forgotten", detail), now)

    def _take_held(self) -> list[TranscriptLine]:
        lines, self._held = list(self._held), deque()
        return lines

    def _send_result(self, result: SendResult, *, asks: bool = True) -> None:
        """Send the result of a call. ``asks`` is False if the model is to ignore it."""
        size, limit = len(result.output.encode()), self.profile.capabilities.max_result
        if size > limit:
            raise ValueError(f"a result of {size} bytes, where {limit} are allowed")
        calls = self._turns.calls
        made = calls.answerable(result.call_id)
        if made is None:  # the server's cancellation and the result have crossed
            return
        calling = self._calling.get(made.call.name, self.profile.calling[0])
        schedules = self.profile.scheduling and calling is Calling.NON_BLOCKING
        schedule = result.schedule if schedules else None
        self._put(messages.result_message(result, made.given_id, schedule))
        calls.answered(made)
        if asks and schedule is not Schedule.SILENT:
            self._turns.ask(resumes=calling is Calling.BLOCKING)

    def _declare(self, tools: tuple[S2STool, ...]) -> None:
        """Note how these tools are called."""
        # Calls of tools that were declared before may still be answered.
        for tool in tools:
            self._calling[tool.spec.name] = messages.calling_of(tool, self.profile)

    # Messages.

    def receive(self, message: str | bytes, now: float) -> list[Event]:
        try:
            bag = incoming.parsed(message)
        except ValueError as error:
            return [*self._take_due(), incoming.malformed(str(error))]
        incoming.count_unknown(bag, self.unknown)
        events: list[Event] = []
        if not self.ready and not self._become_ready(bag, events):
            return events
        events += self._take_due()
        if "error" in bag:
            events.append(incoming.complaint_of(bag["error"], self.secret))
        events += self._microphone.notice(bag, self._turns.hearing, now)
        events += self._turns.take(bag, now)
        for call in self._turns.take_refused():
            self._send_result(messages.refusal(call), asks=False)
        if lost := self._turns.hearing.take_lost():
            self.unknown["inputTranscription, too much"] += lost
        if "sessionResumptionUpdate" in bag:
            events.append(
                HandleIssued(incoming.handle_of(bag["sessionResumptionUpdate"]))
            )
        if (usage := incoming.usage_of(bag.get("usageMetadata"))) is not None:
            events.append(UsageSeen(usage))
        if "goAway" in bag:
            left = mapping(bag["goAway"]).get("timeLeft")
            events.append(GoingAway(incoming.seconds(left)))
        self._let_go(now)
        return events

    def _become_ready(self, bag: Mapping[str, Any], events: list[Event]) -> bool:
        """Wait for the first event, `Ready`; nothing before it has a meaning.

        Raises:
          LinkClosed: if there is an error instead.
        """
        if "setupComplete" in bag:
            self.ready = True
            events.append(Ready(resumed=self.setup.handle is not None))
            history = messages.history_message(self.setup, self.profile)
            if history is not None:
                self._put(history)
        elif "error" in bag:
            error = incoming.complaint_of(bag["error"], self.secret)
            can_retry = error.kind in (ErrorKind.OVERLOADED, ErrorKind.RATE_LIMITED)
            raise LinkClosed(error.kind, error.detail, retryable=can_retry)
        else:
            incoming.count("before setupComplete", self.unknown)
        return self.ready

    def _put(self, message: Mapping[str, Any], lane: Lane = Lane.CONTROL) -> None:
        """Queue a message."""
        self._frames.append(Frame(encoded(message), lane))

    def _tell(self, event: Event, now: float) -> None:
        """Queue an event about what was sent; `wake` returns it at once."""
        if not self._due:
            self._due_at = now
        self._due.append(event)

    def _take_due(self) -> list[Event]:
        if not self.ready:
            return []
        events, self._due = self._due, []
        return events

    def _new_id(self) -> str:
        self._ids += 1
        return f"{self.prefix}.{self._ids}"
