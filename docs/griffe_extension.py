"""A griffe extension: how the reference reads this package's classes and docstrings.

The fields of a class of attrs are shown as the parameters of its making; without that
they would not be shown, since most have no docstring of their own. And where a
docstring describes several parameters at once (``synthesizer, recognizer: ...``), each
of them gets an entry.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

# Data. What is made by `attrs.define` owns something, and is not for you to make.
_MAKERS = ("attrs.frozen", "frozen")

_SHARED = re.compile(
    r"^(?P<indent> +)(?P<first>\w+)(?P<others>(?:, \w+)+):"
    r"(?P<text>.*(?:\n(?P=indent) +.*)*)",
    re.MULTILINE,
)


class Reference(griffe.Extension):
    """Prepares what griffe has read."""

    def on_package(self, *, pkg: griffe.Module, **kwargs: Any) -> None:
        """See to all members, when all of them are known."""
        _visit(pkg)


def _visit(thing: griffe.Module | griffe.Class) -> None:
    for member in list(thing.members.values()):
        if member.is_alias:
            continue
        if (
            isinstance(member, griffe.Class)
            and _is_made(member)
            and "__init__" not in member.members
        ):
            member.set_member("__init__", _init(member))
        if member.docstring:
            member.docstring.value = separated(member.docstring.value)
        if isinstance(member, griffe.Module | griffe.Class):
            _visit(member)


def separated(docstring: str) -> str:
    """Return it with an entry for each parameter that shares its description."""
    head, section, entries = docstring.partition("\nArgs:\n")
    entries, gap, rest = entries.partition("\n\n")  # other sections have other rules
    return head + section + _SHARED.sub(_entries, entries) + gap + rest


def _entries(shared: re.Match[str]) -> str:
    others = shared["others"].removeprefix(", ").split(", ")
    lines = [f"{shared['indent']}{shared['first']}:{shared['text']}"]
    lines += [f"{shared['indent']}{x}: as `{shared['first']}`." for x in others]
    return "\n".join(lines)


def _is_made(cls: griffe.Class) -> bool:
    return any(x.callable_path.endswith(_MAKERS) for x in cls.decorators)


def _init(cls: griffe.Class) -> griffe.Function:
    fields: dict[str, griffe.Parameter] = {}
    for base in reversed(cls.mro()):
        if _is_made(base):
            fields |= _fields(base)
    if _is_made(cls):
        fields |= _fields(cls)
    required = [x for x in fields.values() if x.default is None]
    others = [x for x in fields.values() if x.default is not None]
    this = griffe.Parameter("self", kind=griffe.ParameterKind.positional_or_keyword)
    return griffe.Function(
        "__init__",
        parameters=griffe.Parameters(this, *required, *others),
        returns="None",
        parent=cls,
    )


def _fields(cls: griffe.Class) -> dict[str, griffe.Parameter]:
    keyword = any("kw_only=True" in str(x.value) for x in cls.decorators)
    kind = griffe.ParameterKind.positional_or_keyword
    if keyword:
        kind = griffe.ParameterKind.keyword_only
    found: dict[str, griffe.Parameter] = {}
    for name, member in cls.members.items():
        if not isinstance(member, griffe.Attribute) or member.annotation is None:
            continue
        value = str(member.value or "")
        if "property" in member.labels or "init=False" in value:
            continue
        if "ClassVar" in str(member.annotation) or "Final" in str(member.annotation):
            continue
        default: Any = member.value
        if value.startswith("attrs.field("):
            default = "..." if "default=" in value or "factory=" in value else None
        found[name] = griffe.Parameter(
            name.lstrip("_"), annotation=member.annotation, kind=kind, default=default
        )
    return found
