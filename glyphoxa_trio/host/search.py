"""The visible tools of a round, if there are too many to show, and the tool search.

To defer a tool is a matter of presentation, not of permission: the gate has decided
before, and it decides again when a call arrives. A `VisibleTools` is fixed for its
round; a tool that a search or an early call loads is added to the NPC's `LoadedTools`,
and shown from the next round on. The list of functions begins with our own tools and
`tool_search`, and the loaded tools follow in the order in which they were loaded:
loading one more leaves all before it as it was, for a model's prompt cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

import trio

from glyphoxa_trio.tools.arguments import cut
from glyphoxa_trio.tools.definition import CallContext, Tool
from glyphoxa_trio.tools.estimate import Estimate, EstimateSource
from glyphoxa_trio.tools.gate import Grant, Reason, Refusal
from glyphoxa_trio.tools.outcome import ToolResult
from glyphoxa_trio.tools.schema import ArgumentSchema
from glyphoxa_trio.tools.search import FOUND, SEARCH, search, summary
from glyphoxa_trio.tools.tier import Tier

from .catalogue import CatalogueEntry

LOADED: Final = 15  # number of tools that one conversation keeps loaded
_DESCRIPTION: Final = 2000  # characters of a description in a search result

SEARCHING: Final = Grant(tools=(SEARCH.key,))
"""The grant of the search tool itself, which finds only granted tools."""

_AT_ONCE: Final = Estimate(
    seconds=SEARCH.estimated_duration or 0.0,
    tier=Tier.FAST,
    source=EstimateSource.DECLARED,
    p50=None,
    p99=None,
    samples=0,
    degraded=None,
    tier_by_number=None,
)

Permitted = Callable[[float], Sequence[CatalogueEntry]]
"""Returns the tools that the gate permits with so many seconds left."""


@attrs.define(eq=False)
class LoadedTools:
    """The tools that one conversation has loaded: the ``capacity`` used last.

    A tool that is loaded or used in a round counts from the next `settle` on, and in
    the order of the keys: calls of one response run in parallel, in no fixed order.
    """

    capacity: int = attrs.field(default=LOADED, validator=attrs.validators.ge(1))
    schema: ArgumentSchema = attrs.field(
        factory=lambda: ArgumentSchema(SEARCH.parameters), init=False
    )
    _last_use: dict[str, int] = attrs.field(factory=dict, init=False)
    _uses: int = attrs.field(default=0, init=False)
    _used: set[str] = attrs.field(factory=set, init=False)
    _wanted: set[str] = attrs.field(factory=set, init=False)

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys in the order in which they were loaded."""
        return tuple(self._last_use)

    def copy(self) -> LoadedTools:
        """Return an independent copy."""
        other = LoadedTools(self.capacity)
        other.schema = self.schema
        other._last_use, other._uses = dict(self._last_use), self._uses
        other._used, other._wanted = set(self._used), set(self._wanted)
        return other

    def restore(
        self, last_use: Mapping[str, int], used: Iterable[str], wanted: Iterable[str]
    ) -> None:
        """Load these tools, in the order of their last use."""
        self._last_use.update(last_use)
        self._uses = max(last_use.values(), default=0)
        self._used.update(used)
        self._wanted.update(wanted)

    def snapshot(self) -> tuple[dict[str, int], tuple[str, ...], tuple[str, ...]]:
        """Return the state as the arguments of `restore`."""
        used, wanted = sorted(self._used), sorted(self._wanted)
        return dict(self._last_use), tuple(used), tuple(wanted)

    def load(self, key: str) -> None:
        """Show this tool from the next round on."""
        self._wanted.add(key)

    def use(self, key: str) -> None:
        """Note a call of the tool; does nothing if it is not loaded."""
        if key in self._last_use:
            self._used.add(key)

    def settle(self) -> None:
        """Start the next round. Beyond the capacity, the least recently used go."""
        for key in (*sorted(self._used), *sorted(self._wanted)):
            self._uses += 1
            self._last_use[key] = self._uses
        while len(self._last_use) > self.capacity:
            del self._last_use[min(self._last_use, key=self._last_use.__getitem__)]
        self._used.clear()
        self._wanted.clear()


@attrs.frozen(kw_only=True, eq=False)
class VisibleTools:
    """The tools that the model of one round is shown.

    Args:
      shown: with their full definitions, in the order of the request.
      hidden: tools that the gate refuses, with the reason.
      deferred: tools that may be called too, but have to be loaded first.
      summary: the text that tells the model which tools it may load; "" if nothing is
        deferred.
      search: the tool that finds them, made for this round; one of ``shown``.
    """

    shown: tuple[CatalogueEntry, ...]
    hidden: tuple[tuple[CatalogueEntry, Refusal], ...] = ()
    deferred: tuple[CatalogueEntry, ...] = ()
    summary: str = ""
    search: CatalogueEntry | None = None
    _loaded_tools: LoadedTools | None = None
    _to_load: frozenset[str] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        keys = frozenset(listing.key for listing in self.deferred)
        object.__setattr__(self, "_to_load", keys)

    def own(self, name: str) -> CatalogueEntry | None:
        """Return the tool of that name that exists in this round alone."""
        if self.search is not None and name in (SEARCH.name, SEARCH.key):
            return self.search
        return None

    def not_loaded(self, listing: CatalogueEntry) -> Refusal | None:
        """Return the refusal of a call of a tool whose schema the model has not seen;
        None if it has.

        The refusal holds the schema; the tool is loaded for the next round.
        """
        if self._loaded_tools is None or listing.key not in self._to_load:
            return None
        self._loaded_tools.load(listing.key)
        return Refusal(
            reason=Reason.NOT_LOADED,
            text=(
                f"{listing.exposed} was not loaded, so it was not run. It is loaded"
                " now: call it again, with arguments that fit its schema"
            ),
            remedy=f"the model should find it with {SEARCH.name} first",
            data=_described(listing),
        )


def showing(
    explained: Sequence[tuple[CatalogueEntry, Refusal | None]],
    loaded_tools: LoadedTools,
    *,
    threshold: int,
    permitted: Permitted,
) -> VisibleTools:
    """Return all permitted tools, or the loaded ones and a search if they are many.

    Args:
      explained: every tool, with the gate's answer, in the catalogue's order.
      threshold: up to this number of external tools, all are shown in full; those
        that we added ourselves are not counted.
      permitted: called again when the search runs.
    """
    loaded_tools.settle()
    visible = [listing for listing, no in explained if no is None]
    hidden = tuple((listing, no) for listing, no in explained if no is not None)
    external = {x.key: x for x in visible if x.definition.external}
    if sum(not x.tool.added for x in external.values()) <= threshold:
        return VisibleTools(shown=tuple(visible), hidden=hidden)
    loaded_tools.schema.warm()  # here, where it costs no tool time
    search_ = CatalogueEntry(
        tool=Tool(definition=SEARCH, handler=_finder(loaded_tools, permitted)),
        exposed=SEARCH.name,
        estimate=_AT_ONCE,
        schema=loaded_tools.schema,
    )
    ours = [listing for listing in visible if not listing.definition.external]
    loaded = {key: external[key] for key in loaded_tools.keys if key in external}
    return VisibleTools(
        shown=(*ours, search_, *loaded.values()),
        hidden=hidden,
        deferred=tuple(x for key, x in external.items() if key not in loaded),
        # It covers the loaded tools too, so that it does not change when one is loaded.
        summary=summary(external.values()),
        search=search_,
        loaded_tools=loaded_tools,
    )


def _finder(
    loaded_tools: LoadedTools, permitted: Permitted
) -> Callable[[Mapping[str, Any], CallContext], Any]:
    async def find(arguments: Mapping[str, Any], context: CallContext) -> ToolResult:
        left = context.awaited_until - trio.current_time()
        external = [x for x in permitted(left) if x.definition.external]
        found = search(arguments["query"], external, arguments.get("limit", FOUND))
        for listing in found:
            loaded_tools.load(listing.key)
        names = ", ".join(listing.exposed for listing in found)
        said = (
            f"Loaded, to be called from your next step on: {names}"
            if found
            else "No tool that you may use now fits these words; try others."
        )
        tools = [_described(listing) for listing in found]
        return ToolResult(structured={"found": said, "tools": tools})

    return find


def _described(listing: CatalogueEntry) -> dict[str, Any]:
    definition = listing.definition
    return {
        "name": listing.exposed,
        "description": cut(definition.description, _DESCRIPTION),
        "parameters": definition.parameters,
    }
