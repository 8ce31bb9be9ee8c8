"""Ctrl-C and SIGTERM end the program in the midst of whatever servers do to it.

Some of the catalogue, and with patience for a loaded machine; `make hostile` has all.
"""

from __future__ import annotations

import signal

import pytest

from .catalogue import CASES, Case
from .signals import end

pytestmark = pytest.mark.border

GROUPS = 2
PART = 8

CHOSEN = [case for case in CASES.values() if not case.http][::PART]
COMPANY = [CHOSEN[number::GROUPS] for number in range(GROUPS)]


@pytest.mark.long
@pytest.mark.parametrize("group", range(GROUPS))
async def test_a_signal_ends_the_program_in_bad_company(group: int) -> None:
    number = (signal.SIGINT, signal.SIGTERM)[group % 2]
    seen = await end(COMPANY[group], number)
    assert seen.was_clean, (seen.status, seen.said[-3000:])


@pytest.mark.long
async def test_lines_that_wait_in_a_pipe_are_not_worth_a_ctrl_c_each() -> None:
    # Each of them is a turn that hangs: fifty times Ctrl-C would have ended it.
    seen = await end([Case("never_answers")], signal.SIGINT)
    assert seen.was_clean, (seen.status, seen.said[-3000:])
