"""The extras: what is missing is named, with the line that installs it. That they are
what the source imports is for `make lint`."""

from __future__ import annotations

import sys

import pytest

from glyphoxa_trio.extras import LIBRARIES, ExtraMissing, installed, missing, require

# Each is in a Python of its own for the tests.
FRAMEWORKS = {"discord", "livekit", "pipecat"}


def test_the_extra_for_tests_has_all_of_them() -> None:
    for extra in LIBRARIES.keys() - FRAMEWORKS:
        assert installed(extra), extra
        require("this test", extra)


def test_what_is_missing_is_named_with_the_line_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    assert not installed("verify")
    with pytest.raises(ExtraMissing) as caught:
        require("verify", "verify")
    assert str(caught.value) == missing("verify", "verify")
    assert str(caught.value) == (
        "verify needs the extra `verify`: pip install 'glyphoxa-trio[verify]'"
    )
