"""Ask the DM whether an external tool may run.

A question is sent as an event and, if the embedder has passed an approver, to that
callable as well. The first answer counts, whichever way it comes; without an answer in
time the call is denied. The tool clock does not run meanwhile, because a person needs
longer than a tool may.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final

import attrs

import trio

from glyphoxa_trio.host import CatalogueEntry, ToolHost
from glyphoxa_trio.tools.arguments import MAX_BYTES, cut
from glyphoxa_trio.tools.definition import ToolDefinition
from glyphoxa_trio.tools.gate import Grant
from glyphoxa_trio.tools.outcome import ToolCall

from .events import ApprovalNeeded, ApprovalSettled, Decision
from .identity import DEFAULT, NpcId

APPROVAL_TIMEOUT: Final = 30.0  # seconds
_ARGUMENTS: Final = 2000  # how many characters of the arguments are shown


@attrs.frozen(kw_only=True)
class ApprovalRequest:
    """A question whether this external tool may run.

    ``definition`` is the server's description of the tool. Show its texts to people
    with `glyphoxa_trio.tools.characters.visible`, which makes hidden characters
    visible.
    """

    npc: str
    call: ToolCall
    tool: str
    definition: ToolDefinition | None = None
    session: str = DEFAULT
    tenant: str = ""


Approver = Callable[[ApprovalRequest], Awaitable[bool]]


@attrs.define(eq=False)
class _Question:
    """One call that waits for an answer."""

    call: ToolCall
    tool: str
    definition: ToolDefinition | None = None
    decision: Decision | None = None
    settled: trio.Event = attrs.field(factory=trio.Event)

    def settle(self, decision: Decision) -> bool:
        """Set the decision, if there is none yet; return True if this call set it."""
        if self.decision is not None:
            return False
        self.decision = decision
        self.settled.set()
        return True


@attrs.define(eq=False)
class Questions:
    """The open questions of one NPC. Their ids are never used again.

    Args:
      id: the NPC.
      approver: is asked, besides the readers of events; None means no approver.
      within: how long each question stays open, in seconds.
    """

    id: NpcId
    approver: Approver | None
    within: float
    _open: dict[str, _Question] = attrs.field(factory=dict, init=False)
    _asked: int = attrs.field(default=0, init=False)

    def answer(self, question: str, *, yes: bool) -> bool:
        """Answer a question; return False if it is not open or does not exist."""
        found = self._open.get(question)
        decision = Decision.APPROVED if yes else Decision.DENIED
        return found is not None and found.settle(decision)

    async def approved(
        self,
        calls: Sequence[ToolCall],
        *,
        host: ToolHost,
        grant: Grant,
        nursery: trio.Nursery,
        turn: int,
        post: Callable[[ApprovalNeeded | ApprovalSettled], None],
    ) -> frozenset[str]:
        """Return the ids of those calls that were approved.

        Questions are asked about calls that the grant covers and that need approval.
        This takes its own time, see `ask`.
        """
        if not grant.approver:
            return frozenset()
        found = host.snapshot.by_exposed
        listed = [(call, found[call.name]) for call in calls if call.name in found]
        doubtful = [
            (call, listing)
            for call, listing in listed
            if grant.covers(listing.definition, listing.exposed)
            and not grant.approves(listing.definition, listing.exposed)
            and listing.key not in host.approvals.agreed
        ]
        approved = await self.ask(nursery, turn, doubtful, post)
        # An approval is for the tool that was asked about, not for another tool that
        # its server has since put under the same name.
        now = host.snapshot.by_key
        return frozenset(
            call.id
            for call, listing in doubtful
            if call.id in approved
            and listing.key in now
            and now[listing.key].definition == listing.definition
        )

    async def ask(
        self,
        nursery: trio.Nursery,
        turn: int,
        calls: Sequence[tuple[ToolCall, CatalogueEntry]],
        post: Callable[[ApprovalNeeded | ApprovalSettled], None],
    ) -> frozenset[str]:
        """Ask about all calls at once; return the ids of the calls approved in time.

        An approver that fails denies its call. It runs in ``nursery`` and not in the
        caller's task, so that an approver that ignores its cancellation, such as a
        thread that waits for a key, delays no turn. Every question that was posted is
        settled by exactly one event, even if this is cancelled.
        """
        if not calls:
            return frozenset()
        questions: dict[str, _Question] = {}
        scopes: list[trio.CancelScope] = []
        deadline = trio.current_time() + self.within

        async def wait(id_: str, question: _Question) -> None:
            with trio.move_on_at(deadline):
                await question.settled.wait()
            question.settle(Decision.EXPIRED)
            tell(id_, question)

        def tell(id_: str, question: _Question) -> None:
            del self._open[id_]
            assert question.decision is not None
            post(
                ApprovalSettled(
                    **self.id.of(turn),
                    question=id_,
                    call=question.call,
                    tool=question.tool,
                    decision=question.decision,
                )
            )

        for call, listing in calls:
            self._asked += 1
            id_ = f"{turn}.{self._asked}"
            questions[id_] = self._open[id_] = _Question(
                call, listing.key, listing.definition
            )
            post(
                ApprovalNeeded(
                    **self.id.of(turn),
                    question=id_,
                    call=call,
                    tool=listing.key,
                    arguments=for_people(call.arguments),
                    expires=self.within,
                )
            )
        try:
            if self.approver is not None:
                for question in questions.values():
                    scopes.append(trio.CancelScope())
                    nursery.start_soon(
                        _consult, self.approver, self.id, question, scopes[-1]
                    )
            async with trio.open_nursery() as waiting:
                for id_, question in questions.items():
                    waiting.start_soon(wait, id_, question)
        finally:
            for scope in scopes:
                scope.cancel("the question is closed")
            for id_, question in questions.items():
                if id_ in self._open:  # the turn was interrupted
                    question.settle(Decision.WITHDRAWN)
                    tell(id_, question)
        return frozenset(
            question.call.id
            for question in questions.values()
            if question.decision is Decision.APPROVED
        )


async def _consult(
    approver: Approver, id_: NpcId, question: _Question, scope: trio.CancelScope
) -> None:
    yes = False
    try:
        with scope:
            request = ApprovalRequest(
                npc=id_.npc,
                session=id_.session.id,
                tenant=id_.session.tenant,
                call=question.call,
                tool=question.tool,
                definition=question.definition,
            )
            yes = bool(await approver(request))
    except (KeyboardInterrupt, trio.Cancelled):
        raise
    # border: the embedder's code; a failure is no approval
    except BaseException as error:
        # A group may contain a cancellation, which belongs to the nursery.
        if isinstance(error, BaseExceptionGroup) and not isinstance(error, Exception):
            _, ours = error.split(
                lambda x: not isinstance(x, KeyboardInterrupt | trio.Cancelled)
            )
            if ours is not None:
                raise ours from None
    # If this was cancelled, the question is settled already.
    question.settle(Decision.APPROVED if yes else Decision.DENIED)


def for_people(arguments: str) -> str:
    """Return a call's arguments as one readable line in which nothing is hidden.

    Control characters, and characters that reverse or hide text, are written as
    escapes; text longer than 2000 characters is cut.
    """
    text = arguments[:MAX_BYTES] or "{}"
    with suppress(ValueError, RecursionError):  # otherwise as it was written
        text = json.dumps(json.loads(text), ensure_ascii=False)
    shown = cut(text, _ARGUMENTS)
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in shown)
