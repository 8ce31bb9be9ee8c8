"""The faults of ``make mutants`` can be made: their lines are where they were."""

from __future__ import annotations

import pytest

from .__main__ import fault_of
from .table import MUTANTS, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=[x.name for x in MUTANTS])
def test_a_fault_can_be_made(mutant: Mutant) -> None:
    assert fault_of(mutant) is None
    assert mutant.old != mutant.new


def test_there_are_at_least_thirty() -> None:
    assert len({(x.file, x.old) for x in MUTANTS}) >= 30
