"""What bad servers say is no line of anybody's log: see `mcp/logs.py`."""

from __future__ import annotations

import logging

import pytest

from .support import beside

pytestmark = pytest.mark.border


async def test_a_bad_notification_is_no_line_of_a_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        async with beside("floods_heavily", kind="large_notices") as table:
            for _ in range(5):
                assert (await table.call("echo")).ok
    assert [record for record in caplog.records if record.name == "client"] == []
