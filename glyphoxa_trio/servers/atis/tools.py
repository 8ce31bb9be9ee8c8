"""The tools of the server: ``get_atis`` and ``list_aerodromes``."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from typing import Annotated, Any, Final

import attrs

from glyphoxa_trio.tools.decorate import tool
from glyphoxa_trio.tools.definition import (
    CallContext,
    Tool,
    ToolError,
    ToolUnavailable,
)

from .cache import MOST_ENTRIES
from .config_file import ConfigFile
from .groups import read_groups
from .keeper import COLD_PATIENCE, ReportKeeper
from .report import WeatherReport
from .settings import ICAO, AtisConfig
from .spoken import script
from .words import ago

WARM_MS: Final = 20  # the time for a report in the cache, which is nearly always there
MARGIN: Final = 0.05  # seconds for writing the answer
MOST_LISTED: Final = 100


# Nearly every question is about a report that was parsed before.
_reading: Final = lru_cache(MOST_ENTRIES)(read_groups)


class InvalidStation(ToolError):
    code = "InvalidArgument"


class StationNotFound(ToolError):
    code = "NotFound"


@attrs.define(eq=False, kw_only=True)
class Atis:
    """The answers of the server.

    Args:
      now: returns the time of day, UTC.
    """

    settings: ConfigFile
    keeper: ReportKeeper
    now: Callable[[], datetime]

    async def told(self, asked: str, *, until: float) -> dict[str, Any]:
        """Return the information of one aerodrome, by ``until`` on trio's clock.

        Raises:
          InvalidArgument: if there is no aerodrome of that name.
          NotFound: if there is no report of it.
          ToolUnavailable: if there is none at the moment, or only one that is too old.
        """
        config = await self.settings.current()
        icao = icao_of(asked, config)
        sighting = await self.keeper.report(icao, until=until)
        if sighting.report is None:
            raise StationNotFound(f"There are no weather reports for {icao}.")
        return self._written(sighting.report, sighting.problem, config)

    def _written(
        self, report: WeatherReport, problem: str, config: AtisConfig
    ) -> dict[str, Any]:
        aerodrome, defaults = config.aerodrome(report.icao), config.defaults
        age = max(0.0, (self.now() - report.observed).total_seconds())
        if age > defaults.refuse_after:
            raise ToolUnavailable(
                f"The last weather report for {report.icao} was observed {ago(age)},"
                " which is too old to be used."
            )
        stale = bool(problem) or age > defaults.stale_after
        reading = _reading(report.body)
        said = script(
            report,
            reading,
            aerodrome,
            defaults,
            stale_for=age if stale else None,
        )
        warnings = [problem] if problem else []
        if self.settings.problem:
            warnings.append(f"configuration: {self.settings.problem}")
        pressure = reading.now.pressure
        return {
            "icao": report.icao,
            "name": aerodrome.name or None,
            "information": said.letter or None,
            "atis_text": said.text,
            "language": aerodrome.language,
            "issued_at": f"{report.observed:%Y-%m-%dT%H:%M:%SZ}",
            "age_seconds": round(age),
            "stale": stale,
            "raw": report.raw,
            "runways": list(aerodrome.runways),
            "frequency": aerodrome.frequency,
            "advisories": list(aerodrome.advisories),
            "temperature_celsius": reading.now.temperature,
            "dew_point_celsius": reading.now.dew_point,
            "qnh_hectopascals": pressure.hectopascals if pressure else None,
            "altimeter_inches": pressure.hundredths / 100 if pressure else None,
            "not_readable": list(reading.unreadable),
            "not_spoken": list(reading.passed_over),
            "warnings": warnings,
        }


def icao_of(asked: str, config: AtisConfig) -> str:
    """Return the code for what was asked: a code, in any case, or a configured name.

    Raises:
      InvalidArgument: if it is neither.
    """
    code = asked.strip().upper()
    if ICAO.fullmatch(code):
        return code
    wanted = asked.strip().casefold()
    for icao, aerodrome in config.aerodromes.items():
        if wanted and aerodrome.name.strip().casefold() == wanted:
            return icao
    shown = asked if len(asked) <= 40 else f"{asked[:40]}…"
    raise InvalidStation(
        f"{shown!r} is not an aerodrome: give the four letters of its ICAO code, such"
        " as ENGM."
    )


def tools(atis: Atis, example: str | None) -> tuple[Tool, ...]:
    """Return the tools of the server; ``example`` is an aerodrome to try them with."""

    @tool(
        group="atis",
        category="weather",
        title="ATIS of an aerodrome",
        estimated_duration_ms=WARM_MS,
        max_duration_ms=round((COLD_PATIENCE + 1) * 1000),
        read_only=True,
        open_world=True,
        examples=({"icao": example},) if example else (),
        speech_field="atis_text",
    )
    async def get_atis(
        icao: Annotated[str, "The four letters of its ICAO code, such as ENGM."],
        context: CallContext,
    ) -> dict[str, Any]:
        """Get the current ATIS of an airport: weather, runway, frequency, advisories,
        as text to be spoken (atis_text) and as data."""
        return await atis.told(icao, until=context.deadline - MARGIN)

    @tool(
        group="atis",
        category="weather",
        title="Configured aerodromes",
        estimated_duration_ms=5,
        max_duration_ms=2000,
        read_only=True,
    )
    async def list_aerodromes() -> dict[str, Any]:
        """List the airports that are set up here, with their names and runways.
        The ATIS of any other one can be asked for, too."""
        config = await atis.settings.current()
        entries = [
            {"icao": icao, "name": one.name or None, "runways": list(one.runways)}
            for icao, one in config.aerodromes.items()
        ]
        return {"aerodromes": entries[:MOST_LISTED], "count": len(entries)}

    return get_atis, list_aerodromes
