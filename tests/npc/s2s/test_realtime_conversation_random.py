"""Whatever the server says, whoever speaks, wherever the socket is cut: each call is
answered at most once and never against the wire, nothing is above the cap, and in the
end the conversation is open or closed, and never in between.
"""

from __future__ import annotations

from hypothesis import event, given
from hypothesis import strategies as st

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio.npc import TurnDone
from glyphoxa_trio.providers.llm import ErrorKind
from glyphoxa_trio.providers.s2s import (
    AudioOut,
    CallReady,
    CallsCancelled,
    Cancel,
    Capabilities,
    Command,
    Complaint,
    GoingAway,
    HandleIssued,
    Heard,
    InteractionEnded,
    Interrupted,
    ResponseEnd,
    ResponseEnded,
    ResponseStarted,
    SendResult,
    SpeechStarted,
    SpeechStopped,
    Spoken,
)
from glyphoxa_trio.tools.outcome import ToolCall
from glyphoxa_trio.tools.tier import Tier

from ..support import Ran, Table, ask, open_table
from .support import ANSWERS, ASKS, Links, ScriptedLink, live, lost
from .test_turns import BOB

TOOLS = ("look", "write", "slow", "nothing")


class Server:
    """What the server does, one step at a time: legal on its wire, or a cut of it."""

    def __init__(self, links: Links) -> None:
        self.links = links
        self.count = 0
        self.response: dict[ScriptedLink, str] = {}
        self.calls: dict[ScriptedLink, list[ToolCall]] = {}
        links.on_send = self.sent

    def sent(self, link: ScriptedLink, command: Command) -> None:
        if isinstance(command, Cancel) and link in self.response:
            self.end(link, self.response[link], ResponseEnd.CANCELLED)

    @property
    def link(self) -> ScriptedLink | None:
        if not self.links.opened or self.links.last.closed:
            return None
        return self.links.last

    def name(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"

    def do(self, step: str, data: st.DataObject) -> None:
        link = self.link
        if link is None:
            return
        running = self.response.get(link)
        match step:
            case "begin" if running is None:
                self.response[link] = self.name("r")
                self.calls[link] = []
                link.push(ResponseStarted(self.response[link]))
            case "speak" if running is not None:
                link.push(
                    Spoken(running, f"{running}.i", "Well. "),
                    AudioOut(running, f"{running}.i", bytes(960)),
                )
            case "call" if running is not None:
                names = data.draw(st.lists(st.sampled_from(TOOLS), max_size=3))
                calls = [ToolCall(self.name("c"), n, "{}") for n in names]
                self.calls[link] += calls
                for i, call in enumerate(calls):
                    link.push(CallReady(running, call, more=i + 1 < len(calls)))
            case "repeat" if running is not None and self.calls[link]:
                link.push(CallReady(running, self.calls[link][-1]))
            case "end" if running is not None:
                self.end(link, running, ResponseEnd.COMPLETED)
            case "cut" if running is not None:
                self.end(link, running, ResponseEnd.CANCELLED)
            case "fail" if running is not None:
                self.end(link, running, ResponseEnd.FAILED)
            case "cancel calls" if not link.capabilities.asks_for_responses:
                answered = {c.call_id for c in link.all(SendResult)}
                owed = [c.id for c in self.calls.get(link, ()) if c.id not in answered]
                link.push(CallsCancelled(tuple(owed)))
            case "speech":
                if running is not None:
                    self.end(link, running, ResponseEnd.CANCELLED)
                if link.capabilities.asks_for_responses:
                    link.push(SpeechStarted(), SpeechStopped())
                else:
                    link.push(Interrupted())
            case "words":
                link.push(Heard("think carefully", data.draw(st.booleans())))
            case "close":
                code = data.draw(st.sampled_from([1000, 1001, 1006, 1007, 1008, 1011]))
                link.push(lost(code, retryable=code not in (1007, 1008)))
            case "go away":
                link.push(GoingAway(6.0))
            case "handle" if link.capabilities.resumes:
                link.push(HandleIssued(data.draw(st.sampled_from([None, "h"]))))
            case "complain":
                kind = data.draw(st.sampled_from(ErrorKind))
                link.push(Complaint(kind=kind, code="x", detail="no"))
            case _:
                pass

    def end(self, link: ScriptedLink, response: str, how: ResponseEnd) -> None:
        calls = tuple(self.calls[link])
        holds = how is ResponseEnd.COMPLETED
        link.push(
            ResponseEnded(
                response=response,
                end=how,
                calls=calls if holds else (),
                void=() if holds else tuple(call.id for call in calls),
            )
        )
        del self.response[link]
        if not link.capabilities.asks_for_responses:
            link.push(InteractionEnded())


STEPS = (
    *("begin", "speak", "call", "repeat", "end", "cut", "fail", "cancel calls"),
    *("speech", "words", "close", "go away", "handle", "complain"),
    *("say", "leave", "refuse", "wait", "tier"),
)


@given(
    st.sampled_from([ASKS, ANSWERS]),
    st.lists(st.sampled_from(STEPS), min_size=8, max_size=60),
    st.data(),
)
def test_every_call_has_at_most_one_answer_and_every_turn_an_end(
    wire: Capabilities, steps: list[str], data: st.DataObject
) -> None:  # G35, A20; field problems 1 to 6, 9, 12, 17
    links = Links(wire)
    server = Server(links)
    said: list[trio.CancelScope] = []
    asked: list[int] = []

    async def talk(table: Table) -> None:
        with trio.CancelScope() as scope:
            said.append(scope)
            asked.append(1)
            await ask(table.npc, "Think of it", speaker=f"p{len(asked)}")

    async def main() -> None:
        ran = Ran()
        tools = (
            ran.tool("look", 0.125),
            ran.tool("write", 0.25, read_only=False),
            ran.tool("slow", 3.0),
        )
        conversation = live(links, idle=30.0, rotate=120.0)
        async with (
            open_table([], *tools, live=conversation, npc=BOB, tier=Tier.DEEP) as table,
            trio.open_nursery() as nursery,
        ):
            for step in ("say", *steps):
                match step:
                    case "say" if len(asked) - len(table.events.all(TurnDone)) < 6:
                        nursery.start_soon(talk, table)
                    case "leave" if said:
                        said.pop().cancel()
                    case "refuse":
                        code = data.draw(st.sampled_from([1006, 1007]))
                        links.refusals.append(lost(code, retryable=code == 1006))
                    case "wait":
                        await trio.sleep(data.draw(st.sampled_from([0.1, 0.3, 4.0])))
                    case _:
                        server.do(step, data)
                if data.draw(st.booleans()):
                    await wait_all_tasks_blocked()
            await wait_all_tasks_blocked()
            for scope in said:
                scope.cancel()
            links.refusals.clear()
            await trio.sleep(100.0)  # beyond every limit there is
            spoken = [d.turn for d in table.events.all(TurnDone)]
            assert len(spoken) == len(set(spoken)) >= len(asked)
            assert len(spoken) == table.session.memory.turns
            # Silent by now: the socket is closed, and the next word opens one.
            assert not conversation.statistics().owed
            conversation.hear(bytes(960))
            await wait_all_tasks_blocked()
            assert conversation.statistics().connected
        assert links.faults == []
        event(f"sockets: {min(len(links.opened), 5)}")

    trio.run(main, clock=MockClock(autojump_threshold=0))
