"""What a configuration asks for, worked out before anything of it is in use. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from glyphoxa_trio.config import BuiltinConfig, Config, ServerSpec
from glyphoxa_trio.config.effects import taken_over
from glyphoxa_trio.tools.definition import Tool
from glyphoxa_trio.tools.naming import nearest

from .assembly import builtin_tools


@attrs.frozen(kw_only=True, eq=False)
class RuntimePlan:
    """What a configuration asks for, made and not in use yet."""

    config: Config
    builtin: tuple[Tool, ...]
    servers: Mapping[str, ServerSpec]
    at_next_start: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def servers_of(config: Config) -> tuple[ServerSpec, ...]:
    if not config.mcp.enabled:
        return ()
    return tuple(in_environment(spec, config) for spec in config.mcp.servers)


def in_environment(spec: ServerSpec, config: Config) -> ServerSpec:
    """A server that names no environment is in the configured one (D10)."""
    configured = config.calibration.environment
    if configured is None or spec.environment is not None:
        return spec
    return attrs.evolve(spec, environment=configured)


def plan(old: Config, new: Config, lasting: Sequence[Tool] = ()) -> RuntimePlan:
    """What it takes to serve ``new`` after ``old``, with what lasts for the run.

    Raises:
      ConfigError: for a built-in group that cannot be made.
    """
    config, late = taken_over(old, new)
    builtin, problems = builtin_tools(config, lasting)
    return RuntimePlan(
        config=config,
        builtin=tuple(builtin),
        servers={spec.name: spec for spec in servers_of(config)},
        at_next_start=late,
        problems=(*problems, *strangers(new)),
    )


def strangers(config: Config) -> list[str]:
    """A problem for each server that is to answer for another, and is not there."""
    known = [spec.name for spec in config.mcp.servers]
    known += [left.name for left in config.mcp.left_out if left.name is not None]
    problems: list[str] = []
    for at, names in enumerate(config.hedging.replicas):
        for name in names:
            if name not in known:
                near = nearest(name, known, n=1)
                hint = f", did you mean {near[0]!r}?" if near else ""
                where = f"hedging.replicas[{at}]"
                problems.append(f"no server {name!r}{hint} @ {where}")
    return problems


def changed_groups(old: RuntimePlan, new: RuntimePlan) -> tuple[str, ...]:
    """The built-in groups whose tools are not the same any more."""

    def group(tools: Sequence[Tool], name: str) -> list[object]:
        return [x.definition for x in tools if x.definition.group == name]

    def switch(builtin: BuiltinConfig, name: str) -> object:
        return getattr(builtin, name, None)

    names = dict.fromkeys(x.definition.group for x in (*old.builtin, *new.builtin))
    return tuple(
        name
        for name in names
        if group(old.builtin, name) != group(new.builtin, name)
        or switch(old.config.builtin, name) != switch(new.config.builtin, name)
    )
