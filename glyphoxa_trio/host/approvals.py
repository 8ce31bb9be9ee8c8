"""Approvals: the tools as the operator approved them, compared with what servers offer.

A configuration approves a tool by its name, but a name guarantees nothing: its server
may describe it differently next week, or next minute, or offer "get_user" in place of
"get user", which models see under one name. So an approved tool is remembered by its
`fingerprint` when it is first seen (trust on first use). A tool whose fingerprint
differs later is *held back*: the gate refuses to show and to run it, with
`Reason.CHANGED`, until it is approved again or has its old fingerprint again.

A person may approve a tool as it is, even if the configuration does not: `agreed` has
the tools that are still as they were then. If such a tool changes, it is held back too.

`Approvals` is the state and its rules, without a clock or I/O. `ApprovalKeeper` loads
and saves it in the background, so that no call ever waits for a disk.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol

import attrs

import trio

from glyphoxa_trio.actors import Signal
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.tools.definition import ToolDefinition
from glyphoxa_trio.tools.fingerprint import difference, first_line, stated_lines

from .catalogue import CatalogueEntry

# The number of tools remembered of one server. A new tool beyond that is held back as
# well, so that a server which keeps inventing names cannot push out approved tools.
MOST_REMEMBERED: Final = 1000
_NAMED: Final = 5
_FOREIGN: Final = re.compile(r"[^A-Za-z0-9_]")
# Prefix of a fingerprint that a person approved; without it the configuration did.
_BY_A_PERSON: Final = "yes:"

# Longest wait for the store at opening, and for the last save at closing, in seconds.
LOADING: Final = 2.0
SAVING: Final = 1.0


class ChangedAgain(GlyphoxaError):
    """The tool has changed again since the person looked at it for approval."""


class ApprovalStore(Protocol):
    """The place where approvals outlive the process: texts by canonical key.

    A text is a fingerprint, prefixed with ``yes:`` if a person approved it; the lines
    below it are the fields that the fingerprint was computed from. Both methods run in
    a worker thread, one call at a time. An exception of theirs becomes a warning.
    """

    def load(self) -> Mapping[str, str]: ...

    def save(self, approved: Mapping[str, str], /) -> None: ...


Approves = Callable[[ToolDefinition, str], bool]


def _nothing(definition: ToolDefinition, exposed: str) -> bool:
    return False


def _nobody(server: str, text: str) -> None: ...


@attrs.define(eq=False)
class Approvals:
    """The approved fingerprints, and the tools that are held back because of them.

    Args:
      approved: returns whether the configuration approves a tool of that exposed
        name. With full trust no tool is approved one by one, so none is held back.
      store: the place to keep approvals; with None they last for this run only.
      warn: called with a server and a warning for the operator, once for each tool
        until it is approved again. Must not block.
    """

    approved: Approves = _nothing
    store: ApprovalStore | None = None
    warn: Callable[[str, str], None] = _nobody
    held: frozenset[str] = attrs.field(default=frozenset(), init=False)
    agreed: frozenset[str] = attrs.field(default=frozenset(), init=False)
    on_change: Callable[[], None] = attrs.field(default=lambda: None, init=False)
    _remembered: dict[str, str] = attrs.field(factory=dict, init=False)
    _offered: dict[str, str] = attrs.field(factory=dict, init=False)
    _told: set[str] = attrs.field(factory=set, init=False)
    _whose: dict[str, str] = attrs.field(factory=dict, init=False)

    @property
    def remembered(self) -> dict[str, str]:
        """A copy of the approved texts by key, as an `ApprovalStore` keeps them."""
        return dict(self._remembered)

    def follow(self, approved: Approves) -> None:
        """Take the rules of a new configuration; they apply at the next `review`."""
        self.approved = approved

    def recall(self, remembered: Mapping[str, str]) -> None:
        """Add the approvals of earlier runs."""
        self._remembered.update(remembered)

    def serve(
        self, group: str, whose: str, remembered: Mapping[str, str] | None = None
    ) -> None:
        """Note that the tools of ``group`` now belong to the server ``whose``.

        Approvals of another server that had this name are dropped.

        Args:
          whose: the identity of the server, by which a store tells servers apart.
          remembered: the approvals of that server from earlier runs. An approval from
            this run takes precedence, being newer.
        """
        if self._whose.setdefault(group, whose) != whose:
            self._whose[group] = whose
            for key in [key for key in self._remembered if _group_of(key) == group]:
                del self._remembered[key]
            self._told -= {key for key in self._told if _group_of(key) == group}
        for key, said in (remembered or {}).items():
            if _group_of(key) == group:
                self._remembered.setdefault(key, said)

    def offer(self, group: str, fingerprints: Mapping[str, str]) -> None:
        """Set the tools that a server offers now, by key; `review` applies it."""
        self.withdraw([key for key in self._offered if _group_of(key) == group])
        self._offered.update(fingerprints)

    def withdraw(self, keys: Iterable[str]) -> None:
        """Remove tools that are gone; their approvals are kept."""
        for key in keys:
            self._offered.pop(key, None)

    def review(self, listings: Iterable[CatalogueEntry]) -> None:
        """Recompute which tools are held back, and remember tools seen first."""
        known = Counter(map(_group_of, self._remembered))
        anything_new = False
        held: set[str] = set()
        gone: set[str] | None = None
        agreed: set[str] = set()
        for listing in listings:
            key = listing.key
            now = self._offered.get(key)
            if now is None:
                continue
            said = self._remembered.get(key)
            if said is not None and not _comparable(said, now):
                said = None  # computed by an older version: as if first seen now
            if self.approved(listing.definition, listing.exposed):
                if said is None:
                    group, fresh = listing.definition.group, key not in self._remembered
                    if fresh and gone is None:
                        gone = self._gone()
                    renamed = fresh and gone is not None and _alike(key) in gone
                    if not fresh or (not renamed and known[group] < MOST_REMEMBERED):
                        known[group] += fresh
                        said = self._remembered[key] = now
                        anything_new = True
                if said is None or _approved_as(said) != first_line(now):
                    held.add(key)
            elif _is_by_a_person(said) and _approved_as(said) != first_line(now):
                held.add(key)
            if _is_by_a_person(said) and _approved_as(said) == first_line(now):
                agreed.add(key)
        self.held, self.agreed = frozenset(held), frozenset(agreed)
        if anything_new:
            self.on_change()
        self._tell(held - self._told)

    def fingerprint(self, key: str) -> str | None:
        """Return the tool's present fingerprint; None if no server offers it."""
        now = self._offered.get(key)
        return None if now is None else first_line(now)

    def stated(self, key: str) -> list[str]:
        """Return, as lines, what a server states of a tool beside its description and
        its parameters: its title, its hints and what it returns."""
        now = self._offered.get(key)
        return (now and stated_lines(now, "title", "hints", "returns")) or []

    def difference(self, key: str) -> list[str]:
        """Return how a tool has changed since its approval, as lines that begin with
        ``-`` and ``+``; empty if it has not, or if its old fields are not kept."""
        said, now = self._remembered.get(key), self._offered.get(key)
        if said is None or now is None:
            return []
        return difference(said.removeprefix(_BY_A_PERSON), now)

    def approve(self, key: str, *, seen: str | None = None) -> bool:
        """Note that a person accepts the tool as it is; return True if it was held
        back.

        Args:
          seen: the fingerprint of the tool that the person looked at.

        Raises:
          ChangedAgain: if the tool has a different fingerprint by now.
        """
        now = self._offered.get(key)
        if now is None or (seen is not None and first_line(seen) != first_line(now)):
            raise ChangedAgain(f"{key} has changed since you looked at it, look again")
        if self._remembered.get(key) != _BY_A_PERSON + now:
            self._remembered[key] = _BY_A_PERSON + now
            self.on_change()
        self._told.discard(key)
        was_held = key in self.held
        self.held -= {key}
        self.agreed |= {key}
        return was_held

    def _gone(self) -> set[str]:
        """Return the names, as `_alike`, of approved tools that are no longer offered.
        A new tool whose name is only spelt differently does not inherit an approval."""
        return {_alike(key) for key in self._remembered if key not in self._offered}

    def _tell(self, fresh: set[str]) -> None:
        self._told |= fresh
        changed = {key for key in fresh if key in self._remembered}
        gone = self._gone() if fresh - changed else set()
        renamed = {key for key in fresh - changed if _alike(key) in gone}
        more_than = f"more than the {MOST_REMEMBERED} that are remembered"
        for what, keys in (
            ("changed since approved", changed),
            ("renamed since approved", renamed),
            (more_than, fresh - changed - renamed),
        ):
            for group in sorted(set(map(_group_of, keys))):
                theirs = sorted(key for key in keys if _group_of(key) == group)
                more = len(theirs) - _NAMED
                self.warn(
                    group,
                    f"{what}, so held back: {', '.join(theirs[:_NAMED])}"
                    f"{f' and {more} more' if more > 0 else ''};"
                    " look, then approve again with glyphoxa mcp approve KEY",
                )


def _is_by_a_person(said: str | None) -> bool:
    return said is not None and said.startswith(_BY_A_PERSON)


def _approved_as(said: str | None) -> str | None:
    """Return the fingerprint of a remembered text, without ``yes:`` and fields."""
    return None if said is None else first_line(said.removeprefix(_BY_A_PERSON))


def _comparable(said: str, now: str) -> bool:
    """Return True unless both texts say that they were computed differently."""
    then = _kind(said.removeprefix(_BY_A_PERSON))
    return then == _kind(now) or not (then and _kind(now))


def _kind(fingerprint: str) -> str:
    kind, mark, _ = fingerprint.partition(":")
    return kind if mark else ""


def _group_of(key: str) -> str:
    return key.partition(".")[0]


def _alike(key: str) -> str:
    """Return a text that is equal for keys that could get one exposed name."""
    group, _, name = key.partition(".")
    return f"{group}.{_FOREIGN.sub('_', name).casefold()}"


@attrs.define(eq=False)
class ApprovalKeeper:
    """The task that loads approvals from their store and saves them in the background.

    A store that cannot be read is left as it is: nothing is saved over it.
    """

    _approvals: Approvals
    _store: ApprovalStore
    _changed: Signal = attrs.field(factory=Signal, init=False)
    _saved: Mapping[str, str] | None = attrs.field(default=None, init=False)
    # Closing may give up on a save whose thread still runs, or has not started. Saves
    # are numbered, so that an older one never overwrites a newer one.
    _one_at_a_time: threading.Lock = attrs.field(factory=threading.Lock, init=False)
    _begun: int = attrs.field(default=0, init=False)
    _written: int = attrs.field(default=0, init=False)

    async def load(self) -> None:
        """Load the approvals; if that fails, warn, and save nothing in this run.

        Takes at most `LOADING` seconds.
        """
        why = f"no answer after {LOADING:g} s"
        with trio.move_on_after(LOADING):
            try:
                found = await trio.to_thread.run_sync(
                    self._store.load, abandon_on_cancel=True
                )
                self._approvals.recall({str(k): str(v) for k, v in found.items()})
                self._saved = self._approvals.remembered
                self._approvals.on_change = self._changed.set
                return
            except Exception as error:  # border: the store is foreign code
                why = str(error)
        self._approvals.warn("", f"approvals of earlier runs are not loaded: {why}")

    async def run(self) -> None:
        """Save every change until cancelled; simultaneous changes are saved at once."""
        while True:
            await self._changed.take()
            await self._save()

    async def close(self) -> None:
        """Save unsaved changes, in at most `SAVING` seconds; call it after `run`."""
        if self._saved is not None and self._approvals.remembered != self._saved:
            with trio.move_on_after(SAVING, shield=True):
                await self._save()

    async def _save(self) -> None:
        remembered = self._approvals.remembered
        self._begun += 1
        try:
            await trio.to_thread.run_sync(
                self._write, self._begun, remembered, abandon_on_cancel=True
            )
            self._saved = remembered
        except Exception as error:  # border: the store is foreign code
            self._approvals.warn("", f"approvals could not be saved: {error}")

    def _write(self, number: int, remembered: Mapping[str, str]) -> None:
        with self._one_at_a_time:
            if number > self._written:
                self._store.save(remembered)
                self._written = number
