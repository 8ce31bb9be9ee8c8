"""The tools there are, as an immutable snapshot that anybody may read (D5, D13).

A change builds a new `Snapshot` and swaps it in with one assignment, so a
reader needs no message and never sees half a change. Listings are ordered by
tier, then key: the tools of FAST are a prefix of STANDARD's and DEEP's, so that
a model's prompt cache survives a change of tier.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

import attrs

from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.tools.definition import Tool, ToolDefinition
from glyphoxa_trio.tools.estimate import Estimate
from glyphoxa_trio.tools.gate import Availability
from glyphoxa_trio.tools.naming import NamingStyle, expose_all, nearest
from glyphoxa_trio.tools.schema import ArgumentSchema
from glyphoxa_trio.tools.search import SEARCH, Words, words_of


class UnknownTool(GlyphoxaError):
    """No tool of that name; the message has the nearest ones."""


@attrs.frozen(kw_only=True)
class Listing:
    """One tool in the catalogue. Its schema is compiled once, for all snapshots,
    and so are the words by which it is found.
    """

    tool: Tool
    exposed: str
    estimate: Estimate
    schema: ArgumentSchema
    availability: Availability = Availability.READY
    words: Words = attrs.field(
        default=attrs.Factory(lambda self: words_of(self.definition), takes_self=True),
        eq=False,
        repr=False,
    )

    @property
    def definition(self) -> ToolDefinition:
        return self.tool.definition

    @property
    def key(self) -> str:
        return self.tool.definition.key

    @property
    def order(self) -> tuple[int, str]:
        return self.estimate.tier, self.key


@attrs.frozen(kw_only=True)
class Snapshot:
    """All tools at one moment, in their stable order."""

    listings: tuple[Listing, ...] = ()
    by_exposed: Mapping[str, Listing] = MappingProxyType({})
    by_key: Mapping[str, Listing] = MappingProxyType({})
    revision: int = 0

    def find(self, name: str) -> Listing:
        """By exposed name or canonical key.

        Raises:
          UnknownTool: with the nearest names.
        """
        listing = self.by_exposed.get(name) or self.by_key.get(name)
        if listing is None:
            near = nearest(name, [*self.by_exposed, *self.by_key])
            hint = f", did you mean {' or '.join(near)}?" if near else ""
            raise UnknownTool(f"no tool {name!r}{hint}")
        return listing


@attrs.define(eq=False)
class Catalogue:
    """The owner of the current snapshot. Every change is one swap.

    Args:
      reckon: the estimate of a tool that is new here (D1).
      stand_in: what is listed in place of a tool: the tool, outside of rehearsals.
    """

    _reckon: Callable[[ToolDefinition], Estimate]
    naming: NamingStyle = NamingStyle.DOUBLE
    _stand_in: Callable[[Tool], Tool] | None = None
    current: Snapshot = attrs.field(factory=Snapshot, init=False)

    def register(self, tools: Iterable[Tool]) -> None:
        """Add tools; all of them or, on an error, none.

        Raises:
          NameCollision: two tools under one name; naming both.
          BadName: an ``expose_as`` that no model would take.
          BadSchema: parameters that are no JSON schema.
        """
        self._rebuild([*self.current.by_key.values(), *map(self._listing, tools)])

    def replace(
        self,
        group: str,
        tools: Iterable[Tool],
        availability: Availability = Availability.READY,
    ) -> None:
        """Make ``tools`` the whole of ``group``.

        A tool whose definition did not change keeps its estimate. Raises as
        `register`.
        """
        others = [
            x for x in self.current.by_key.values() if x.definition.group != group
        ]
        fresh = [
            attrs.evolve(self._listing(tool), availability=availability)
            for tool in tools
        ]
        self._rebuild([*others, *fresh])

    def deregister(self, name: str) -> tuple[str, ...]:
        """Remove a group, or one tool by its key; returns the keys removed."""
        gone = [
            key
            for key, listing in self.current.by_key.items()
            if name in (key, listing.definition.group)
        ]
        if gone:
            self._rebuild(
                [x for key, x in self.current.by_key.items() if key not in gone]
            )
        return tuple(gone)

    def set_availability(self, group: str, availability: Availability) -> None:
        """A server came, went, or restarts: its tools follow."""
        self._swap(
            [
                attrs.evolve(listing, availability=availability)
                if listing.definition.group == group
                else listing
                for listing in self.current.listings
            ]
        )

    def set_estimate(self, key: str, estimate: Estimate) -> None:
        """What calibration found out; a tool that has gone meanwhile is ignored."""
        old = self.current.by_key.get(key)
        if old is None or old.estimate == estimate:
            return
        new = attrs.evolve(old, estimate=estimate)
        listings = [
            new if listing is old else listing for listing in self.current.listings
        ]
        if new.order != old.order:
            listings.sort(key=lambda listing: listing.order)
        self._swap(listings)

    def _listing(self, tool: Tool) -> Listing:
        if self._stand_in is not None:
            tool = self._stand_in(tool)
        known = self.current.by_key.get(tool.key)
        if known is not None and known.definition == tool.definition:
            return attrs.evolve(known, tool=tool)
        definition = tool.definition
        schema = ArgumentSchema(definition.parameters, foreign=definition.external)
        if not definition.external:  # whoever brings those has looked at them
            schema.warm()
        return Listing(
            tool=tool,
            exposed=definition.name,  # settled in _rebuild, for all at once
            estimate=self._reckon(definition),
            schema=schema,
        )

    def _rebuild(self, listings: list[Listing]) -> None:
        definitions = [x.definition for x in listings]
        # The search is no entry: each turn has its own. But its names are taken.
        _, *exposed = expose_all([SEARCH, *definitions], self.naming)
        named = [
            attrs.evolve(listing, exposed=name)
            for listing, name in zip(listings, exposed, strict=True)
        ]
        self._swap(sorted(named, key=lambda listing: listing.order))

    def _swap(self, listings: list[Listing]) -> None:
        self.current = Snapshot(
            listings=tuple(listings),
            by_exposed=MappingProxyType({x.exposed: x for x in listings}),
            by_key=MappingProxyType({x.key: x for x in listings}),
            revision=self.current.revision + 1,
        )
