"""Opt-in telemetry: a report of the speed of tools on this installation.

    async with open_runtime(config) as runtime, open_telemetry(runtime):
        ...

Nothing happens unless the configuration says ``telemetry.enabled``. Only
`Telemetry.report` is sent: figures, and for each tool its key and its transport. It has
no text of players, models or tools.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

import attrs

import trio

from glyphoxa_trio.actors import lone_errors
from glyphoxa_trio.config import TelemetryConfig
from glyphoxa_trio.mcp import ServerWarning
from glyphoxa_trio.runtime import Runtime

from .figures import OTHER, Figures
from .metrics import counted
from .scores import Score, scores_of

FORMAT: Final = 1
CLOSING: Final = 2.0  # seconds for the last report
PATIENCE: Final = 15.0  # seconds for one report, to be made and told
MOST_TOOLS: Final = 1_000  # in one report: those that were measured most often
_LONGEST_KEY: Final = 200  # characters

Warn = Callable[[ServerWarning], None]


@asynccontextmanager
async def open_telemetry(
    runtime: Runtime, *, warn: Warn | None = None
) -> AsyncGenerator[Telemetry]:
    """Send reports about the tools of ``runtime``, if its configuration says so.

    Every ``telemetry.interval`` and when the block is left, cancelled or not, which
    takes two seconds at most. Switching it off in a reload takes effect at once,
    switching it on with the next start.

    Args:
      warn: called once when a report cannot be sent, and again after it has worked.
        By default it is among the runtime's warnings.
    """
    telemetry = Telemetry(runtime, runtime.warnings.append if warn is None else warn)
    if not runtime.config.telemetry.enabled:
        yield telemetry
        return
    async with AsyncExitStack() as stack:
        stack.enter_context(lone_errors())
        stack.enter_context(counted(runtime, telemetry.figures))
        nursery = await stack.enter_async_context(trio.open_nursery())
        nursery.start_soon(telemetry.run)
        try:
            yield telemetry
        finally:
            nursery.cancel_scope.cancel("this is the end")
            await telemetry.end()


@attrs.define(eq=False)
class Telemetry:
    """The report of a runtime, and sending it."""

    _runtime: Runtime
    _warn: Warn
    figures: Figures = attrs.field(factory=Figures, init=False)
    _failing: bool = attrs.field(default=False, init=False)

    async def report(self) -> str:
        """Return the report exactly as it is sent: JSON with an end of line."""
        return written(await scores_of(self._runtime), self.figures)

    async def run(self) -> None:
        """Tell, again and again, until cancelled."""
        while True:
            await trio.sleep(self._runtime.config.telemetry.interval)
            with trio.move_on_after(PATIENCE) as patience:
                await self.tell()
            if patience.cancelled_caught:
                self._failed(f"it takes longer than {PATIENCE:g} s")

    async def end(self) -> None:
        """Tell for the last time, cancelled or not."""
        with trio.move_on_after(CLOSING, shield=True) as patience:
            await self.tell()
        if patience.cancelled_caught:
            self._failed(f"it took longer than {CLOSING:g} s at the end")

    async def tell(self) -> None:
        """Send a report to the configured address now, if there is something to send.

        Never raises: a failure is a warning.
        """
        config = self._runtime.config.telemetry
        if not config.enabled:
            return
        try:
            scores = await scores_of(self._runtime)
            if not scores:
                return
            await _send(config, written(scores, self.figures))
        except Exception as error:  # border: a disk, a network, a foreign server
            self._failed(str(error) or type(error).__name__)
        else:
            self._failing = False

    def _failed(self, why: str) -> None:
        if not self._failing:
            self._failing = True
            text = f"the figures of tools could not be told: {why}"
            self._warn(ServerWarning(server="telemetry", text=text))


async def _send(config: TelemetryConfig, report: str) -> None:
    """Both are tried, whatever becomes of the first."""
    # It brings the HTTP client along, which is not for the loop to wait for.
    sending: Any = await trio.to_thread.run_sync(_sending)
    try:
        if config.file is not None:
            await sending.write(config.file, report)
    finally:
        if config.url is not None:
            await sending.post(config.url, report)


def _sending() -> object:
    from . import sending

    return sending


def written(scores: Iterable[Score], figures: Figures) -> str:
    """A report: one object, a tool a line.

    ``failures`` is the share of calls that crashed, were lost with their server, or met
    their tool's or server's own limit, among those that say something of its health;
    null without any.
    """
    chosen = sorted(scores, key=lambda x: (-x.samples, x.tool))[:MOST_TOOLS]
    chosen.sort(key=lambda x: x.tool)
    tools = [json.dumps(_tool(score, figures)) for score in chosen]
    head = json.dumps({"format": FORMAT, "program": f"glyphoxa-trio {_version()}"})
    lines = ",\n  ".join(tools)
    return f'{head[:-1]}, "tools": [\n  {lines}\n]}}\n'


def _tool(score: Score, figures: Figures) -> Mapping[str, Any]:
    return {
        "tool": score.tool[:_LONGEST_KEY],
        "transport": score.transport,
        "badge": score.badge,
        "p50_ms": round(score.p50 * 1000, 1),
        "p99_ms": round(score.p99 * 1000, 1),
        "samples": score.samples,
        "failures": _failures(score.tool, figures),
    }


def _failures(key: str, figures: Figures) -> float | None:
    tool = figures.names.of(key)
    health = figures.health.get(tool)
    if health is None or not health.calls or tool[1] == OTHER:
        return None
    return round(health.failures / health.calls, 4)


def _version() -> str:
    try:
        return version("glyphoxa-trio")
    except PackageNotFoundError:  # it runs from a folder
        return "0"
