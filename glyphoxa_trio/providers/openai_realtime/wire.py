"""One Realtime socket, without I/O: the meaning of its events, and the legal order.

The server sends first. On ``session.created`` the whole session is sent; from
``session.updated`` on it is in force: then the history is sent, and everything else may
be. Changes of a session are confirmed in their order and without an id, so those in
flight are a queue. Errors do name the event that they are about; most of them change
nothing. `responding` handles responses and calls, `hearing` the user's speech, and
`reciting` words that are spoken beside the conversation.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Final, assert_never

import attrs

from glyphoxa_trio.providers.audio import bytes_of
from glyphoxa_trio.providers.failures import excerpt
from glyphoxa_trio.providers.live_wire import Frame, Lane
from glyphoxa_trio.providers.payloads import string
from glyphoxa_trio.providers.s2s import (
    Cancel,
    Command,
    DropAudio,
    Event,
    ForgetText,
    Ready,
    Recite,
    Respond,
    SendAudio,
    SendResult,
    SendText,
    SetInstructions,
    SetTools,
    Setup,
    SpeechBegins,
    SpeechEnds,
    StopReciting,
    ToolsInForce,
    Truncate,
)
from glyphoxa_trio.secret import Secret

from . import encoding
from .complaints import complaint, end_of
from .encoding import MAX_APPEND, MAX_RESULT, MIN_UTTERANCE
from .hearing import Hearing
from .options import SessionOptions
from .reciting import Reciting
from .responding import Message, Responding
from .sequencer import Create, Sequencer

MAX_NAMES: Final = 64  # of unknown things, counted one by one

_SETUP: Final = "setup"
_TRANSCRIPTION: Final = "conversation.item.input_audio_transcription"

# Known events that are not used here. Tools of the server's own (mcp) are never
# declared.
_IGNORED: Final = (
    "conversation.",
    "input_audio_buffer.",
    "mcp_list_tools.",
    "output_audio_buffer.",
    "rate_limits.updated",
    "response.content_part.",
    "response.function_call_arguments.",
    "response.mcp_call",
    "response.output_audio.done",
    "response.output_item.added",
)


@attrs.define(eq=False, kw_only=True)
class RealtimeWire:
    """A `Wire` of OpenAI Realtime (GA). ``model`` names the prices of its usage.

    Raises:
      ValueError: for tools that cannot be declared.
    """

    setup: Setup
    model: str = ""
    options: SessionOptions = attrs.field(factory=SessionOptions)
    secret: Secret | None = attrs.field(default=None, repr=False)
    ready: bool = attrs.field(default=False, init=False)
    unknown: Counter[str] = attrs.field(factory=Counter, init=False)
    sequencer: Sequencer = attrs.field(factory=Sequencer, init=False)
    _responding: Responding = attrs.field(init=False)
    _reciting: Reciting = attrs.field(init=False)
    _session: Message = attrs.field(init=False, repr=False)
    _instructions: str = attrs.field(init=False, repr=False)
    _frames: list[Frame] = attrs.field(factory=list, init=False, repr=False)
    # Changes in flight: the event, and the revision of `SetTools`, if it is one.
    _changes: deque[tuple[str, int | None]] = attrs.field(factory=deque, init=False)
    _greeted: bool = attrs.field(default=False, init=False)
    _uncommitted: int = attrs.field(default=0, init=False)
    _count: int = attrs.field(default=0, init=False)
    _handlers: Mapping[str, Callable[[Message, float], list[Event]]] = attrs.field(
        init=False, repr=False
    )

    def __attrs_post_init__(self) -> None:
        self._session = encoding.session_of(self.setup, self.options)
        self._instructions = self.setup.instructions
        self._responding = Responding(
            self.sequencer,
            self.model,
            self.secret,
            self._count_unknown,
            self.options.law,
        )
        answers = self._responding
        self._reciting = Reciting(answers.usage_of, self.options.law)
        automatic, options = self.setup.automatic, self.options
        hearing = Hearing(
            self.sequencer,
            self.secret,
            answers=automatic and options.create_response,
            stops=automatic and options.interrupt_response,
            writer=options.transcription or "",
        )
        self._handlers = {
            "session.created": self._on_created,
            "session.updated": self._on_updated,
            "input_audio_buffer.speech_started": hearing.on_speech_started,
            "input_audio_buffer.speech_stopped": hearing.on_speech_stopped,
            "input_audio_buffer.committed": hearing.on_committed,
            "input_audio_buffer.cleared": hearing.on_cleared,
            f"{_TRANSCRIPTION}.delta": hearing.on_heard,
            f"{_TRANSCRIPTION}.completed": hearing.on_understood,
            f"{_TRANSCRIPTION}.failed": hearing.on_not_understood,
            "response.created": answers.on_created,
            "response.output_audio.delta": answers.on_audio,
            "response.output_audio_transcript.delta": answers.on_words,
            "response.output_audio_transcript.done": answers.on_all_words,
            "response.output_text.delta": answers.on_words,
            "response.output_text.done": answers.on_all_words,
            "response.output_item.done": answers.on_item_done,
            "response.done": answers.on_done,
            "error": self._on_error,
        }

    @property
    def alarm(self) -> float | None:
        return self.sequencer.alarm

    def opening(self, now: float) -> None:
        """Do nothing: the server sends first."""

    def outgoing(self) -> list[Frame]:
        frames, self._frames = self._frames, []
        return frames

    def send(self, command: Command, now: float) -> None:
        match command:
            case SendAudio(pcm, again):
                self._append(pcm, Lane.AFTER_AUDIO if again else Lane.AUDIO)
            case SpeechBegins():
                self._only_by_hand()
            case SpeechEnds():
                self._only_by_hand()
                self._commit()
            case DropAudio():
                self._uncommitted = 0
                self._say_after_audio("input_audio_buffer.clear")
            case SendText(line, item=item):
                self._say(encoding.message(self._event_id("text"), line, item))
            case ForgetText(item):
                self._say(encoding.delete(self._event_id("forget"), item))
            case SetTools(tools, revision):
                declared = encoding.tools_of(tools)
                self._change("tools", {"tools": declared}, revision)
            case SetInstructions(text):
                self._instructions = text
                self._change("instructions", {"instructions": text})
            case SendResult():
                self._answer(command)
            case Respond():
                self.sequencer.want(command, now)
            case Cancel():
                self.sequencer.stop(now)
            case Recite():
                self._reciting.ask(command)
            case StopReciting(name):
                self._reciting.stop(name)
            case Truncate(item, heard_ms):
                self._truncate(item, heard_ms)
            case _:
                assert_never(command)
        self._go_on()

    def receive(self, message: str | bytes, now: float) -> list[Event]:
        try:
            fields = json.loads(message)
        except (ValueError, RecursionError):
            fields = None
        if not isinstance(fields, dict):
            self._count_unknown("not a JSON object")
            return []
        kind = string(fields.get("type"))
        handle = self._handlers.get(kind)
        if handle is None:
            if not kind.startswith(_IGNORED):
                self._count_unknown(kind)
            return []
        events = self._reciting.receive(kind, fields)
        if events is None:
            events = handle(fields, now)
        self._go_on()
        return events

    def wake(self, now: float) -> list[Event]:
        events = self._responding.wake(now)
        self._go_on()
        return events

    # What commands mean

    def _append(self, pcm: bytes, lane: Lane = Lane.AUDIO) -> None:
        """Queue audio."""
        if len(pcm) % 2:
            raise ValueError("PCM16 has two bytes a sample")
        for start in range(0, len(pcm), MAX_APPEND):
            frame = encoding.append(pcm[start : start + MAX_APPEND], self.options.law)
            self._frames.append(Frame(frame, lane))
            self._uncommitted += len(pcm[start : start + MAX_APPEND])

    def _commit(self) -> None:
        """End the utterance.

        An utterance that is too short would be an error, so silence is added; without
        any audio there is no utterance.
        """
        if self._uncommitted:
            least = bytes_of(MIN_UTTERANCE, self.options.rate)
            self._append(bytes(max(0, least - self._uncommitted)))
            self._uncommitted = 0
            self._say_after_audio("input_audio_buffer.commit")

    def _only_by_hand(self) -> None:
        if self.setup.automatic:
            raise ValueError("the server detects speech by itself")

    def _answer(self, result: SendResult) -> None:
        """Take the result of a call."""
        size = len(result.output.encode("utf-8", "surrogatepass"))
        if size > MAX_RESULT:
            raise ValueError(f"a result of {size} bytes; at most {MAX_RESULT}")
        self._responding.answer(result)

    def _truncate(self, item_id: str, heard_ms: int) -> None:
        item = self._responding.item(item_id)
        if item is None or not item.audio:
            return  # there was no audio to hear
        heard_ms = max(0, min(heard_ms, item.audio_ms))
        event_id = self._event_id("truncate")
        self._say(encoding.truncate(event_id, item_id, item.content_index, heard_ms))

    def _change(self, what: str, fields: Message, revision: int | None = None) -> None:
        """Send a change of the session."""
        event_id = self._event_id(what)
        self._changes.append((event_id, revision))
        self._say(encoding.session_update(event_id, fields))

    def _go_on(self) -> None:
        """Send the frames that are due: results first, so that responses know them."""
        for result in self._responding.due():
            self._say(encoding.output(self._event_id("output"), result))
        for order in self.sequencer.orders():
            if isinstance(order, Create):
                respond, session = order.respond, self._instructions
                self._say(encoding.create(order.event_id, respond, session))
            else:
                self._say(encoding.cancel(order.event_id, order.response))
        for recital in self._reciting.orders():
            self._say(recital)

    def _say(self, frame: str) -> None:
        """Queue a control frame."""
        self._frames.append(Frame(frame))

    def _say_after_audio(self, kind: str) -> None:
        """Queue a frame that must not overtake audio."""
        frame = encoding.plain(self._event_id("audio"), kind)
        self._frames.append(Frame(frame, Lane.AFTER_AUDIO))

    def _event_id(self, what: str) -> str:
        self._count += 1
        return f"{what}-{self._count}"

    # What events mean

    def _on_created(self, _: Message, now: float) -> list[Event]:
        if not self._greeted:
            self._greeted = True
            self._changes.appendleft((_SETUP, None))
            self._say(encoding.session_update(_SETUP, self._session))
        return []

    def _on_updated(self, _: Message, now: float) -> list[Event]:
        if not (self._greeted and self._changes):
            return []
        event_id, revision = self._changes.popleft()
        if event_id == _SETUP:
            for line in self.setup.history:
                self._say(encoding.message(self._event_id("history"), line))
            self.ready = True
            self.sequencer.open(now)
            return [Ready()]
        return [] if revision is None else [ToolsInForce(revision)]

    def _on_error(self, message: Message, now: float) -> list[Event]:
        error = message.get("error")
        found = complaint(error, "error", self.secret)
        end = end_of(found, setting_up=not self.ready)
        if end is not None:
            raise end
        fields = error if isinstance(error, dict) else {}
        about = string(fields.get("event_id")) or None
        self._changes = deque(c for c in self._changes if c[0] != about)
        if (refused := self._reciting.refused(about, found.detail)) is not None:
            return refused
        match found.code:
            case "conversation_already_has_active_response":
                harmless = self.sequencer.refused(about, now)
            case "response_cancel_not_active":
                harmless = self.sequencer.not_active(about, now)
            case _:
                harmless = False
                self.sequencer.failed(about, now)
        return [] if harmless else [found]

    def _count_unknown(self, name: str) -> None:
        """Count something unknown, by its name as long as there are few names."""
        name = excerpt(name)[:64] or "nameless"
        known = name in self.unknown or len(self.unknown) < MAX_NAMES
        self.unknown[name if known else "others"] += 1
