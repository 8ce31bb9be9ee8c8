"""A recorded session, played again by the production code on virtual time.

    replayed = replay(read_recording(path))
    replayed.same, replayed.difference

Two replays of one recording are the same to the byte. A replay is the same as what was
recorded, unless something was recorded on a clock that does not stand still (then times
are compared within `Recorded.tolerance`), or a rule has changed since: another version
of this package, another configuration. Then the difference shows.
"""

from __future__ import annotations

from math import inf
from typing import Final

import attrs

import trio

from glyphoxa_trio.actors import lone_errors
from glyphoxa_trio.config import Config
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.mcp import ServerState
from glyphoxa_trio.npc.identity import session_in
from glyphoxa_trio.npc.session.messages import Introduce
from glyphoxa_trio.npc.turn.listener import Listener
from glyphoxa_trio.observability.recording.format import (
    Line,
    Recorded,
    config_of,
)
from glyphoxa_trio.observability.recording.tools import definition_of
from glyphoxa_trio.runtime import Runtime, Session, SessionSnapshot, open_runtime
from glyphoxa_trio.runtime.environment import Environment
from glyphoxa_trio.simulation import virtual
from glyphoxa_trio.simulation.clock import ExactClock
from glyphoxa_trio.simulation.replay.answers import Notes
from glyphoxa_trio.simulation.replay.driver import ReplayDriver
from glyphoxa_trio.simulation.replay.ear import ReplayListener
from glyphoxa_trio.simulation.replay.hooks import (
    Absent,
    ReplayHooks,
    as_line,
    probes_of,
)
from glyphoxa_trio.simulation.replay.messages import MESSAGES, say_of
from glyphoxa_trio.simulation.replay.models import ReplayModel
from glyphoxa_trio.simulation.replay.rules import rehearsed, ruled
from glyphoxa_trio.simulation.replay.speech import RecordedSockets, ReplaySpeech
from glyphoxa_trio.simulation.replay.tools import Answers
from glyphoxa_trio.tools.definition import Tool

from . import diff

# Virtual seconds that a turn may go on for, once everything recorded is over.
_LONGER: Final = 120.0


@attrs.frozen(kw_only=True, eq=False)
class Replayed:
    """The result of a replay.

    Args:
      events: as lines of a recording, in `diff.in_order`.
      difference: a unified diff of the events, line by line; empty if there is none.
      notes: what it could not take from the recording.
    """

    recorded: Recorded
    events: tuple[Line, ...]
    difference: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def same(self) -> bool:
        return not self.difference

    def as_bytes(self) -> bytes:
        """Return the events as lines of JSON, which are compared."""
        return b"".join(diff.text_of(x).encode() + b"\n" for x in self.events)


def replay(recorded: Recorded, config: Config | None = None) -> Replayed:
    """Play it, under ``config`` if that is given. Not from within a trio run.

    Raises:
      ConfigError: for a configuration that cannot serve.
    """
    play = _Play(recorded, recorded.config if config is None else config)
    virtual.run(play.run, clock=play.clock)
    events = [as_line(at, event) for at, event in play.stage.played]
    before, after = recorded.of("event"), events
    if recorded.over is not None:  # of the last moment something may be missing
        before = [line for line in before if line["at"] < recorded.over]
        after = [line for line in events if line["at"] < recorded.over]
    return Replayed(
        recorded=recorded,
        events=tuple(diff.in_order(after)),
        difference=tuple(diff.difference(before, after, tolerance=recorded.tolerance)),
        notes=tuple(play.notes.texts),
    )


@attrs.define(eq=False)
class _Play:
    """One replay: everything that came from outside comes from here."""

    recorded: Recorded
    config: Config
    clock: ExactClock = attrs.field(init=False)
    notes: Notes = attrs.field(factory=Notes, init=False)
    stage: ReplayHooks = attrs.field(init=False)
    _conductor: ReplayDriver = attrs.field(init=False)
    _answers: Answers = attrs.field(init=False)
    _runtime: Runtime = attrs.field(init=False)
    _nursery: trio.Nursery = attrs.field(init=False)
    _offered: dict[str, tuple[Tool, ...]] = attrs.field(factory=dict, init=False)
    _resumes: dict[tuple[int, int], Line] = attrs.field(init=False)
    _tool_of: dict[int, str] = attrs.field(init=False)
    _ears: dict[int, ReplayListener] = attrs.field(factory=dict, init=False)
    _listeners: dict[int, Listener] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self.clock = ExactClock(self.recorded.began)
        probes = probes_of(self.recorded)
        self._tool_of = {x["call"]: x["tool"] for x in self.recorded.of("call")}
        lines = [
            {
                "kind": "probed",
                "at": line["at"],
                "tool": self._tool_of[line["call"]],
                "of": probes[line["call"]],
            }
            if line["kind"] == "answer" and line["call"] in probes
            else line
            for line in self.recorded.lines
        ]
        # Several for one pause say that it was not over by then.
        news = self.recorded.of("heard", "played")
        self._resumes = {(x["say"], x["events"]): x for x in news}
        self._conductor = ReplayDriver(lines, self.clock, self._act, self._may_act)
        sockets = RecordedSockets(self.recorded, self.notes, self._conductor)
        self.stage = ReplayHooks(self.recorded, self._conductor, sockets)
        self._answers = Answers(self.recorded, self.notes, self._conductor)

    async def run(self) -> None:
        recorded = self.recorded
        first = next(iter(recorded.of("tools")), None)
        ours: tuple[Tool, ...] = ()
        if first is not None and first["at"] == recorded.began:
            ours = self._tools(first)
        events = recorded.of("event")
        closed = float(events[-1]["at"]) if events else recorded.began
        header = recorded.header
        with lone_errors():
            async with trio.open_nursery() as self._nursery:
                async with open_runtime(
                    rehearsed(self.config),
                    tools=ours,
                    llm=ReplayModel(self.notes, self._conductor, recorded=recorded),
                    s2s=ReplaySpeech.of_nobody(self.stage.sockets),
                    approvals=bool(header.get("approver")),
                    approval_timeout=float(header.get("approval_timeout") or 30.0),
                    wait_for_servers=0.0,
                    environment=Environment(
                        open_session=Absent(closed),
                        hooks=self.stage,
                        run=header.get("run"),
                    ),
                ) as self._runtime:
                    self._nursery.start_soon(self._conductor.run)
                    await self._conductor.over.wait()
                    await self._those_who_stayed()
                    self._nursery.start_soon(self._last_answers)
                self._nursery.cancel_scope.cancel()

    async def _those_who_stayed(self) -> None:
        """Let turns end that did end: under another rule they may take longer."""
        with trio.move_on_after(_LONGER):
            for left in self.recorded.of("left"):
                ear = self._ears.get(left["say"])
                while left.get("over") and ear is not None and not ear.over:
                    await ear.news.wait()

    async def _last_answers(self) -> None:
        """Give the answers that came while the runtime closed."""
        for line in self.recorded.of("model", "speech", "answer"):
            if not self._conductor.cue(line).is_set():
                await trio.sleep_until(line["at"])
                self._conductor.cue(line).set()

    # What people did.

    def _may_act(self, line: Line) -> bool:
        """Return whether a listener has heard as much as it had in the recording."""
        listens = line["kind"] in ("heard", "played")
        ear = self._ears.get(line["say"]) if listens else None
        return ear is None or ear.asked >= line["events"]

    def _act(self, line: Line) -> None:
        try:
            self._do(line)
        except GlyphoxaError as error:
            self.notes.add(f"{line['kind']}: {error}")

    def _do(self, line: Line) -> None:
        runtime = self._runtime
        match line["kind"]:
            case "say":
                self._say(line)
            case "heard" | "played":
                if line["kind"] == "played":
                    self._listeners[line["say"]].played(line["seconds"])
                if self._resumes[line["say"], line["events"]] is line:
                    self._ears[line["say"]].resume()
            case "left" if line.get("over"):
                pass  # there was nothing more to hear
            case "left":  # as `Turn` leaves
                self._ears[line["say"]].leave()
            case "cancelled":
                self._ears[line["say"]].cancel(line["reason"])
            case "session":
                self._knows(self._session(line), line)
            case "restored":
                key = session_in(line)
                kept = SessionSnapshot.from_data(line["kept"])
                runtime.session(key.id, tenant=key.tenant, restore=kept)
            case "ended":
                self._nursery.start_soon(self._session(line).end)
            case "approved":
                runtime.host.approve(line["tool"])
            case "tools":
                self._put(self._tools(line))
            case "server":
                self._publish(line)
            case "reload":
                self._reload(line)
            case "probed":  # calibration is not made to call again
                self._probed(line)
            case kind:
                npc = self._session(line).npc(line["npc"])
                npc._door.tell(MESSAGES[kind](line))

    def _knows(self, session: Session, line: Line) -> None:
        values = line["variables"]
        session._state.set_variables(values)
        for name in line.get("told") or ():  # while they were set aside
            session.npc(name)._door.tell(Introduce(values))

    def _probed(self, line: Line) -> None:
        host = self._runtime.host
        listing = host.snapshot.by_key.get(line["tool"])
        if listing is not None:
            host._executor._attempts.probe_ended(listing)
        if line["of"] is not None:
            host._calibrator.tell(line["of"])

    def _session(self, line: Line) -> Session:
        key = session_in(line)
        return self._runtime.session(key.id, tenant=key.tenant)

    def _say(self, line: Line) -> None:
        number, of = line["say"], self.recorded.of
        left = next((x for x in of("left") if x["say"] == number), {"over": True})
        ear = ReplayListener(
            most=inf if left.get("over") else left.get("asked", inf),
            pauses={events for say, events in self._resumes if say == number},
            told=self._conductor.look,
            quiet=self.clock.quiet,
        )
        self._ears[number] = ear
        npc = self._session(line).npc(line["npc"])
        listener = self._listeners[number] = Listener(ear)
        npc._door.tell(say_of(line, npc._handover.put(listener)))
        ear.begin()

    # Tools and rules.

    def _tools(self, line: Line) -> tuple[Tool, ...]:
        made = (definition_of(data) for data in line.get("tools") or ())
        tools = [
            self._answers.tool(definition, fingerprint)
            for definition, fingerprint in made
        ]
        return tuple(found for tool in tools if (found := ruled(tool, self.config)))

    def _put(self, tools: tuple[Tool, ...]) -> None:
        """These are all of ours from now on."""
        runtime = self._runtime
        now = {
            x.key: x.definition
            for x in runtime.host.snapshot.listings
            if not x.definition.external
        }
        new = {tool.key: tool for tool in tools}
        for key, definition in now.items():
            if key not in new or new[key].definition != definition:
                runtime.deregister(key)
        fresh = [x for x in tools if now.get(x.key) != x.definition]
        runtime.host.register(*fresh)

    def _publish(self, line: Line) -> None:
        server = line["server"]
        if line.get("tools") is not None:
            self._offered[server] = self._tools(line)
        tools = self._offered.get(server, ())
        state, ready_at = ServerState(line["state"]), line.get("ready_at")
        self.stage.publish(server, state, tools, ready_at)

    def _reload(self, line: Line) -> None:
        if self.config is not self.recorded.config:
            self.notes.add("a reload is left out: this configuration is another one")
            return
        self._runtime.host.approvals.recall(line.get("approved") or {})
        config = config_of(line["config"], self.recorded.name)
        self._nursery.start_soon(self._go_over, rehearsed(config))

    async def _go_over(self, config: Config) -> None:
        try:
            await self._runtime.reload(config)
        except GlyphoxaError as error:
            self.notes.add(f"reload: {error}")
