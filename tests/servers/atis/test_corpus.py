"""Reports as stations write them, each with the text that is said of it. Pure.

`corpus.txt` holds them; a new oddity is three more lines of it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.servers.atis.groups import read_groups
from glyphoxa_trio.servers.atis.report import LONGEST, latest, read
from glyphoxa_trio.servers.atis.settings import (
    Aerodrome,
    AtisConfig,
    Defaults,
    PressureIn,
)
from glyphoxa_trio.servers.atis.spoken import script
from glyphoxa_trio.tools.speech import MESSAGE_LIMIT

NOW = datetime(2026, 11, 22, 13, 15, tzinfo=UTC)
QUIET = AtisConfig(defaults=Defaults(information="none"))


@attrs.frozen
class Case:
    report: str
    text: str
    unreadable: tuple[str, ...]
    passed_over: tuple[str, ...]


def cases() -> list[Case]:
    found = []
    text = (Path(__file__).parent / "corpus.txt").read_text()
    for block in text.split("\n\n")[1:]:
        report, *lines = block.strip().splitlines()
        marked: dict[str, list[str]] = {"!": [], "-": [], "": []}
        for line in map(str.strip, lines):
            mark = line[0] if line[:2] in ("! ", "- ") else ""
            marked[mark].append(line.removeprefix(f"{mark} "))
        found.append(
            Case(
                report,
                " ".join(marked[""]),
                tuple(" ".join(marked["!"]).split(" | ")) if marked["!"] else (),
                tuple(" ".join(marked["-"]).split(" | ")) if marked["-"] else (),
            )
        )
    return found


CORPUS = cases()


def icao_of(report: str) -> str:
    return next(word for word in report.split() if len(word) == 4)


def spoken(text: str, config: AtisConfig = QUIET) -> str:
    report = latest(text, icao_of(text), NOW)
    assert report is not None
    reading = read_groups(report.body)
    aerodrome = config.aerodrome(report.icao)
    return script(report, reading, aerodrome, config.defaults).text


def test_the_corpus_is_large_enough() -> None:
    assert len(CORPUS) >= 60


@pytest.mark.parametrize("case", CORPUS, ids=[case.report for case in CORPUS])
def test_a_report_is_said_in_words(case: Case) -> None:  # A53
    _, zulu, said = spoken(case.report).partition(" Zulu.")
    assert zulu
    assert said.strip() == case.text
    report = latest(case.report, icao_of(case.report), NOW)
    assert report is not None
    reading = read_groups(report.body)
    assert tuple(reading.unreadable) == case.unreadable
    assert tuple(reading.passed_over) == case.passed_over
    assert report.raw == case.report.rstrip("=")


def test_it_is_said_as_configured() -> None:
    report = "ENGM 221250Z 29009KT 9999 NCD 09/M04 Q1013="
    loud = AtisConfig(
        defaults=Defaults(niner=False, pressure=PressureIn.BOTH),
        aerodromes={
            "ENGM": Aerodrome(
                name="Oslo Gardermoen",
                runways=("01L", "19R"),
                frequency="118.300",
                advisories=("Birds have been seen!", "taxiway Kilo is closed"),
            )
        },
    )
    assert spoken(report, loud) == (
        "Oslo Gardermoen information Zulu. Observed at one two five zero Zulu. Runways"
        " in use zero one left and one nine right. Wind two nine zero degrees nine"
        " knots. Visibility one zero kilometres or more. No clouds detected."
        " Temperature nine, dew point minus four. Q N H one zero one three"
        " hectopascals, altimeter two nine nine one. Frequency one one eight decimal"
        " three. Birds have been seen! Taxiway Kilo is closed."
    )


@pytest.mark.parametrize(
    ("pressure_in", "said"),
    [
        ("reported", "Altimeter two niner niner two."),
        ("inches", "Altimeter two niner niner two."),
        ("hectopascals", "Q N H one zero one three hectopascals."),
        ("both", "Altimeter two niner niner two, Q N H one zero one three"),
    ],
)
def test_pressure_is_said_in_the_unit_that_is_wanted(
    pressure_in: str, said: str
) -> None:
    defaults = Defaults(information="none", pressure=PressureIn(pressure_in))
    config = AtisConfig(defaults=defaults)
    assert said in spoken("KSEA 221253Z 00000KT 10SM CLR 11/06 A2992", config)


def test_what_is_not_there_can_be_said_to_be_missing() -> None:
    report = "ENGM 221250Z AUTO /////KT //// // ////// ///// Q////="
    config = AtisConfig(
        defaults=Defaults(information="none", explicit_not_available=True),
        aerodromes={"ENBR": Aerodrome(explicit_not_available=False)},
    )
    assert spoken(report, config) == (
        "Echo November Golf Mike. Observed at one two five zero Zulu. Runway in use not"
        " available. Wind not available. Visibility not available. Temperature not"
        " available. Pressure not available. Frequency not available. Advisories not"
        " available."
    )
    assert "not available" not in spoken(report.replace("ENGM", "ENBR"), config)


def test_the_letter_follows_the_observation_or_the_configuration() -> None:
    first = "ENGM 22{}Z 00000KT CAVOK Q1013="
    auto = AtisConfig()
    assert "information Alfa." in spoken(first.format("0000"), auto)
    assert "information Alfa." in spoken(first.format("0029"), auto)
    assert "information Bravo." in spoken(first.format("0030"), auto)
    assert "information Alfa." in spoken(first.format("1300"), auto)
    fixed = AtisConfig(aerodromes={"ENGM": Aerodrome(information="Q")})
    assert "information Quebec." in spoken(first.format("0000"), fixed)
    assert "information" not in spoken(first.format("0000"), QUIET)


def test_a_long_one_loses_what_is_expected_first_and_says_so() -> None:
    config = AtisConfig(
        defaults=Defaults(information="none"),
        aerodromes={"ENGM": Aerodrome(advisories=("Mind the geese. " * 8,) * 3)},
    )
    trend = "TEMPO 24040G58KT 2500 +SHRASN BKN003CB"
    report = f"ENGM 221250Z 18010KT 9999 NCD 08/07 Q1009 {trend} {trend} {trend}="
    said = spoken(report, config)
    assert len(said) <= MESSAGE_LIMIT
    assert said.count("Temporarily") == 1
    assert said.endswith("Mind the geese. More was left out.")
    longer = {"ENGM": Aerodrome(advisories=("Mind the geese. " * 18,) * 9)}
    said = spoken(report, attrs.evolve(config, aerodromes=longer))
    assert 700 < len(said) <= MESSAGE_LIMIT
    assert "Temporarily" not in said
    assert said.endswith("Mind the geese. More was left out.")


# Anything at all

GROUPS = sorted({group for case in CORPUS for group in case.report.split()})
MUTATED = st.lists(
    st.one_of(
        st.sampled_from(GROUPS),
        st.text("0123456789/MPQARVGKTSFEWBN+-=$ ", max_size=30),
        st.text(max_size=12),
    ),
    max_size=80,
)


@given(MUTATED, st.booleans())
def test_any_text_is_said_in_words_or_not_at_all(
    groups: list[str], explicit: bool
) -> None:
    text = f"ENGM 221250Z {' '.join(groups)}"
    report = latest(text, "ENGM", NOW)
    if report is None:
        return
    assert len(report.raw) <= LONGEST
    assert report.raw.isascii()
    assert report.raw.isprintable()
    reading = read_groups(report.body)
    config = AtisConfig(defaults=Defaults(explicit_not_available=explicit))
    aerodrome = config.aerodrome("ENGM")
    said = script(report, reading, aerodrome, config.defaults)
    assert 0 < len(said.text) <= MESSAGE_LIMIT
    # Words only: nothing of a report is spoken as it is written.
    assert set(said.text) <= set(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz .,-!"
    )
    again = script(report, read_groups(report.body), aerodrome, config.defaults)
    assert said == again


@given(st.text(max_size=2000))
def test_no_feed_is_too_odd(text: str) -> None:
    found = latest(text, "ENGM", NOW)
    assert found is None or found.icao == "ENGM"
    read(text, NOW)
