"""The entries of one session's journal, and the snapshot that they add up to. Pure.

A session is kept as a snapshot and the turns since. A turn is kept with the state of
its NPC after it, so the last turn of each NPC and the exchanges of all of them are the
NPC's snapshot. A call with side effects whose turn was never kept was cut short by the
end of a process: the model is told that its outcome is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import attrs

from glyphoxa_trio.memory.entries import Entry, EntryKind, KeptEntry
from glyphoxa_trio.npc.snapshot import ExchangeSnapshot, NpcSnapshot
from glyphoxa_trio.tools.outcome import Effect, Outcome, Status, ToolCall

from .session_snapshot import SessionSnapshot, SnapshotRefused

if TYPE_CHECKING:
    from cattrs import Converter

# Turns of each NPC that are kept beside its last snapshot; more than NPCs remember.
MOST_TURNS: Final = 200
# Utterances whose effects are unknown, whose ids are kept.
MOST_CUT_SHORT: Final = 64
_CUT_SHORT: Final = (
    "The program ended while it was running; its outcome is unknown. Do not repeat it"
    " unless the player wants that."
)


def turn_entry(
    npc: str,
    turn: int,
    exchanges: Sequence[ExchangeSnapshot],
    state: NpcSnapshot,
    *,
    at: float,
    heard_out: bool,
) -> Entry:
    """Return the entry of a turn that has ended.

    ``heard_out``: nothing more of it will be heard, so its lines are kept with it.
    """
    plain = _converter().unstructure
    data = {
        "exchanges": [plain(x) for x in exchanges],
        "npc": plain(state),
        "heard_out": heard_out,
    }
    return Entry(kind=EntryKind.TURN, at=at, npc=npc, turn=turn, data=data)


def heard_entry(
    npc: str, turn: int, exchanges: Sequence[ExchangeSnapshot], *, at: float
) -> Entry:
    """Return the entry that corrects an NPC's last turn: this is what was heard."""
    data = {"exchanges": [_converter().unstructure(x) for x in exchanges]}
    return Entry(kind=EntryKind.HEARD, at=at, npc=npc, turn=turn, data=data)


def effect_entry(
    npc: str, turn: int, call: ToolCall, tool: str, *, at: float, utterance: str = ""
) -> Entry:
    """Return the entry of a call with side effects that begins.

    ``utterance``: the id of what its turn answers, if it has one.
    """
    data = {"call": _converter().unstructure(call), "tool": tool}
    if utterance:
        data["utterance"] = utterance
    return Entry(kind=EntryKind.EFFECT, at=at, npc=npc, turn=turn, data=data)


@attrs.frozen
class UnheardTurn:
    """An NPC's turn of which it is not known yet how much was heard."""

    npc: str
    number: int
    at: float
    exchanges: tuple[ExchangeSnapshot, ...]


def snapshot_entry(
    kept: SessionSnapshot,
    *,
    at: float,
    unheard: Iterable[UnheardTurn] = (),
    cut_short: Iterable[str] = (),
) -> Entry:
    """Return the entry of a whole session.

    Args:
      unheard: the last turns in the snapshot that may still be corrected.
      cut_short: as in `RestoredSession`.
    """
    data = kept.to_data()
    if ids := list(cut_short):
        data["cut_short"] = ids
    if turns := _converter().unstructure(list(unheard)):
        data["unheard"] = turns
    return Entry(kind=EntryKind.SNAPSHOT, at=at, data=data)


def state_entry(kept: SessionSnapshot, *, at: float) -> Entry:
    """Return the entry of a session that was changed between turns; the snapshot has
    no turns."""
    return Entry(kind=EntryKind.STATE, at=at, data=kept.to_data())


@attrs.frozen(kw_only=True)
class RestoredSession:
    """A session as its entries have it.

    ``unheard``: the last turns of which it was not known how much was heard.
    ``cut_short``: the ids of utterances whose turns had begun a side effect and were
    never kept, the oldest first.
    """

    snapshot: SessionSnapshot
    unheard: tuple[UnheardTurn, ...] = ()
    cut_short: tuple[str, ...] = ()


def restored(entries: Iterable[KeptEntry], empty: SessionSnapshot) -> RestoredSession:
    """Return the session that these entries add up to, beginning with ``empty``.

    Raises:
      SnapshotRefused: an entry cannot be read.
    """
    session = empty
    npcs: dict[str, NpcSnapshot] = dict(empty.npcs)
    last: dict[str, int] = {}  # how many exchanges the last turn of an NPC added
    unheard: dict[str, UnheardTurn] = {}
    begun: dict[tuple[str, int], list[Outcome]] = {}
    acting: dict[tuple[str, int], str] = {}  # the utterances of ``begun``
    cut_short: tuple[str, ...] = ()
    for kept in entries:
        entry, data = kept.entry, kept.entry.data
        npc = entry.npc
        try:
            match entry.kind:
                case EntryKind.SNAPSHOT:
                    session = SessionSnapshot.from_data(data)
                    npcs, unheard = dict(session.npcs), {}
                    for one in data.get("unheard", ()):
                        turn = _converter().structure(one, UnheardTurn)
                        unheard[turn.npc] = turn
                    last = {x: len(turn.exchanges) for x, turn in unheard.items()}
                    begun, acting = {}, {}
                    cut_short = tuple(map(str, data.get("cut_short", ())))
                case EntryKind.STATE:
                    session = SessionSnapshot.from_data(data)
                    for name, state in session.npcs.items():
                        before = npcs[name].history if name in npcs else ()
                        npcs[name] = attrs.evolve(state, history=before)
                case EntryKind.TURN:
                    state = _converter().structure(data["npc"], NpcSnapshot)
                    said = _exchanges(data)
                    before = npcs[npc].history if npc in npcs else ()
                    history = (*before, *said)[-MOST_TURNS:]
                    npcs[npc] = attrs.evolve(state, history=history)
                    last[npc] = len(said)
                    begun.pop((npc, entry.turn), None)
                    acting.pop((npc, entry.turn), None)
                    unheard.pop(npc, None)
                    if not data.get("heard_out"):
                        unheard[npc] = UnheardTurn(npc, entry.turn, entry.at, said)
                case EntryKind.HEARD if npc in last:
                    said = _exchanges(data)
                    before = npcs[npc].history
                    history = (*before[: len(before) - last[npc]], *said)
                    npcs[npc] = attrs.evolve(npcs[npc], history=history)
                    last[npc] = len(said)
                    unheard.pop(npc, None)
                case EntryKind.EFFECT:
                    outcome = _cut_short(data)
                    begun.setdefault((npc, entry.turn), []).append(outcome)
                    if utterance := data.get("utterance"):
                        acting[npc, entry.turn] = str(utterance)
                case _:
                    pass
        except SnapshotRefused:
            raise
        except Exception as error:  # cattrs' groups, and whatever a field raises
            raise SnapshotRefused(
                f"entry {kept.n} of the session {empty.key} cannot be read"
            ) from error
    for (npc, _), outcomes in begun.items():
        if (cut := npcs.get(npc)) is not None:
            npcs[npc] = attrs.evolve(cut, late=(*cut.late, *outcomes))
    return RestoredSession(
        snapshot=attrs.evolve(session, npcs=npcs),
        unheard=tuple(unheard.values()),
        cut_short=(*cut_short, *acting.values())[-MOST_CUT_SHORT:],
    )


def heard_of(exchanges: Iterable[ExchangeSnapshot]) -> str:
    """Return what was heard of the NPC's words in these exchanges."""
    said = (x for exchange in exchanges for part in exchange.rounds for x in part.heard)
    return " ".join(said)


def told_in(exchange: ExchangeSnapshot) -> Iterator[str]:
    """Yield the names of those whose words an exchange told its NPC."""
    if exchange.asked:
        yield exchange.speaker
    for line in exchange.overheard:
        yield line.speaker
        yield line.to


def _exchanges(data: Mapping[str, Any]) -> tuple[ExchangeSnapshot, ...]:
    structure = _converter().structure
    return tuple(structure(x, ExchangeSnapshot) for x in data["exchanges"])


def _cut_short(data: Mapping[str, Any]) -> Outcome:
    return Outcome(
        call=_converter().structure(data["call"], ToolCall),
        tool=str(data["tool"]),
        status=Status.PENDING,
        effect=Effect.UNKNOWN,
        message=_CUT_SHORT,
    )


@cache
def _converter() -> Converter:
    from cattrs.preconf.json import make_converter

    return make_converter(omit_if_default=True)
