"""What the operator approved, held against what servers offer now.

A configuration approves a tool by its name, and a name is no promise: its server
may describe it otherwise next week, or next minute, or give "get_user" in place of
"get user", which models see under one name. So an approved tool is
remembered by its `fingerprint` when it is first seen (trust on first use). One
that differs later is *held back*: the gate refuses it, with `Reason.CHANGED`, to
show and to run, until it is approved again or is as it was.

A person may approve a tool as it is, even if the configuration does not: `agreed`
are the tools that are still as they were then. One that changes is held back as well.

`Approvals` is the state and its rules, without a clock or I/O; `ApprovalKeeper` loads and
saves it beside, so that no call ever waits for a disk. Above 300 lines, because what
is kept and how are read together.
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

# Remembered of one server. A new tool beyond that is held back as well: whoever
# invents names for ever must not push out what was approved.
MOST_REMEMBERED: Final = 1000
_NAMED: Final = 5
_FOREIGN: Final = re.compile(r"[^A-Za-z0-9_]")
# Stands before a fingerprint that a person approved. Without it the configuration did.
_BY_A_PERSON: Final = "yes:"

# How long opening waits for the store, and closing for the last save. Seconds.
LOADING: Final = 2.0
SAVING: Final = 1.0


class ChangedAgain(GlyphoxaError):
    """The tool is not the one any more that was looked at for approval."""


class ApprovalStore(Protocol):
    """Where approvals outlive the process: texts by canonical key.

    A text is a fingerprint, with ``yes:`` before it if a person approved it, and what
    it was taken of in the lines below. Both
    run in a worker thread, one at a time. What they raise is a warning.
    """

    def load(self) -> Mapping[str, str]: ...

    def save(self, approved: Mapping[str, str], /) -> None: ...


Approves = Callable[[ToolDefinition, str], bool]


def _nothing(definition: ToolDefinition, exposed: str) -> bool:
    return False


def _nobody(server: str, text: str) -> None: ...


@attrs.define(eq=False)
class Approvals:
    """Which tools were approved as what, and which of them are held back.

    Args:
      approved: whether the configuration approves a tool of that exposed name.
        Where trust is full nobody approved anything, so nothing is held back.
      store: None is for this run only.
      warn: told of a server and of what the operator should know; once for each
        tool until it is approved again. Must not block.
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
        """A copy of what was approved, by key, as an `ApprovalStore` keeps it."""
        return dict(self._remembered)

    def follow(self, approved: Approves) -> None:
        """Another configuration is in force; `review` says what follows."""
        self.approved = approved

    def recall(self, remembered: Mapping[str, str]) -> None:
        """What was approved in earlier runs."""
        self._remembered.update(remembered)

    def serve(
        self, group: str, whose: str, remembered: Mapping[str, str] | None = None
    ) -> None:
        """The tools of ``group`` are those of the server ``whose`` from now on.

        What was approved of another server of that name says nothing of it.

        Args:
          whose: tells one server from another, as a store does.
          remembered: what was approved of it in earlier runs. What this run knows of
            it is newer.
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
        """These, by key, are the server's tools now; `review` says what follows."""
        self.withdraw([key for key in self._offered if _group_of(key) == group])
        self._offered.update(fingerprints)

    def withdraw(self, keys: Iterable[str]) -> None:
        """These tools are gone. What they were approved as is not forgotten."""
        for key in keys:
            self._offered.pop(key, None)

    def review(self, listings: Iterable[CatalogueEntry]) -> None:
        """Decide anew what is held back, and remember what is seen first."""
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
                said = None  # from an older version of ours: as if first seen now
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
        """What the tool is now, for `approve`; None if no server offers it."""
        now = self._offered.get(key)
        return None if now is None else first_line(now)

    def stated(self, key: str) -> list[str]:
        """What a server says of a tool beside its description and its parameters: its
        title, its hints and what it returns, as lines."""
        now = self._offered.get(key)
        return (now and stated_lines(now, "title", "hints", "returns")) or []

    def difference(self, key: str) -> list[str]:
        """What became different of a tool since it was approved, as lines that begin
        with ``-`` and ``+``; empty if nothing did, or what it was is not kept."""
        said, now = self._remembered.get(key), self._offered.get(key)
        if said is None or now is None:
            return []
        return difference(said.removeprefix(_BY_A_PERSON), now)

    def approve(self, key: str, *, seen: str | None = None) -> bool:
        """Note that a person accepts the tool as it is; returns whether it was held
        back.

        Args:
          seen: the fingerprint of the tool that the person looked at.

        Raises:
          ChangedAgain: if the tool has another one by now.
        """
        now = self._offered.get(key)
        if now is None or (seen is not None and first_line(seen) != first_line(now)):
            raise ChangedAgain(f"{key} has changed since it was looked at, look again")
        if self._remembered.get(key) != _BY_A_PERSON + now:
            self._remembered[key] = _BY_A_PERSON + now
            self.on_change()
        self._told.discard(key)
        was_held = key in self.held
        self.held -= {key}
        self.agreed |= {key}
        return was_held

    def _gone(self) -> set[str]:
        """The names, as `_alike`, of approved tools that are not offered any more. A
        new tool whose name is only spelt otherwise does not inherit the approval."""
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
    """The fingerprint in a remembered text: without ``yes:`` and what it was of."""
    return None if said is None else first_line(said.removeprefix(_BY_A_PERSON))


def _comparable(said: str, now: str) -> bool:
    """Whether both fingerprints were taken in the same way, as far as they say."""
    then = _kind(said.removeprefix(_BY_A_PERSON))
    return then == _kind(now) or not (then and _kind(now))


def _kind(fingerprint: str) -> str:
    kind, mark, _ = fingerprint.partition(":")
    return kind if mark else ""


def _group_of(key: str) -> str:
    return key.partition(".")[0]


def _alike(key: str) -> str:
    """A text that is the same for keys that could be exposed under one name."""
    group, _, name = key.partition(".")
    return f"{group}.{_FOREIGN.sub('_', name).casefold()}"


@attrs.define(eq=False)
class ApprovalKeeper:
    """Loads approvals from their store, and saves them beside everything else.

    A store that cannot be read is left as it is: nothing is saved over it.
    """

    _approvals: Approvals
    _store: ApprovalStore
    _changed: Signal = attrs.field(factory=Signal, init=False)
    _saved: Mapping[str, str] | None = attrs.field(default=None, init=False)
    # Closing may give up on a save whose thread still runs, or has not begun: they
    # are numbered, so that an older one never comes after a newer.
    _one_at_a_time: threading.Lock = attrs.field(factory=threading.Lock, init=False)
    _begun: int = attrs.field(default=0, init=False)
    _written: int = attrs.field(default=0, init=False)

    async def load(self) -> None:
        """Recall what was approved; if that cannot be known, nothing is kept.

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
        self._approvals.warn("", f"what was approved in earlier runs is lost: {why}")

    async def run(self) -> None:
        """Save every change, the ones of one moment at once, until cancelled."""
        while True:
            await self._changed.take()
            await self._save()

    async def close(self) -> None:
        """Save what is not saved yet, in at most `SAVING` seconds. After `run`."""
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
