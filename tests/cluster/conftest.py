"""What the tests of the cluster with a real nats-server have: patience."""

from __future__ import annotations

import pytest

from glyphoxa_trio.cluster import ownership, placement

STILL = 1.5
SILENT = 2.0


@pytest.fixture(autouse=True)
def unhurried(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let workers and clients that a busy machine keeps waiting go on. When a worker is
    silent is shown on virtual time; here it is one only if it has ended."""
    if "bus" in request.fixturenames:
        for room in (ownership, placement):
            monkeypatch.setattr(room, "STILL", STILL)
        monkeypatch.setattr(placement, "SILENT", SILENT)
