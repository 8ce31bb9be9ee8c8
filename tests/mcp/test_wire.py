"""The wire against streams in memory: virtual time, so every time is exact.

`Rig` is both ends: a wire that runs, and a server that is played by the test. The
pipe towards the server is of the kind that blocks until somebody reads, so a test
that does not read is a server that does not read.
"""

from __future__ import annotations

import json
import select
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, cast

import attrs
import mcp_types as types
import outcome
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import MCPError, NoBackChannelError
from opentelemetry import trace

import trio
from trio.testing import (
    MockClock,
    lockstep_stream_one_way_pair,
    memory_stream_one_way_pair,
    wait_all_tasks_blocked,
)

from glyphoxa_trio.mcp import bounds
from glyphoxa_trio.mcp.condensing import Unusable
from glyphoxa_trio.mcp.framing import (
    LONGEST_MESSAGE,
    MOST_ANSWERS,
    MOST_QUEUED,
    ByteOutbox,
    Framing,
    Large,
    LineTooLarge,
    correlate,
    decode,
    encode,
)
from glyphoxa_trio.mcp.incoming import MOST_ASKED, MOST_UNHEARD
from glyphoxa_trio.mcp.transport import SessionLost
from glyphoxa_trio.mcp.wire import ConnectionEnded, PipeDispatcher, RequestUnsent

from ..traced import TRACER, about, recorded

Message = dict[str, Any]


@attrs.define(eq=False)
class Rig:
    """A running wire, and the server at its other end."""

    wire: PipeDispatcher
    loss: SessionLost
    noted: list[bytes]
    writes: list[bytes]
    nursery: trio.Nursery
    _from_wire: trio.abc.ReceiveStream
    _to_wire: trio.abc.SendStream
    notified: list[tuple[str, Any]] = attrs.field(factory=list)
    ended: dict[object, Any] = attrs.field(factory=dict)
    answer: Callable[[Any, str, Any], Any] = lambda context, method, params: {}
    intercept: Callable[[str, Any], bool] = lambda method, params: False
    on_notify: Callable[[str, Any], Any] | None = None
    session: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    over: bool = False
    _lines: list[bytes] = attrs.field(factory=list)
    _framing: Framing = attrs.field(factory=Framing)

    async def run(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        async def on_request(context: Any, method: str, params: Any) -> Message:
            answer = self.answer(context, method, params)
            return answer if isinstance(answer, dict) else await answer

        async def on_notify(context: Any, method: str, params: Any) -> None:
            self.notified.append((method, params))
            if self.on_notify is not None:
                await self.on_notify(method, params)

        def intercept(method: str, params: Mapping[str, Any] | None) -> bool:
            return self.intercept(method, params)

        with self.session:
            await self.wire.run(
                on_request, on_notify, intercept, task_status=task_status
            )
        self.over = True

    async def hear(self) -> Message:
        """The next message of the client."""
        while not self._lines:
            chunk = await self._from_wire.receive_some(2**20)
            assert chunk, "the client has closed"
            self._lines += [x for x in self._framing.feed(chunk) if type(x) is bytes]
        message: Message = json.loads(self._lines.pop(0))
        assert message.pop("jsonrpc") == "2.0"
        return message

    async def say(self, *messages: Message | bytes) -> None:
        """Say these in one breath, and give the client time to take them in."""
        lines = (
            one
            if isinstance(one, bytes)
            else json.dumps({"jsonrpc": "2.0"} | one).encode()
            for one in messages
        )
        await self._to_wire.send_all(b"".join(line + b"\n" for line in lines))
        await wait_all_tasks_blocked()

    async def hang_up(self) -> None:
        await self._to_wire.aclose()
        await wait_all_tasks_blocked()

    def request(self, name: object, **opts: Any) -> trio.CancelScope:
        """Start a request; how it ends, and when, is in ``ended[name]``."""
        scope = trio.CancelScope()

        async def run() -> None:
            with scope:
                try:
                    params = {"name": name}
                    result: Any = await self.wire.send_raw_request(
                        "do", params, cast("CallOptions", opts)
                    )
                except Exception as error:
                    result = error
                assert name not in self.ended, "ended twice"
                self.ended[name] = result
            if scope.cancelled_caught:
                assert name not in self.ended, "ended twice"
                self.ended[name] = "left"
            self.ended[name, "at"] = trio.current_time()

        self.nursery.start_soon(run)
        return scope

    def begin(self, name: object) -> Begun:
        """Start a request that no task waits for; it ends in ``ended[name]``, too."""

        def settle(answer: outcome.Maybe[Any]) -> None:
            assert name not in self.ended, "ended twice"
            if isinstance(answer, outcome.Error):
                self.ended[name] = answer.error
            else:
                self.ended[name] = answer.value
            self.ended[name, "at"] = trio.current_time()

        try:
            leave = self.wire.begin("do", {"name": name}, settle)
        except MCPError as error:
            self.ended[name] = error
            return Begun(self, name, lambda: None)
        return Begun(self, name, leave)

    async def requests(self, *names: str) -> None:
        """Start requests, one after the other, and hear them: their ids are 1, 2 …"""
        for ident, name in enumerate(names, 1):
            self.request(name)
            assert await self.hear() == {
                "id": ident,
                "method": "do",
                "params": {"name": name},
            }


@attrs.frozen
class Begun:
    """What leaves a request that was begun, as its task's scope would."""

    rig: Rig
    name: object
    leave: Callable[[], None]

    def cancel(self) -> None:
        self.leave()
        self.rig.ended.setdefault(self.name, "left")


@asynccontextmanager
async def rig(
    *,
    lockstep: bool = True,
    write_now: Callable[[bytes], bool] = lambda data: False,
    **habits: Any,
) -> AsyncGenerator[Rig]:
    to_server, from_wire = (
        lockstep_stream_one_way_pair() if lockstep else memory_stream_one_way_pair()
    )
    to_wire, from_server = memory_stream_one_way_pair()
    noted: list[bytes] = []
    writes: list[bytes] = []

    class Counted(trio.abc.SendStream):
        async def send_all(self, data: bytes | bytearray | memoryview) -> None:
            writes.append(bytes(data))
            await to_server.send_all(data)

        async def wait_send_all_might_not_block(self) -> None:
            await to_server.wait_send_all_might_not_block()

        async def aclose(self) -> None:
            await to_server.aclose()

    async def lives() -> None:
        await trio.lowlevel.checkpoint()

    loss = SessionLost()
    wire = PipeDispatcher(
        from_server,
        Counted(),
        loss=loss,
        note=noted.append,
        fate=lives,
        write_now=write_now,
    )
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            it = Rig(wire, loss, noted, writes, nursery, from_wire, to_wire, **habits)
            await nursery.start(it.run)
            yield it
            nursery.cancel_scope.cancel()


# ---------------------------------------------------------------- one request


async def test_a_request_is_written_as_json_rpc_and_gets_its_result() -> None:
    async with rig() as it:
        it.request("a")
        assert await it.hear() == {"id": 1, "method": "do", "params": {"name": "a"}}
        await it.say({"id": 1, "result": {"done": "é\u2028"}})
        assert it.ended["a"] == {"done": "é\u2028"}
        assert it.noted == []


async def test_answers_come_in_any_order_and_each_to_its_own() -> None:  # N20
    async with rig() as it:
        for name in range(50):
            it.request(name)
            await wait_all_tasks_blocked()
        idents = {}
        for _ in range(50):
            heard = await it.hear()
            idents[heard["params"]["name"]] = heard["id"]
        for name in [*range(49, 0, -2), *range(0, 50, 2)]:
            await it.say({"id": idents[name], "result": {"name": name}})
        assert {name: it.ended[name] for name in range(50)} == {
            name: {"name": name} for name in range(50)
        }


@pytest.mark.parametrize(
    ("given", "echoed"), [(7, "7"), ("7", 7), ("7", "7"), ("x", "x")]
)
async def test_an_id_is_the_same_as_text_and_as_a_number(
    given: int | str, echoed: int | str
) -> None:
    async with rig() as it:
        it.request("a", request_id=given)
        assert (await it.hear())["id"] == given  # word for word
        await it.say({"id": echoed, "result": {}})
        assert it.ended["a"] == {}


async def test_an_id_that_is_in_use_is_refused_and_not_given_out() -> None:
    async with rig() as it:
        it.request("taken", request_id="1")
        await it.hear()
        with pytest.raises(ValueError, match="'1' is in use, or not valid"):
            await it.wire.send_raw_request("do", None, {"request_id": "1"})
        with pytest.raises(ValueError, match="1 is in use, or not valid"):
            await it.wire.send_raw_request("do", None, {"request_id": 1})
        it.request("next")
        assert (await it.hear())["id"] == 2


async def test_an_error_of_the_server_is_that_requests_error() -> None:
    async with rig() as it:
        await it.requests("a", "b")
        error = {"code": -32000, "message": "Connection closed", "data": [1]}
        await it.say({"id": 1, "error": error})
        assert isinstance(it.ended["a"], MCPError)
        assert not isinstance(
            it.ended["a"], ConnectionEnded | RequestUnsent
        )  # it only says so
        assert it.ended["a"].error.model_dump() == error
        assert "b" not in it.ended
        assert it.loss.why is None


async def test_what_is_asked_for_in_one_moment_is_one_write() -> None:
    async with rig() as it:
        for name in range(64):
            it.request(name)
        for _ in range(64):
            await it.hear()
        assert len(it.writes) == 1


async def test_a_write_takes_no_more_than_a_pipe_holds() -> None:
    async with rig() as it:
        for name in range(5):
            it.request(name, request_id=f"{name}{'x' * 30_000}")
        for _ in range(5):
            await it.hear()
        assert [write.count(b"\n") for write in it.writes] == [2, 2, 1]


@pytest.mark.parametrize(
    "params",
    [
        {"x": float("nan")},
        {"x": float("inf")},
        {"x": "\ud800"},
        {"x": object()},
        {"x": "x" * LONGEST_MESSAGE},
    ],
    ids=["nan", "inf", "half a character", "object", "too long"],
)
async def test_what_cannot_be_said_is_refused_and_costs_nothing(
    params: dict[str, Any],
) -> None:
    async with rig() as it:
        with pytest.raises(MCPError) as caught:
            await it.wire.send_raw_request("do", params)
        assert caught.value.code == types.INVALID_PARAMS
        it.request("a")
        assert (await it.hear())["params"] == {"name": "a"}


async def test_a_text_about_infinity_is_only_a_text() -> None:
    async with rig() as it:
        it.request("Infinity and NaN")
        assert (await it.hear())["params"] == {"name": "Infinity and NaN"}
        await it.say({"id": 1, "result": {"said": "to Infinity"}})
        assert it.ended["Infinity and NaN"] == {"said": "to Infinity"}


async def test_nothing_is_sent_before_it_runs() -> None:
    send, _ = memory_stream_one_way_pair()
    _, receive = memory_stream_one_way_pair()
    wire = PipeDispatcher(
        receive, send, loss=SessionLost(), note=print, fate=trio.sleep_forever
    )
    with pytest.raises(RuntimeError, match=r"before run\(\)"):
        await wire.send_raw_request("do", None)


# -------------------------------------------------------------------- leaving


async def test_a_caller_who_leaves_tells_the_server() -> None:  # T6
    async with rig() as it:
        scope = it.request("a")
        await it.hear()
        scope.cancel()
        heard = await it.hear()
        assert heard["method"] == "notifications/cancelled"
        assert heard["params"]["requestId"] == 1
        assert it.ended["a"] == "left"
        await it.say({"id": 1, "result": {}})  # late
        assert it.noted[0].startswith(b"an answer to no request: ")


async def test_a_request_without_a_task_is_settled_or_left() -> None:
    async with rig() as it:
        stuck, queued, left = it.begin("stuck"), it.begin("queued"), it.begin("left")
        left.cancel()
        left.cancel()  # which is no error
        assert (await it.hear())["params"] == {"name": "stuck"}
        assert (await it.hear())["params"] == {"name": "queued"}
        await it.say({"id": 1, "result": {"of": "stuck"}})
        await it.say({"id": 2, "error": {"code": 5, "message": "no"}})
        assert it.ended["stuck"] == {"of": "stuck"}
        assert (it.ended["queued"].code, it.ended["left"]) == (5, "left")
        stuck.cancel()
        queued.cancel()
        heard = it.begin("heard")
        await it.hear()
        heard.cancel()
        assert (await it.hear())["method"] == "notifications/cancelled"
        with pytest.raises(MCPError, match="cannot be sent"):
            it.wire.begin("do", {"half": "\udc80"}, lambda answer: None)
        it.begin("lost")
        await it.hear()
        it.begin("unread")
        it.wire.close("it exploded")
        assert isinstance(it.ended["lost"], ConnectionEnded)
        assert isinstance(it.ended["unread"], RequestUnsent)
        with pytest.raises(RequestUnsent):
            it.wire.begin("do", {}, lambda answer: None)


async def test_a_lone_small_request_is_written_at_once() -> None:
    at_once: list[bytes] = []
    full = False

    def write_now(data: bytes) -> bool:
        if not full:
            at_once.append(data)
        return not full

    async with rig(write_now=write_now) as it:
        await wait_all_tasks_blocked()  # its writer is idle
        it.begin("first")
        assert [json.loads(x)["params"] for x in at_once] == [{"name": "first"}]
        it.begin("second")  # with the first in the air, all go together
        it.begin("third")
        assert len(at_once) == 1
        assert [(await it.hear())["id"] for _ in range(2)] == [2, 3]
        for ident in (1, 2, 3):
            await it.say({"id": ident, "result": {}})
        assert [it.ended[x] for x in ("first", "second", "third")] == [{}] * 3
        it.begin("x" * select.PIPE_BUF)
        assert len(at_once) == 1
        await it.hear()
        await it.say({"id": 4, "result": {}})
        full = True
        it.begin("late")
        assert (await it.hear())["params"] == {"name": "late"}
        assert len(at_once) == 1


async def test_what_a_pipe_has_not_taken_was_certainly_not_read() -> None:
    # The one request is in the pipe, unread, the other one in the writer's hands.
    held = 0

    async with rig(write_now=lambda data: True) as it:
        await wait_all_tasks_blocked()
        it.wire._unread = lambda: held
        it.begin("in the pipe")
        held = it.wire._traffic._written
        it.request("in hand")
        await wait_all_tasks_blocked()
        it.wire.close("it was killed")
        await wait_all_tasks_blocked()
        assert isinstance(it.ended["in the pipe"], RequestUnsent)
        assert isinstance(it.ended["in hand"], RequestUnsent)


async def test_a_request_nobody_may_cancel_is_left_silently(
    autojump_clock: MockClock,
) -> None:
    async with rig() as it:
        it.request("hello", cancel_on_abandon=False).deadline = 1
        await it.hear()
        await trio.sleep(2)
        assert it.ended["hello"] == "left"
        it.request("a")
        assert (await it.hear())["method"] == "do"


async def test_a_request_that_is_still_queued_is_not_sent_when_its_caller_leaves() -> (
    None
):
    async with rig() as it:
        it.request("stuck")  # the writer holds it; nobody reads
        await wait_all_tasks_blocked()
        leaving = it.request("leaves")
        it.request("stays")
        await wait_all_tasks_blocked()
        leaving.cancel()
        await wait_all_tasks_blocked()
        heard = [(await it.hear())["params"]["name"] for _ in range(2)]
        assert heard == ["stuck", "stays"]
        assert len(it.writes) == 2  # and nothing is cancelled that never was


async def test_a_pipe_that_is_stuck_holds_up_no_deadline(
    autojump_clock: MockClock,
) -> None:  # T1
    async with rig() as it:
        for name in range(5):
            it.request(name).deadline = 0.25 + name
            await wait_all_tasks_blocked()
        await trio.sleep(5)
        assert [it.ended[name, "at"] for name in range(5)] == [
            0.25,
            1.25,
            2.25,
            3.25,
            4.25,
        ]
        # What was in the pipe is cancelled; the others never were.
        assert (await it.hear())["params"] == {"name": 0}
        assert (await it.hear())["params"]["requestId"] == 1
        assert len(it.writes) == 2


async def test_an_already_cancelled_caller_sends_nothing() -> None:
    async with rig() as it:
        with trio.CancelScope() as scope:
            scope.cancel()
            await it.wire.send_raw_request("do", None)
        assert scope.cancelled_caught
        await wait_all_tasks_blocked()
        assert it.writes == []


async def test_a_timeout_of_the_session_is_an_error_on_time(
    autojump_clock: MockClock,
) -> None:
    async with rig() as it:
        it.request("a", timeout=0.5)
        await it.hear()
        assert (await it.hear())["method"] == "notifications/cancelled"
        assert it.ended["a"].code == types.REQUEST_TIMEOUT
        assert it.ended["a", "at"] == 0.5


# --------------------------------------------------------------------- bounds


async def test_a_server_that_does_not_read_is_refused_more_requests() -> None:  # D5
    async with rig() as it:
        it.request("in the pipe")
        await wait_all_tasks_blocked()
        for name in range(MOST_QUEUED):
            it.request(name)
        await wait_all_tasks_blocked()
        refused = [end for end in it.ended.values() if isinstance(end, RequestUnsent)]
        assert refused == []
        with pytest.raises(RequestUnsent, match="does not read") as caught:
            await it.wire.send_raw_request("do", None)
        assert caught.value.code != types.CONNECTION_CLOSED
        await it.wire.notify("for nobody", None)  # nor does it grow by these
        assert it.loss.why is None


async def test_what_waits_is_bounded_by_its_size_too() -> None:
    box = ByteOutbox()
    third = b"x" * (LONGEST_MESSAGE // 3)
    assert [box.put(key, third) for key in range(4)] == [True, True, True, False]
    box.take_back(1)
    assert box.put(1, third)
    assert box.batch() == ([0], third)
    assert box.put(0, third)
    assert [box.batch()[0] for _ in range(3)] == [[2], [1], [0]]
    assert len(box) == 0


async def test_a_server_that_asks_without_end_does_not_crowd_out_our_requests(
    autojump_clock: MockClock,
) -> None:
    async with rig() as it:
        for start in range(0, 2000, 100):
            await it.say(
                *({"id": f"q{start + n}", "method": "ping"} for n in range(100))
            )
        await trio.sleep(3)  # who talks so much is read slowly
        it.request("a")
        answers = 0
        while "method" not in await it.hear():
            answers += 1
        assert answers <= 2 * MOST_ANSWERS  # in the pipe, and in the queue
        assert b"an answer to a request of the server is dropped" in it.noted
        for _ in range(MOST_ANSWERS):  # as soon as it listens it is answered again
            with trio.move_on_after(0.01):
                await it.hear()
        await it.say({"id": "last", "method": "ping"})
        await trio.sleep(3)
        assert await it.hear() == {"id": "last", "result": {}}


async def test_who_talks_without_end_is_read_more_slowly(
    autojump_clock: MockClock,
) -> None:  # to read is everybody's work
    async with rig() as it:
        await it.say(*[b"chatter"] * 200)
        assert len(it.noted) == 200  # a burst is taken as it comes
        await it.say(*[b"chatter"] * 4_000)
        await trio.sleep(1)
        assert len(it.noted) < 1_500
        it.request("a")
        await it.hear()
        await it.say({"id": 1, "result": {}})
        await trio.sleep(5)
        assert len(it.noted) == 4_200  # and nothing is lost
        assert it.ended["a"] == {}


# ------------------------------------------------------------------ the end


async def test_when_it_ends_all_requests_end_with_what_is_true_of_them() -> None:
    async with rig() as it:  # D6, D12
        it.request("asked")
        await it.hear()
        it.request("in the pipe")
        await wait_all_tasks_blocked()
        it.request("queued")
        await wait_all_tasks_blocked()
        whys: list[str | None] = []

        async def hooks() -> None:
            whys.append(await it.loss.wait())

        it.nursery.start_soon(hooks)
        await wait_all_tasks_blocked()
        it.wire.close("it exploded")
        assert it.loss.why == "it exploded"
        await wait_all_tasks_blocked()
        assert whys == ["it exploded"]
        assert it.over
        assert isinstance(it.ended["asked"], ConnectionEnded)
        assert isinstance(it.ended["in the pipe"], ConnectionEnded)
        assert isinstance(it.ended["queued"], RequestUnsent)
        assert it.ended["queued"].code == types.CONNECTION_CLOSED
        assert len(it.wire._outbox) == 0
        with pytest.raises(RequestUnsent) as caught:
            await it.wire.send_raw_request("do", None)
        assert caught.value.code == types.CONNECTION_CLOSED
        await it.wire.notify("too late", None)
        assert len(it.wire._outbox) == 0
        it.wire.close("it exploded again")
        await wait_all_tasks_blocked()
        assert it.loss.why == "it exploded"
        assert len(it.writes) == 2


async def test_answers_said_before_the_end_count() -> None:
    async with rig() as it:
        await it.requests("a", "b")
        line = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {}}).encode()
        await it.say(line, b'{"jsonrpc":"2.0","id":2,"resu')
        await it.hang_up()
        assert it.ended["a"] == {}
        assert isinstance(it.ended["b"], ConnectionEnded)
        assert it.loss.why == "closed its stdout"


async def test_a_server_that_hears_no_more_ends_it() -> None:
    async with rig() as it:
        it.request("a")
        await wait_all_tasks_blocked()
        await it._from_wire.aclose()
        await wait_all_tasks_blocked()
        assert isinstance(it.ended["a"], ConnectionEnded)
        assert it.loss.why == "closed its stdin"


async def test_leaving_the_session_ends_its_requests() -> None:
    async with rig() as it:
        it.request("a")
        await it.hear()
        it.session.cancel()
        await wait_all_tasks_blocked()
        assert isinstance(it.ended["a"], ConnectionEnded)
        assert it.loss.why == "the connection was closed"


async def test_a_line_without_end_ends_it_with_that_reason() -> None:
    async with rig() as it:
        it.request("a")
        await it.hear()
        await it._to_wire.send_all(b"{" + b"x" * LONGEST_MESSAGE)
        await wait_all_tasks_blocked()
        assert isinstance(it.ended["a"], Unusable)  # at once, and alone
        assert it.loss.why is None
        for _ in range((bounds.MOST_DROPPED >> 20) + 1):
            await it._to_wire.send_all(b"x" * 2**20)
        with trio.fail_after(20):
            await it.loss.wait()
        assert it.loss.why == "it wrote a line of more than 16 MB"


def test_a_long_line_is_dropped_whether_it_ends_or_not() -> None:
    longest = b"x" * LONGEST_MESSAGE
    for data, found in (
        (longest + b"\n", [Large]),
        (longest, []),
        (longest + b"x", [LineTooLarge]),
        (longest + b"x\n", [LineTooLarge, LineTooLarge]),
        (longest + b"x\nshort\n", [LineTooLarge, LineTooLarge, bytes]),
    ):
        assert [type(line) for line in Framing().feed(data)] == found


@given(st.lists(st.integers(1, 30_000), max_size=8), st.integers(1, 20_000), st.data())
def test_lines_are_sorted_by_size_however_they_come(
    sizes: list[int], chunk: int, data: st.DataObject
) -> None:
    lines = [data.draw(st.sampled_from([b"x", b",", b"[,"])) * n for n in sizes]
    whole = b"".join(line + b"\n" for line in lines)
    framing = Framing()
    found = [
        line
        for start in range(0, len(whole), chunk)
        for line in framing.feed(whole[start : start + chunk])
    ]
    assert [x if type(x) is bytes else bytes(x.line) for x in found] == lines  # type: ignore[union-attr]
    for line, kind in zip(lines, map(type, found), strict=True):
        assert (kind is bytes) == bounds.is_small(line)


# ----------------------------------------------------- what is no message


GARBAGE = [
    b"warming up ...",
    b"\x00\xff\xfe\x80" * 50,
    "hé".encode("latin-1"),
    b"[" * 9_000,
    b'{"a":' * 1_500,
    b"1" * 9_000,
    b"NaN",
    b"null",
    b'"text"',
    b"{}",
    b'{"id": 1, "result": {}}',
    b'{"jsonrpc": "1.0", "id": 1, "result": {}}',
    b'[{"jsonrpc": "2.0", "id": 1, "result": {}}]',
    b'{"jsonrpc": "2.0", "id": 1, "method": 7}',
    b'{"jsonrpc": "2.0", "method": "notifications/message", "params": [1]}',
    b'{"jsonrpc": "2.0", "id": null, "error": {"code": 1, "message": "?"}}',
    *(
        b'{"jsonrpc": "2.0", "id": %b, "result": {}}' % ident
        for ident in (
            b"true",
            b"1.0",
            b"null",
            b"[1]",
            b'{"a": 1}',
            b'" 1"',
            b"2",
            b'"one"',
            b"9" * 5000,
        )
    ),
    b'{"jsonrpc": "2.0", "result": {}}',
]


@pytest.mark.parametrize("line", GARBAGE, ids=lambda line: repr(line[:40]))
async def test_what_is_no_message_is_noted_and_costs_nothing(line: bytes) -> None:
    # siblings.md: 003, fault 5
    async with rig() as it:
        it.request("a")
        await it.hear()
        await it.say(line)
        assert "a" not in it.ended
        (noted,) = it.noted
        assert noted.endswith(line)
        await it.say({"id": 1, "result": {"fine": True}})
        assert it.ended["a"] == {"fine": True}


@pytest.mark.parametrize("ending", [b"", b" ", b"\r", b"\t\r"])
async def test_an_empty_line_is_no_line(ending: bytes) -> None:
    async with rig() as it:
        it.request("a")
        await it.hear()
        await it.say(ending, b'{"jsonrpc":"2.0","id":1,"result":{}}' + ending)
        assert (it.ended["a"], it.noted) == ({}, [])


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b'{"jsonrpc":"2.0","id":1}', "neither a result nor an error"),
        (b'{"jsonrpc":"2.0","id":1,"result":[1]}', "neither a result nor an error"),
        (b'{"jsonrpc":"2.0","id":1,"result":null}', "neither a result nor an error"),
        (b'{"jsonrpc":"2.0","id":1,"error":"no"}', "no code or no message"),
        (b'{"jsonrpc":"2.0","id":1,"error":{"code":"1"}}', "no code or no message"),
        (b'{"jsonrpc":"2.0","id":1,"result":{"x":NaN}}', "expected value"),
        (b'{"jsonrpc":"2.0","id":1,"result":{"x":1e999}}', "too large"),
        (b'{"result":{"x":"\\ud83d"},"jsonrpc":"2.0","id":1}', "hex escape"),
        (
            b'{"jsonrpc":"2.0","id":1,"result":{"x":' + b"9" * 5000 + b"}}",
            "out of range",
        ),
    ],
    ids=lambda case: repr(case[:40]),
)
async def test_an_answer_that_cannot_be_used_ends_its_request_at_once(
    line: bytes, why: str
) -> None:
    async with rig() as it:
        await it.requests("a", "b")
        await it.say(line)
        assert why in str(it.ended["a"])
        assert isinstance(it.ended["a"], Unusable)
        assert "b" not in it.ended


async def test_only_the_first_of_two_answers_counts() -> None:
    async with rig() as it:
        await it.requests("a", "b")
        again = {"id": 1, "result": {"number": 2}}
        await it.say({"id": 1, "result": {"number": 1}}, again, again)
        assert it.ended["a"] == {"number": 1}
        assert "b" not in it.ended
        assert len(it.noted) == 2


async def test_what_was_not_sent_yet_cannot_be_answered() -> None:
    async with rig() as it:
        it.request("stuck")
        await wait_all_tasks_blocked()
        it.request("queued")
        await wait_all_tasks_blocked()
        await it.say({"id": 2, "result": {"guessed": True}})
        assert "queued" not in it.ended
        await it.hear()
        await it.hear()
        await it.say({"id": 2, "result": {"guessed": False}})
        assert it.ended["queued"] == {"guessed": False}


@given(st.binary(max_size=200))
def test_no_line_is_too_strange(line: bytes) -> None:
    message = decode(line)
    assert message is None or message["jsonrpc"] == "2.0"


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), json_values))
def test_what_is_encoded_is_one_line_and_decodes_to_itself(
    params: dict[str, Any],
) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "do", "params": params}
    line = encode(message)
    assert line.count(b"\n") == 1
    assert decode(line) == message


@given(json_values)
def test_an_id_is_a_number_or_a_text_and_nothing_else(value: object) -> None:
    key = correlate(value)
    if isinstance(value, bool) or not isinstance(value, int | str):
        assert key is None
    elif isinstance(value, int):
        assert key == value
    else:
        assert key == value or str(key) == value or int(value) == key


# --------------------------------------------------- what the server asks


async def test_the_server_is_answered_while_we_wait_for_it() -> None:
    async with rig(answer=lambda context, method, params: {"said": params}) as it:
        it.request("a")
        await it.hear()
        await it.say({"id": "q", "method": "ping", "params": {"x": 1}})
        assert await it.hear() == {"id": "q", "result": {"said": {"x": 1}}}
        await it.say({"id": 1, "result": {}})
        assert it.ended["a"] == {}


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (MCPError(-32601, "Method not found", "x"), -32601, "Method not found"),
        (RuntimeError("the key is sesame"), types.INTERNAL_ERROR, "cannot answer"),
    ],
)
async def test_what_cannot_be_answered_is_refused(
    error: Exception, code: int, text: str
) -> None:
    def refuse(context: object, method: str, params: object) -> Message:
        raise error

    async with rig(answer=refuse) as it:
        await it.say({"id": 3, "method": "roots/list"})
        heard = await it.hear()
        assert (heard["id"], heard["error"]["code"]) == (3, code)
        assert text in heard["error"]["message"]
        assert "sesame" not in json.dumps(heard)


async def test_params_that_do_not_fit_are_invalid_params() -> None:
    def parse(context: object, method: str, params: object) -> Message:
        types.Tool.model_validate(params)
        return {}

    async with rig(answer=parse) as it:
        await it.say({"id": 3, "method": "x", "params": {"name": 7}})
        assert (await it.hear())["error"]["code"] == types.INVALID_PARAMS


async def test_an_answer_of_ours_that_is_no_json_is_dropped() -> None:
    async with rig(answer=lambda *_: {"x": float("nan")}) as it:
        await it.say({"id": 3, "method": "x"})
        assert it.noted == [b"an answer to a request of the server is dropped"]


async def test_questions_are_answered_side_by_side_and_not_too_many_at_once() -> None:
    go = trio.Event()

    async def slowly() -> Message:
        await go.wait()
        return {}

    async with rig(answer=lambda *_: slowly()) as it:
        await it.say(*({"id": n, "method": "ping"} for n in range(MOST_ASKED + 1)))
        heard = await it.hear()
        assert (heard["id"], heard["error"]["message"]) == (
            MOST_ASKED,
            "too many requests at once",
        )
        await it.say({"id": 0, "method": "ping"})  # in use
        assert it.noted == [b"a request whose id is not valid, or in use: ping"]
        go.set()
        assert {(await it.hear())["id"] for _ in range(MOST_ASKED)} == set(
            range(MOST_ASKED)
        )
        await it.say({"id": 0, "method": "ping"})
        assert await it.hear() == {"id": 0, "result": {}}


async def test_a_question_taken_back_is_not_answered(
    autojump_clock: MockClock,
) -> None:
    async def slowly() -> Message:
        await trio.sleep(1)
        return {}

    async with rig(answer=lambda *_: slowly()) as it:
        await it.say(
            {"id": "5", "method": "ping"},
            {"method": "notifications/cancelled", "params": {"requestId": 5}},
            {"method": "notifications/cancelled", "params": {"requestId": [5]}},
            {"method": "notifications/cancelled"},
        )
        await trio.sleep(2)
        assert it.writes == []
        await it.say({"id": "5", "method": "ping"})  # the id is free again
        assert it.noted == []


async def test_a_question_may_be_answered_with_a_question() -> None:
    contexts: list[Any] = []

    async def ask_back(context: Any) -> Message:
        contexts.append(context)
        await context.notify("thinking", None)
        result: Message = await context.send_raw_request("which one?", None)
        await context.progress(1.0)
        return result

    async with rig(answer=lambda context, *_: ask_back(context)) as it:
        await it.say({"id": "q", "method": "elicitation/create"})
        assert (await it.hear()) == {"method": "thinking"}
        assert (await it.hear()) == {"id": 1, "method": "which one?"}
        await it.say({"id": 1, "result": {"this": "one"}})
        assert (await it.hear()) == {"id": "q", "result": {"this": "one"}}
        (context,) = contexts
        assert not context.can_send_request
        with pytest.raises(NoBackChannelError):
            await context.send_raw_request("too late", None)


# --------------------------------------------------------- notifications


async def test_notifications_are_heard_one_by_one_in_their_order(
    autojump_clock: MockClock,
) -> None:
    async def slower_and_slower(method: str, params: Any) -> None:
        await trio.sleep(0.3 - params["n"] / 10)

    async with rig(on_notify=slower_and_slower) as it:
        for n in range(3):
            await it.say({"method": "changed", "params": {"n": n}})
        await trio.sleep(1)
        assert [params["n"] for _, params in it.notified] == [0, 1, 2]


async def test_the_intercept_sees_everything_in_the_order_of_the_wire() -> None:
    seen: list[object] = []

    def intercept(method: str, params: Any) -> bool:
        seen.append((method, it.ended.get("a")))
        return method == "mine"

    async with rig() as it:
        it.intercept = intercept
        it.request("a")
        await it.hear()
        # What comes before the answer is seen before anybody has the answer.
        await it.say(
            {"method": "mine"}, {"method": "yours"}, {"id": 1, "result": {"x": 1}}
        )
        assert seen == [("mine", None), ("yours", None)]
        assert it.ended["a"] == {"x": 1}
        assert [method for method, _ in it.notified] == ["yours"]


async def test_a_callback_that_fails_costs_only_itself() -> None:
    async def fail(method: str, params: Any) -> None:
        if method == "bad":
            raise RuntimeError("sesame")

    async with rig(on_notify=fail) as it:
        await it.say({"method": "bad"}, {"method": "good"})
        assert [method for method, _ in it.notified] == ["bad", "good"]
        assert it.noted == [b"a callback failed: RuntimeError"]


async def test_a_callback_that_hangs_makes_nothing_grow(
    autojump_clock: MockClock,
) -> None:
    async def hang(method: str, params: Any) -> None:
        await trio.sleep_forever()

    async with rig(on_notify=hang) as it:
        for _ in range(3):
            await it.say(*({"method": "changed"} for _ in range(MOST_UNHEARD)))
        await trio.sleep(3)  # who talks so much is read slowly
        assert len(it.noted) == 2 * MOST_UNHEARD - 1  # the first one is being heard
        it.request("a")
        await it.hear()
        await it.say({"id": 1, "result": {}})
        assert it.ended["a"] == {}


async def test_progress_is_told_to_who_asked_for_it() -> None:
    told: list[tuple[object, ...]] = []

    async def on_progress(*args: object) -> None:
        told.append(args)

    async with rig() as it:
        it.request("a", on_progress=on_progress)
        heard = await it.hear()
        it.request("b")
        token = heard["params"]["_meta"]["progressToken"]
        assert token == heard["id"]
        assert "_meta" not in (await it.hear())["params"]

        def progress(**params: Any) -> Message:
            return {"method": "notifications/progress", "params": params}

        await it.say(
            progress(progressToken=token, progress=1, total=3, message="one"),
            progress(progressToken=str(token), progress=2.5),
            progress(progressToken=2, progress=1),
            progress(progressToken=99, progress=1),
            progress(progressToken=token, progress=True),
            progress(progressToken=token, progress="3"),
            progress(progressToken=token),
            progress(progress=1),
            progress(progressToken=token, progress=10**400),
            progress(progressToken=token, progress=3, total="x", message=7),
            {"method": "notifications/progress"},
            {"id": token, "result": {}},
            progress(progressToken=token, progress=4),
        )
        assert told == [(1.0, 3.0, "one"), (2.5, None, None), (3.0, None, None)]
        assert it.ended["a"] == {}


# ----------------------------------------------------------------- traces


async def test_a_trace_goes_along_to_the_server() -> None:
    above = trace.SpanContext(
        trace_id=0xABC, span_id=0xDEF, is_remote=False, trace_flags=trace.TraceFlags(1)
    )
    async with rig() as it:
        with trace.use_span(trace.NonRecordingSpan(above)):
            it.request("a")
            await wait_all_tasks_blocked()
        heard = await it.hear()
        carried = heard["params"]["_meta"]["traceparent"]
        assert carried == f"00-{0xABC:032x}-{0xDEF:016x}-01"
        await it.say({"id": 1, "error": {"code": 5, "message": "no"}})
        assert it.ended["a"].code == 5


async def test_the_span_of_a_request_says_how_it_ended() -> None:
    with recorded() as spans:
        async with rig() as it:
            it.request("without")  # any trace to belong to
            assert "_meta" not in (await it.hear())["params"]
            with TRACER.start_as_current_span("above"):
                for name in ("good", "bad", "refused", "left"):
                    it.begin(name) if name != "left" else it.request(name)
                    await wait_all_tasks_blocked()
            idents = [(await it.hear())["id"] for _ in range(4)]
            await it.say(
                {"id": idents[0], "result": {}},
                {"id": idents[1], "result": {"isError": True}},
                {"id": idents[2], "error": {"code": -5, "message": "a secret"}},
            )
        assert not spans.open
    good, bad, refused, left = spans.named("do")
    assert {x.kind for x in spans.named("do")} == {trace.SpanKind.CLIENT}
    assert good.status.is_ok
    assert about(bad, "error.type") == "tool_error"
    assert about(refused, "error.type") == "-5"
    assert about(refused, "rpc.response.status_code") == "-5"
    assert about(left, "glyphoxa.interrupted") is True
    assert [about(x, "jsonrpc.request.id") for x in spans.named("do")] == [
        str(x) for x in idents
    ]
    assert not any("secret" in x.to_json() for x in spans.all)


# ------------------------------------------------------- whatever happens

STEPS = st.one_of(
    st.tuples(st.just("request"), st.just(0)),
    st.tuples(st.just("begin"), st.just(0)),
    st.tuples(st.just("read"), st.integers(1, 4)),
    st.tuples(st.just("answer"), st.integers(0, 9)),
    st.tuples(st.just("refuse"), st.integers(0, 9)),
    st.tuples(st.just("again"), st.integers(0, 9)),
    st.tuples(st.just("garble"), st.sampled_from(GARBAGE)),
    st.tuples(st.just("leave"), st.integers(0, 9)),
    st.tuples(st.just("rest"), st.just(0)),
)


@given(
    st.lists(STEPS, max_size=60),
    st.sampled_from(["close", "hang up", "stop reading", "cancel"]),
)
def test_each_request_ends_once_with_its_own_answer_or_an_error(
    steps: Iterable[tuple[str, Any]], end: str
) -> None:
    with recorded() as spans:
        with TRACER.start_as_current_span("above"):
            trio.run(partial(_play, steps, end), clock=MockClock(autojump_threshold=0))
        assert not spans.open
    assert {x.name for x in spans.all} <= {"above", "do"}
    (above,) = spans.named("above")
    assert all(spans.above(x) is above for x in spans.named("do"))


async def _play(steps: Iterable[tuple[str, Any]], end: str) -> None:
    """The model: what the server heard, what it said first, who has left."""
    heard: dict[int, int] = {}  # id to the name of the request
    told_to_stop: list[int] = []
    said: dict[int, Any] = {}  # the first answer to a name
    left: set[int] = set()
    scopes: list[trio.CancelScope | Begun] = []

    async def read(count: int) -> None:
        for _ in range(count):
            with trio.move_on_after(0.001):
                message = await it.hear()
                if message["method"] == "do":
                    assert message["id"] not in heard, "an id was used twice"
                    heard[message["id"]] = message["params"]["name"]
                else:
                    told_to_stop.append(message["params"]["requestId"])

    def pick(number: int) -> int | None:
        return list(heard)[number % len(heard)] if heard else None

    async with rig() as it:
        for what, number in steps:
            match what:
                case "request":
                    scopes.append(it.request(len(scopes)))
                case "begin":
                    scopes.append(it.begin(len(scopes)))
                case "read":
                    await read(number)
                case "answer" | "again" | "refuse" if ident := pick(number):
                    name = heard[ident]
                    answer = {"of": name, "number": number, "what": what}
                    if what == "refuse":
                        error = {"code": number, "message": f"no {name}"}
                        await it.say({"id": ident, "error": error})
                    else:
                        await it.say({"id": str(ident), "result": answer})
                    if name not in left:
                        said.setdefault(name, number if what == "refuse" else answer)
                case "garble" if b'"id": 1' not in number and b'"id": 2' not in number:
                    await it.say(number)
                case "leave" if scopes:
                    number %= len(scopes)
                    if number not in it.ended:
                        scopes[number].cancel()
                        if number not in said:
                            left.add(number)
                case "rest":
                    await wait_all_tasks_blocked()
        await wait_all_tasks_blocked()
        await read(3)
        match end:
            case "close":
                it.wire.close("enough")
            case "hang up":
                await it.hang_up()
            case "stop reading":
                await it._from_wire.aclose()
                it.request("one more")
            case "cancel":
                it.session.cancel()
        await wait_all_tasks_blocked()
        assert it.over
        ended = it.ended
        writes = len(it.writes)
        for name, _ in enumerate(scopes):
            was_heard = name in heard.values()
            result = ended.pop(name)
            if name in left:
                assert result == "left"
            elif name not in said:
                assert isinstance(
                    result,
                    ConnectionEnded if was_heard else ConnectionEnded | RequestUnsent,
                )
            elif isinstance(said[name], int):
                assert (result.code, result.message) == (said[name], f"no {name}")
            else:
                assert result == said[name]
        for ident in told_to_stop:
            assert heard[ident] in left, "only what was heard and left is cancelled"
        assert (len(it.wire._requests), len(it.wire._outbox)) == (0, 0)
        with pytest.raises(RequestUnsent):
            await it.wire.send_raw_request("do", None)
        await it.wire.notify("too late", None)
        await wait_all_tasks_blocked()
        assert len(it.writes) == writes, "something was written after the end"
