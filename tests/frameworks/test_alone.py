"""Each framework's extra is installed alone, beside the framework's newest release."""

from __future__ import annotations

import json

import pytest

from .support import python_of, run

pytestmark = pytest.mark.long

# What venv brings; and for the benchmark, LiveKit's plugin with what it requires.
BESIDE = {
    "livekit": {"pip", "setuptools", "livekit-plugins-openai", "pillow"},
    "pipecat": {"pip", "setuptools"},
}


@pytest.mark.parametrize("extra", BESIDE)
def test_the_adapter_needs_no_other_extra(extra: str) -> None:
    done = run(
        python_of(extra), "-m", "tests.frameworks.alone_program", extra, within=60
    )
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["missing"] == []
    assert set(found["beyond"]) <= BESIDE[extra]
