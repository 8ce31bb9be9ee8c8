"""A cluster of many workers in a simulation, through all the trouble of `million`."""

from __future__ import annotations

import pytest

from glyphoxa_trio.npc.identity import SessionKey

from . import million, simulated_journal
from .million import QUIET, Evening
from .simulated import Promises
from .simulated_journal import SimulatedJournal


def test_a_few_workers_keep_their_promises_through_everything() -> None:
    evening = Evening(2_000, 8, seconds=60.0)
    assert evening.play() == []
    assert len(evening.seen) == 8  # with what is quiet
    assert "Promises: all kept." in evening.report([])


def test_a_journal_that_lets_anybody_write_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SimulatedJournal, "may_write", lambda *_: True)
    broken = Evening(4_000, 8, seconds=120.0).play()
    assert [x for x in broken if "a turn was written twice" in x]


@pytest.mark.parametrize("epochs", [0, simulated_journal.TIMELINE])
def test_a_database_whose_timelines_share_their_epochs_is_seen(
    monkeypatch: pytest.MonkeyPatch, epochs: int
) -> None:
    monkeypatch.setattr(simulated_journal, "TIMELINE", epochs)
    promises, key = Promises(), SessionKey("table")
    journal = SimulatedJournal(promises.broke)
    first, _ = journal.claim(key, "w1", None, 1.0)
    lost = first.epoch
    journal.fail(1.2, 1.0, lost=0.5)
    again, _ = journal.claim(key, "w2", None, 3.0)
    assert (again.epoch > lost) == (not promises.broken) == bool(epochs)


def test_the_command_says_what_players_saw(capsys: pytest.CaptureFixture[str]) -> None:
    assert million.main(["500", "6", "--seconds", "20", "--seed", "3"]) == 0
    printed = capsys.readouterr().out
    assert "500 sessions" in printed
    assert "Promises: all kept." in printed


@pytest.mark.long
def test_a_hundred_thousand_sessions_over_twenty_workers() -> None:
    evening = Evening(100_000, 20, seconds=120.0)
    assert evening.play() == []
    turns = sum(seen.ends.total() for seen in evening.seen.values())
    assert turns > 39_000
    # A few sessions still find their owner dead when it is quiet again.
    quiet = evening.seen[QUIET].ends
    assert quiet["completed"] + quiet["interrupted"] > 0.995 * quiet.total()
    counts = evening.world.journal.counts
    assert counts["claims stolen"]
    assert counts["turns undone"]
