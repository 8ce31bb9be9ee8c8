"""From a configuration to what it describes: models, built-in tools, settings.

Providers and built-in groups are imported when the configuration asks for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import attrs

from glyphoxa_trio.config import (
    Config,
    ConfigError,
    LlmConfig,
    NpcConfig,
    Provider,
)
from glyphoxa_trio.config.voices import Engine
from glyphoxa_trio.host import CalibratorSettings, History, HistoryFile
from glyphoxa_trio.npc.selection import Keywords, SelectionRules
from glyphoxa_trio.providers.llm import LLM
from glyphoxa_trio.tools.definition import Tool
from glyphoxa_trio.tools.naming import nearest


def settings_of(config: Config) -> CalibratorSettings:
    """How the calibrator measures."""
    calibration = config.calibration
    return CalibratorSettings(
        limits=config.tiers,
        tier_by=calibration.tier_by,
        expiry=calibration.expiry,
        probe_concurrency=calibration.probe_concurrency,
        environment=calibration.environment or "local",
    )


def measurements_of(config: Config) -> Path | None:
    """The file in which measurements outlive the run; None if they do not."""
    remember = config.calibration.remember
    if not (config.mcp.remember if remember is None else remember):
        return None
    return state_folder(config) / "measurements.db"


def history_of(config: Config, warn: Callable[[str], None]) -> History | None:
    """Where measurements outlive the run; None if they do not (D10, G25)."""
    path = measurements_of(config)
    if path is None:
        return None

    def open_file() -> HistoryFile:
        from glyphoxa_trio.storage.measurements import MeasurementFile

        return MeasurementFile.open(path)

    return History(open_file, keep=settings_of(config).window, warn=warn)


def rules_of(config: Config) -> SelectionRules:
    """What the tier selector listens for."""
    selector = config.selector
    rules = SelectionRules(
        min_deep_interval=selector.min_deep_interval, queue_depth=selector.queue_depth
    )
    if selector.deep_keywords is not None:
        rules = attrs.evolve(rules, deep=Keywords.of(selector.deep_keywords))
    if selector.standard_keywords is not None:
        rules = attrs.evolve(rules, standard=Keywords.of(selector.standard_keywords))
    return rules


def builtin_tools(config: Config) -> tuple[list[Tool], list[str]]:
    """The groups that are switched on, with what the configuration says of them.

    Beside them a problem for each override of no tool, and for each that
    contradicts itself.

    Raises:
      ConfigError: for a group that cannot be made.
    """
    return _overridden(config, _builtin(config))


def _builtin(config: Config) -> list[Tool]:
    from glyphoxa_trio.builtin import dice, files, rules

    builtin = config.builtin
    found: list[Tool] = []
    if builtin.dice.enabled:
        found += dice.tools(tables=builtin.dice.tables)
    if builtin.rules.enabled:
        found += rules.tools(builtin.rules.datasets)
    if builtin.files.served and builtin.files.base is not None:
        try:
            found += files.tools(builtin.files.base)
        except OSError as error:
            raise ConfigError(
                f"no sandbox can be there: {error} @ builtin.files.base"
            ) from None
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


def state_folder(config: Config) -> Path:
    """Where is kept what a run leaves for the next: configured, or the user's own."""
    if config.mcp.state_dir is not None:
        return config.mcp.state_dir
    import platformdirs

    return platformdirs.user_state_path("glyphoxa")


@attrs.define(eq=False)
class Models:
    """One model for all NPCs, but for those that name another; made when needed."""

    _given: LLM | None
    _config: LlmConfig
    _stack: AsyncExitStack
    _heard: Callable[[LLM], LLM] = lambda llm: llm
    _made: dict[str | None, LLM] = attrs.field(factory=dict, init=False)

    def for_npc(self, model: str | None) -> LLM:
        if self._given is not None:
            model = None  # it speaks for all
        if model not in self._made:
            made = self._make(model) if self._given is None else self._given
            self._made[model] = self._heard(made)
        return self._made[model]

    def opening(self, npc: NpcConfig) -> LLM | None:
        """The model that opens for this NPC, if another one does than goes on."""
        if npc.engine is not Engine.SENTENCE_CASCADE or npc.fast_model is None:
            return None
        return self.for_npc(npc.fast_model)

    def _make(self, model: str | None) -> LLM:
        config = self._config
        if config.provider is Provider.OFFLINE:
            from glyphoxa_trio.providers.offline import Offline

            return Offline()
        from glyphoxa_trio.providers.chat_completions import ChatCompletions, Options

        try:
            link = ChatCompletions(
                model=model or config.model or "",
                base_url=config.base_url or "",
                api_key=config.api_key,
                options=Options(
                    temperature=config.temperature,
                    max_tokens=config.max_tokens,
                    max_tokens_field=_max_tokens_field(config.base_url or ""),
                    extra=dict(config.extra),
                ),
            )
        except ValueError as error:  # an address or a key that no request can carry
            raise ConfigError(f"{error} @ llm") from None
        self._stack.push_async_callback(link.aclose)
        return link


def _max_tokens_field(
    base_url: str,
) -> Literal["max_completion_tokens", "max_tokens"]:
    """The vendor has renamed the field; the servers that follow it have not all."""
    vendor = urlsplit(base_url).hostname == "api.openai.com"
    return "max_completion_tokens" if vendor else "max_tokens"
