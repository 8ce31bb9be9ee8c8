"""The configuration of the groups of tools that come with the package."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import attrs

from glyphoxa_trio.secret import Secret

from .fields import LIVE, NEXT_START, InMs, Text, above_zero, if_given, not_negative
from .problems import ConfigError
from .servers import is_private, web_address

# Servers that are called so are common. They take the place of these groups.
REPLACEABLE: Final = frozenset({"memory", "sessions"})


def _sides(_: Any, __: attrs.Attribute[Any], tables: Mapping[str, Any]) -> None:
    if empty := [repr(name) for name, lines in tables.items() if not lines]:
        raise ValueError(f"a table without a line cannot be rolled: {', '.join(empty)}")


def _percent(_: Any, __: attrs.Attribute[Any], value: float) -> None:
    if not 0 <= value <= 100:
        raise ValueError("must be from 0 to 100")


@attrs.frozen(kw_only=True)
class DiceConfig:
    """The group ``dice``. ``tables`` are random tables by name, a line a side."""

    enabled: bool = True
    tables: Mapping[str, tuple[Text, ...]] = attrs.field(factory=dict, validator=_sides)


@attrs.frozen(kw_only=True)
class RulesConfig:
    """The group ``rules``. ``datasets`` are files of rules beside our own."""

    enabled: bool = True
    datasets: tuple[Path, ...] = ()


@attrs.frozen(kw_only=True)
class FilesConfig:
    """The group ``files``: there only when ``base``, its sandbox, is given.

    ``quota_mb`` is how many MiB its files may have together, ``max_files`` how many
    files and folders there may be.
    """

    enabled: bool = True
    base: Path | None = None
    quota_mb: int = attrs.field(default=64, validator=above_zero)
    max_files: int = attrs.field(default=1000, validator=above_zero)

    @property
    def served(self) -> bool:
        return self.enabled and self.base is not None


@attrs.frozen(kw_only=True)
class MemoryToolsConfig:
    """The group ``memory``: searches in what was said and is known, and ``remember``.

    A configured server with that name takes its place.
    """

    enabled: bool = True


@attrs.frozen(kw_only=True)
class SessionsToolsConfig:
    """The group ``sessions``: summaries of earlier sessions, and a search for one.

    A configured server with that name takes its place.
    """

    enabled: bool = True


class SearchEngine(StrEnum):
    """The search engine that the tool ``search`` asks."""

    SEARXNG = "searxng"
    BRAVE = "brave"


@attrs.frozen(kw_only=True)
class SearchConfig:
    """The search engine behind ``search``. Brave's address is known.

    Raises:
      ConfigError: if the engine lacks a setting that it needs, or the key could be
        read on the way.
    """

    engine: SearchEngine
    base_url: str | None = attrs.field(default=None, validator=if_given(web_address))
    api_key: Secret | None = None

    def __attrs_post_init__(self) -> None:
        if self.engine is SearchEngine.SEARXNG and self.base_url is None:
            raise ConfigError("searxng needs base_url")
        if self.engine is SearchEngine.BRAVE and self.api_key is None:
            raise ConfigError("brave needs api_key")
        if self.api_key and self.base_url and not is_private(self.base_url):
            raise ConfigError(
                "base_url must start with https://, unless it is on this machine: the"
                " key would be readable on the way"
            )


def _ports(_: Any, __: attrs.Attribute[Any], ports: tuple[int, ...]) -> None:
    if not ports or not all(0 < port < 65536 for port in ports):
        raise ValueError("must be ports, 1 to 65535, and at least one")


@attrs.frozen(kw_only=True)
class WebConfig:
    """The group ``web``: ``fetch_page``, and ``search`` when there is an engine.

    Args:
      fetch: whether there is ``fetch_page``.
      allow_private: networks, addresses and names beside the public internet.
      ports: of pages; 80 and 443 by default.
      user_agent: None is our own.
      most_text: characters of a page.
    """

    enabled: bool = False
    fetch: bool = True
    search: SearchConfig | None = None
    allow_private: tuple[Text, ...] = ()
    ports: tuple[int, ...] = attrs.field(default=(80, 443), validator=_ports)
    user_agent: Text | None = None
    most_text: int = attrs.field(default=8000, validator=above_zero)
    timeout: InMs = attrs.field(default=4.0, validator=above_zero)


class MusicPlayer(StrEnum):
    """The player of music."""

    AUTO = "auto"  # mpv where it is installed, otherwise events
    MPV = "mpv"
    EVENTS = "events"  # the program that embeds the runtime


@attrs.frozen(kw_only=True)
class MusicConfig:
    """The group ``music``. ``library`` is a folder of tracks, ``moods`` a file
    that says more of them; ``volume`` is 0 to 100.

    Raises:
      ConfigError: if it is on and there is no library.
    """

    enabled: bool = False
    library: Path | None = None
    moods: Path | None = None
    player: MusicPlayer = MusicPlayer.AUTO
    volume: float = attrs.field(default=60.0, validator=_percent)
    crossfade: InMs = attrs.field(default=2.0, validator=not_negative)

    def __attrs_post_init__(self) -> None:
        if self.enabled and self.library is None:
            raise ConfigError("music needs library, a folder")


@attrs.frozen(kw_only=True)
class DualityConfig:
    """The group ``duality``, for those who play with Hope and Fear."""

    enabled: bool = False


def _size(_: Any, __: attrs.Attribute[Any], value: str) -> None:
    width, cross, height = value.partition("x")
    sides = cross and width.isdecimal() and height.isdecimal() and len(value) < 12
    if not sides and value != "auto":
        raise ValueError("must be width and height, as in 1024x1024, or auto")


@attrs.frozen(kw_only=True)
class ImagesConfig:
    """The group ``images``: drawn by the image model at ``base_url``, or as cards
    without one. ``folder`` is where they are kept.

    Raises:
      ConfigError: if the key could be read on the way.
    """

    enabled: bool = False
    base_url: str | None = attrs.field(default=None, validator=if_given(web_address))
    api_key: Secret | None = None
    model: str | None = None
    size: str = attrs.field(default="1024x1024", validator=_size)
    folder: Path | None = None

    def __attrs_post_init__(self) -> None:
        if self.api_key and self.base_url and not is_private(self.base_url):
            raise ConfigError(
                "base_url must start with https://, unless it is on this machine: the"
                " key would be readable on the way"
            )


@attrs.frozen(kw_only=True)
class BuiltinConfig:
    """The groups of tools that come with the package."""

    dice: DiceConfig = attrs.field(default=DiceConfig(), metadata=LIVE)
    rules: RulesConfig = attrs.field(default=RulesConfig(), metadata=LIVE)
    files: FilesConfig = attrs.field(default=FilesConfig(), metadata=LIVE)
    memory: MemoryToolsConfig = attrs.field(
        default=MemoryToolsConfig(), metadata=NEXT_START
    )
    sessions: SessionsToolsConfig = attrs.field(
        default=SessionsToolsConfig(), metadata=NEXT_START
    )
    duality: DualityConfig = attrs.field(default=DualityConfig(), metadata=LIVE)
    web: WebConfig = attrs.field(default=WebConfig(), metadata=LIVE)
    music: MusicConfig = attrs.field(default=MusicConfig(), metadata=NEXT_START)
    images: ImagesConfig = attrs.field(default=ImagesConfig(), metadata=LIVE)

    @property
    def groups(self) -> frozenset[str]:
        """The names of the groups that are switched on and that no server replaces."""
        switches = {
            field.name: getattr(self, field.name).enabled
            for field in attrs.fields(BuiltinConfig)
        }
        switches["files"] = self.files.served
        on = (name for name, on in switches.items() if on)
        return frozenset(on) - REPLACEABLE


NO_GROUPS: Final = BuiltinConfig(
    dice=DiceConfig(enabled=False),
    rules=RulesConfig(enabled=False),
    memory=MemoryToolsConfig(enabled=False),
    sessions=SessionsToolsConfig(enabled=False),
)
"""No group at all: the others are off unless they are switched on."""
