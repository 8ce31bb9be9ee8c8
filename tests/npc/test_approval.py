"""Asking somebody: as an event with its own deadline, or as a callable (D13a).

Rows N29, N31, A38. Times are virtual and exact.
"""

from __future__ import annotations

import json

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio.config import TurnConfig
from glyphoxa_trio.npc import (
    ApprovalNeeded,
    ApprovalRequest,
    ApprovalSettled,
    Decision,
    ToolFinished,
    ToolsShown,
    ToolStarted,
    TurnDone,
    TurnEnd,
)
from glyphoxa_trio.npc.approval import for_people
from glyphoxa_trio.tools.definition import Tool
from glyphoxa_trio.tools.gate import Grant, Reason
from glyphoxa_trio.tools.outcome import Status
from glyphoxa_trio.tools.tier import Tier

from .support import Heard, Ran, Reply, Table, ask, call, open_table

SLOWLY = "think carefully"  # DEEP: a FAST turn asks nobody
TELL = "mcp__world__tell"
ASKED = Grant(npc="Bob", tools=("*",), approver=True)


def tell(ran: Ran, name: str = "tell", seconds: float = 0.25) -> Tool:
    return ran.tool(name, seconds, group="world", external=True)


def one_call(*texts: str) -> list[Reply]:
    return [[call(TELL, '{"n": 1}', id="same")], [*(texts or ("Well.",))]]


async def answering(table: Table, *answers: tuple[float, bool]) -> list[bool]:
    """Answer each question after so many seconds; whether it was open."""
    found: list[bool] = []
    with table.events.subscribe() as events:
        for after, yes in answers:
            async for event in events:
                if isinstance(event, ApprovalNeeded):
                    await trio.sleep(after)
                    found.append(await table.npc.approve(event.question, yes))
                    break
    return found


async def asked_and_answered(
    table: Table, *answers: tuple[float, bool]
) -> tuple[Heard, list[bool]]:
    found: list[bool] = []
    async with trio.open_nursery() as nursery:

        async def answer() -> None:
            found.extend(await answering(table, *answers))

        nursery.start_soon(answer)
        heard = await ask(table.npc, SLOWLY)
        nursery.cancel_scope.cancel()
    return heard, found


def decisions(heard: Heard) -> list[Decision]:
    return [event.decision for event in heard.of(ApprovalSettled)]


@pytest.mark.parametrize(
    ("yes", "decision", "status"),
    [
        (True, Decision.APPROVED, Status.OK),
        (False, Decision.DENIED, Status.DENIED),
    ],
)
async def test_an_event_asks_and_an_answer_by_its_question_decides(
    autojump_clock: MockClock, yes: bool, decision: Decision, status: Status
) -> None:
    ran = Ran()
    async with open_table(one_call(), tell(ran), grant=ASKED) as table:
        heard, found = await asked_and_answered(table, (2.0, yes))
    assert found == [True]
    needed = heard.only(ApprovalNeeded)
    assert needed == ApprovalNeeded(
        npc="Bob",
        turn=1,
        question=needed.question,
        call=call(TELL, '{"n": 1}', id="same"),
        tool="world.tell",
        arguments='{"n": 1}',
        expires=30.0,
    )
    settled = heard.only(ApprovalSettled)
    assert (settled.question, settled.call) == (needed.question, needed.call)
    assert settled.tool == "world.tell"
    assert settled.decision is decision
    assert heard.when(ApprovalSettled) == [2.0]
    assert [outcome.status for outcome in heard.done.outcomes] == [status]
    assert heard.when(ToolStarted) == ([2.0] if yes else [])
    assert heard.done.timings.tools == (0.25 if yes else 0)
    published = [*table.events.all(ApprovalNeeded), *table.events.all(ApprovalSettled)]
    assert published == [needed, settled]  # on the runtime's topic as well


@pytest.mark.parametrize("within", [30.0, 3.0])
async def test_a_question_without_an_answer_expires_at_its_deadline(
    autojump_clock: MockClock, within: float
) -> None:
    ran = Ran()
    async with open_table(
        one_call(), tell(ran), grant=ASKED, approval_timeout=within
    ) as table:
        heard = await ask(table.npc, SLOWLY)
        question = heard.only(ApprovalNeeded).question
        assert not await table.npc.approve(question, True)
    assert heard.only(ApprovalNeeded).expires == within
    assert decisions(heard) == [Decision.EXPIRED]
    assert heard.when(ApprovalSettled) == [within]
    assert heard.done.outcomes[0].status is Status.DENIED
    assert ran.began == []


async def test_a_late_answer_is_for_its_own_question_not_for_the_next_one(
    autojump_clock: MockClock,
) -> None:
    # Models use the same call ids again and again.
    ran = Ran()
    script = [*one_call(), *one_call()]
    async with open_table(
        script, tell(ran), grant=ASKED, approval_timeout=3.0
    ) as table:
        first = await ask(table.npc, SLOWLY)
        old = first.only(ApprovalNeeded).question
        async with trio.open_nursery() as nursery:
            second = Heard()
            nursery.start_soon(_listen, table, second)
            await wait_all_tasks_blocked()
            assert len(table.events.all(ApprovalNeeded)) == 2
            assert not await table.npc.approve(old, True)
    assert decisions(second) == [Decision.EXPIRED]
    assert ran.began == []


async def _listen(table: Table, heard: Heard) -> None:
    await ask(table.npc, SLOWLY, heard=heard)


async def test_the_first_answer_counts(autojump_clock: MockClock) -> None:
    ran = Ran()
    async with open_table(one_call(), tell(ran), grant=ASKED) as table:
        async with trio.open_nursery() as nursery:
            heard = Heard()
            nursery.start_soon(_listen, table, heard)
            await wait_all_tasks_blocked()
            (needed,) = table.events.all(ApprovalNeeded)
            answers = [
                await table.npc.approve(needed.question, yes) for yes in (False, True)
            ]
            answers.append(await table.npc.approve("1.99", True))
            answers.append(await table.npc.approve("same", True))
    assert answers == [True, False, False, False]
    assert decisions(heard) == [Decision.DENIED]
    assert ran.began == []


@pytest.mark.parametrize(
    ("approver_after", "approver_says", "event_after", "event_says", "runs_at"),
    [
        (1.0, True, 2.0, False, 1.0),
        (2.0, False, 1.0, True, 1.0),
        (1.0, False, 2.0, True, None),
        (2.0, True, 1.0, False, None),
        (1.0, None, 2.0, True, None),  # an approver that fails has said no
    ],
)
async def test_an_approver_and_an_event_race(
    autojump_clock: MockClock,
    approver_after: float,
    approver_says: bool | None,
    event_after: float,
    event_says: bool,
    runs_at: float | None,
) -> None:
    ran = Ran()
    done: list[float] = []

    async def approver(request: ApprovalRequest) -> bool:
        try:
            await trio.sleep(approver_after)
        finally:
            done.append(trio.current_time())
        if approver_says is None:
            raise ValueError("a bug")
        return approver_says

    async with open_table(one_call(), tell(ran), approver=approver) as table:
        heard, found = await asked_and_answered(table, (event_after, event_says))
    assert [at for _, at in ran.began] == ([] if runs_at is None else [runs_at])
    assert done == [min(approver_after, event_after)]  # the loser is not kept
    assert found in ([event_after < approver_after], [])
    assert len(decisions(heard)) == 1


async def test_nobody_to_ask_is_a_no_at_once(autojump_clock: MockClock) -> None:
    # D13a, N29: neither an approver nor somebody who reads the events
    ran = Ran()
    nobody = Grant(npc="Bob", tools=("*",))
    async with open_table(one_call(), tell(ran), grant=nobody) as table:
        heard = await ask(table.npc, SLOWLY)
    assert heard.of(ApprovalNeeded) == []
    (outcome,) = heard.done.outcomes
    assert (outcome.status, outcome.elapsed) == (Status.DENIED, 0)
    assert heard.done.timings.total == 0
    ((name, no),) = heard.of(ToolsShown)[0].hidden
    assert (name, no.reason) == (TELL, Reason.NOT_TRUSTED)


async def test_several_questions_are_open_at_once_and_settled_each_by_itself(
    autojump_clock: MockClock,
) -> None:
    ran = Ran()
    calls = [call(TELL, f'{{"n": {n}}}', id=f"c{n}") for n in range(3)]
    script: list[Reply] = [calls, ["Well."]]
    async with open_table(
        script, tell(ran), grant=ASKED, approval_timeout=5.0
    ) as table:
        async with trio.open_nursery() as nursery:
            heard = Heard()
            nursery.start_soon(_listen, table, heard)
            await wait_all_tasks_blocked()
            first, second, _ = table.events.all(ApprovalNeeded)
            await trio.sleep(1)
            await table.npc.approve(second.question, True)
            await trio.sleep(1)
            await table.npc.approve(first.question, False)
    assert len({event.question for event in heard.of(ApprovalNeeded)}) == 3
    assert [
        (at, event.call.id, event.decision)
        for at, event in heard.events
        if isinstance(event, ApprovalSettled)
    ] == [
        (1, "c1", Decision.APPROVED),
        (2, "c0", Decision.DENIED),
        (5, "c2", Decision.EXPIRED),
    ]
    statuses = [outcome.status for outcome in heard.done.outcomes]
    assert statuses == [Status.DENIED, Status.OK, Status.DENIED]


async def test_an_interruption_withdraws_the_question(
    autojump_clock: MockClock,
) -> None:
    ran = Ran()
    async with open_table(one_call(), tell(ran), grant=ASKED) as table:
        async with trio.open_nursery() as nursery:
            heard = Heard()
            nursery.start_soon(_listen, table, heard)
            await wait_all_tasks_blocked()
            (needed,) = table.events.all(ApprovalNeeded)
            await trio.sleep(1)
            assert await table.npc.interrupt()
            await wait_all_tasks_blocked()
            assert not await table.npc.approve(needed.question, True)
    (settled,) = table.events.all(ApprovalSettled)
    assert (settled.question, settled.decision) == (
        needed.question,
        Decision.WITHDRAWN,
    )
    assert heard.done.end is TurnEnd.INTERRUPTED
    kinds = [type(event) for _, event in table.events.kept]
    assert kinds.index(ApprovalSettled) < kinds.index(TurnDone)
    assert ran.began == []


async def test_every_call_of_an_interrupted_round_has_one_outcome(
    autojump_clock: MockClock,
) -> None:
    # Found: the call beside the one that was asked about had none, and no history.
    ran = Ran()
    calls = [call(TELL, id="asked"), call("look", id="free"), call(TELL, id="second")]
    script: list[Reply] = [calls, ["Well."]]
    tools = (tell(ran), ran.tool("look", 0.25))
    async with open_table(script, *tools, grant=ASKED) as table:
        async with trio.open_nursery() as nursery:
            heard = Heard()
            nursery.start_soon(_listen, table, heard)
            await wait_all_tasks_blocked()
            assert await table.npc.interrupt()
        ended = [event.outcome.call.id for event in heard.of(ToolFinished)]
        assert ended == ["asked", "free", "second"]
        assert [x.call.id for x in heard.done.outcomes] == ended
        assert {x.status for x in heard.done.outcomes} == {Status.CANCELLED}
        assert ran.began == []
        await ask(table.npc, SLOWLY)  # the history goes to the model whole
        told = table.llm.requests[-1].messages
    assert [x.call_id for x in told if x.role == "tool"] == ended


async def test_an_answer_in_the_moment_of_an_interruption_is_told_once(
    autojump_clock: MockClock,
) -> None:
    ran = Ran()
    async with open_table(one_call(), tell(ran), grant=ASKED) as table:
        async with trio.open_nursery() as nursery:
            heard = Heard()
            nursery.start_soon(_listen, table, heard)
            await wait_all_tasks_blocked()
            (needed,) = table.events.all(ApprovalNeeded)
            nursery.start_soon(table.npc.approve, needed.question, True)
            nursery.start_soon(table.npc.interrupt)
    assert len(table.events.all(ApprovalSettled)) == 1
    assert heard.done.end is TurnEnd.INTERRUPTED


async def test_a_yes_is_not_for_what_the_server_has_put_there_since(
    autojump_clock: MockClock,
) -> None:
    ran = Ran()
    async with open_table(one_call(), tell(ran), grant=ASKED) as table:
        async with trio.open_nursery() as nursery:
            heard = Heard()
            nursery.start_soon(_listen, table, heard)
            await wait_all_tasks_blocked()
            (needed,) = table.events.all(ApprovalNeeded)
            other = tell(ran)
            changed = attrs.evolve(other.definition, description="Something else.")
            table.host.deregister("world")
            table.host.register(attrs.evolve(other, definition=changed))
            assert await table.npc.approve(needed.question, True)
    assert heard.done.outcomes[0].status is Status.DENIED
    assert ran.began == []


async def test_nobody_is_asked_any_more_once_a_reload_took_the_approver_away(
    autojump_clock: MockClock,
) -> None:  # D16: in the turn that is running, too
    ran = Ran()
    script: list[Reply] = [[2.0, call(TELL)], ["Well."]]
    async with open_table(script, tell(ran), grant=ASKED) as table:
        async with trio.open_nursery() as nursery:
            heard = Heard()
            nursery.start_soon(_listen, table, heard)
            await trio.sleep(1)
            await table.reload(grant=attrs.evolve(ASKED, approver=False))
    assert heard.of(ToolsShown)[0].shown == (TELL,)
    assert heard.of(ApprovalNeeded) == []
    assert heard.done.outcomes[0].status is Status.DENIED
    assert heard.done.timings.total == 2


async def test_a_slow_reader_of_the_turn_holds_up_no_question(
    autojump_clock: MockClock,
) -> None:
    ran = Ran()
    texts = ["word "] * 200  # more than a stream holds
    script: list[Reply] = [[*texts, call(TELL, id="c")], ["Well."]]
    async with open_table(
        script, tell(ran), grant=ASKED, approval_timeout=3.0
    ) as table:
        heard = await ask(table.npc, SLOWLY, pace=0.125)
    asked = [at for at, e in table.events.kept if isinstance(e, ApprovalNeeded)]
    ended = [at for at, e in table.events.kept if isinstance(e, ApprovalSettled)]
    assert [end - begin for begin, end in zip(asked, ended, strict=True)] == [3.0]
    assert decisions(heard) == [Decision.EXPIRED]


# ------------------------------------------------------- what people are shown


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ("", "{}"),
        ('{"to":  "Ysolde"}', '{"to": "Ysolde"}'),
        ('{"to": "Y\\u00df"}', '{"to": "Yß"}'),
        ('{"to": "\\u001b[2J\\u202egnp.exe"}', '{"to": "\\u001b[2J\\u202egnp.exe"}'),
        ('{"to": "\\u200b\\ud800"}', '{"to": "\\u200b\\ud800"}'),
        ("{not json\x1b]0;x\x07", "{not json\\u001b]0;x\\u0007"),
    ],
)
def test_arguments_for_people_hide_and_fake_nothing(arguments: str, shown: str) -> None:
    assert for_people(arguments) == shown


@given(
    arguments=st.one_of(
        st.text(),
        st.dictionaries(st.text(), st.text()).map(json.dumps),
        st.just("[" * 100_000),
    )
)
def test_arguments_for_people_are_one_printable_line_of_a_screen(
    arguments: str,
) -> None:
    shown = for_people(arguments)
    assert shown.isprintable()
    assert len(shown) <= 6 * 2000


async def test_nobody_is_asked_about_a_call_that_is_refused_whatever_they_say(
    autojump_clock: MockClock,
) -> None:  # N29: too slow for the tier, or the turn may not call any more
    ran = Ran()
    asked: list[str] = []

    async def approver(request: ApprovalRequest) -> bool:
        asked.append(request.tool)
        return True

    slow = tell(ran, seconds=4.0)
    script: list[Reply] = [[call(TELL)], ["Well."]]
    async with open_table(script, slow, grant=ASKED, approver=approver) as table:
        heard = await ask(table.npc, tier=Tier.FAST)
        assert heard.done.outcomes[0].status is Status.DENIED
        assert asked == []
    quick, last = tell(ran), TurnConfig(max_rounds=1)
    script = [[call(TELL)], [call(TELL, '{"n": 2}')]]
    async with open_table(
        script, quick, grant=ASKED, approver=approver, turn=last
    ) as table:
        heard = await ask(table.npc)
    assert asked == ["world.tell"]
    assert len(heard.of(ApprovalNeeded)) == 1
