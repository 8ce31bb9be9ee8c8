"""Random realtime conversations, against the simplest model of one: whatever a server
says and whoever speaks, in any order, and wherever sockets open and close.

The vendor is drawn, and it is no vendor's: nothing here is legal but by chance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import attrs
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from glyphoxa_trio.npc.s2s.effects import (
    Put,
    Replace,
    Settled,
    SimpleEffect,
    TellSpoken,
    Understood,
)
from glyphoxa_trio.npc.s2s.happenings import (
    BargedIn,
    CallsReady,
    LinkBack,
)
from glyphoxa_trio.npc.s2s.machine import CANCELLED, LiveMachine
from glyphoxa_trio.npc.s2s.pending_calls import LateOutput, Way
from glyphoxa_trio.npc.s2s.responses import Runs
from glyphoxa_trio.npc.s2s.unsent import COMMANDS, TEXTS, UnsentCommands
from glyphoxa_trio.providers.llm import ErrorKind, ToolSpec, Usage
from glyphoxa_trio.providers.s2s import (
    AudioOut,
    Calling,
    CallReady,
    CallsCancelled,
    Cancel,
    Capabilities,
    Committed,
    Complaint,
    Event,
    ForgetText,
    GoingAway,
    HandleIssued,
    Heard,
    InteractionEnded,
    Interrupted,
    LinkClosed,
    Respond,
    ResponseEnd,
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

from .support import ANSWERS, ASKS, lost

COMMAND = (
    *(SendAudio, SpeechBegins, SpeechEnds, SendText, SetTools, SetInstructions),
    *(SendResult, Respond, Cancel, Truncate),
)
AUDIO_LIMIT = 100
SPEAKING = (AudioOut, Spoken, ResponseStarted, ResponseEnded)
TOOLS = [
    S2STool(
        spec=ToolSpec(name=name, description="", parameters={}),
        calling=Calling.BLOCKING,
    )
    for name in "abc"
]


def test_a_call_that_its_server_cancelled_spoils_no_answer() -> None:
    machine = machine_of(ANSWERS)
    machine.tell_spoken(told=True)
    machine.opened(resumed=False)
    first, call = machine.begin(), ToolCall("c", "look", "{}")
    machine.receive(ResponseStarted("r1"), 0.0)
    machine.receive(CallReady("r1", call), 0.0)
    machine.receive(CallsCancelled(("c",)), 0.0)
    assert machine.answer(call, CANCELLED, 0.0, wanted=False) is Way.NOTHING
    machine.end(first, (), 0.0)
    machine.effects.clear()
    machine.receive(ResponseStarted("r2"), 0.0)  # to whoever interrupted
    machine.receive(AudioOut("r2", "i", b"1"), 0.0)
    assert Put(2, AudioOut("r2", "i", b"1")) in machine.effects


@pytest.mark.parametrize("wire", [ASKS, ANSWERS], ids=["asks", "answers"])
@pytest.mark.parametrize("gave_up", [False, True])
@pytest.mark.parametrize("matters", [False, True])
def test_what_a_call_came_to_without_a_socket_is_told_on_the_next_one(
    wire: Capabilities, gave_up: bool, matters: bool
) -> None:  # D23d: also one that knows nothing of what was before
    machine = machine_of(wire)
    machine.tell_spoken(told=True)
    machine.opened(resumed=False)
    turn, call = machine.begin(), ToolCall("c", "pay", "{}")
    machine.receive(ResponseStarted("r1"), 0.0)
    if wire is ASKS:
        end = ResponseEnded(response="r1", end=ResponseEnd.COMPLETED, calls=(call,))
        machine.receive(end, 0.0)
    else:
        machine.receive(CallReady("r1", call), 0.0)
    machine.leave(call, 1.0, interim=None, wanted=True)
    machine.end(turn, (), 1.0)
    closed = LinkClosed(ErrorKind.INTERRUPTED, "gone", retryable=not gave_up)
    machine.lost(closed, 2.0)
    if gave_up:
        machine.gave_up(closed)
    came = LateOutput(call=call, output='{"message": "paid"}', at=3.0, matters=matters)
    machine.finish(came)
    machine.effects.clear()
    machine.opened(resumed=False)
    sent = [x for x in machine.effects if isinstance(x, SendText)]
    # A read that was given up is owed to nobody: nothing is told, and nothing asked.
    told = matters or not gave_up
    assert sum("paid" in text.line.text for text in sent) == told
    if not told:
        assert not [x for x in machine.effects if isinstance(x, Respond)]


@pytest.mark.parametrize("wire", [ASKS, ANSWERS], ids=["asks", "answers"])
def test_words_that_nobody_waits_for_are_told_and_not_asked(wire: Capabilities) -> None:
    machine = machine_of(wire)
    turn = machine.begin()
    machine.say(TranscriptLine("user", "Hello"), reply=True)
    machine.interrupt({}, of=turn)
    machine.end(turn, (), 0.0)
    machine.effects.clear()
    machine.opened(resumed=False)
    sent = [x for x in machine.effects if isinstance(x, COMMAND)]
    assert sent == [SendText(TranscriptLine("user", "Hello"), reply=False)]


def test_a_response_that_two_did_not_want_is_offered_to_no_third() -> None:
    machine = machine_of(ASKS)
    machine.tell_spoken(told=True)
    machine.opened(resumed=False)
    first, began = machine.begin(), ResponseStarted("r1")
    call = CallsReady("r1", (ToolCall("c", "look", "{}"),))
    machine.receive(began, 0.0)
    for interaction, following in ((first, [TellSpoken(2)]), (2, [])):
        machine.effects.clear()
        machine.end(interaction, (began, call), 0.0)
        assert [x for x in machine.effects if isinstance(x, TellSpoken)] == following


def test_an_attempt_that_fails_takes_back_nothing_that_was_asked() -> None:
    machine = machine_of(ASKS)
    turn = machine.begin()
    machine.say(TranscriptLine("user", "Hello"), reply=True)
    machine.next_setup()  # refused
    machine.next_setup()
    machine.opened(resumed=False)
    machine.effects.clear()
    machine.interrupt({}, of=turn)
    assert Cancel() in machine.effects


flags = st.booleans()
some = st.integers(0, 5)
mostly_the_last = st.sampled_from([0, 0, 0, 0, 1, 2])
connected = precondition(lambda self: self.open)


def machine_of(
    capabilities: Capabilities, reports: set[int] | None = None
) -> LiveMachine[int]:
    numbers = count(1)

    def new(spoken: bool, of_calls: bool) -> int:
        number = next(numbers)
        if of_calls and reports is not None:
            reports.add(number)
        return number

    return LiveMachine(
        new=new,
        capabilities=capabilities,
        setup=Setup(instructions=""),
        unsent=UnsentCommands(AUDIO_LIMIT),
    )


def ids_of(event: CallsReady) -> set[str]:
    return {call.id for call in event.calls}


@attrs.define(eq=False)
class Owed:
    """A call that was not answered yet. ``socket``: which asked for it."""

    socket: int
    half: bool = False  # the rest of its message has not come


class Conversation(RuleBasedStateMachine):
    """The model has flags and sets, and no rules but what it must not see."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.socket = 0  # the number of the newest one
        self.open = False
        self.told = False
        self.current = 0
        self.queues: dict[int, list[Any]] = {}
        self.ended: set[int] = set()
        self.deaf: set[int] = set()
        self.running: str | None = None
        self.asked = self.unwanted = False
        self.void: set[str] = set()
        self.started: list[str] = ["r"]
        self.known: set[str] = set()
        self.owed: dict[str, Owed] = {}
        self.earlier: set[str] = set()
        self.handed: set[str] = set()
        self.excused: set[str] = set()
        self.texts: Counter[str] = Counter()  # results that were told as text
        self.reports: set[int] = set()  # interactions of what calls came to
        self.reported = False  # one has begun in this step
        self.named_lines: set[str] = set()  # what may be taken back
        self.left: set[str] = set()  # calls that go on, of which nothing came yet
        self.unsettled: set[str] = set()  # of which something came
        self.cancels = 0  # that were sent in this step
        self.may_cancel = False
        self.in_force = 0
        self.items: dict[str, int] = {}  # which interaction answers what was said
        self.nameless: int | None = None
        self.words: dict[int, tuple[str, bool]] = {}
        self.number = 0

    @initialize(asks=flags, data=st.data())
    def vendor(self, asks: bool, data: st.DataObject) -> None:
        drawn: dict[str, Any] = {
            name: data.draw(flags, label=name)
            for name in (
                *("live_tools", "cancels", "truncates", "forbids_tools"),
                *("forgets_text", "silent_text"),
            )
        }
        self.wire = attrs.evolve(ASKS if asks else ANSWERS, **drawn)
        self.machine = machine_of(self.wire, self.reports)
        self.somebody_is_told(data.draw(flags))
        self.opens(resumed=False, failing=False)

    # What the machine wants, as it would be carried out.

    @contextmanager
    def step(self) -> Iterator[None]:
        """One thing that happens, and all that is done about it."""
        self.now += 0.5
        self.excused = set()
        self.cancels, self.may_cancel = 0, self.asked or self.running is not None
        self.may_begin, self.reported = True, False
        yield
        effects = self.machine.effects
        while effects:
            self.carry_out(effects.popleft())
        unsent = self.machine.unsent
        for text in (*unsent._texts, *unsent._commands):
            if isinstance(text, SendText):
                self.tell(text.line)
        for id_ in self.owed.keys() - self.machine.calls.owed.keys():
            owed = self.owed.pop(id_)
            if id_ not in self.excused:
                assert owed.socket < self.socket or not self.open
                assert self.texts[id_] == 1 or self.machine.unsent.commands_dropped
        assert self.owed.keys() == self.machine.calls.owed.keys()
        assert not self.excused & self.owed.keys()

    def carry_out(self, effect: Any) -> None:
        match effect:
            case Put(interaction, happening):
                assert interaction not in self.ended - self.deaf
                self.put(interaction, happening)
            case TellSpoken(interaction) if interaction in self.reports:
                assert self.told
                assert self.rests
                assert self.machine._responses.runs is not Runs.WANTED
                self.begins(interaction)
                self.asked = self.reported = True
            case Settled(id_):
                self.unsettled.remove(id_)  # once
            case TellSpoken(interaction):
                assert self.told
                assert self.may_begin
                self.begins(interaction)
                self.nameless = interaction
            case Understood(interaction, text, final):
                self.words[interaction] = text, final
            case SendResult(call_id=id_, output=output):
                assert self.open
                owed = self.owed.pop(id_)
                assert owed.socket == self.socket
                if output == CANCELLED:
                    self.for_nobody(id_)
            case SendText(line, item=item):
                assert self.open
                self.tell(line)
                if item is not None:
                    assert self.wire.forgets_text
                    assert not self.named_lines
                    self.named_lines.add(item)
            case ForgetText(item):
                assert self.open
                self.named_lines.remove(item)
            case Cancel():
                assert self.open
                assert self.wire.cancels
                assert self.may_cancel
                self.cancels += 1
            case Respond(tools_forbidden=forbidden):
                assert self.open
                assert self.wire.asks_for_responses
                assert self.wire.forbids_tools or not forbidden
            case SetTools():
                assert self.open
                assert self.wire.live_tools
            case Truncate():
                assert self.open
                assert self.wire.truncates
            case _ if isinstance(effect, COMMAND):
                assert self.open
            case _:
                pass

    def put(self, interaction: int, happening: Any) -> None:
        if isinstance(happening, (*SPEAKING, CallsReady)):
            assert happening.response not in self.void
        if isinstance(happening, CallsReady):
            ids = {call.id for call in happening.calls}
            assert not ids & self.handed
            self.handed |= ids
        if interaction in self.deaf:
            self.machine.not_taken(Put(interaction, happening), self.now)
            self.ended.add(interaction)
        else:
            self.queues[interaction].append(happening)

    def tell(self, line: TranscriptLine) -> None:
        assert line.role == "user"  # what a tool has said is no instruction
        if "earlier call of" in line.text:
            name = line.text.split()[6].rstrip(",")
            self.texts[name] += name in self.owed

    def begins(self, interaction: int) -> None:
        self.current = interaction
        self.queues[interaction] = []
        self.asked = self.unwanted = False
        self.earlier = set(self.owed)

    def for_nobody(self, id_: str) -> None:
        if not self.wire.asks_for_responses and id_ not in self.earlier:
            self.unwanted, self.asked = True, False

    def asks_nobody(self) -> None:
        """What was not sent is not asked any more."""
        if not self.open:
            waiting = self.machine.unsent._commands
            assert not [x for x in waiting if isinstance(x, Respond)]

    @property
    def rests(self) -> bool:
        return self.current in self.ended or not self.current

    def stops(self) -> None:
        """Nobody wants what is said to the current utterance any more."""
        if self.running is not None:
            self.void.add(self.running)
        elif self.asked:
            waiting = [type(x) for x in self.machine.unsent._commands]
            text = any(
                getattr(x, "reply", False) for x in self.machine.unsent._commands
            )
            withdrawn = not self.open and (Respond in waiting or text)
            can = self.wire.cancels and self.open
            self.unwanted = not (can or withdrawn)
        self.asked = False

    def leaves_socket(self) -> None:
        self.running, self.asked, self.unwanted = None, False, False
        self.nameless = None
        self.void.clear()
        self.excused |= {id_ for id_, owed in self.owed.items() if owed.half}

    def takes(self, id_: str, *, half: bool = False) -> None:
        if id_ not in self.known:
            self.known.add(id_)
            self.owed[id_] = Owed(self.socket, half)

    # Sockets.

    @rule(resumed=flags, failing=flags)
    def opens(self, resumed: bool, failing: bool) -> None:
        if failing:  # another attempt, of which nothing came
            self.machine.next_setup()
        setup = self.machine.next_setup()
        assert setup.tools == self.machine.tools.wanted
        was_open, listens = self.open, not self.rests and self.current not in self.deaf
        before = len(self.queues.get(self.current, ()))
        with self.step():
            if not resumed:
                self.named_lines.clear()
            self.machine.opened(resumed=resumed)
            if was_open:
                self.leaves_socket()
            self.socket += 1
            self.open = True
            sent = [x for x in self.machine.effects if isinstance(x, COMMAND)]
            if any(isinstance(x, Respond) for x in sent):  # it had to wait for it
                self.asked = True
            known = self.machine._known.text or "(What you knew"
            texts = [
                x
                for x in sent
                if isinstance(x, SendText) and not x.line.text.startswith(known)
            ]
            again = [x for x in sent if isinstance(x, SendAudio) and x.again]
            sent = [x for x in sent if x not in again]
            sent = [x for x in sent if not isinstance(x, SpeechBegins | SpeechEnds)]
            audio = [x for x in sent if isinstance(x, SendAudio)]
            assert len(sent) - len(audio) <= COMMANDS + TEXTS + 3
            assert len(audio) <= 1 or sum(len(x.pcm) for x in audio) <= AUDIO_LIMIT
            assert not texts or not was_open
        assert not self.machine.setup.handle or resumed
        if listens and was_open:
            back = LinkBack(
                resumed, heard_again=self.machine._interactions.again is not None
            )
            assert back in self.queues[self.current][before:]
            assert back.heard_again <= bool(again)

    @connected
    @rule(code=st.sampled_from([None, 1000, 1006, 1011]), gives_up=flags)
    def closes(self, code: int | None, gives_up: bool) -> None:
        if code is None and not self.machine.quiet:
            return
        self.open = False
        with self.step():
            self.leaves_socket()
            if code is None:  # it was idle
                self.machine.rested()
            else:
                self.machine.lost(lost(code), self.now)
        if code is not None and gives_up:
            with self.step():
                self.excused |= set(self.owed)
                self.machine.gave_up(lost())
            assert not self.machine.calls.owed
            assert not self.machine.unsent._commands

    @rule(other=st.sampled_from([None, "handle"]), anew=flags)
    def becomes_another(self, other: str | None, anew: bool) -> None:
        with self.step():
            setup = Setup(instructions="", voice="Ann", handle=other)
            self.machine.become(self.wire, setup, anew=anew)
            assert (Replace() in self.machine.effects) == (anew and self.open)
        assert self.machine.setup.handle is None or not anew

    # The server.

    def says(self, event: Event) -> None:
        with self.step():
            self.machine.receive(event, self.now)

    @connected
    @rule(
        again=some,
        fresh=st.sampled_from([True, True, False]),
        item=st.none() | st.sampled_from(["new", "old"]),
    )
    def response_starts(self, again: int, fresh: bool, item: str | None = None) -> None:
        if fresh:
            self.started.append(f"r{len(self.started)}")
        response = self.started[-1 if fresh else -1 - again % len(self.started)]
        with self.step():
            heard = None if item is None else self.item(item)
            new = heard is not None and heard not in self.items
            wanted = not self.unwanted or (new and self.told)
            (self.void.discard if wanted else self.void.add)(response)
            self.running, self.asked, self.unwanted = response, False, False
            before, rests = self.current, self.rests
            self.machine.receive(ResponseStarted(response, heard), self.now)
        begins = self.told and wanted and (new or (heard is None and rests))
        if not self.reported:
            assert (self.current != before) == begins
            if begins:
                self.named(heard)

    def item(self, which: str) -> str:
        """The name of something that was said, known or not."""
        if which == "new" or not self.items:
            self.number += 1
            return f"said-{self.number}"
        return list(self.items)[-1]

    def named(self, item: str | None) -> None:
        """The last interaction answers that."""
        if item is not None:
            self.items[item], self.nameless = self.current, None

    @connected
    @rule(at=mostly_the_last, audio=flags)
    def speaks(self, at: int, audio: bool) -> None:
        response = self.started[-1 - at % len(self.started)]
        before = len(self.queues.get(self.current, ()))
        if audio:
            self.says(AudioOut(response, "i", b"1"))
        else:
            self.says(Spoken(response, "i", "Well."))
        heard = len(self.queues.get(self.current, ())) > before
        assert not self.reported
        listens = not self.rests and self.current not in self.deaf
        assert heard == (listens and response not in self.void)

    @connected
    @rule(at=mostly_the_last, id_=some, more=flags)
    def calls(self, at: int, id_: int, more: bool) -> None:
        call = ToolCall(name := f"c{self.socket % 3}{id_}", name, "{}")
        if not self.wire.asks_for_responses:
            self.takes(call.id, half=True)
            if not more:
                for owed in self.owed.values():
                    owed.half = False
        response = self.started[-1 - at % len(self.started)]
        self.says(CallReady(response, call, more))

    @connected
    @rule(
        at=mostly_the_last,
        calls=st.lists(some, max_size=3, unique=True),
        void=st.lists(st.integers(6, 9), max_size=2, unique=True),
        usage=flags,
    )
    def response_ends(
        self, at: int, calls: list[int], void: list[int], usage: bool
    ) -> None:
        response = self.started[-1 - at % len(self.started)]
        names = [f"e{self.socket % 3}{id_}" for id_ in calls]
        voids = [f"e{self.socket % 3}{id_}" for id_ in void]
        if self.wire.asks_for_responses:
            for name in names:
                self.takes(name)
        for name in voids:
            self.takes(name)
        ended = ResponseEnded(
            response=response,
            end=ResponseEnd.COMPLETED,
            calls=tuple(ToolCall(name, name, "{}") for name in names),
            void=tuple(voids),
            usage=Usage() if usage else None,
        )
        self.says(ended)
        assert not self.owed.keys() & set(voids) - self.handed
        if self.running == response:
            self.running = None
        self.void.discard(response)

    @connected
    @rule(
        calls=st.lists(some, min_size=1, max_size=3, unique=True),
        then=st.sampled_from(["", "again", "end", "close", "replace", "left"]),
        taken=flags,
    )
    def a_turn_calls(self, calls: list[int], then: str, taken: bool) -> None:
        """What is rare by chance: somebody is answered, and there are calls."""
        if self.rests:
            self.begin()
        self.response_starts(0, fresh=True)
        for again in range(1 + (then == "again")):
            if self.wire.asks_for_responses:
                self.response_ends(0, calls, [6 + again], usage=False)
            else:
                for at, id_ in enumerate(calls):
                    self.calls(0, id_, more=at + 1 < len(calls))
        if then == "left":
            self.leave(0, interim=not taken, wanted=True)
            self.finish(0, matters=taken, silent=False, wait=0)
        if then == "end":
            self.end(0, 99 if taken else 0)
        elif then == "close":
            self.closes(1011, gives_up=False)
        elif then == "replace":
            self.opens(resumed=True, failing=False)
        self.answer(0, wanted=taken, silent=False)

    @connected
    @rule(number=some)
    def calls_are_cancelled(self, number: int) -> None:
        ids = tuple(list(self.owed)[:number])
        with self.step():
            self.excused |= set(ids)
            self.machine.receive(CallsCancelled((*ids, "unknown")), self.now)

    @connected
    @rule(started=flags, item=st.none() | st.sampled_from(["new", "new", "old"]))
    def somebody_speaks(self, started: bool, item: str | None) -> None:
        again = self.machine._interactions.again is not None  # what was said before
        if started:
            before = len(self.queues.get(self.current, ()))
            self.says(SpeechStarted())
            listens = not self.rests and self.current not in self.deaf
            if listens:
                barged = [] if again else [BargedIn()]
                assert self.queues[self.current][before:] == barged
        else:
            name = None if item is None else self.item(item)
            known, before = name in self.items, self.current
            with self.step():
                if not (known or again):
                    self.have_spoken()
                self.machine.receive(SpeechStopped(name), self.now)
            another = self.told and not (known or again)
            if not self.reported:
                assert (self.current != before) == another
            if (another or (again and not known)) and not self.reported:
                self.named(name)

    @connected
    @rule(item=st.sampled_from(["new", "old"]))
    def gets_a_name(self, item: str) -> None:
        name, nameless = self.item(item), self.nameless
        with self.step():
            self.may_begin = False
            self.machine.receive(Committed(name), self.now)
        if nameless is not None and name not in self.items:
            self.items[name], self.nameless = nameless, None

    @connected
    @rule(
        item=st.none() | st.sampled_from(["new", "old"]),
        text=st.sampled_from(["Wait", "Wait!"]),
        final=flags,
        times=st.integers(1, 2),
    )
    def words_come(self, item: str | None, text: str, final: bool, times: int) -> None:
        """They fill in what is known of whoever has spoken, and do nothing else."""
        name = None if item is None else self.item(item)
        whose = self.nameless if name is None else self.items.get(name)
        before = None if whose is None else self.words.get(whose)
        if self.machine.calls.late or self.machine._unspoken:
            return  # this may be the moment to tell of them
        for _ in range(times):
            with self.step():
                self.may_begin = False
                self.machine.receive(Heard(text, final, name), self.now)
                for effect in self.machine.effects:
                    if isinstance(effect, Put):
                        assert (effect.interaction, type(effect.happening)) == (
                            whose,
                            Heard,
                        )
                    else:
                        assert (
                            isinstance(effect, Understood)
                            or effect is SimpleEffect.LOOK
                        )
        if whose is not None and (before is None or not before[1] or final):
            assert self.words[whose] == (text, final)
        elif whose is not None:
            assert self.words.get(whose) == before

    def have_spoken(self) -> None:
        """Where responses are asked for, it is for us to stop the one before."""
        if self.told and self.wire.asks_for_responses and not self.rests:
            self.stops()

    @connected
    @rule(
        event=st.sampled_from(
            [
                Interrupted(),
                HandleIssued("h"),
                HandleIssued(None),
                GoingAway(5.0),
                Complaint(kind=ErrorKind.BAD_REQUEST, code="x", detail="no"),
                UsageSeen(Usage()),
            ]
        )
    )
    def says_something_else(self, event: Event) -> None:
        self.says(event)

    @connected
    @rule()
    def interaction_ends(self) -> None:
        self.says(InteractionEnded())
        self.running = None

    @connected
    @rule(back=some)
    def tools_are_in_force(self, back: int) -> None:
        self.says(ToolsInForce(max(0, self.machine.tools.revision - back)))

    # Whoever makes turns of it.

    @rule(told=flags)
    def somebody_is_told(self, told: bool) -> None:
        self.told = told
        self.machine.tell_spoken(told=told)

    @rule()
    def begin(self) -> None:
        with self.step():
            listened = not self.rests
            running = self.running is not None
            asked = self.asked
            if listened:
                self.stops()
            began = self.machine.begin()
            self.queues[began] = []
        self.begins(began)
        if listened:
            self.asks_nobody()
        can = self.wire.cancels and self.open
        assert self.cancels == (listened and can and (running or asked))

    def interactions(self) -> list[int]:
        return sorted(self.queues, reverse=True)

    @rule(at=some, taken=some)
    def end(self, at: int, taken: int) -> None:
        if not (mine := [x for x in self.interactions() if x not in self.ended]):
            return
        interaction = mine[at % len(mine)]
        left = tuple(self.queues.pop(interaction)[taken:])
        calls = {c.id for x in left if isinstance(x, CallsReady) for c in x.calls}
        self.ended.add(interaction)
        self.handed -= calls
        with self.step():
            self.machine.end(interaction, left, self.now)
        assert not (calls & self.owed.keys()) - self.handed

    @rule(at=some)
    def listens_no_more(self, at: int) -> None:
        if mine := [x for x in self.interactions() if x not in self.ended]:
            self.deaf.add(mine[at % len(mine)])

    @rule(at=some)
    def interrupt(self, at: int) -> None:
        if not self.queues and not self.current:
            return
        of = max(1, self.current - at % 2)
        running, asked = self.running is not None, self.asked
        with self.step():
            if of == self.current:
                self.stops()
            self.machine.interrupt({"i": 0.5}, of=of)
        if of == self.current:
            self.asks_nobody()
        can = self.wire.cancels and self.open and of == self.current
        assert self.cancels == (can and (running or asked))

    @rule(id_=some, wanted=flags, silent=flags)
    def answer(self, id_: int, wanted: bool, silent: bool) -> None:
        ids = [*self.owed, "unknown"]
        name = ids[id_ % len(ids)]
        owed = self.owed.get(name)
        if owed is not None and owed.half:
            return  # nobody knows of it
        here = owed is not None and owed.socket == self.socket and self.open
        expected = Way.NOTHING if owed is None else Way.RESULT if here else Way.TEXT
        schedule = Schedule.SILENT if silent else Schedule.WHEN_IDLE
        call = ToolCall(name, name, "{}")
        with self.step():
            if here and not wanted:
                self.for_nobody(name)
            way = self.machine.answer(
                call, "{}", self.now, schedule=schedule, wanted=wanted
            )
            assert way is expected
        again = self.machine.answer(call, "{}", self.now)
        assert again is Way.NOTHING

    @rule(id_=some, interim=flags, wanted=flags)
    def leave(self, id_: int, interim: bool, wanted: bool) -> None:
        """A call goes on, and its turn does not wait for it."""
        ids = sorted(
            {x for x, owed in self.owed.items() if not owed.half and x in self.handed}
            - self.left
            - self.unsettled
        )
        if not ids:
            return
        name = ids[id_ % len(ids)]
        here = self.owed[name].socket == self.socket and self.open
        self.left.add(name)
        for queue in self.queues.values():  # its turn has taken it
            taken = [
                x for x in queue if isinstance(x, CallsReady) and name in ids_of(x)
            ]
            for event in taken:
                queue.remove(event)
        with self.step():
            if interim and here and not wanted:
                self.for_nobody(name)
            self.machine.leave(
                ToolCall(name, name, "{}"),
                self.now,
                interim="{}" if interim else None,
                wanted=wanted,
            )
        assert (name in self.owed) != interim

    @rule(id_=some, matters=flags, silent=flags, wait=st.sampled_from([0, 60]))
    def finish(self, id_: int, matters: bool, silent: bool, wait: int) -> None:
        """Such a call has come to something."""
        if not self.left:
            return
        name = sorted(self.left)[id_ % len(self.left)]
        self.left.discard(name)
        self.unsettled.add(name)
        with self.step():
            # What server has cancelled gets no answer, and no text without a reason.
            late = LateOutput(
                call=ToolCall(name, name, "{}"),
                output="{}",
                at=self.now,
                schedule=Schedule.SILENT if silent else Schedule.WHEN_IDLE,
                matters=matters,
            )
            self.machine.finish(late)
        self.now += wait

    @rule(number=st.sampled_from([1] * 9 + [COMMANDS + 20]), reply=flags)
    def say(self, number: int, reply: bool) -> None:
        for _ in range(number):
            with self.step():
                self.asked = self.asked or reply
                self.unwanted = self.unwanted and not reply
                self.machine.say(TranscriptLine("user", "Hello"), reply=reply)

    @rule(forbidden=flags)
    def respond(self, forbidden: bool) -> None:
        with self.step():
            self.asked, self.unwanted = True, False
            self.machine.respond(tools_forbidden=forbidden)

    @rule(number=st.sampled_from([1, 1, TEXTS + 2]))
    def remember(self, number: int) -> None:
        for _ in range(number):
            with self.step():
                self.machine.tell(TranscriptLine("user", "(They left.)"))

    @rule(text=st.sampled_from(["", "It rains.", "The sun shines."]), times=some)
    def know(self, text: str, times: int) -> None:
        for at in range(1 + times):
            with self.step():
                self.machine.know(text)
                told = [x for x in self.machine.effects if isinstance(x, SendText)]
                assert len(told) <= (at == 0 and self.open)

    @rule(size=st.sampled_from([1, 60, 500]))
    def hear(self, size: int) -> None:
        with self.step():
            self.machine.hear(bytes(size))
            assert (SendAudio(bytes(size)) in self.machine.effects) == self.open

    @rule(begins=flags)
    def says_where_speech_is(self, begins: bool) -> None:
        if begins:
            with self.step():
                self.machine.speech_begins()
            assert not self.machine.quiet
        else:
            with self.step():
                self.have_spoken()
                self.machine.speech_ends()

    @rule(text=st.sampled_from(["a", "b"]))
    def instruct(self, text: str) -> None:
        with self.step():
            self.machine.instruct(text)
        assert self.machine.setup.instructions == text

    @rule(tools=st.lists(st.sampled_from(TOOLS), max_size=3, unique_by=id))
    def declare(self, tools: list[S2STool]) -> None:
        before, same = self.machine.tools.revision, self.machine.tools.wanted
        with self.step():
            revision = self.machine.declare(tools)
            changed = tuple(tools) != same
            assert revision == before + changed
            wants = [Replace() in self.machine.effects]
            wants.append(SimpleEffect.KEEP_SOCKET in self.machine.effects)
            expected = changed and self.open and not self.wire.live_tools
            assert wants.count(True) == expected

    # What holds whatever has happened.

    @invariant()
    def tools_in_force_never_go_back(self) -> None:
        if hasattr(self, "machine"):
            tools = self.machine.tools
            assert self.in_force <= tools.in_force <= tools.revision
            self.in_force = tools.in_force

    @invariant()
    def whatever_is_owed_somebody_knows_of(self) -> None:
        for id_, owed in self.owed.items():
            assert owed.half or id_ in self.handed

    @invariant()
    def what_was_left_is_told_at_rest(self) -> None:
        if hasattr(self, "machine") and self.wire.asks_for_responses:
            assert not self.unsettled  # nothing is said to it by itself
        for id_ in self.left:
            assert id_ in self.machine.calls.left

    @invariant()
    def it_is_quiet_if_nobody_waits_for_anything(self) -> None:
        if hasattr(self, "machine") and self.machine.quiet:
            assert self.rests
            assert not self.owed
            assert self.running is None or self.running in self.void

    @invariant()
    def what_waits_is_bounded(self) -> None:
        if hasattr(self, "machine"):
            unsent = self.machine.unsent
            assert len(unsent._commands) <= COMMANDS
            assert len(unsent._texts) <= TEXTS
            audio = [len(x.pcm) for x, _ in unsent._audio if isinstance(x, SendAudio)]
            assert len(audio) <= 1 or sum(audio) <= AUDIO_LIMIT


TestConversation = Conversation.TestCase
TestConversation.settings = settings(stateful_step_count=100)
