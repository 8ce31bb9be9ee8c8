"""Choose the tools to measure, and list them before they are called."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console

from glyphoxa_trio.host import PROBES, CatalogueEntry
from glyphoxa_trio.runtime import Runtime
from glyphoxa_trio.runtime.publisher import CALIBRATION
from glyphoxa_trio.tools.consent import measured_unnamed

from .console import say
from .render import on_screen


def unnamed(runtime: Runtime) -> list[CatalogueEntry]:
    """The tools that are measured without being named."""
    return [x for x in runtime.host.snapshot.listings if measured_unnamed(x.definition)]


def announce(
    runtime: Runtime, chosen: Sequence[CatalogueEntry], errors: Console
) -> None:
    """List the tools that are about to be called, with what each says it may do."""
    held = runtime.host.approvals.held
    called = [x for x in chosen if x.key not in held]
    lines = [f"  {on_screen(x.key)}: {_risk(x)}" for x in called]
    if called:
        lines.insert(0, f"Calling {PROBES} times each, one after the other:")
    elif not chosen:
        lines = [
            "No tool is called: none says that it only reads, and only this machine.",
            "Name a tool to measure it with glyphoxa calibrate, or use --all there.",
        ]
    for line in lines:
        say(errors, line)


async def measure_unnamed(runtime: Runtime, errors: Console) -> None:
    """Say which tools are called, and measure those.

    Raises:
      DeadlineExceeded: as `ToolHost.calibrate`.
    """
    chosen = unnamed(runtime)
    announce(runtime, chosen, errors)
    await runtime.host.calibrate(
        within=CALIBRATION, keys=keys_of(chosen), harmless_only=True
    )


def keys_of(listings: Iterable[CatalogueEntry]) -> list[str]:
    return [listing.key for listing in listings]


def _risk(listing: CatalogueEntry) -> str:
    definition = listing.definition
    if definition.probe is not None:
        return "with the arguments that are configured for it"
    does = "only reads"
    if definition.side_effects:
        does = "may delete or overwrite" if definition.destructive else "may write"
    return does + (", may reach the network" if definition.open_world else "")
