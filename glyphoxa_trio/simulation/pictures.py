"""Simulations as pictures (SVG), with matplotlib, which is loaded when asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.extras import missing
from glyphoxa_trio.tools.tier import Tier, TierLimits

from .seen import Simulated, TurnSeen

# Told apart by people who see colours differently, too.
_COLOURS: Final = {
    Tier.FAST: "#0072b2",
    Tier.STANDARD: "#e69f00",
    Tier.DEEP: "#999999",
}

PICTURES: Final = ("waiting.svg", "tiers.svg", "tools.svg")


class NoPictures(GlyphoxaError):
    """Pictures cannot be drawn here; the text says why."""


def draw(
    runs: Sequence[Simulated], folder: Path, *, limits: TierLimits
) -> tuple[Path, ...]:
    """Write ``waiting.svg``, ``tiers.svg`` and ``tools.svg``; returns their paths.

    Raises:
      NoPictures: without matplotlib, or if the folder cannot be written.
    """
    try:
        import matplotlib as mpl
    except ImportError:
        raise NoPictures(missing("drawing pictures", "pictures")) from None
    mpl.use("svg")  # no screen is asked for
    # The same figures are the same file: no date, no random names.
    mpl.rcParams["svg.hashsalt"] = "glyphoxa"
    figures = _waiting(runs, limits), _tiers(runs), _tools(runs, limits)
    drawn = dict(zip(PICTURES, figures, strict=True))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, picture in drawn.items():
            picture.savefig(folder / name, metadata={"Date": None})
    except OSError as error:
        raise NoPictures(f"{folder}: {error.strerror or error}") from error
    return tuple(folder / name for name in drawn)


def _waiting(runs: Sequence[Simulated], limits: TierLimits) -> Any:
    """The share of turns that were as quick as that, for three kinds of waiting."""
    picture, panels = _panels(3)
    kinds: tuple[tuple[str, Callable[[TurnSeen], float | None]], ...] = (
        ("first sentence", lambda x: x.first_sentence),
        ("whole turn", lambda x: x.total),
        ("waiting for tools", lambda x: x.tools if x.calls else None),
    )
    for panel, (title, of) in zip(panels, kinds, strict=True):
        for run in runs:
            found = sorted(s for x in run.turns if (s := of(x)) is not None)
            shares = [100 * (at + 1) / len(found) for at in range(len(found))]
            panel.step(found, shares, where="post", label=str(run.tier_by))
        panel.set(title=title, xlabel="seconds", ylabel="% of turns", ylim=(0, 101))
        panel.legend()
    for tier in Tier:
        ceiling = limits.ceiling(tier)
        panels[2].axvline(ceiling, color=_COLOURS[tier], linestyle=":")
    return picture


def _tiers(runs: Sequence[Simulated]) -> Any:
    """Draw how many turns had each tier; those cut at the ceiling are hatched."""
    picture, (panel,) = _panels(1)
    names = [str(run.tier_by) for run in runs]
    bottoms = [0.0] * len(runs)
    for tier in Tier:
        shares = [100 * run.mix()[tier] for run in runs]
        cut = [
            share * (run.at_ceiling(tier) or 0.0)
            for share, run in zip(shares, runs, strict=True)
        ]
        panel.bar(names, shares, bottom=bottoms, color=_COLOURS[tier], label=str(tier))
        panel.bar(names, cut, bottom=bottoms, fill=False, hatch="///")
        bottoms = [a + b for a, b in zip(bottoms, shares, strict=True)]
    panel.set(title="tiers (hatched: cut at the ceiling)", ylabel="% of turns")
    panel.legend()
    return picture


def _tools(runs: Sequence[Simulated], limits: TierLimits) -> Any:
    """Each tool's p50 to p95, coloured by the tier that it has in the first run."""
    tools = runs[0].tools
    picture, (panel,) = _panels(1, height=max(4.5, 0.2 * len(tools)))
    for at, tool in enumerate(tools):
        colour = _COLOURS[tool.estimate.tier]
        ends = [max(x, 0.0005) for x in (tool.p50, tool.p95)]
        panel.plot(ends, [at, at], color=colour, linewidth=3)
        panel.plot(ends[:1], [at], "o", color=colour)
    for tier in (Tier.FAST, Tier.STANDARD):
        panel.axvline(limits.threshold(tier), color=_COLOURS[tier], linestyle=":")
    # A tool's name is foreign text: it must not be read as a formula.
    names = ["".join(x if x.isprintable() else "?" for x in y.key) for y in tools]
    panel.set_yticks(range(len(tools)), names, parse_math=False)
    panel.set(
        title=f"tools, p50 to p95, and their tier by {runs[0].tier_by}",
        xlabel="seconds",
        xscale="log",
    )
    return picture


def _panels(count: int, *, height: float = 4.5) -> tuple[Any, Sequence[Any]]:
    import matplotlib.figure

    picture: Any = matplotlib.figure.Figure(
        figsize=(5 * count if count > 1 else 8, height), layout="constrained"
    )
    panels = picture.subplots(1, count, squeeze=False)
    return picture, list(panels[0])
