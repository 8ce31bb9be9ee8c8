"""A configuration as a replay serves it, and what it makes of a recorded tool."""

from __future__ import annotations

import sys

import attrs

from glyphoxa_trio.config import (
    NO_GROUPS,
    Config,
    ServerSpec,
)
from glyphoxa_trio.tools.definition import Tool, ToolDefinition


def ruled(tool: Tool, config: Config) -> Tool | None:
    """The tool as this configuration has it; None if it is left out.

    It was recorded as another one had it. What that states and this does not, stays.
    """
    definition = tool.definition
    if not definition.external:
        stated = config.tools
        override = stated.get(definition.key) or stated.get(definition.name)
    else:
        spec = _spec(config, definition)
        if spec is None or (spec.allow and definition.name not in spec.allow):
            return None
        override = spec.tools.get(definition.name)
    if override is not None:
        definition = override.applied_to(definition)
    return attrs.evolve(tool, definition=definition)


def _spec(config: Config, definition: ToolDefinition) -> ServerSpec | None:
    found = (x for x in config.mcp.servers if x.name == definition.group)
    return next(found, None)


def rehearsed(config: Config) -> Config:
    """The configuration without what a replay takes from its recording: built-in
    tools and statements about them, calibration, anything kept on a disk; and without
    a voice.
    """
    nothing = Config()
    return attrs.evolve(
        config,
        llm=nothing.llm,
        telemetry=nothing.telemetry,
        speech=nothing.speech,
        tools={},
        builtin=NO_GROUPS,
        mcp=attrs.evolve(config.mcp, remember=False),
        calibration=attrs.evolve(
            config.calibration, at_start=False, every=None, remember=False
        ),
        # A session that is set aside comes back as it was: a replay does without.
        sessions=attrs.evolve(config.sessions, most=sys.maxsize),
        # On virtual time a loop is never late; looking would only disturb the order.
        overload=attrs.evolve(
            config.overload,
            enabled=config.overload.enabled and config.overload.max_turns is not None,
        ),
    )
