"""Random examples for stores: many where they are quick, and a few on PostgreSQL.

The long ring tries more, on PostgreSQL a tenth of what it tries elsewhere. An example
takes longer the more there were before it, since the store keeps them: 300 of each take
six minutes together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings

Test = TypeVar("Test", bound=Callable[..., Any])

_MANY = min(settings().max_examples, 300)
_ON_POSTGRES = max(5, _MANY // 10)
# The store outlives the example; each makes campaigns or tenants of its own.
_OUTLIVES = [HealthCheck.function_scoped_fixture]


def in_quick_stores(test: Test) -> Test:
    """Give a test of `open_store` the stores without a server."""
    several = settings(max_examples=_MANY, suppress_health_check=_OUTLIVES)(test)
    stores = ["in_memory", "sqlite"]
    made: Test = pytest.mark.parametrize("open_store", stores, indirect=True)(several)
    return made


def in_postgres(test: Test) -> Test:
    """Give a test of `open_store` a database, and few examples."""
    few = settings(max_examples=_ON_POSTGRES, suppress_health_check=_OUTLIVES)(test)
    border = pytest.mark.border(few)
    made: Test = pytest.mark.parametrize("open_store", ["postgres"], indirect=True)(
        border
    )
    return made
