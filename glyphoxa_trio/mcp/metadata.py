"""Translate a server's tools and results into our types. No I/O.

A server in any language states its latencies in a tool's ``_meta``, plain or prefixed::

    "_meta": {"glyphoxa/estimated_duration_ms": 80, "max_duration_ms": 400}

An invalid entry is ignored with a warning; the tool and the server stay usable.
Configuration of the operator takes precedence over what the server states.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import attrs

import trio

from glyphoxa_trio.config import ServerSpec
from glyphoxa_trio.tools.condense import COMPLAINT, TRUNCATED, text_of
from glyphoxa_trio.tools.definition import NO_PARAMETERS, ToolDefinition
from glyphoxa_trio.tools.fingerprint import fingerprint
from glyphoxa_trio.tools.outcome import ToolResult
from glyphoxa_trio.tools.schema import ArgumentSchema, BadSchema
from glyphoxa_trio.tools.search import words_of
from glyphoxa_trio.tools.tier import Tier
from glyphoxa_trio.units import seconds

from . import resources
from .tool_cache import identity

T = TypeVar("T")

PREFIX: Final = "glyphoxa/"
REMEDY: Final = "update the server, or report it to its author"
_AT_ONCE: Final = 20  # tools handled before other tasks run


@attrs.frozen
class Described:
    """The usable tools of one server, and the faults of the others.

    ``fingerprints``, by name, are of the tools as the server describes them.
    """

    definitions: tuple[ToolDefinition, ...]
    warnings: tuple[str, ...] = ()
    fingerprints: Mapping[str, str] = attrs.field(factory=dict)


def describe(
    spec: ServerSpec, tools: Iterable[Mapping[str, Any]], *, sound: bool = False
) -> Described:
    """Return the definitions of the MCP ``tools`` that ``spec`` allows, in their order.

    If a name comes twice, the first one counts. A tool that cannot be described is left
    out. Tools that are ``sound`` were checked before: their schemas are not compiled
    until one is called.
    """
    return next(filter(None, _describing(spec, tools, sound)))


async def in_turn(items: Iterable[T]) -> AsyncIterator[T]:
    """Yield each item; other tasks run after every few of them."""
    for number, item in enumerate(items, 1):
        if number % _AT_ONCE == 0:
            await trio.lowlevel.checkpoint()
        yield item


async def describe_in_turn(
    spec: ServerSpec, tools: Iterable[Mapping[str, Any]], *, sound: bool = False
) -> Described:
    """As `describe`, but other tasks run meanwhile: a thousand tools take 40 ms."""
    steps = _describing(spec, tools, sound)
    while (described := next(steps)) is None:
        await trio.lowlevel.checkpoint()
    return described


def _describing(
    spec: ServerSpec, tools: Iterable[Mapping[str, Any]], sound: bool
) -> Iterator[Described | None]:
    """Yield None from time to time, and at last the result."""
    found: dict[str, ToolDefinition] = {}
    warnings: list[str] = []
    offered: set[str] = set()
    prints: dict[str, str] = {}
    for number, tool in enumerate(tools, 1):
        if number % _AT_ONCE == 0:
            yield None
        if tool in resources.TOOLS and not spec.resources:
            continue  # cached in a run in which resources were switched on
        name = tool.get("name")
        if not isinstance(name, str) or not name:
            warnings.append("a tool without a name is left out")
            continue
        if name in offered:
            warnings.append(f"{name}: offered twice, the first one counts")
            continue
        offered.add(name)
        if spec.allow and name not in spec.allow:
            continue
        if _only_as_a_task(tool):
            warnings.append(f"{name}: left out, it can only be called as a task")
            continue
        stated = _definition(spec, name, tool, warnings)
        definition = _as_configured(spec, stated, tool, warnings)
        try:
            prints[name] = fingerprint(stated, tool)
            if not sound:
                ArgumentSchema(definition.parameters, foreign=True).warm()
        except BadSchema as error:  # the fault of that tool only
            said = f"left out, its inputSchema is broken: {error}"
            warnings.append(f"{name}: {said}; {REMEDY}")
        else:
            found[name] = definition
            # Cached here: computing them for all tools at once would take too long.
            words_of(definition)
    warnings += [
        f"{name}: configured, but the server has no such tool"
        for name in dict.fromkeys((*spec.allow, *spec.tools))
        if name not in offered
    ]
    yield Described(tuple(found.values()), tuple(warnings), prints)


async def compile_schemas(spec: ServerSpec, tools: Iterable[Mapping[str, Any]]) -> None:
    """Compile the schemas that `describe` will need, one at a time.

    A thousand take more than a tenth of a second. Broken ones are reported by
    `describe`.
    """
    for tool in tools:
        if spec.allow and tool.get("name") not in spec.allow:
            continue
        schema = _parameters("", tool.get("inputSchema"), [])
        with suppress(BadSchema):
            ArgumentSchema(schema, foreign=True).warm()
        await trio.lowlevel.checkpoint()


def _only_as_a_task(tool: Mapping[str, Any]) -> bool:
    """Return whether plain calls of a tool are refused (MCP 2025-11-25)."""
    execution = tool.get("execution")
    return isinstance(execution, Mapping) and execution.get("taskSupport") == "required"


def _definition(
    spec: ServerSpec, name: str, tool: Mapping[str, Any], warnings: list[str]
) -> ToolDefinition:
    """Return the definition of a tool as the server states it."""
    meta = _Entries(name, tool.get("_meta"), warnings)
    hints = _Entries(name, tool.get("annotations"), warnings)
    read_only, destructive, open_world = _reach(hints)
    description = tool.get("description")
    return ToolDefinition(
        name=name,
        group=spec.name,
        description=description if isinstance(description, str) else "",
        parameters=_parameters(name, tool.get("inputSchema"), warnings),
        estimated_duration=spec.estimated_duration
        or meta.get("estimated_duration_ms", _duration),
        max_duration=meta.get("max_duration_ms", _duration),
        server_timeout=spec.timeout,
        read_only=read_only,
        destructive=destructive,
        open_world=open_world,
        min_tier=meta.get("min_tier", _tier) or Tier.FAST,
        slow_response_threshold=spec.slow_response_threshold,
        slow_response_message=spec.slow_response_message,
        environment=_environment(spec),
        origin=identity(spec),
        external=True,
        category=spec.category or meta.get("category", _category) or "",
    )


def _reach(hints: _Entries) -> tuple[bool, bool, bool]:
    """Return whether a tool is read-only, destructive, and reaches the open world.

    Where the tool says nothing, the protocol's defaults apply. A tool that claims to be
    both read-only and destructive counts as destructive.
    """
    read_only = hints.get("readOnlyHint", _flag) or False
    destroys = hints.get("destructiveHint", _flag)
    open_world = hints.get("openWorldHint", _flag)
    read_only = read_only and destroys is not True
    destructive = not read_only and destroys is not False
    return read_only, destructive, open_world is not False


def _as_configured(
    spec: ServerSpec,
    definition: ToolDefinition,
    tool: Mapping[str, Any],
    warnings: list[str],
) -> ToolDefinition:
    """Apply the operator's configuration to a definition."""
    name = definition.name
    override = spec.tools.get(name)
    if override is not None:
        try:
            definition = override.applied_to(definition)
        except ValueError as error:
            warnings.append(f"{error}; its configuration is ignored")
    meta = _Entries(name, tool.get("_meta"), warnings)
    cacheable = meta.get("cacheable_seconds", _not_negative) or 0.0
    # After the operator's configuration: only now it is known what may be cached.
    if cacheable and (override is None or override.cacheable is None):
        if definition.repeatable:
            return attrs.evolve(definition, cacheable=cacheable)
        warnings.append(
            f"{name}: cacheable_seconds is ignored, because the tool neither"
            " says that it only reads nor is configured to be idempotent"
        )
    return definition


@attrs.frozen
class _Entries:
    """An object of a tool, which may contain anything or not be an object at all."""

    tool: str
    entries: Any
    warnings: list[str]

    def get(self, key: str, read: Callable[[Any], T]) -> T | None:
        """Return the entry as parsed by ``read``; None if it is absent or invalid."""
        if not isinstance(self.entries, Mapping):
            return None
        for written in (PREFIX + key, key):
            value = self.entries.get(written)
            if value is None:
                continue
            try:
                return read(value)
            except ValueError as error:
                self.warnings.append(
                    f"{self.tool}: {written} {error}, got {_short(value)};"
                    " it is ignored"
                )
                return None
        return None


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("must be true or false")
    return value


def _not_negative(value: Any) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 <= value <= _LARGEST:
        raise ValueError("must be a number that is not negative")
    return float(value)


def _duration(value: Any) -> float:
    number = _not_negative(value)
    if number == 0:
        raise ValueError("must be more than 0")
    return seconds(number)


def _tier(value: Any) -> Tier:
    if not isinstance(value, str):
        raise ValueError("must be fast, standard or deep")
    try:
        return Tier.parse(value)
    except ValueError:
        raise ValueError("must be fast, standard or deep") from None


def _category(value: Any) -> str:
    # A category is shown as a heading in our lists, and here the server chooses it.
    if not isinstance(value, str) or not value.strip() or len(value) > _LONGEST_KIND:
        raise ValueError(f"must be a word or two, of {_LONGEST_KIND} letters at most")
    return " ".join(value.split())


_LONGEST_KIND: Final = 40
# Far longer than any wait, and small enough for exact sums of floats.
_LARGEST: Final = 1e12


def _environment(spec: ServerSpec) -> str | None:
    """Return the configured environment, or the host of a remote server.

    None means this machine.
    """
    if spec.environment is not None or spec.url is None:
        return spec.environment
    return urlsplit(spec.url).hostname


def _parameters(name: str, schema: Any, warnings: list[str]) -> Mapping[str, Any]:
    """Return the input schema of a tool; one without parameters if it is not valid."""
    if isinstance(schema, Mapping) and schema.get("type", "object") == "object":
        return {"type": "object", **schema}
    if schema is not None:
        warnings.append(f"{name}: its inputSchema does not describe an object; ignored")
    return dict(NO_PARAMETERS)


def _short(value: Any) -> str:
    """Return the ``repr`` of a value, cut to 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]} …"


def result_of(answer: Mapping[str, Any]) -> ToolResult:
    """Convert a CallToolResult to a `ToolResult`; media become placeholders."""
    content = answer.get("content")
    found = content if isinstance(content, list) else []
    blocks = [block for block in found if isinstance(block, dict)]
    meta = answer.get("_meta")
    return ToolResult(
        text=tuple(map(text_of, blocks)),
        structured=answer.get("structuredContent"),
        is_error=answer.get("isError") in (True, "true", "True", "1", "yes"),
        links=tuple(
            str(block["uri"])
            for block in blocks
            if block.get("type") == "resource_link" and block.get("uri")
        ),
        truncated=isinstance(meta, dict) and meta.get(TRUNCATED) is True,
        complaint=str(meta.get(COMPLAINT, "")) if isinstance(meta, dict) else "",
    )
