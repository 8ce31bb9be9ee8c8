"""Records made from events: which events get one, and its fields.

Pure, except that it remembers the turns that run. A record has no words of
players, models or tools and no arguments, unless ``texts`` is asked for. Times
are whole milliseconds, as everywhere at the edge.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Final

import attrs

from glyphoxa_trio.actors import (
    Failed,
    GaveUp,
    Restarting,
    Started,
    SupervisionEvent,
)
from glyphoxa_trio.host import Probed, ToolStalled
from glyphoxa_trio.mcp import ServerState, ServerStatus, ServerWarning
from glyphoxa_trio.npc import (
    ApprovalSettled,
    EngineSwitched,
    FellBack,
    LateResult,
    ModelSwitched,
    Shed,
    SpeculationDone,
    TierSelected,
    ToolFinished,
    Transcript,
    TurnDone,
    TurnEnd,
    TurnEvent,
    UsageReported,
)
from glyphoxa_trio.npc.identity import NpcId
from glyphoxa_trio.tools.outcome import Outcome, Status
from glyphoxa_trio.tracing import ids
from glyphoxa_trio.units import milliseconds

ServerEvent = ServerStatus | ServerWarning | SupervisionEvent

# Each turn publishes one of these itself, before its other records.
_IN_TURN: Final = (TierSelected, Shed, TurnDone)
_REMEMBERED: Final = 1_000  # turns; more do not run at a time
# A model may invent any name for a tool, also one made of what it was told.
_A_NAME: Final = re.compile(r"[A-Za-z0-9_.:-]{1,64}")


class Level(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@attrs.frozen
class LogRecord:
    """One line of a log. ``event`` says what the ``fields`` are."""

    level: Level
    event: str
    fields: Mapping[str, Any]


_LEVELS: Final = {
    Status.TIMEOUT: Level.WARNING,
    Status.UNAVAILABLE: Level.WARNING,
    Status.CRASHED: Level.ERROR,
}


@attrs.define
class _OpenTurn:
    """The fields of a turn that are known before its end."""

    tier: str | None = None
    speaker: str | None = None
    said: str | None = None
    fallback: str | None = None
    call_id: str = ""
    trace: Mapping[str, str] = attrs.field(factory=dict)


@attrs.define(eq=False)
class TurnRecords:
    """The records of one runtime's turns and calls.

    Args:
      provider: who speaks for its NPCs, now.
      exposed: the name under which models see the tool of a key, if it is there.
      call_id: the id of an NPC's conversation, as templates have it.
      texts: put in what was said, asked and answered, too.
    """

    provider: Callable[[], str]
    exposed: Callable[[str], str | None]
    call_id: Callable[[NpcId], str]
    texts: bool = False
    _turns: dict[tuple[NpcId, int], _OpenTurn] = attrs.field(factory=dict, init=False)

    def note(self, event: TurnEvent) -> None:
        """Note the trace and the conversation of a turn, in the turn's own task.

        Both may be gone when its records are made.
        """
        if type(event) in _IN_TURN:
            turn = self._turn(event)
            turn.trace = ids() or turn.trace
            turn.call_id = turn.call_id or self.call_id(event.id)

    def of(self, event: TurnEvent) -> LogRecord | None:
        """The record of an event, if it has one, with the fields that all have."""
        record = self._of(event)
        if record is None:
            return None
        turn = self._turns.get((event.id, event.turn), _OpenTurn())
        fields: dict[str, Any] = {
            "call_id": turn.call_id or self.call_id(event.id),
            "context_name": event.npc,
            "session": str(event.id.session),
            "turn": event.turn or None,
        }
        if event.tenant:
            fields["tenant"] = event.tenant
        return attrs.evolve(record, fields={**fields, **record.fields, **turn.trace})

    def _of(self, event: TurnEvent) -> LogRecord | None:
        match event:
            case TierSelected():
                turn = self._turn(event)
                turn.tier = str(event.tier)
                turn.speaker, turn.said = event.speaker, event.text
            case Shed():
                turn = self._turn(event)
                turn.speaker, turn.said = event.speaker, event.text
            case FellBack(reason=reason):
                self._turn(event).fallback = reason.value
            case ToolFinished(outcome=outcome, round=round_):
                return self._call(event, "tool_call", outcome, round=round_)
            case LateResult(outcome=outcome):
                return self._call(event, "late_tool_call", outcome)
            case ApprovalSettled(tool=key, call=call, decision=decision):
                server, _, tool = key.partition(".")
                fields = {
                    "tool_call_id": _named(call.id),
                    "server": server,
                    "tool": tool,
                    "decision": decision.value,
                }
                return LogRecord(Level.INFO, "approval", fields)
            case SpeculationDone():
                return _speculation(event)
            case EngineSwitched():
                return _rerouted(event)
            case Transcript(text=said, final=True) if event.turn:
                self._turn(event).said = said
            case UsageReported():
                return _usage(event)
            case ModelSwitched():
                return _switched(event)
            case TurnDone():
                return self._done(event)
        return None

    def _turn(self, event: TurnEvent) -> _OpenTurn:
        """Kept beyond its end, because of calls that outlive it."""
        key = (event.id, event.turn)
        turn = self._turns.get(key)
        if turn is None:
            turn = self._turns[key] = _OpenTurn()
            while len(self._turns) > _REMEMBERED:
                del self._turns[next(iter(self._turns))]
        return turn

    def _call(
        self, event: TurnEvent, name: str, outcome: Outcome, **more: Any
    ) -> LogRecord:
        server, _, tool = (outcome.tool or "").partition(".")
        exposed = None if outcome.tool is None else self.exposed(outcome.tool)
        fields: dict[str, Any] = {
            "tool_call_id": _named(outcome.call.id),
            "provider_name": self.provider(),
            "server": server or None,
            "tool": tool or None,
            "exposed_name": exposed or _named(outcome.call.name),
            "status": outcome.status.value,
            "limit": None if outcome.limit is None else outcome.limit.value,
            "effect": outcome.effect.value,
            "duration_ms": milliseconds(outcome.elapsed),
            "tier": self._turn(event).tier,
            **more,
            "cached": outcome.cached,
            "shared": outcome.shared,
        }
        if outcome.answered_by is not None:
            fields["answered_by"] = outcome.answered_by
        if self.texts:
            fields |= {
                "arguments": outcome.call.arguments,
                "message": outcome.message,
            }
        return LogRecord(_LEVELS.get(outcome.status, Level.INFO), name, fields)

    def _done(self, done: TurnDone) -> LogRecord:
        turn, timings = self._turn(done), done.timings
        first = timings.first_text
        fields: dict[str, Any] = {
            "provider_name": self.provider(),
            "tier": turn.tier if done.tier is None else str(done.tier),
            "status": done.end.value,
            # Its kind only: the text after the colon may be foreign.
            "error": _named(done.error.partition(":")[0]) if done.error else None,
            "fallback": turn.fallback,
            "rounds": done.rounds,
            "calls": len(done.outcomes),
            "calls_ok": sum(outcome.ok for outcome in done.outcomes),
            "duration_ms": milliseconds(timings.total),
            "model_ms": milliseconds(timings.model),
            "tools_ms": milliseconds(timings.tools),
            "first_text_ms": None if first is None else milliseconds(first),
        }
        if self.texts:
            fields |= {
                "speaker": turn.speaker,
                "said": turn.said,
                "answer": done.text,
                "detail": done.error,
            }
        badly = done.end in (TurnEnd.FAILED, TurnEnd.SHED)
        return LogRecord(Level.WARNING if badly else Level.INFO, "turn", fields)


def host_record(event: object, *, texts: bool = False) -> LogRecord | None:
    """A probe of the calibrator, or a life of one of the host's own actors."""
    match event:
        case Probed(key=key, samples=samples, note=note):
            server, _, tool = key.partition(".")
            fields = {"server": server, "tool": tool, "samples": samples}
            fields["complete"] = not note
            if texts:
                fields["note"] = note
            return LogRecord(Level.DEBUG, "probe", fields)
        case ToolStalled():
            server, _, tool = event.key.partition(".")
            fields = {"server": server, "tool": tool, "handler": event.handler}
            fields |= {"place": event.place, "refused": event.refused}
            fields |= {"held_ms": milliseconds(event.seconds)}
            fields |= {"busy_ms": milliseconds(event.busy)}
            return LogRecord(Level.WARNING, "tool_stall", fields)
        case Started(life=life) if life == 1:
            return None  # as it should
        case Started() | Failed() | Restarting() | GaveUp():
            return _life(event, "actor", error=texts)
    return None


@attrs.define(eq=False)
class ServerRecords:
    """The records of servers; a status that only says the same again has none.

    Args:
      lines: put in what servers write to stderr. Their words are not ours: a
        server that prints its arguments puts them into the log.
    """

    lines: bool = True
    _last: dict[str, ServerStatus] = attrs.field(factory=dict, init=False)

    def of(self, event: ServerEvent) -> LogRecord | None:
        match event:
            case ServerStatus():
                return self._status(event)
            case ServerWarning(server=server, text=text):
                first, *lines = text.splitlines() or [""]
                fields: dict[str, Any] = {"server": server, "text": first}
                if self.lines and lines:
                    fields["lines"] = [line.strip() for line in lines]
                return LogRecord(Level.WARNING, "server_warning", fields)
            case _:
                return _life(event, "server", error=True)

    def line(self, server: str, line: str) -> LogRecord | None:
        """Return the record of a line that a server wrote to stderr."""
        if not self.lines:
            return None
        return LogRecord(Level.INFO, "server_line", {"server": server, "line": line})

    def _status(self, status: ServerStatus) -> LogRecord | None:
        last = self._last.get(status.name)
        self._last[status.name] = status
        if last is not None and (last.state, last.tools, last.restarts) == (
            status.state,
            status.tools,
            status.restarts,
        ):
            return None
        if status.state is ServerState.STOPPED:
            del self._last[status.name]  # a server of that name may come again
        fields = {
            "server": status.name,
            "transport": status.transport,
            "state": status.state.value,
            "previous": None if last is None else last.state.value,
            "tools": len(status.tools),
            "restarts": status.restarts,
            "last_error": status.last_error,
            "pid": status.pid,
        }
        level = Level.INFO
        if status.state is ServerState.FAILED:
            level = Level.ERROR
        elif status.state is ServerState.RESTARTING:
            level = Level.WARNING
        return LogRecord(level, "server_state", fields)


def _speculation(done: SpeculationDone) -> LogRecord:
    """Return the record of work that was started on a partial transcript."""
    fields = {
        "status": done.end.value,
        "reason": done.reason or None,
        "head_start_ms": milliseconds(done.head_start),
        "calls": done.calls,
        "calls_used": done.calls_used,
        "wasted_ms": milliseconds(done.wasted),
    }
    return LogRecord(Level.INFO, "speculation", fields)


def _usage(event: UsageReported) -> LogRecord:
    """Return the record of a model's response: its tokens and cost."""
    fields = {
        "model": event.model,
        "input_tokens": event.input_tokens,
        "output_tokens": event.output_tokens,
        "cached_tokens": event.cached_tokens,
        **_of_audio(event),
        "cost": event.cost,
    }
    return LogRecord(Level.INFO, "usage", fields)


def _of_audio(event: UsageReported) -> dict[str, float]:
    """Return the audio tokens, for models that hear or speak."""
    found = {
        "audio_input_tokens": event.audio_input_tokens,
        "audio_output_tokens": event.audio_output_tokens,
        "audio_cached_tokens": event.audio_cached_tokens,
        "audio_time_ms": milliseconds(event.audio_time),
    }
    return {key: value for key, value in found.items() if value}


def _rerouted(event: EngineSwitched) -> LogRecord:
    """The turn goes another way than its NPC's own. Why may hold words of players."""
    fields = {
        "engine": event.engine,
        "instead_of": event.instead_of,
    }
    return LogRecord(Level.INFO, "engine_switched", fields)


def _switched(event: ModelSwitched) -> LogRecord:
    """Another model answers."""
    fields = {
        "model": event.model,
        "instead_of": event.instead_of,
        "reason": _named(
            event.reason.partition(":")[0]
        ),  # the rest may be foreign text
    }
    return LogRecord(Level.WARNING, "model_switched", fields)


def _life(event: SupervisionEvent, what: str, *, error: bool) -> LogRecord:
    """A life, a failure or a restart of ``what``; ``error``: with its text."""
    match event:
        case Started(name=name, life=life):
            return LogRecord(Level.INFO, f"{what}_started", {what: name, "life": life})
        case Failed(name=name, life=life, error=cause, uptime=uptime):
            fields: dict[str, Any] = {
                what: name,
                "life": life,
                "uptime_ms": milliseconds(uptime),
                "error": type(cause).__name__,
            }
            if error:
                fields["detail"] = str(cause)
            return LogRecord(Level.WARNING, f"{what}_failed", fields)
        case Restarting(name=name, delay=delay, failures=failures):
            fields = {what: name, "delay_ms": milliseconds(delay)}
            fields["failures"] = failures
            return LogRecord(Level.INFO, f"{what}_restarting", fields)
        case GaveUp(name=name, failures=failures):
            fields = {what: name, "failures": failures}
            return LogRecord(Level.ERROR, f"{what}_gave_up", fields)


def _named(text: str) -> str:
    """A name that may be shown: one that looks like a name."""
    return text if _A_NAME.fullmatch(text) else "[not a name]"
