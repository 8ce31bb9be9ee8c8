"""The catalogue: all tools, as an immutable snapshot that may be read from anywhere.

A change builds a new `Snapshot` and swaps it in with one assignment, so a reader needs
no message and never sees half a change. Entries are ordered by tier, then key: the
tools of FAST are a prefix of STANDARD's and DEEP's, so that a model's prompt cache
survives a change of tier.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

import attrs

from glyphoxa_trio.actors import Signal
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.tools.definition import Tool, ToolDefinition
from glyphoxa_trio.tools.estimate import Estimate
from glyphoxa_trio.tools.gate import Availability
from glyphoxa_trio.tools.naming import Collision, NamingStyle, expose_all, nearest
from glyphoxa_trio.tools.schema import ArgumentSchema
from glyphoxa_trio.tools.search import SEARCH, Words, words_of


class UnknownTool(GlyphoxaError):
    """There is no tool of that name; the message has the nearest names."""


@attrs.frozen(kw_only=True)
class CatalogueEntry:
    """One tool in the catalogue. Its schema is compiled once, for all snapshots, and so
    are the words by which it is found. ``ready_at`` is when its server, which is
    starting, will answer, on trio's clock; None if that is not known. ``definition``
    and ``key`` are the tool's own: each turn reads them of every tool.
    """

    tool: Tool
    exposed: str
    estimate: Estimate
    schema: ArgumentSchema
    availability: Availability = Availability.READY
    ready_at: float | None = None
    definition: ToolDefinition = attrs.field(init=False, eq=False, repr=False)
    key: str = attrs.field(init=False, eq=False, repr=False)
    words: Words = attrs.field(
        default=attrs.Factory(lambda self: words_of(self.definition), takes_self=True),
        eq=False,
        repr=False,
    )

    @definition.default
    def _(self) -> ToolDefinition:
        return self.tool.definition

    @key.default
    def _(self) -> str:
        return self.definition.key

    @property
    def order(self) -> tuple[int, str]:
        return self.estimate.tier, self.key


@attrs.frozen(kw_only=True)
class Snapshot:
    """All tools at one moment, in their stable order.

    ``left_out`` are tools that cannot be called because of ``collisions``: each returns
    as soon as the others with its name are gone.
    """

    listings: tuple[CatalogueEntry, ...] = ()
    by_exposed: Mapping[str, CatalogueEntry] = MappingProxyType({})
    by_key: Mapping[str, CatalogueEntry] = MappingProxyType({})
    revision: int = 0
    left_out: tuple[CatalogueEntry, ...] = ()
    collisions: tuple[Collision, ...] = ()

    @property
    def offered(self) -> tuple[CatalogueEntry, ...]:
        """All tools: those that can be called, and those that are left out."""
        return self.listings + self.left_out

    def find(self, name: str) -> CatalogueEntry:
        """Return the entry of an exposed name or canonical key.

        Raises:
          UnknownTool: if there is none; the message has the nearest names.
        """
        listing = self.by_exposed.get(name) or self.by_key.get(name)
        if listing is None:
            for collision in self.collisions:
                if name in (collision.name, *collision.left_out):
                    raise UnknownTool(str(collision))
            near = nearest(name, [*self.by_exposed, *self.by_key])
            hint = f", did you mean {' or '.join(near)}?" if near else ""
            raise UnknownTool(f"no tool {name!r}{hint}")
        return listing


@attrs.define(eq=False)
class Catalogue:
    """The owner of the current snapshot. Every change is one swap.

    Args:
      reckon: returns the estimate of a tool that is new here.
      stand_in: returns the tool to list in place of another, for rehearsals; None
        lists each tool itself.

    ``changed`` is set when tools, or the availability of their servers, change; not
    when an estimate does.
    """

    _reckon: Callable[[ToolDefinition], Estimate]
    naming: NamingStyle = NamingStyle.DOUBLE
    _stand_in: Callable[[Tool], Tool] | None = None
    current: Snapshot = attrs.field(factory=Snapshot, init=False)
    changed: Signal = attrs.field(factory=Signal, init=False)

    def register(self, tools: Iterable[Tool]) -> None:
        """Add tools; all of them or, on an error, none.

        Raises:
          NameCollision: two tools of this process under one name, or any two under
            one key; the message names both.
          BadName: an ``expose_as`` that no model would accept.
          BadSchema: parameters that are not a JSON schema.
        """
        fresh = [self._listing(tool, {}, Availability.READY) for tool in tools]
        self._rebuild([*self.current.offered, *fresh])

    def replace(
        self,
        group: str,
        tools: Iterable[Tool],
        availability: Availability = Availability.READY,
        ready_at: float | None = None,
    ) -> None:
        """Make ``tools`` the whole of ``group``.

        A tool whose definition did not change keeps its estimate.

        Raises:
          NameCollision, BadName, BadSchema: as `register`.
        """
        others = [x for x in self.current.offered if x.definition.group != group]
        known = {x.key: x for x in self.current.offered}
        fresh = [self._listing(tool, known, availability, ready_at) for tool in tools]
        self._rebuild([*others, *fresh])

    def deregister(self, name: str) -> tuple[str, ...]:
        """Remove a group, or one tool by its key; returns the keys removed."""
        gone = [
            listing.key
            for listing in self.current.offered
            if name in (listing.key, listing.definition.group)
        ]
        if gone:
            self._rebuild([x for x in self.current.offered if x.key not in gone])
        return tuple(gone)

    def set_availability(
        self,
        group: str,
        availability: Availability,
        ready_at: float | None = None,
    ) -> None:
        """Set the availability of a group's tools, as their server starts or stops."""

        def moved(listings: Iterable[CatalogueEntry]) -> list[CatalogueEntry]:
            return [
                attrs.evolve(listing, availability=availability, ready_at=ready_at)
                if listing.definition.group == group
                else listing
                for listing in listings
            ]

        self._swap(moved(self.current.listings), moved(self.current.left_out))
        self.changed.set()

    def set_estimate(self, key: str, estimate: Estimate) -> None:
        """Set the estimate of a tool; a tool that has gone meanwhile is ignored."""
        old = self.current.by_key.get(key)
        if old is None or old.estimate == estimate:
            return
        new = attrs.evolve(old, estimate=estimate)
        listings = [
            new if listing is old else listing for listing in self.current.listings
        ]
        if new.order != old.order:
            listings.sort(key=lambda listing: listing.order)
        self._swap(listings, self.current.left_out)

    def _listing(
        self,
        tool: Tool,
        before: Mapping[str, CatalogueEntry],
        availability: Availability,
        ready_at: float | None = None,
    ) -> CatalogueEntry:
        if self._stand_in is not None:
            tool = self._stand_in(tool)
        known = before.get(tool.key)
        if known is not None and known.definition == tool.definition:
            return attrs.evolve(
                known, tool=tool, availability=availability, ready_at=ready_at
            )
        definition = tool.definition
        schema = ArgumentSchema(definition.parameters, foreign=definition.external)
        if not definition.external:  # external schemas were checked by their reader
            schema.warm()
        return CatalogueEntry(
            tool=tool,
            exposed=definition.name,  # set in _rebuild, for all at once
            estimate=self._reckon(definition),
            schema=schema,
            availability=availability,
            ready_at=ready_at,
        )

    def _rebuild(self, listings: list[CatalogueEntry]) -> None:
        # The search tool is no entry: each turn has its own. But its name is reserved.
        definitions = [SEARCH, *(x.definition for x in listings)]
        exposed = expose_all(definitions, self.naming)
        names = {definition.key: name for name, definition in exposed.tools.items()}
        shared = {key: one.name for one in exposed.collisions for key in one.left_out}
        names |= shared
        named = [
            x if x.exposed == names[x.key] else attrs.evolve(x, exposed=names[x.key])
            for x in listings
        ]
        self._swap(
            sorted(
                (x for x in named if x.key not in shared),
                key=lambda listing: listing.order,
            ),
            sorted(
                (x for x in named if x.key in shared),
                key=lambda listing: listing.key,
            ),
            exposed.collisions,
        )
        self.changed.set()

    def _swap(
        self,
        listings: Iterable[CatalogueEntry],
        left_out: Iterable[CatalogueEntry],
        collisions: tuple[Collision, ...] | None = None,
    ) -> None:
        listed = tuple(listings)
        if collisions is None:  # no name has changed
            collisions = self.current.collisions
        self.current = Snapshot(
            listings=listed,
            by_exposed=MappingProxyType({x.exposed: x for x in listed}),
            by_key=MappingProxyType({x.key: x for x in listed}),
            revision=self.current.revision + 1,
            left_out=tuple(left_out),
            collisions=collisions,
        )
