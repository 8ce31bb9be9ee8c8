"""Random scenarios of HTTP sessions, against their invariants.

An hour is a list of deeds of three clients and a seed of the order of tasks; it is
played on virtual time. Every request has at most one answer, however often its client
loses the connection, and has it in the end if its session lives; sessions end once; and
nothing is left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import attrs
from hypothesis import example, given
from hypothesis import strategies as st

import trio
from trio.testing import wait_all_tasks_blocked

from glyphoxa_trio.simulation import virtual

from .driver import Exchange, Peer, Served, open_served
from .notes import Notes
from .test_fuzz import count_tasks, no_errors

CLIENTS: Final = 3
Deed = tuple[Any, ...]

_WHO = st.integers(0, CLIENTS - 1)
DEEDS = st.one_of(
    st.tuples(st.just("call"), _WHO, st.sampled_from([0.0, 0.5, 3.0, 20.0])),
    st.tuples(st.just("call"), _WHO, st.sampled_from([0.0, 0.5, 3.0, 20.0])),
    st.tuples(st.just("drop"), _WHO, st.integers(0, 3)),
    st.tuples(st.just("resume"), _WHO, st.integers(0, 3)),
    st.tuples(st.just("cancel"), _WHO, st.integers(0, 3)),
    st.tuples(st.just("listen"), _WHO),
    st.tuples(st.just("hang up"), _WHO),
    st.tuples(st.just("write"), st.sampled_from("ab")),
    st.tuples(st.just("sleep"), st.sampled_from([0.0, 0.1, 0.5, 2.0, 30.0])),
    st.tuples(st.just("sleep"), st.sampled_from([0.0, 0.1, 0.5, 2.0, 30.0, 1900.0])),
    st.tuples(st.just("delete"), _WHO),
)


@attrs.define(eq=False)
class Call:
    """One request, over as many connections as it took."""

    session: str
    id: str
    exchanges: list[Exchange]
    cancelled: bool = False

    @property
    def answers(self) -> dict[str, Any]:
        """By the id of their event: one that is sent again is not another one."""
        found: dict[str, Any] = {}
        for exchange in self.exchanges:
            if not exchange.headers.get("content-type", "").startswith("text/event"):
                continue
            for number, message in exchange.events:
                if message is not None and "method" not in message:
                    assert message["id"] == self.id
                    found[number] = message
        return found

    @property
    def last_event(self) -> str | None:
        numbers = [number for e in self.exchanges for number, _ in e.events if number]
        return max(numbers, key=int, default=None)


@attrs.define(eq=False)
class Client:
    peer: Peer
    nursery: trio.Nursery
    calls: list[Call] = attrs.field(factory=list)
    stream: Exchange | None = None
    opened: list[str] = attrs.field(factory=list)
    _ids: int = 0

    @property
    def session(self) -> str:
        return self.peer.headers.get("mcp-session-id", "")

    async def be_greeted(self, served: Served) -> None:
        known = served.service.sessions.find(self.session, "")
        if known is None:
            for name in ("mcp-session-id", "mcp-protocol-version"):
                self.peer.headers.pop(name, None)
            self.calls.clear()
            self.stream = None
            await self.peer.greet()
            self.opened.append(self.session)
            for uri in ("note://a", "note://b"):
                await self.peer.ask(
                    "POST", self.peer.request("resources/subscribe", {"uri": uri})
                )

    def call(self, seconds: float) -> Call:
        self._ids += 1
        number = f"call-{self._ids}"
        params = {"name": "sleep", "arguments": {"seconds": seconds}}
        body = self.peer.request("tools/call", params, id=number)
        exchange = self.peer.begin(self.nursery, "POST", body)
        call = Call(self.session, number, [exchange])
        self.calls.append(call)
        return call

    def resume(self, call: Call) -> None:
        last = call.last_event
        if last is not None:
            call.exchanges.append(
                self.peer.begin(self.nursery, "GET", last_event_id=last)
            )


@attrs.define(eq=False)
class Hour:
    calls: list[Call] = attrs.field(factory=list)
    opened: list[str] = attrs.field(factory=list)
    ended: list[str] = attrs.field(factory=list)


def played(deeds: Sequence[Deed], seed: int) -> Hour:
    hour = Hour()
    virtual.run(lambda: _play(deeds, hour), seed=seed)
    return hour


async def _play(deeds: Sequence[Deed], hour: Hour) -> None:
    notes = Notes()
    async with open_served(notes.offer()) as served:
        before = count_tasks()
        async with trio.open_nursery() as nursery:
            clients = [Client(served.peer(), nursery) for _ in range(CLIENTS)]
            for deed in deeds:
                await _do(deed, clients, served, notes, hour)
            for client in clients:
                await _settle(client, served)
            await trio.sleep(2000)
            for client in clients:
                if client.stream is not None:
                    client.stream.leave()
                for call in client.calls:
                    for exchange in call.exchanges:
                        exchange.leave()
        await trio.sleep(2000)  # what nobody uses has ended by itself
        shim = served.service.shim
        assert (len(shim.sessions), shim.running.count) == (0, 0)
        assert (shim.sessions.log.bytes, len(shim.sessions.log)) == (0, 0)
        await wait_all_tasks_blocked()
        assert count_tasks() == before
        hour.opened = [session for client in clients for session in client.opened]
        hour.ended = notes.gone


async def _do(
    deed: Deed, clients: list[Client], served: Served, notes: Notes, hour: Hour
) -> None:
    match deed:
        case ("sleep", seconds):
            await trio.sleep(seconds)
            return
        case ("write", name):
            notes.write(name, str(trio.current_time()))
            return
    client = clients[deed[1]]
    await client.be_greeted(served)
    calls = client.calls
    match deed:
        case ("call", _, seconds):
            hour.calls.append(client.call(seconds))
        case ("drop", _, which) if which < len(calls):
            calls[-1 - which].exchanges[-1].leave()
        case ("resume", _, which) if which < len(calls):
            client.resume(calls[-1 - which])
        case ("cancel", _, which) if which < len(calls):
            calls[-1 - which].cancelled = True
            told = {"requestId": calls[-1 - which].id}
            await client.peer.notify("notifications/cancelled", told)
        case ("listen", _) if client.stream is None:
            client.stream = client.peer.begin(client.nursery, "GET")
        case ("hang up", _) if client.stream is not None:
            client.stream.leave()
            client.stream = None
        case ("delete", _):
            assert (await client.peer.ask("DELETE")).status == 200
            assert (await client.peer.ask("DELETE")).status == 404


async def _settle(client: Client, served: Served) -> None:
    """What is owed comes to whoever comes back for it."""
    await trio.sleep(25)  # longer than any call takes
    if served.service.sessions.find(client.session, "") is None:
        return
    for call in client.calls:
        if not call.answers:
            client.resume(call)
    await trio.sleep(1)
    for call in client.calls:
        # One that was dropped before its first event has nothing to come back to.
        assert call.answers or call.last_event is None, call.id


@example(  # the session ends while the call that it has taken is handed on
    deeds=[
        ("listen", 0),
        ("call", 0, 0.0),
        ("write", "a"),
        ("sleep", 0.0),
        ("delete", 0),
    ],
    seed=0,
)
@given(
    deeds=st.lists(DEEDS, max_size=25),
    seed=st.integers(0, 2**32 - 1),
)
def test_every_request_has_one_answer_and_nothing_is_left(
    deeds: list[Deed], seed: int
) -> None:
    with no_errors():
        hour = played(deeds, seed)
    for call in hour.calls:
        assert len(call.answers) <= 1
        for answer in call.answers.values():
            if "error" in answer:
                # -32800: cancelled; -32000: the session ended meanwhile.
                codes = [-32800, -32000] if call.cancelled else [-32000]
                assert answer["error"]["code"] in codes
    assert Counter(hour.ended) == Counter(hour.opened)
    assert set(Counter(hour.ended).values()) <= {1}
