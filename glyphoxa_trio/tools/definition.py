"""A tool: its definition (`ToolDefinition`) and its code (the handler).

Most tools are made with `glyphoxa_trio.tool`, which takes both from a function. A
remote tool is the same: its handler asks a connection.

Times are seconds on trio's clock.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from functools import cached_property
from typing import Any, ClassVar, Final

import attrs

from glyphoxa_trio.errors import GlyphoxaError

from .outcome import ToolResult
from .tier import Tier

NO_PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}}


class ToolError(GlyphoxaError):
    """The tool reports an error: an answer for the model, never a failure of health.

    ``code`` classifies the error in one word, for programs that call the tool on a
    server of ours; None if that would tell them nothing.
    """

    code: ClassVar[str | None] = None


class ServerFault(ToolError):
    """The tool's server has a fault of its own, whatever the arguments are."""


class AnswerUnusable(ToolError):
    """The answer cannot be used, although the call may have had its effect."""


class OutputMismatch(AnswerUnusable):
    """The call had its effect, and all of its answer is not what its tool promised."""


class ToolUnavailable(GlyphoxaError):
    """The call never reached the tool, so it had no effect (a server is down)."""


class ConnectionLost(GlyphoxaError):
    """The call was sent and its answer was lost: the effect is unknown."""


class OnInterrupt(StrEnum):
    """The policy for a running call when the NPC is interrupted."""

    CANCEL = "cancel"
    FINISH_SILENTLY = "finish_silently"
    FINISH_AND_SPEAK = "finish_and_speak"


class Schedule(StrEnum):
    """The time at which a speech-to-speech model speaks of a result."""

    INTERRUPT = "interrupt"  # at once, interrupting itself
    WHEN_IDLE = "when_idle"  # at the next pause
    SILENT = "silent"  # never, though it knows the result


def _nothing() -> None: ...


@attrs.frozen
class SessionClaim:
    """The claim under which a call's session is held.

    Several processes may believe to have a session, after a failure; the one with the
    highest ``epoch`` has it. ``session`` stands for the session and its tenant: a hash
    of their names, the same in every process.
    """

    session: str
    epoch: int

    @classmethod
    def of(cls, tenant: str, session: str, epoch: int) -> SessionClaim | None:
        """Return the claim of a session; None if the epoch is 0, which is no claim."""
        if not epoch:
            return None
        named = json.dumps([tenant, session]).encode()
        return cls(hashlib.sha256(named).hexdigest()[:32], epoch)


@attrs.frozen(kw_only=True)
class CallContext:
    """The NPC on whose behalf a handler runs, and its times, on trio's clock.

    ``deadline`` is when the call is cancelled at the latest; ``awaited_until`` when the
    turn stops waiting for it, which is earlier for a call that may go on. A handler
    that has to wait before it can send its request, say, for a server that is starting,
    calls ``sent`` when it sends it: the tool's latency is measured from then.
    ``claim`` is there if the session is kept, and so has one owner at a time.
    """

    npc: str = ""
    session: str = ""
    tenant: str = ""
    call_id: str = ""
    deadline: float = float("inf")
    awaited_until: float = float("inf")
    claim: SessionClaim | None = None
    sent: Callable[[], None] = attrs.field(default=_nothing, eq=False, repr=False)

    def telling(self, sent: Callable[[], None]) -> CallContext:
        """Return a copy with another ``sent``."""
        return CallContext(
            npc=self.npc,
            session=self.session,
            tenant=self.tenant,
            call_id=self.call_id,
            deadline=self.deadline,
            awaited_until=self.awaited_until,
            claim=self.claim,
            sent=sent,
        )


Handler = Callable[[Mapping[str, Any], CallContext], Awaitable[ToolResult] | ToolResult]


_GROUP: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


@attrs.frozen(kw_only=True)
class ToolDefinition:
    """The properties of a tool that are known before its first call.

    Args:
      name: the tool's own name, unique within its group.
      group: a built-in's group or an MCP server's name; ``group.name`` is the canonical
        key.
      parameters: JSON schema of the arguments, an object.
      estimated_duration: declared median, seconds; None if it is not known.
      max_duration: hard limit of one call, seconds.
      server_timeout: the server's own limit of one call, seconds.
      title: its name for people; empty is none.
      read_only: calling it changes nothing anywhere.
      destructive: it may delete or overwrite the work of others. It has no meaning for
        a tool that only reads.
      open_world: it reaches beyond the data of this program and its user: the web.
      idempotent: calling it twice does no more than once. Its author in this process or
        the operator says so; a call whose answer was lost is then repeated.
      cacheable: how long a result stays valid, seconds; 0 is not at all.
      per_npc: results differ by NPC, so they are cached per NPC.
      min_tier: the fastest tier it is shown in, however fast it is.
      probe: arguments that the operator configured to measure it with, and thereby
        allows it to be called with at any time.
      examples: valid arguments, best first, from its author.
      on_interrupt: None is the default: `CANCEL` for read-only tools, otherwise
        `FINISH_SILENTLY`.
      schedule: when a speech-to-speech model speaks of a result, if at all.
      slow_response_threshold: seconds from which the NPC says that it has to wait, with
        ``slow_response_message`` if there is one, which may use the arguments of the
        call as ``{placeholders}``. None leaves it to the general rule.
      environment: where it runs: the same tool, local and remote, has two histories of
        measurements; None is where the host runs.
      round_trip: the time its server takes to answer anything, seconds. The estimate
        until there is a better one.
      origin: a short text, without secrets, that identifies the server among those of
        this name, which have histories of their own. Empty for tools in this process.
      external: it belongs to an external server, so the trust rules apply.
      expose_as: the name that models see, to override the naming rule.
      category: its kind, within which tools are ranked; if empty, its group.

    Raises:
      ValueError: if a value is invalid; the message names the tool and the field.
    """

    name: str
    group: str = "custom"
    description: str = ""
    parameters: Mapping[str, Any] = attrs.field(factory=lambda: dict(NO_PARAMETERS))
    estimated_duration: float | None = None
    max_duration: float | None = None
    server_timeout: float | None = None
    title: str = ""
    read_only: bool = False
    destructive: bool = False
    open_world: bool = False
    idempotent: bool = False
    cacheable: float = 0.0
    per_npc: bool = False
    min_tier: Tier = Tier.FAST
    probe: Mapping[str, Any] | None = None
    examples: tuple[Mapping[str, Any], ...] = ()
    on_interrupt: OnInterrupt | None = None
    schedule: Schedule = Schedule.WHEN_IDLE
    speech_field: str | None = None
    speech_template: str | None = None
    slow_response_threshold: float | None = None
    slow_response_message: str | None = None
    environment: str | None = None
    round_trip: float = attrs.field(default=0.05, eq=False)
    origin: str = ""
    external: bool = False
    expose_as: str | None = None
    category: str = ""

    def __attrs_post_init__(self) -> None:
        for field in (
            "estimated_duration",
            "max_duration",
            "server_timeout",
            "slow_response_threshold",
        ):
            value = getattr(self, field)
            if value is not None and not 0 < value < float("inf"):
                raise ValueError(f"{self.key}: {field} must be positive, got {value!r}")
        if not self.name or not self.group:
            raise ValueError(f"{self.key}: a tool needs a name and a group")
        if "." in self.group:  # a.b + c and a + b.c would be one key
            raise ValueError(f"{self.key}: a group's name must not have a dot")
        if not self.external and _GROUP.fullmatch(self.group) is None:
            raise ValueError(
                f"{self.key}: a group's name must be 1 to 64 letters, digits, _ or -,"
                " because tools are written as group.tool"
            )
        if not 0 <= self.cacheable < float("inf"):
            raise ValueError(f"{self.key}: cacheable must be 0 or more, and finite")
        if self.cacheable and not self.repeatable:
            raise ValueError(
                f"{self.key}: cacheable, but neither read-only nor idempotent"
            )
        if self.parameters.get("type") != "object":
            raise ValueError(f"{self.key}: parameters must be a schema of an object")

    @cached_property
    def key(self) -> str:
        """The canonical key, ``group.name``."""
        return f"{self.group}.{self.name}"

    @property
    def side_effects(self) -> bool:
        """True unless the tool is declared as read-only."""
        return not self.read_only

    @property
    def repeatable(self) -> bool:
        """True if a second call does no more than the first."""
        return self.read_only or self.idempotent

    @property
    def interruption(self) -> OnInterrupt:
        """The policy in force, with the default applied."""
        if self.on_interrupt is not None:
            return self.on_interrupt
        return OnInterrupt.CANCEL if self.read_only else OnInterrupt.FINISH_SILENTLY

    @cached_property
    def own_limit(self) -> float:
        """The earlier of the tool's and its server's limit, seconds; inf if none."""
        limits = (self.max_duration, self.server_timeout)
        return min(
            (limit for limit in limits if limit is not None), default=float("inf")
        )


@attrs.frozen(kw_only=True)
class Tool:
    """A definition and the code behind it.

    Args:
      handler: takes the arguments and a `CallContext`, returns a `ToolResult`. It must
        be safe to run many times at once and stop when cancelled.
      blocking: the handler is a plain function; it runs in a worker thread.
      function: the author's function, for plain calls in tests.
      fingerprint: of the tool as its server describes it, before the operator's
        overrides; empty is that of the definition.
      remote: the handler calls `CallContext.sent` when it sends its request.
      per_session: each session has a connection of its own to its server.
      reads_resources: it was added by this package to its server's tools, and reads
        the resources that their answers link to.
      added: it was added by this package to its server's tools, and does not count as
        one of them where there are many.
    """

    definition: ToolDefinition
    handler: Handler
    blocking: bool = False
    function: Callable[..., Any] | None = attrs.field(default=None, eq=False)
    fingerprint: str = ""
    remote: bool = False
    per_session: bool = False
    reads_resources: bool = False
    added: bool = False

    @property
    def key(self) -> str:
        return self.definition.key

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the author's function directly: no gate, no limit, no host."""
        if self.function is None:
            raise TypeError(f"{self.key} was not made from a function")
        return self.function(*args, **kwargs)
