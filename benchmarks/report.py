"""All figures as one page with plots, for people.

    python -m benchmarks.report figures.json report.html

One HTML file that needs nothing else: tables, whether each promise is kept, and a
plot for each benchmark, ours beside the same thing done bare.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from benchmarks.common import number

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72em; margin: 2em auto; }
table { border-collapse: collapse; font-size: 13px; }
td, th { padding: 2px 10px; text-align: right; border-bottom: 1px solid #ddd; }
td:first-child, th:first-child { text-align: left; }
.kept { color: #00692b; } .broken { color: #b00020; font-weight: bold; }
"""
_COLUMNS = ("n", "p50", "p99", "p999", "bare_p50", "bare_p99", "bare_p999", "ratio")


def page(reports: Sequence[dict[str, Any]]) -> str:
    """The whole page. Needs matplotlib."""
    kept = sum(check["kept"] for report in reports for check in report["checks"])
    promises = sum(len(report["checks"]) for report in reports)
    heading = f"{escape(reports[0]['machine'])}. {kept} of {promises} promises kept."
    parts = [
        "<!doctype html><meta charset=utf-8><title>Benchmarks</title>",
        f"<style>{_STYLE}</style><h1>Benchmarks</h1><p>{heading}</p>",
    ]
    parts += map(_section, reports)
    return "\n".join(parts) + "\n"


def _section(report: dict[str, Any]) -> str:
    load = " to ".join(f"{value:.2f}" for value in report["load"])
    checks = "".join(
        f"<li class={'kept' if check['kept'] else 'broken'}>{escape(check['text'])}"
        for check in report["checks"]
    )
    return (
        f"<h2>{escape(report['name'])}</h2><p>{escape(report['promise'])}."
        f" Medians of {report['runs']} runs, load {load}.</p><ul>{checks}</ul>"
        f"{_plot(report['figures'])}{_table(report['figures'])}"
    )


def _table(figures: Sequence[dict[str, Any]]) -> str:
    heads = "".join(f"<th>{name.replace('_', ' ')}" for name in _COLUMNS)
    rows = "".join(
        f"<tr><td>{escape(row['name'])}<td>{escape(row['unit'])}"
        + "".join(
            f"<td>{'-' if row[name] is None else number(row[name])}"
            for name in _COLUMNS
        )
        for row in figures
    )
    return f"<table><tr><th>figure<th>unit{heads}{rows}</table>"


def _plot(figures: Sequence[dict[str, Any]]) -> str:
    """For each figure a bar from its p50 to its p99, and one of the bare thing."""
    from matplotlib.figure import Figure

    drawn = [row for row in figures if row["p50"] and row["p50"] > 0]
    if not drawn:
        return ""
    picture = Figure(figsize=(9, 0.9 + 0.42 * len(drawn)), layout="constrained")
    panel = picture.subplots()
    for at, row in enumerate(reversed(drawn)):
        for name, shift, colour in (("", 0.15, "#0072b2"), ("bare_", -0.15, "#999999")):
            low, high = row[f"{name}p50"], row[f"{name}p99"]
            if not low or low < 0:
                continue
            ends = [low, max(low, high or low)]
            panel.plot(ends, [at + shift] * 2, color=colour, linewidth=3)
            panel.plot([low], [at + shift], "o", color=colour, markersize=5)
    names = [f"{row['name']} ({row['unit']})" for row in reversed(drawn)]
    panel.set_yticks(range(len(drawn)), names, fontsize=8)
    panel.set(xscale="log", title="p50 to p99; grey is the same thing done bare")
    panel.grid(axis="x", alpha=0.3)
    text = io.StringIO()
    picture.savefig(text, format="svg", metadata={"Date": None})
    svg = text.getvalue()
    return f"<div>{svg[svg.index('<svg') :]}</div>"


def main(source: str, target: str) -> None:
    reports = json.loads(Path(source).read_text(encoding="utf-8"))
    Path(target).write_text(page(reports), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
