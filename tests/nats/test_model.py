"""Subscriptions and requests in any order, held against lists and a set."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import attrs
from hypothesis import given
from hypothesis import strategies as st

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio.nats import (
    NatsDisconnected,
    NatsMessages,
    NoResponders,
    open_requests,
)

from .fake import linked

SUBJECTS = ("a", "b")
CAPACITY = 3
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("subscribe"), st.sampled_from(SUBJECTS)),
        st.tuples(st.just("leave"), st.integers(0, 5)),
        st.tuples(st.just("publish"), st.sampled_from(SUBJECTS)),
        st.tuples(st.just("read"), st.integers(0, 5)),
        st.tuples(st.just("ask"), st.sampled_from(SUBJECTS)),
        st.tuples(st.just("reply"), st.integers(0, 5)),
        st.tuples(st.just("cancel"), st.integers(0, 5)),
        st.tuples(st.just("break"), st.just(0)),
        st.tuples(st.just("connect"), st.just(0)),
    ),
    max_size=30,
)


@attrs.define(eq=False)
class Subscribed:
    """A subscription, and the messages that should wait in it."""

    subject: str
    messages: NatsMessages
    stack: AsyncExitStack
    waiting: list[tuple[bytes, str]] = attrs.field(factory=list)
    dropped: int = 0

    def expect(self, payload: bytes, reply: str = "") -> None:
        if len(self.waiting) < CAPACITY:
            self.waiting.append((payload, reply))
        else:
            self.dropped += 1


@attrs.define(eq=False)
class Asked:
    """A request, and how it should end."""

    number: int
    scope: trio.CancelScope
    expected: object = None
    result: object = None


@given(STEPS)
def test_it_does_what_lists_would_do(steps: list[tuple[str, Any]]) -> None:
    async def bounded() -> None:
        with trio.fail_after(3000):
            await run(steps)

    trio.run(bounded, clock=MockClock(autojump_threshold=0))


async def run(steps: list[tuple[str, Any]]) -> None:
    subscribed: list[Subscribed] = []
    asked: list[Asked] = []
    connected, last = True, 0
    async with linked() as (server, nats), trio.open_nursery() as nursery:
        with open_requests(nats) as requests:

            async def ask(one: Asked, subject: str) -> None:
                with one.scope:
                    try:
                        payload = b"%d" % one.number
                        found = await requests.ask(subject, payload, within=10**6)
                        one.result = found.payload
                    except (NatsDisconnected, NoResponders) as error:
                        one.result = type(error)

            for step, given_ in steps:
                last += 1
                match step:
                    case "subscribe":
                        stack = AsyncExitStack()
                        opened = nats.subscribe(given_, capacity=CAPACITY)
                        messages = await stack.enter_async_context(opened)
                        subscribed.append(Subscribed(given_, messages, stack))
                    case "leave" if given_ < len(subscribed):
                        await subscribed.pop(given_).stack.aclose()
                    case "publish":
                        try:
                            await nats.publish(given_, b"%d" % last)
                            assert connected
                        except NatsDisconnected:
                            assert not connected
                        for one in subscribed:
                            if connected and one.subject == given_:
                                one.expect(b"%d" % last)
                    case "read" if given_ < len(subscribed):
                        one = subscribed[given_]
                        if one.waiting:
                            message = await anext(one.messages)
                            assert message.payload == one.waiting.pop(0)[0]
                    case "ask":
                        new = Asked(last, trio.CancelScope())
                        asked.append(new)
                        nursery.start_soon(ask, new, given_)
                        await wait_all_tasks_blocked()
                        hearing = [x for x in subscribed if x.subject == given_]
                        if not connected:
                            new.expected = NatsDisconnected
                        elif not hearing:
                            new.expected = NoResponders
                        for one in hearing if connected else []:
                            reply = f"{requests.inbox}.{requests._last:x}"
                            one.expect(b"%d" % last, reply)
                    case "reply" if given_ < len(asked) and connected:
                        one_asked = asked[given_]
                        token = f"{requests.inbox}.{given_ + 1:x}"
                        await nats.publish(token, b"%d!" % one_asked.number)
                        if one_asked.expected is None:
                            one_asked.expected = b"%d!" % one_asked.number
                    case "cancel" if given_ < len(asked):
                        asked[given_].scope.cancel()
                        if asked[given_].expected is None:
                            asked[given_].expected = "cancelled"
                    case "break" if connected:
                        server.down.add("fake")
                        await server.hang_up()
                        connected = False
                        for each in asked:
                            if each.expected is None:
                                each.expected = NatsDisconnected
                    case "connect" if not connected:
                        server.down.clear()
                        await nats.wait_connected(within=5)
                        connected = True
                if connected:
                    await nats.flush(within=5)
                await wait_all_tasks_blocked()
                assert nats.is_connected == connected
                for one in subscribed:
                    waiting = [x.payload for x in one.messages._waiting]
                    assert waiting == [payload for payload, _ in one.waiting]
                    assert one.messages.dropped == one.dropped
                open_ = 0
                for each in asked:
                    open_ += each.expected is None
                    wanted = None if each.expected == "cancelled" else each.expected
                    assert each.result == wanted
                assert len(requests._open) == open_
                if connected:
                    (peer,) = server.peers
                    assert len(peer.subscriptions) == len(subscribed) + 1
            for one in subscribed:
                await one.stack.aclose()
            nursery.cancel_scope.cancel()
