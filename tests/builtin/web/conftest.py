"""What all tests of the web have: a collector with little to look at."""

from __future__ import annotations

import pytest

from ...conftest import freeze


@pytest.fixture(autouse=True, scope="module")
def small_heap() -> None:
    """`open_site` collects in the end, and what other tests have left is not of it."""
    freeze()
