"""Which keys each class of the model has in the file, and where the two differ.

One truth for the reader, for its hints and for the test that holds
``config/reference.yaml`` complete.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin, get_type_hints

import attrs

from glyphoxa_trio.secret import Secret
from glyphoxa_trio.tools.naming import nearest
from glyphoxa_trio.tools.tier import TierLimits

from .contexts import Context
from .fields import InMs, Text, Unit, above_zero, if_given
from .mcp import McpConfig
from .model import Config, NpcConfig, TrustConfig
from .problems import shown
from .servers import OAuth, ServerSpec


class CommandLine:
    """A string, split like a shell does, or a list."""


@attrs.frozen(kw_only=True)
class Auth:
    """``auth`` of a server: `ServerSpec.token` and `ServerSpec.oauth`."""

    token: Secret | None = None
    oauth: OAuth | None = None


@attrs.frozen(kw_only=True)
class ServerDefaults:
    """``defaults`` of one server: its limits, one level further down."""

    timeout: InMs | None = attrs.field(default=None, validator=if_given(above_zero))
    start_timeout: InMs | None = attrs.field(
        default=None, validator=if_given(above_zero)
    )
    estimated_duration: InMs | None = attrs.field(
        default=None, validator=if_given(above_zero)
    )
    slow_response_threshold: InMs | None = attrs.field(
        default=None, validator=if_given(above_zero)
    )
    slow_response_message: Text | None = None


@attrs.frozen(kw_only=True)
class Agent:
    """``agent.trust``, another way to write ``trust``."""

    trust: TrustConfig | None = None


@attrs.frozen(kw_only=True)
class Band:
    """One tier: `TierLimits` names them ``fast_threshold`` and so on."""

    threshold: InMs | None = attrs.field(default=None, validator=if_given(above_zero))
    ceiling: InMs | None = attrs.field(default=None, validator=if_given(above_zero))


@attrs.frozen(kw_only=True)
class LastBand:
    """DEEP takes every tool, so it has no threshold."""

    ceiling: InMs | None = attrs.field(default=None, validator=if_given(above_zero))


_Command = Annotated[tuple[str, ...], CommandLine()]


# Fields that are no keys, and keys that are no fields.
_DIFFERENCES: Final[Mapping[type, tuple[frozenset[str], Mapping[str, Any]]]] = {
    Config: (frozenset(), {"agent": Agent, "contexts": Mapping[str, Context]}),
    NpcConfig: (frozenset({"context_name"}), {}),
    ServerSpec: (
        frozenset({"command", "token", "oauth", "expanded"}),
        {
            "command": _Command,
            "args": tuple[str, ...],
            "auth": Auth,
            "defaults": ServerDefaults,
        },
    ),
    McpConfig: (frozenset({"from_mcp_json", "shared", "left_out"}), {}),
    TierLimits: (
        frozenset(field.name for field in attrs.fields(TierLimits)),
        {"fast": Band, "standard": Band, "deep": LastBand},
    ),
}


# Fields whose keys are further down, in sections of their own.
_FURTHER_DOWN: Final[Mapping[type, Mapping[str, str]]] = {
    ServerSpec: {"token": "auth.token", "oauth": "auth.oauth"},
    TierLimits: {
        "fast_threshold": "fast.threshold_ms",
        "standard_threshold": "standard.threshold_ms",
        "fast_ceiling": "fast.ceiling_ms",
        "standard_ceiling": "standard.ceiling_ms",
        "deep_ceiling": "deep.ceiling_ms",
    },
}


@attrs.frozen
class ConfigKey:
    """One key of the file: the type behind it and the field it fills, if any."""

    kind: Any
    field: attrs.Attribute[Any] | None = None


@functools.cache
def layout(model: type) -> Mapping[str, ConfigKey]:
    """The keys that a class of the model has in the file, in the model's order."""
    hidden, added = _DIFFERENCES.get(model, (frozenset(), {}))
    hints = get_type_hints(model, include_extras=True)
    keys = {
        f"{field.name}{_suffix(hints[field.name])}": ConfigKey(hints[field.name], field)
        for field in attrs.fields(model)
        if field.name not in hidden
    }
    return keys | {key: ConfigKey(kind) for key, kind in added.items()}


def key_of(model: type, field: attrs.Attribute[Any]) -> str:
    """Return the name that the file has for this field of the class: ``timeout_ms``
    for ``timeout``."""
    elsewhere = _FURTHER_DOWN.get(model, {})
    if field.name in elsewhere:
        return elsewhere[field.name]
    kind = get_type_hints(model, include_extras=True)[field.name]
    return f"{field.name}{_suffix(kind)}"


def _suffix(kind: Any) -> str:
    marks = getattr(_given(kind), "__metadata__", ())
    return next((mark.suffix for mark in marks if isinstance(mark, Unit)), "")


def _given(kind: Any) -> Any:
    """``X`` of ``X | None``; anything else as it is."""
    if get_origin(kind) in (Union, UnionType):
        return next(part for part in get_args(kind) if part is not NoneType)
    return kind


def may_be_bare(kind: Any) -> bool:
    """True for what may be a key without anything below it: all commented out."""
    kind = _given(kind)
    return attrs.has(kind) or get_origin(kind) in (tuple, Mapping)


def unknown(key: Any, kind: type) -> str:
    """Why a key cannot stand in a class, and what may have been meant."""
    near = nearest(key, layout(kind), n=1) if isinstance(key, str) else ()
    hint = f", did you mean {near[0]!r}?" if near else ""
    return f"unknown key {shown(key)}{hint}"
