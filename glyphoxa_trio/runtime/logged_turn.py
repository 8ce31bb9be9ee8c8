"""A turn on its way to the journal: its entries, and the lines that were said in it.

A turn is written when it ends, and corrected once it is known how much of it was heard.
Its question is a line at once; its answer is one when it is certain. Lines are in the
evening that goes on, unless their writer finds that another one has begun.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TypeAlias

import attrs

import trio

from glyphoxa_trio.memory.entries import Entry, EntryKind, Line
from glyphoxa_trio.memory.visibility import CampaignKey, Reach
from glyphoxa_trio.npc.overheard import Overheard
from glyphoxa_trio.npc.snapshot import ExchangeSnapshot
from glyphoxa_trio.npc.turn.turn_log import EndedTurn

from .kept_table import KeptTable
from .session_log import UnheardTurn, heard_entry, heard_of, told_in, turn_entry

Correct: TypeAlias = Callable[[CampaignKey, str], str]
"""Puts names right that were misheard; "" if nothing is wrong."""


@attrs.define(eq=False)
class LoggedTurn:
    """A turn that is to be written, or may have to be corrected.

    Args:
      at: when it ended, in seconds since 1970.
      until: when nothing more of it will be heard, on trio's clock.

    ``answered``: the lines of its answer were made.
    """

    table: KeptTable
    turn: EndedTurn
    at: float
    until: float
    written: tuple[ExchangeSnapshot, ...] | None = attrs.field(default=None, init=False)
    answered: bool = attrs.field(default=False, init=False)
    _asked: bool = attrs.field(default=False, init=False)

    @property
    def settled(self) -> bool:
        """True if no more of it will be heard."""
        return self.turn.heard_out or trio.current_time() >= self.until

    def settle(self) -> None:
        """Record that no more of it will be heard."""
        self.until = trio.current_time()

    def heard_by_now(self) -> tuple[ExchangeSnapshot, ...]:
        """Return the exchanges, as far as they were heard."""
        return tuple(x.snapshot() for x in self.turn.exchanges)

    def entries(self, correct: Correct, now: float, *, settled: bool) -> list[Entry]:
        """Return what is not written yet, as far as it is certain."""
        turn, exchanges = self.turn, self.heard_by_now()
        npc, number = turn.id.npc, turn.number
        entries: list[Entry] = []
        if self.written is None:
            entry = turn_entry(
                npc, number, exchanges, turn.npc, at=self.at, heard_out=settled
            )
            entries.append(entry)
        elif exchanges != self.written or not self.answered:
            entries.append(heard_entry(npc, number, exchanges, at=now))
        self.written = exchanges
        among = {npc, *turn.listener.present}
        if not self._asked:
            asked = _questions(self.table, npc, exchanges, among, self.at, correct)
            self._asked = bool(asked)
            entries += asked
        if settled and not self.answered:
            self.answered = True
            entries += _answers(self.table, npc, number, exchanges, among, now)
        return entries


def rest_of(table: KeptTable, turn: UnheardTurn) -> list[Entry]:
    """Return the answer of a turn whose process ended before it was heard out."""
    npc, number, at, exchanges = turn.npc, turn.number, turn.at, turn.exchanges
    return [
        heard_entry(npc, number, exchanges, at=at),
        *_answers(table, npc, number, exchanges, {npc}, at),
    ]


def overheard_line(
    table: KeptTable, line: Overheard, heard_by: Collection[str], at: float
) -> Entry:
    """Return the line of words that these NPCs overheard."""
    # Who speaks is an NPC or a player: only the name is known.
    players = table.spoke((line.speaker, line.to), heard_by)
    return _entry(
        Line(
            text=line.text,
            speaker=line.speaker,
            to=line.to,
            reach=Reach.of(*heard_by),
            answers=players,
        ),
        at,
    )


def _questions(
    table: KeptTable,
    npc: str,
    exchanges: Sequence[ExchangeSnapshot],
    among: Collection[str],
    at: float,
    correct: Correct,
) -> list[Entry]:
    return [
        _entry(
            Line(
                text=x.text,
                speaker=x.speaker,
                player=table.player(x.speaker),
                corrected=correct(table.campaign, x.text),
                to=npc,
                reach=Reach.of(*among),
                evening=table.evening,
            ),
            at,
        )
        for x in exchanges
        if x.asked and x.text
    ]


def _answers(
    table: KeptTable,
    npc: str,
    turn: int,
    exchanges: Sequence[ExchangeSnapshot],
    among: Collection[str],
    at: float,
) -> list[Entry]:
    entries = []
    for exchange in exchanges:
        if words := heard_of([exchange]):
            line = Line(
                text=words,
                speaker=npc,
                to=exchange.speaker if exchange.asked else "",
                reach=Reach.of(*among),
                evening=table.evening,
                answers=table.spoke(told_in(exchange), among),
            )
            entries.append(_entry(line, at, npc, turn))
    return entries


def _entry(line: Line, at: float, npc: str = "", turn: int = 0) -> Entry:
    return Entry(kind=EntryKind.LINE, at=at, npc=npc, turn=turn, line=line)
