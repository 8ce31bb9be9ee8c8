"""Functions that make what a configuration describes: built-in tools, settings, rules.

Built-in groups are imported only when the configuration asks for them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from glyphoxa_trio.config import (
    Config,
    ConfigError,
    ImagesConfig,
    SearchEngine,
    WebConfig,
)
from glyphoxa_trio.config.builtin import REPLACEABLE
from glyphoxa_trio.config.load import apart
from glyphoxa_trio.config.state import state_folder
from glyphoxa_trio.extras import missing
from glyphoxa_trio.host import CalibratorSettings, HistoryFile, SampleHistory
from glyphoxa_trio.npc.selection import SelectionRules, Vocabulary
from glyphoxa_trio.npc.topics import topics
from glyphoxa_trio.tools.definition import CallContext, Tool
from glyphoxa_trio.tools.naming import nearest

if TYPE_CHECKING:
    from glyphoxa_trio.builtin.memory import Embed
    from glyphoxa_trio.memory.contract import Memory
    from glyphoxa_trio.memory.visibility import CampaignKey, Viewer


def settings_of(config: Config) -> CalibratorSettings:
    """Return the settings of the calibrator: how tools are measured."""
    calibration = config.calibration
    return CalibratorSettings(
        limits=config.tiers,
        tier_by=calibration.tier_by,
        unknown=calibration.unknown,
        expiry=calibration.expiry,
        probe_concurrency=calibration.probe_concurrency,
        environment=calibration.environment or "local",
    )


def measurements_of(config: Config) -> Path | None:
    """Return the file that keeps measurements between runs; None if none are kept."""
    remember = config.calibration.remember
    if not (config.mcp.remember if remember is None else remember):
        return None
    folder = state_folder(config)
    return None if folder is None else folder / "measurements.db"


def history_of(config: Config, warn: Callable[[str], None]) -> SampleHistory | None:
    """Return the store that keeps measurements between runs; None if none are kept.

    Args:
      warn: called when the file cannot be read or written.
    """
    path = measurements_of(config)
    if path is None:
        return None

    def open_file() -> HistoryFile:
        from glyphoxa_trio.storage.errors import StorageError, UnusableFile
        from glyphoxa_trio.storage.measurements import MeasurementFile

        try:
            return MeasurementFile.open(path)
        except UnusableFile:
            raise
        except StorageError as error:
            raise StorageError(
                f"{error}; mcp.state_dir names another folder"
            ) from error

    return SampleHistory(open_file, keep=settings_of(config).window, warn=warn)


def vocabulary_of(config: Config) -> Vocabulary:
    """Return the phrases and names that the tier selector listens for.

    The names are those of the configuration's NPCs and of what they know openly. Names
    in an NPC's secret knowledge are left out: a slower tier would betray them.
    """
    selector = config.selector
    told = (
        line for npc in config.npcs for line in (*npc.identity, *npc.knowledge_scope)
    )
    names = topics([npc.name for npc in config.npcs], [*told, *config.scene.context])
    return Vocabulary(
        names=names.names,
        deep=selector.deep_keywords,
        standard=selector.standard_keywords,
        min_deep_interval=selector.min_deep_interval,
        queue_depth=selector.queue_depth,
    )


def rules_of(config: Config) -> SelectionRules:
    """Return the rules by which the tier selector chooses a tier."""
    return vocabulary_of(config).rules()


def builtin_tools(
    config: Config, lasting: Iterable[Tool] = ()
) -> tuple[list[Tool], list[str]]:
    """Return the tools of the enabled built-in groups with their overrides, and
    problems.

    There is one problem, as text, for each override of a tool that does not exist, and
    for each override that contradicts itself.

    Args:
      lasting: tools that exist already and last for the run; see `open_lasting`.

    Raises:
      ConfigError: for a group that cannot be made.
    """
    here = [*lasting]
    made = {tool.definition.group for tool in here}
    here += [x for x in _without_store(config) if x.definition.group not in made]
    return _overridden(config, [*_builtin(config), *_not_replaced(config, here)])


def memory_tools(
    config: Config,
    memory: Memory,
    *,
    campaign_of: Callable[[CallContext], CampaignKey],
    viewer_of: Callable[[CallContext], Viewer],
    embed: Embed | None = None,
    now: Callable[[], float],
    player_of: Callable[[CallContext], tuple[str, str]] = lambda _: ("", ""),
) -> list[Tool]:
    """Return the tools of the enabled groups ``memory`` and ``sessions`` on a store.

    The arguments are those of `glyphoxa_trio.builtin.memory.tools`. The tools last as
    long as the store, and so belong to those of `open_lasting`.
    """
    from glyphoxa_trio.builtin import memory as group

    builtin = config.builtin
    on = {"memory": builtin.memory.enabled, "sessions": builtin.sessions.enabled}
    made = group.tools(
        memory,
        campaign_of=campaign_of,
        viewer_of=viewer_of,
        embed=embed,
        now=now,
        player_of=player_of,
    )
    return [tool for tool in made if on[tool.definition.group]]


def _without_store(config: Config) -> list[Tool]:
    """Return the tools of memory where no store is open: nothing is remembered, so the
    same configuration is right with a store and without one."""
    if not (config.builtin.memory.enabled or config.builtin.sessions.enabled):
        return []
    from glyphoxa_trio.memory.in_memory import InMemory
    from glyphoxa_trio.memory.visibility import CampaignKey, Viewer

    return memory_tools(
        config,
        InMemory(),
        campaign_of=lambda context: CampaignKey(context.session, context.tenant),
        viewer_of=lambda context: Viewer(context.npc),
        now=time.time,
    )


def _not_replaced(config: Config, tools: Iterable[Tool]) -> list[Tool]:
    """Return the tools without the groups whose place a configured server takes."""
    servers = config.mcp.servers if config.mcp.enabled else ()
    names = {spec.name for spec in servers} & REPLACEABLE
    return [tool for tool in tools if tool.definition.group not in names]


def _builtin(config: Config) -> list[Tool]:
    from glyphoxa_trio.builtin import dice, files, rules

    builtin = config.builtin
    found: list[Tool] = []
    if builtin.dice.enabled:
        found += dice.tools(tables=builtin.dice.tables)
    if builtin.rules.enabled:
        found += rules.tools(builtin.rules.datasets)
    if builtin.files.served and builtin.files.base is not None:
        state = state_folder(config)
        try:
            found += files.tools(
                apart(builtin.files.base, [] if state is None else [state]),
                quota=builtin.files.quota_mb * 1024 * 1024,
                max_files=builtin.files.max_files,
                keys=("builtin.files.quota_mb", "builtin.files.max_files"),
            )
        except OSError as error:
            raise ConfigError(
                f"this folder cannot be the sandbox: {error} @ builtin.files.base"
            ) from None
    if builtin.duality.enabled:
        from glyphoxa_trio.builtin import duality

        found += duality.tools(replays=False)
    if builtin.web.enabled:
        found += _web(builtin.web)
    if builtin.images.enabled:
        found += _images(builtin.images)
    return found


def _images(config: ImagesConfig) -> list[Tool]:
    from glyphoxa_trio.builtin import images

    if not images.installed():
        raise ConfigError(f"{missing('drawing images', 'tools')} @ builtin.images")
    painter: images.Painter = images.Card(images.size_of(config.size))
    if config.base_url is not None:
        from glyphoxa_trio.builtin.images.server import ImageServer

        try:
            painter = ImageServer(
                base_url=config.base_url,
                key=config.api_key,
                model=config.model,
                size=config.size,
            )
        except ValueError as error:
            raise ConfigError(f"{error} @ builtin.images") from None
    try:
        folder = config.folder or images.own_folder()
    except ValueError as error:
        raise ConfigError(f"{error}, or this key @ builtin.images.folder") from None
    return images.tools(painter, images.Album(folder))


def _web(config: WebConfig) -> list[Tool]:
    from glyphoxa_trio.builtin import web

    found: list[Tool] = []
    if config.search is not None:
        asked = config.search
        brave = asked.engine is SearchEngine.BRAVE
        try:
            search = web.Search(
                engine=web.Brave() if brave else web.SearXNG(),
                base_url=asked.base_url or web.BRAVE_URL,
                key=asked.api_key,
            )
        except ValueError as error:
            raise ConfigError(f"{error} @ builtin.web.search") from None
        found.append(web.search_tool(search, most_seconds=config.timeout))
    if config.fetch:
        if not web.installed():
            raise ConfigError(
                f"{missing('reading pages', 'tools')}, or set fetch: false"
                " @ builtin.web"
            )
        try:
            settings = web.FetchSettings.of(
                allow_private=config.allow_private,
                user_agent=config.user_agent,
                ports=config.ports,
                most_text=config.most_text,
                timeout=config.timeout,
            )
        except ValueError as error:
            raise ConfigError(f"{error} @ builtin.web") from None
        found.append(web.fetch_tool(settings))
    return found


def _overridden(config: Config, tools: Iterable[Tool]) -> tuple[list[Tool], list[str]]:
    overrides = dict(config.tools)
    problems: list[str] = []
    changed: list[Tool] = []
    for tool in tools:
        definition = tool.definition
        for name in (definition.key, definition.name):
            if (override := overrides.pop(name, None)) is not None:
                try:
                    definition = override.applied_to(definition)
                except ValueError as error:
                    problems.append(f"{error} @ tools.{name}")
        changed.append(attrs.evolve(tool, definition=definition))
    known = [name for x in changed for name in (x.key, x.definition.name)]
    for name in overrides:
        near = nearest(name, known)
        hint = f", did you mean {' or '.join(near)}?" if near else ""
        problems.append(f"no built-in tool {name!r}{hint} @ tools.{name}")
    return changed, problems
