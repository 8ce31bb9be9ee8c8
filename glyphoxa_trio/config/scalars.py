"""Single values of the file as what the model wants: strict, variables expanded."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from glyphoxa_trio.secret import Secret
from glyphoxa_trio.tools.naming import nearest
from glyphoxa_trio.tools.tier import Tier

from .problems import Problems, shown, sort_of

_DEEPEST: Final = 32  # levels of a free value: a YAML alias may hold itself

_VARIABLE: Final = re.compile(
    r"\$\$\{|\$\{(?:(?P<name>[A-Za-z_]\w*)(?::-(?P<default>[^}]*))?\})?", re.ASCII
)


def expand(
    text: str, env: Mapping[str, str], noted: dict[str, str] | None = None
) -> str:
    """``${VAR}`` and ``${VAR:-default}`` replaced, once; ``$${`` is a plain ``${``.

    As in a shell, the default also stands in for an empty variable. What came from
    a variable is put into ``noted``, by its name.

    Raises:
      ValueError: for an unset variable without default, or a stray ``${``.
    """
    unset: list[str] = []

    def value(found: re.Match[str]) -> str:
        name, default = found["name"], found["default"]
        if found[0] == "$${":
            return "${"
        if name is None:
            raise ValueError(
                "'${' starts no ${VAR} or ${VAR:-default}; write $${ for a plain one"
            )
        if default is not None and not env.get(name):
            return default
        if name not in env:
            unset.append(name)
            return ""
        if noted is not None:
            noted[name] = env[name]
        return env[name]

    expanded = _VARIABLE.sub(value, text)
    if unset:
        names = ", ".join(dict.fromkeys(unset))
        raise ValueError(
            f"environment variable {names} is not set: set it, or give a default, as in"
            f" ${{{unset[0]}:-}}"
        )
    return expanded


@attrs.frozen
class Scalars:
    """Reads what has no class with one environment, for files in one folder.

    Each method takes a value and the type wanted, and raises ValueError. ``noted`` has
    what came from variables since it was cleared.
    """

    env: Mapping[str, str]
    base: Path
    noted: dict[str, str] = attrs.field(factory=dict, init=False, repr=False)

    def text(self, value: Any, kind: Any) -> Any:
        if type(value) is not str:
            hint = "; put it in quotes" if isinstance(value, (int, float)) else ""
            raise ValueError(f"expected text, got {shown(value)}{hint}")
        text = expand(value, self.env, self.noted)
        if kind is str:
            return text
        try:
            return kind(text)
        except ValueError:
            known, near = ", ".join(kind), nearest(text, [*map(str, kind)], n=1)
            hint = f"; did you mean {near[0]}?" if near and value == text else ""
            raise ValueError(
                f"expected one of {known}, got {shown(value)}{hint}"
            ) from None

    def switch(self, value: Any, _: Any) -> bool:
        if type(value) is not bool:
            raise ValueError(f"expected true or false, got {shown(value)}")
        return value

    def whole(self, value: Any, _: Any) -> int:
        if type(value) is not int:
            raise ValueError(f"expected a whole number, got {shown(value)}")
        return value

    def number(self, value: Any, _: Any) -> float:
        if type(value) not in (int, float):
            raise ValueError(f"expected a number, got {shown(value)}")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise ValueError(f"expected a number, got {shown(value)}")
        return number

    def tier(self, value: Any, _: Any) -> Tier:
        text = self.text(value, str)
        try:
            return Tier.parse(text)
        except ValueError:
            known = ", ".join(map(str, Tier))
            raise ValueError(f"expected one of {known}, got {shown(value)}") from None

    def secret(self, value: Any, _: Any) -> Secret:
        if type(value) is not str:
            raise ValueError(f"expected text in quotes, got {sort_of(value)}")
        return Secret(expand(value, self.env, self.noted))

    def optional_secret(self, value: Any, _: Any) -> Secret | None:
        # `api_key: ${KEY:-}`: an empty key is no key.
        if value is None or not (secret := self.secret(value, Secret)).reveal():
            return None
        return secret

    def path(self, value: Any, _: Any) -> Path:
        text: str = self.text(value, str)
        if not text:
            raise ValueError("must not be empty")
        if text.startswith("~"):
            raise ValueError("'~' is not expanded; write ${HOME}")
        return Path(self.base, text)

    def words(self, value: str) -> tuple[str, ...]:
        """A command split like a shell does, then expanded: a variable's value
        stays one word, whatever is in it.
        """
        try:
            words = shlex.split(value)
        except ValueError as error:
            raise ValueError(f"cannot be split into words: {error}") from None
        return tuple(expand(word, self.env, self.noted) for word in words)

    def anything(self, value: Any, _: Any, depth: int = 0) -> Any:
        """A free value: what JSON can say, variables expanded."""
        if depth > _DEEPEST:
            raise ValueError(f"is nested more than {_DEEPEST} levels deep")
        if value is None or type(value) in (bool, int):
            return value
        if type(value) is float:
            return self.number(value, float)
        if type(value) is str:
            return self.text(value, str)
        problems = Problems()
        made: Any
        if isinstance(value, list):
            made = []
            for index, item in enumerate(value):
                with problems.under(index):
                    made.append(self.anything(item, Any, depth + 1))
        elif isinstance(value, Mapping):
            made = {}
            for key, item in value.items():
                if type(key) is not str:
                    problems.add(f"expected a name as key, got {shown(key)}")
                    continue
                with problems.under(key):
                    made[key] = self.anything(item, Any, depth + 1)
        else:
            raise ValueError(f"expected what JSON can say, got {sort_of(value)}")
        problems.end()
        return made
