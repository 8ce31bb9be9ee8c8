"""Which report of a feed is the latest of an aerodrome, and when it was. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from glyphoxa_trio.servers.atis.report import latest, read

NOW = datetime(2026, 11, 22, 13, 15, tzinfo=UTC)

DAY = """\
ENGM 221150Z 01003KT CAVOK 04/M02 Q1020 NOSIG=
ENGM 221220Z 02004KT CAVOK 05/M02 Q1020 NOSIG=
ENGM 221250Z 03005KT CAVOK 06/M02 Q1020 NOSIG=
"""


def raw_of(text: str, icao: str = "ENGM", now: datetime = NOW) -> str | None:
    found = latest(text, icao, now)
    return None if found is None else found.raw


def test_the_latest_by_its_time_wins_wherever_it_stands() -> None:
    last = "ENGM 221250Z 03005KT CAVOK 06/M02 Q1020 NOSIG"
    assert raw_of(DAY) == last
    assert raw_of("".join(reversed(DAY.splitlines(keepends=True)))) == last
    assert raw_of(DAY.replace("\n", " ")) == last  # all in one line
    assert raw_of(DAY.replace("\n", "\r\n")) == last


def test_a_correction_goes_before_what_it_corrects() -> None:
    wrong = "METAR ENGM 221250Z 03005KT CAVOK 60/M02 Q1020="
    right = "METAR COR ENGM 221250Z 03005KT CAVOK 06/M02 Q1020="
    for text in (f"{wrong}\n{right}", f"{right}\n{wrong}"):
        assert raw_of(text) == right.rstrip("=")
    inside = "ENGM 221250Z COR 03005KT CAVOK 06/M02 Q1020="
    assert raw_of(f"{inside}\n{wrong}") == inside.rstrip("=")


def test_of_two_at_one_time_the_last_one_wins() -> None:
    first = "SPECI ENGM 221250Z 03005KT CAVOK 06/M02 Q1020"
    assert raw_of(f"{DAY}{first}=") == first


@pytest.mark.parametrize(
    "other",
    [
        "ENBR 221300Z 03005KT CAVOK 06/M02 Q1020=",
        "TAF ENGM 221300Z 2213/2313 18010KT 9999=",
        "TAF AMD ENGM 221300Z 2213/2313 18010KT 9999=",
        "ENGM 221300Z 2213/2313 18010KT 9999=",
        "ENGM 221300Z NIL=",
        "ENGM 221300Z=",
        "METAR ENGM 221300Z",
        "ENGM 321300Z 03005KT CAVOK=",
        "ENGM 222400Z 03005KT CAVOK=",
        "ENGM 221360Z 03005KT CAVOK=",
        "ENGM 221300 03005KT CAVOK=",
        "engm 221300Z 03005KT CAVOK=",
        "<metar>ENGM 221300Z 03005KT CAVOK</metar>",
        "No METAR available for ENGM",
    ],
)
def test_whatever_else_is_there_is_passed_over(other: str) -> None:
    last = "ENGM 221250Z 03005KT CAVOK 06/M02 Q1020 NOSIG"
    assert raw_of(f"{DAY}{other}\n") == last
    assert raw_of(f"{other}\n\n{DAY}") == last
    assert raw_of(other) is None


def test_a_report_may_go_over_several_lines() -> None:
    text = """\
METAR ENGM 221250Z 03005KT
      9999 -RA
\tOVC010 06/05 Q1020
      NOSIG=
ENBR 221250Z 30010KT
     CAVOK 08/02 Q1011=
"""
    assert raw_of(text) == (
        "METAR ENGM 221250Z 03005KT 9999 -RA OVC010 06/05 Q1020 NOSIG"
    )
    assert raw_of(text, "ENBR") == "ENBR 221250Z 30010KT CAVOK 08/02 Q1011"
    # The line of a forecast does not go on a report without its end.
    assert raw_of("ENGM 221250Z CAVOK\nTAF ENGM 221100Z 2212/2312\n BKN010=") == (
        "ENGM 221250Z CAVOK"
    )


@pytest.mark.parametrize(
    ("now", "day_and_time", "observed"),
    [
        ("2026-11-22T13:15", "221250", "2026-11-22T12:50"),
        ("2026-11-22T13:15", "221415", "2026-11-22T14:15"),  # a clock that is fast
        ("2026-11-22T13:15", "221416", "2026-10-22T14:16"),
        ("2026-12-01T00:10", "302350", "2026-11-30T23:50"),
        ("2027-01-01T00:05", "312350", "2026-12-31T23:50"),
        ("2026-12-31T23:40", "010020", "2027-01-01T00:20"),
        ("2026-03-01T00:05", "282350", "2026-02-28T23:50"),
        ("2028-03-01T00:05", "292350", "2028-02-29T23:50"),
        ("2026-03-05T12:00", "310000", "2026-01-31T00:00"),  # none in February
        ("2026-03-05T12:00", "290000", "2026-01-29T00:00"),
        ("2026-05-01T00:00", "310000", "2026-03-31T00:00"),
    ],
)
def test_the_month_is_the_last_one_that_fits(
    now: str, day_and_time: str, observed: str
) -> None:
    at = datetime.fromisoformat(f"{now}:00+00:00")
    found = read(f"ENGM {day_and_time}Z CAVOK", at)
    assert found is not None
    assert found.observed == datetime.fromisoformat(f"{observed}:00+00:00")


def test_at_the_turn_of_a_year_the_latest_is_still_the_latest() -> None:
    text = "ENGM 312320Z 01001KT=\nENGM 312350Z 02002KT=\nENGM 010020Z 03003KT=\n"
    new_year = datetime(2027, 1, 1, 0, 25, tzinfo=UTC)
    assert raw_of(text, now=new_year) == "ENGM 010020Z 03003KT"


def test_what_cannot_be_printed_is_not_kept() -> None:
    text = "ENGM 221250Z 03005KT \x00\x1b[31m \u202e\ud800 9999\x85Q1020="
    found = latest(text, "ENGM", NOW)
    assert found is not None
    assert found.raw == "ENGM 221250Z 03005KT ??[31m ?? 9999 Q1020"


def test_a_report_without_end_is_cut() -> None:
    found = latest("ENGM 221250Z " + "Q1013 " * 50_000, "ENGM", NOW)
    assert found is not None
    assert len(found.raw) <= 600
    lines = "\n".join(["ENGM 221250Z"] + ["Q1013"] * 5000)
    found = latest(lines, "ENGM", NOW)
    assert found is not None
    assert len(found.raw) <= 600
