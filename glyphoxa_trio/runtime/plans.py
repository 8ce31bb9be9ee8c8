"""Plans: everything that a configuration asks for, made before it is in use. Pure."""

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
    """Everything that a configuration asks for, made and not in use yet.

    Args:
      at_next_start: keys that changed and take effect only at the next start.
      problems: mistakes to refuse the plan for, with their places.
    """

    config: Config
    builtin: tuple[Tool, ...]
    servers: Mapping[str, ServerSpec]
    at_next_start: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def servers_of(config: Config) -> tuple[ServerSpec, ...]:
    """Return the servers of a configuration, each with its environment."""
    if not config.mcp.enabled:
        return ()
    return tuple(in_environment(spec, config) for spec in config.mcp.servers)


def in_environment(spec: ServerSpec, config: Config) -> ServerSpec:
    """Return the server; if it names no environment, with the configured one.

    Measurements are kept by environment.
    """
    configured = config.calibration.environment
    if configured is None or spec.environment is not None:
        return spec
    return attrs.evolve(spec, environment=configured)


def plan(old: Config, new: Config, lasting: Sequence[Tool] = ()) -> RuntimePlan:
    """Return the plan for serving ``new`` after ``old``.

    Args:
      lasting: tools that last for the run; see `open_lasting`.

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
    """Return a problem for each configured replica of a server that does not exist."""
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
    """Return the built-in groups whose tools or settings changed."""

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
