"""Plain data of YAML, TOML and JSON files, or the place where they are none."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path, PurePath
from typing import Any

from . import excerpts
from .problems import ConfigError


def read_file(source: Path) -> str:
    """The text of a file.

    Raises:
      ConfigError: if it cannot be read, or is not UTF-8.
    """
    try:
        return source.read_text(encoding="utf-8-sig")
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise ConfigError(f"cannot be read: {why} @ {source.name}") from error
    except UnicodeDecodeError:
        raise ConfigError(f"is not UTF-8 text @ {source.name}") from None


def read_text(text: str, *, source: PurePath) -> tuple[Any, tuple[str, ...]]:
    """Plain data of YAML, TOML or JSON by suffix, and a problem per repeated key.

    Raises:
      ConfigError: if the text is not that format, with line and column.
    """
    repeated: list[str] = []
    try:
        match source.suffix.lower():
            case ".yaml" | ".yml":
                data = _read_yaml(text, repeated)
            case ".toml":
                data = _read_toml(text)
            case ".json":
                data = _read_json(text, repeated)
            case suffix:
                raise ValueError(
                    f"{suffix or 'no suffix'}: a configuration is a .yaml, .yml,"
                    " .toml or .json file"
                )
    except ValueError as error:
        shown = f"\n{error.shown}" if isinstance(error, _NotYaml) else ""
        raise ConfigError(f"{error} @ {source.name}{shown}") from None
    except RecursionError:
        raise ConfigError(f"is nested too deeply @ {source.name}") from None
    return data, tuple(f"{problem} @ {source.name}" for problem in repeated)


def _read_yaml(text: str, repeated: list[str]) -> Any:
    from ruamel.yaml import YAML, MappingNode, ScalarNode
    from ruamel.yaml.constructor import SafeConstructor
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    checked: dict[int, object] = {}

    class Constructor(SafeConstructor):
        def flatten_mapping(self, node: Any) -> Any:
            # Looked at before ``<<`` is merged in, because a merged key may be
            # overridden; and at all, because ruamel checks no mapping with one.
            if isinstance(node, MappingNode) and id(node) not in checked:
                checked[id(node)] = node
                seen = set()
                for key, _ in node.value:
                    if not isinstance(key, ScalarNode):
                        raise MarkedYAMLError(
                            None, None, "a key must be text", key.start_mark
                        )
                    if key.value in seen:
                        where = _line_and_column(key.start_mark)
                        repeated.append(f"key {key.value!r} is there twice, {where}")
                    seen.add(key.value)
            return super().flatten_mapping(node)

        def construct_object(self, node: Any, deep: bool = False) -> Any:
            try:
                return super().construct_object(node, deep)
            except (YAMLError, RecursionError):
                raise
            except Exception:  # foreign code: `!!bool maybe` is a KeyError there
                what = "a value does not fit its type"
                raise MarkedYAMLError(None, None, what, node.start_mark) from None

    yaml = YAML(typ="safe", pure=True)  # pure: YAML 1.2, where `on` is no boolean
    yaml.Constructor = Constructor
    yaml.allow_duplicate_keys = True
    yaml.composer.warn_double_anchors = False  # legal, and the warning quotes
    try:
        return yaml.load(text)
    except MarkedYAMLError as error:
        # Its own text quotes the file, and with it a secret.
        mark = error.problem_mark or error.context_mark
        problem = re.sub(r"(['\"])(?!<).{5,}\1", "…", str(error.problem))
        told = f"is not YAML: {problem}, {_line_and_column(mark)}"
        shown = excerpts.excerpt(text, mark.line, mark.column)
        cause = excerpts.remedy(str(error.problem), text, mark.line, mark.column)
        lines = [
            *([shown] if shown else []),
            *([f"  likely: {cause}"] if cause else []),
        ]
        raise _NotYaml(told, "\n".join(lines)) from None
    except YAMLError as error:
        raise ValueError(f"is not YAML: {error}") from None


class _NotYaml(ValueError):
    """The text is not YAML; ``shown`` is what to print below that."""

    def __init__(self, told: str, shown: str) -> None:
        super().__init__(told)
        self.shown = shown


def lines_of(text: str, places: Iterable[tuple[str, str]]) -> list[str]:
    """Return for each place and problem of a YAML text in which line it is, as
    ``, line 5, of 'Bo'``; "" where that is not known."""
    from ruamel.yaml import YAML

    try:
        root = YAML(typ="safe", pure=True).compose(text)
    except Exception:  # border: the text has been read, so this is not about it
        root = None
    return [excerpts.where_in(root, place, what) for place, what in places]


def _line_and_column(mark: Any) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}"


def _read_toml(text: str) -> Any:
    try:
        return tomllib.loads(text) or None
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"is not TOML: {error}") from None


def _read_json(text: str, repeated: list[str]) -> Any:
    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        seen: dict[str, Any] = {}
        for key, value in found:
            if key in seen:
                repeated.append(f"key {key!r} is there twice")
            seen[key] = value
        return seen

    if not text.strip():
        return None
    try:
        return json.loads(text, object_pairs_hook=pairs)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise ValueError(f"is not JSON: {error.msg}, {where}") from None
