"""A tool that changes after it was approved is held back (D13a, N29 to N32, A38).

`Machine` holds `Approvals` against the plainest model of it: what was approved,
what is offered. The rest is about where it acts: at the gate, at once.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import attrs
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

import trio
import trio.lowlevel
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio.host import Approvals, ChangedAgain, ToolHost, UnknownTool, open_host
from glyphoxa_trio.host.approvals import LOADING, MOST_REMEMBERED, ApprovalKeeper
from glyphoxa_trio.host.catalogue import Catalogue
from glyphoxa_trio.tools.definition import Tool, ToolDefinition
from glyphoxa_trio.tools.estimate import Estimate, EstimateSource
from glyphoxa_trio.tools.fingerprint import fingerprint
from glyphoxa_trio.tools.gate import EVERYTHING, Availability, Grant, Reason, TrustMode
from glyphoxa_trio.tools.naming import NameCollision
from glyphoxa_trio.tools.outcome import Status
from glyphoxa_trio.tools.tier import Tier

from .fakes import Log, call, fake, fan_out

READY = Availability.READY
BOB = Grant(npc="Bob", tools=("world.send", "world.*"))  # approves one by name
AMY = Grant(npc="Amy", tools=("world",), trust=TrustMode.FULL)
ZOE = Grant(npc="Zoe", tools=("world.*",), approver=True)


def send(said: str = "Sends a letter.", name: str = "send", **more: Any) -> Tool:
    return fake(name, group="world", external=True, description=said, **more)


def by_bob(definition: ToolDefinition, exposed: str) -> bool:
    return BOB.approves(definition, exposed)


@attrs.define(eq=False)
class Store:
    """Keeps what is saved, and fails or hangs as told."""

    kept: dict[str, str] = attrs.field(factory=dict)
    saves: int = 0
    entered: int = 0  # of which some may not be over
    error: Exception | None = None
    gate: threading.Event | None = None
    _busy: threading.Lock = attrs.field(factory=threading.Lock)

    def load(self) -> Mapping[str, str]:
        self._wait()
        return dict(self.kept)

    def save(self, approved: Mapping[str, str], /) -> None:
        assert self._busy.acquire(blocking=False)  # one at a time
        self.entered += 1
        try:
            self._wait()
            self.kept = dict(approved)
            self.saves += 1
        finally:
            self._busy.release()

    async def is_saving(self) -> None:
        while not self.entered:
            await trio.lowlevel.checkpoint()

    def _wait(self) -> None:
        if self.error is not None:
            raise self.error
        if self.gate is not None:
            self.gate.wait()


@attrs.define(eq=False)
class Told:
    warnings: list[tuple[str, str]] = attrs.field(factory=list)

    def __call__(self, server: str, text: str) -> None:
        self.warnings.append((server, text))


def why(host: ToolHost, grant: Grant, name: str = "send") -> Reason | None:
    """Why the tool is hidden from whoever has this grant; None if it is shown."""
    (no,) = [no for x, no in host.explain(grant=grant) if x.key == f"world.{name}"]
    return None if no is None else no.reason


# ------------------------------------------------------------ where it acts


async def test_a_tool_that_changes_is_neither_shown_nor_run_until_approved_again(
    autojump_clock: MockClock,
) -> None:
    log, told = Log(), Told()
    approvals = Approvals(approved=by_bob, warn=told)
    async with open_host(approvals=approvals) as host:
        host.publish("world", READY, [send(log=log)])
        assert why(host, BOB) is None
        (end,) = await fan_out(host, "world.send", grant=BOB)
        assert end.ok
        host.publish("world", READY, [send("Sends it to me, too.", log=log)])
        assert why(host, BOB) is Reason.CHANGED
        (end,) = await fan_out(host, "world.send", grant=BOB)
        assert end.status is Status.DENIED
        assert "changed since it was approved" in end.message
        assert log.names() == ["send"]
        assert host.approve("mcp__world__send")
        assert why(host, BOB) is None
        (end,) = await fan_out(host, "world.send", grant=BOB)
        assert end.ok
        assert log.names() == ["send"] * 2
        assert host.statistics().executor.refusals == {Reason.CHANGED: 1}
    assert told.warnings == [
        (
            "world",
            (
                "changed since approved, so held back: world.send; look, then approve"
                " again with glyphoxa mcp approve KEY"
            ),
        )
    ]


async def test_it_acts_between_showing_and_running_and_while_a_write_queues(
    autojump_clock: MockClock,
) -> None:  # A38
    log = Log()
    async with open_host(approvals=Approvals(approved=by_bob)) as host:
        host.publish("world", READY, [send(log=log, seconds=0.2)])
        (listing,) = host.tools(grant=BOB)  # shown
        async with trio.open_nursery() as nursery:

            async def change() -> None:
                await trio.sleep(0.1)
                host.publish("world", READY, [send("Sly.", log=log, seconds=0.2)])

            nursery.start_soon(change)
            calls = [call(listing.exposed, "1"), call(listing.exposed, "2", n=1)]
            first, second = await fan_out(host, *calls, grant=BOB)
    assert first.ok  # it had begun
    assert second.status is Status.DENIED
    assert len(log.began) == 1


async def test_it_is_nobodys_business_who_trusts_fully(
    autojump_clock: MockClock,
) -> None:  # N30
    async with open_host(approvals=Approvals(approved=by_bob)) as host:
        host.publish("world", READY, [send()])
        host.publish("world", READY, [send("Other.")])
        assert why(host, BOB) is Reason.CHANGED
        assert why(host, AMY) is None
        assert why(host, EVERYTHING) is None
        assert (await host.execute("world.send")).ok


async def test_a_yes_to_one_call_does_not_release_it(
    autojump_clock: MockClock,
) -> None:  # D13a: whoever says yes does not see what changed
    log = Log()
    async with open_host(approvals=Approvals(approved=by_bob)) as host:
        host.publish("world", READY, [send(log=log)])
        (end,) = await fan_out(
            host, call("world.send", "c"), grant=ZOE, approved=frozenset("c")
        )
        assert end.ok
        host.publish("world", READY, [send("Other.", log=log)])
        assert why(host, ZOE) is Reason.CHANGED
        (end,) = await fan_out(
            host, call("world.send", "c"), grant=ZOE, approved=frozenset("c")
        )
        assert end.status is Status.DENIED
    assert len(log.began) == 1


async def test_what_the_configuration_does_not_approve_is_not_held_back(
    autojump_clock: MockClock,
) -> None:
    # It is asked about every time, so no approval is inherited.
    async with open_host(approvals=Approvals(approved=by_bob)) as host:
        for said in ("One.", "Two."):
            host.publish("world", READY, [send(said, "tell"), send("Same.")])
            assert why(host, ZOE, "tell") is None
            assert why(host, BOB, "tell") is Reason.NOT_TRUSTED


async def test_what_a_person_approved_needs_no_word_of_the_configuration(
    autojump_clock: MockClock,
) -> None:  # D13a: the word for a tool is kept per fingerprint for all sessions
    log, told = Log(), Told()
    quick = Grant(npc="Kim", tools=("world.*",))  # nobody can be asked in its turns
    approvals = Approvals(approved=by_bob, warn=told)
    async with open_host(approvals=approvals) as host:
        host.publish("world", READY, [send(name="tell", log=log)])
        assert why(host, quick, "tell") is Reason.NOT_TRUSTED
        (end,) = await fan_out(host, "world.tell", grant=quick)
        assert end.status is Status.DENIED
        assert not host.approve("world.tell")  # it was not held back, only unasked for
        assert why(host, quick, "tell") is None
        assert why(host, ZOE, "tell") is None
        (end,) = await fan_out(host, "world.tell", grant=quick)
        assert end.ok
        assert log.names() == ["tell"]
        assert told.warnings == []
        # Nobody else's grant is any wider for it.
        assert why(host, Grant(npc="Al", tools=("dice",)), "tell") is Reason.NOT_GRANTED


@pytest.mark.parametrize(
    "change",
    [{"read_only": False}, {"destructive": True}, {"open_world": True}],
    ids=str,
)
async def test_a_server_that_changes_its_hints_is_asked_about_again(
    autojump_clock: MockClock, change: dict[str, bool]
) -> None:
    told = Told()
    quick = Grant(npc="Kim", tools=("world.*",))
    first: dict[str, Any] = {
        "read_only": True,
        "destructive": False,
        "open_world": False,
    }
    async with open_host(approvals=Approvals(approved=by_bob, warn=told)) as host:
        host.publish("world", READY, [send(name="tell", **first)])
        host.approve("world.tell")
        host.publish("world", READY, [send(name="tell", **first | change)])
        assert why(host, quick, "tell") is Reason.CHANGED
        ((server, text),) = told.warnings
        assert (server, text.partition(";")[0]) == (
            "world",
            "changed since approved, so held back: world.tell",
        )
        host.publish("world", READY, [send(name="tell", **first)])
        assert why(host, quick, "tell") is None


async def test_what_a_person_approved_is_kept_for_the_next_run() -> None:
    with trio.fail_after(60):
        store, quick = Store(), Grant(npc="Kim", tools=("world.*",))
        async with open_host(approvals=Approvals(by_bob, store)) as host:
            host.publish("world", READY, [send(name="tell")])
            host.approve("world.tell")
        async with open_host(approvals=Approvals(by_bob, store)) as host:
            host.publish("world", READY, [send(name="tell")])
            assert why(host, quick, "tell") is None


async def test_what_an_older_version_of_ours_kept_is_as_if_seen_first() -> None:
    with trio.fail_after(60):
        store, told = Store(kept={"world.send": f"1:{'0' * 64}"}), Told()
        async with open_host(approvals=Approvals(by_bob, store, told)) as host:
            host.publish("world", READY, [send()])
            assert why(host, BOB) is None
            host.publish("world", READY, [send("Other.")])
            assert why(host, BOB) is Reason.CHANGED
        assert store.kept == {"world.send": fingerprint(send().definition)}


async def test_our_own_tools_may_change(autojump_clock: MockClock) -> None:
    approvals = Approvals(approved=lambda definition, exposed: True)
    async with open_host(approvals=approvals) as host:
        for said in ("One.", "Two."):
            host.publish("fake", READY, [fake("own", description=said)])
            limited = Grant(tools=("fake",))
            assert [x.key for x in host.tools(grant=limited)] == ["fake.own"]
            assert not host.approve("own")


async def test_a_renamed_tool_inherits_nothing(
    autojump_clock: MockClock,
) -> None:  # D13
    told = Told()
    async with open_host(approvals=Approvals(approved=by_bob, warn=told)) as host:
        host.publish("world", READY, [send()])
        host.publish("world", READY, [send(name="dispatch")])
        assert why(host, BOB, "dispatch") is Reason.NOT_TRUSTED
        # Nor does another tool that takes the name.
        host.publish("world", READY, [send("Burns a letter.")])
        assert why(host, BOB) is Reason.CHANGED
        assert len(told.warnings) == 1


async def test_another_spelling_of_an_approved_name_inherits_nothing(
    autojump_clock: MockClock,
) -> None:  # D13
    # Models see both as mcp__world__get_user, and so does a grant of that name.
    bob = Grant(npc="Bob", tools=("mcp__world__get_user",))
    told = Told()
    approvals = Approvals(approved=bob.approves, warn=told)
    async with open_host(approvals=approvals) as host:
        host.publish("world", READY, [send(name="get user")])
        assert why(host, bob, "get user") is None
        host.publish("world", READY, [send("Burns it.", name="get_user")])
        assert why(host, bob, "get_user") is Reason.CHANGED
        ((server, text),) = told.warnings
        assert (server, text.partition(";")[0]) == (
            "world",
            "renamed since approved, so held back: world.get_user",
        )
        # As it was, it is as it was.
        host.publish("world", READY, [send(name="get user")])
        assert why(host, bob, "get user") is None
        host.publish("world", READY, [send("Burns it.", name="get_user")])
        assert host.approve("world.get_user")
        assert why(host, bob, "get_user") is None
    again = Approvals(approved=bob.approves)
    again.recall(approvals.remembered)
    async with open_host(approvals=again) as host:  # it is approved for the next run
        host.publish("world", READY, [send("Burns it.", name="get_user")])
        assert why(host, bob, "get_user") is None


async def test_what_the_operator_overrides_needs_no_approval(
    autojump_clock: MockClock,
) -> None:
    given = fingerprint(send().definition)
    async with open_host(approvals=Approvals(approved=by_bob)) as host:
        for said in ("As you wish.", "By raven."):
            host.publish(
                "world", READY, [send(said)], fingerprints={"world.send": given}
            )
            assert why(host, BOB) is None
        host.publish("world", READY, [send(said)], fingerprints={"world.send": "new"})
        assert why(host, BOB) is Reason.CHANGED


async def test_a_publication_that_is_refused_holds_nothing_back(
    autojump_clock: MockClock,
) -> None:
    async with open_host(approvals=Approvals(approved=by_bob)) as host:
        host.publish("world", READY, [send()])
        with pytest.raises(NameCollision):
            host.publish("world", READY, [send("Other."), send("Other.")])
        assert why(host, BOB) is None


async def test_a_restart_is_no_change_and_an_absence_forgets_nothing(
    autojump_clock: MockClock,
) -> None:
    async with open_host(approvals=Approvals(approved=by_bob)) as host:
        host.publish("world", READY, [send()])
        host.publish("world", Availability.RESTARTING, None)
        host.publish("world", READY, [send()])
        assert why(host, BOB) is None
        host.publish("world", READY, [])
        host.deregister("world")
        host.publish("world", READY, [send("Other.")])
        assert why(host, BOB) is Reason.CHANGED
        host.publish("world", READY, [send()])  # as it was
        assert why(host, BOB) is None


async def test_what_is_held_back_is_not_probed_either(
    autojump_clock: MockClock,
) -> None:
    log = Log()
    async with open_host(approvals=Approvals(approved=by_bob)) as host:
        host.publish("world", READY, [send(log=log, read_only=True)])
        host.publish("world", READY, [send("Other.", log=log, read_only=True)])
        assert await host.calibrate(within=10) == ()
        assert log.began == []
        host.approve("world.send")
        (probed,) = await host.calibrate(within=10)
        assert probed.samples == 5


async def test_another_configuration_is_looked_at_anew(
    autojump_clock: MockClock,
) -> None:  # D16
    approvals = Approvals()
    async with open_host(approvals=approvals) as host:
        host.publish("world", READY, [send()])
        host.publish("world", READY, [send("Other.")])  # nobody had approved it
        approvals.approved = by_bob
        host.review()
        assert why(host, BOB) is None  # as it is now
        host.publish("world", READY, [send()])
        assert why(host, BOB) is Reason.CHANGED
        approvals.approved = lambda definition, exposed: False
        host.review()
        assert why(host, ZOE) is None


async def test_approving_names_the_tool_and_what_was_looked_at(
    autojump_clock: MockClock,
) -> None:
    approvals = Approvals(approved=by_bob)
    async with open_host(approvals=approvals) as host:
        host.publish("world", READY, [send()])
        with pytest.raises(UnknownTool, match="did you mean"):
            host.approve("world.sent")
        assert not host.approve("world.send")  # it was not held back
        host.publish("world", READY, [send("Other.")])
        seen = approvals.fingerprint("world.send")
        host.publish("world", READY, [send("Worse.")])
        with pytest.raises(ChangedAgain):
            host.approve("world.send", seen=seen)
        assert why(host, BOB) is Reason.CHANGED
        assert host.approve("world.send", seen=approvals.fingerprint("world.send"))


async def test_a_server_that_invents_names_pushes_out_no_approval(
    autojump_clock: MockClock,
) -> None:
    told = Told()
    approvals = Approvals(approved=lambda definition, exposed: True, warn=told)
    everywhere = Grant(tools=("world.*", "other.*"), allow_tools=("*.*",))
    many = [send(name=f"t{n}") for n in range(MOST_REMEMBERED)]
    async with open_host(approvals=approvals) as host:
        host.publish("world", READY, [send()])
        host.publish("world", READY, many)
        assert why(host, everywhere, f"t{MOST_REMEMBERED - 1}") is Reason.CHANGED
        assert len(host.tools(grant=everywhere)) == MOST_REMEMBERED - 1
        ((server, text),) = told.warnings
        assert server == "world"
        assert text.startswith(f"more than the {MOST_REMEMBERED} that are remembered")
        host.publish("other", READY, [fake("x", group="other", external=True)])
        assert len(host.tools(grant=everywhere)) == MOST_REMEMBERED
        host.publish("world", READY, [send("Other.")])
        assert why(host, everywhere) is Reason.CHANGED


async def test_many_changes_at_once_are_one_warning_a_server(
    autojump_clock: MockClock,
) -> None:
    told = Told()
    approvals = Approvals(approved=lambda definition, exposed: True, warn=told)
    async with open_host(approvals=approvals) as host:
        for said in ("One.", "Two.", "Three."):
            host.publish("world", READY, [send(said, f"t{n}") for n in range(7)])
    ((server, text),) = told.warnings
    assert server == "world"
    assert "world.t0, world.t1, world.t2, world.t3, world.t4 and 2 more;" in text


# ------------------------------------------------------------- from run to run


async def test_a_change_between_two_runs_is_found() -> None:
    with trio.fail_after(60):
        store = Store()
        async with open_host(approvals=Approvals(by_bob, store)) as host:
            host.publish("world", READY, [send()])
        assert list(store.kept) == ["world.send"]
        assert store.saves == 1
        told = Told()
        async with open_host(approvals=Approvals(by_bob, store, told)) as host:
            host.publish("world", READY, [send("Other.")])
            assert why(host, BOB) is Reason.CHANGED
            host.approve("world.send")
        assert len(told.warnings) == 1
        assert store.saves == 2
        async with open_host(approvals=Approvals(by_bob, store)) as host:
            host.publish("world", READY, [send("Other.")])
            assert why(host, BOB) is None
        assert store.saves == 2  # nothing new, nothing to save


async def test_what_is_saved_is_not_saved_again() -> None:
    with trio.fail_after(60):
        store, approvals = Store(), Approvals()
        keeper = ApprovalKeeper(approvals, store)
        await keeper.load()
        await keeper.close()
        assert store.saves == 0
        approvals.offer("world", {"world.send": "one"})
        approvals.approve("world.send")
        for _ in range(2):
            await keeper.close()
            assert store.saves == 1


async def test_an_older_save_that_comes_late_is_not_made() -> None:
    # Found: a thread that closing had given up on before it began wrote last.
    store = Store()
    keeper = ApprovalKeeper(Approvals(), store)
    keeper._write(2, {"world.send": "newer"})
    keeper._write(1, {"world.send": "older"})
    assert store.kept == {"world.send": "newer"}


@pytest.mark.border
async def test_no_call_waits_for_a_disk_and_neither_does_the_end() -> None:
    store = Store()
    approvals = Approvals(by_bob, store)
    hung = threading.Event()
    try:
        with trio.fail_after(60):
            async with open_host(approvals=approvals) as host:
                store.gate = hung
                host.publish("world", READY, [send()])
                await store.is_saving()  # and hangs in its thread
                (end,) = await fan_out(host, "world.send", grant=BOB)
                assert end.ok
                host.publish("world", READY, [send("Other.")])
                assert host.approve("world.send")
    finally:
        hung.set()
    # Both saves end yet, and the newer one last.
    with trio.fail_after(60):
        while store.saves < 2:
            await trio.lowlevel.checkpoint()
    assert store.kept == {"world.send": f"yes:{fingerprint(send('Other.').definition)}"}


async def test_changes_while_one_is_saved_are_saved_together_and_last() -> None:
    store = Store(gate=threading.Event())
    assert store.gate is not None
    store.gate.set()
    with trio.fail_after(60):
        async with open_host(approvals=Approvals(by_bob, store)) as host:
            store.gate.clear()
            host.publish("world", READY, [send()])
            await store.is_saving()
            for said in ("One.", "Two.", "Three."):
                host.publish("world", READY, [send(said)])
                host.approve("world.send")
            store.gate.set()
        assert store.saves == 2
    assert store.kept == {"world.send": f"yes:{fingerprint(send('Three.').definition)}"}


async def test_a_store_that_cannot_be_read_is_told_and_left_as_it_is() -> None:
    with trio.fail_after(60):
        told = Told()
        store = Store(error=OSError("the disk is on fire"))
        async with open_host(approvals=Approvals(by_bob, store, told)) as host:
            store.error = None
            host.publish("world", READY, [send()])
            await wait_all_tasks_blocked()
        assert store.saves == 0
    assert told.warnings == [
        ("", "approvals of earlier runs are not loaded: the disk is on fire")
    ]


async def test_a_store_that_never_answers_does_not_hold_up_the_start(
    autojump_clock: MockClock,
) -> None:
    # The clock jumps only while nothing else runs, so a thread's end is not its.
    told = Told()
    store = Store(gate=threading.Event())
    assert store.gate is not None
    with trio.fail_after(LOADING + 1):
        async with open_host(approvals=Approvals(by_bob, store, told)):
            assert trio.current_time() == LOADING
    store.gate.set()
    assert told.warnings == [
        ("", "approvals of earlier runs are not loaded: no answer after 2 s")
    ]


async def test_a_save_that_fails_is_told_and_tried_again() -> None:
    with trio.fail_after(60):
        told, store = Told(), Store()
        async with open_host(approvals=Approvals(by_bob, store, told)) as host:
            store.error = OSError("no space")
            host.publish("world", READY, [send()])
            while not told.warnings:
                await trio.lowlevel.checkpoint()
            store.error = None
            assert why(host, BOB) is None
    assert told.warnings == [("", "approvals could not be saved: no space")]
    assert list(store.kept) == ["world.send"]


# --------------------------------------------------------------- against a model

KEYS = st.sampled_from(["send", "tell"])
ESTIMATE = Estimate(
    seconds=0.1,
    tier=Tier.FAST,
    source=EstimateSource.DECLARED,
    p50=None,
    p99=None,
    samples=0,
    degraded=None,
    tier_by_number=None,
)


class Machine(RuleBasedStateMachine):
    """Two tools of one server, in versions; the model has a dict for each state."""

    def __init__(self) -> None:
        super().__init__()
        self.saved: dict[str, str] = {}
        self.approving: set[str] = {"send"}
        self.first: dict[str, int] = {}  # the version that was approved
        self.agreed: set[str] = set()  # of those, what a person approved
        self.told: set[str] = set()
        self.warned = Told()
        self.offered: dict[str, int] = {}
        self.start()

    def start(self) -> None:
        self.catalogue = Catalogue(lambda definition: ESTIMATE)
        self.approvals = Approvals(
            approved=lambda definition, exposed: definition.name in self.approving,
            warn=self.warned,
        )
        self.approvals.on_change = self.save
        self.approvals.recall(self.saved)

    def save(self) -> None:
        self.saved = self.approvals.remembered

    def review(self) -> None:
        tools = [send(f"{v}", name) for name, v in self.offered.items()]
        self.catalogue.replace("world", tools)
        prints = {tool.key: fingerprint(tool.definition) for tool in tools}
        self.approvals.offer("world", prints)
        self.approvals.review(self.catalogue.current.listings)
        for name in self.offered.keys() & self.approving:
            self.first.setdefault(name, self.offered[name])
        fresh = self.held() - self.told
        assert len(self.warned.warnings) == bool(fresh)
        self.warned.warnings.clear()
        self.told |= fresh

    def held(self) -> set[str]:
        return {
            name
            for name in self.offered.keys() & (self.approving | self.agreed)
            if self.first[name] != self.offered[name]
        }

    @rule(name=KEYS, version=st.integers(1, 3))
    def publish(self, name: str, version: int) -> None:
        self.offered[name] = version
        self.review()

    @rule(name=KEYS)
    def remove(self, name: str) -> None:
        self.offered.pop(name, None)
        self.review()

    @rule(name=KEYS)
    def configure(self, name: str) -> None:
        self.approving ^= {name}
        self.review()

    @rule(name=KEYS)
    def approve(self, name: str) -> None:
        if name in self.offered:
            was_held = name in self.held()
            assert self.approvals.approve(f"world.{name}") == was_held
            self.first[name] = self.offered[name]
            self.agreed.add(name)
            self.told.discard(name)
        else:
            with pytest.raises(ChangedAgain):
                self.approvals.approve(f"world.{name}")

    @rule()
    def run_again(self) -> None:
        self.told.clear()
        self.offered.clear()
        self.start()

    @invariant()
    def same(self) -> None:
        assert self.approvals.held == {f"world.{name}" for name in self.held()}
        assert self.approvals.agreed == {
            f"world.{name}"
            for name in self.offered.keys() & self.agreed
            if self.first[name] == self.offered[name]
        }
        assert self.saved == {
            f"world.{name}": ("yes:" if name in self.agreed else "")
            + fingerprint(send(f"{version}", name).definition)
            for name, version in self.first.items()
        }


TestMachine = Machine.TestCase
