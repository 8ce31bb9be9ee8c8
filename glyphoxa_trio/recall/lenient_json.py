"""Read JSON as models write it, as far as it has sense. Pure.

    [{"text": "She said "no".", "lines": 2,}, {"text": "The answer ends he

An answer is read for what it says, and nothing is run by it, so more is accepted than
for the arguments of a tool: quotes and line breaks inside a string, a comma too many or
too few, Python's constants. Of an answer that is cut, the whole items are read.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

import attrs

_SPACE: Final = re.compile(r"[\s,]*")
_PLAIN: Final = re.compile(r"[^\s,:{}\[\]\"]+")
# A quote ends a string if what follows can only stand behind one.
_END: Final = re.compile(r"\"(?=\s*(?:[}\]:]|,\s*[\"{\[}\]\d\-tfnTFN]|\Z))")
_NAMES: Final = {
    "true": True,
    "True": True,
    "false": False,
    "False": False,
    "null": None,
    "None": None,
}
_DEEPEST: Final = 12


class _TextEnds(Exception):
    """The text ends inside of a value."""


class NoValue(ValueError):
    """There is no value of JSON at that place."""


def read_object(text: str, at: int) -> dict[str, Any]:
    """Return the object that begins at a place of the text.

    Raises:
      NoValue: there is none.
    """
    reader = _JsonReader(text, at)
    try:
        value = reader.value(0)
    except _TextEnds:
        raise NoValue("the text ends") from None
    if not isinstance(value, dict):
        raise NoValue("no object")
    return value


@attrs.define
class _JsonReader:
    text: str
    at: int

    def value(self, depth: int) -> Any:
        char = self._next()
        if depth > _DEEPEST:
            raise NoValue("too deep")
        if char == "{":
            return self._object(depth)
        if char == "[":
            return self._list(depth)
        if char == '"':
            return self._string()
        return self._constant()

    def _object(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        self.at += 1
        try:
            while self._next() != "}":
                key = self._string() if self._next() == '"' else self._word()
                if self._next() != ":":
                    raise NoValue("no colon")
                self.at += 1
                # The first one counts: another may stand in a text that looks like it.
                found.setdefault(key, self.value(depth + 1))
            self.at += 1
        except _TextEnds:
            pass
        return found

    def _list(self, depth: int) -> list[Any]:
        found: list[Any] = []
        self.at += 1
        try:
            while self._next() != "]":
                found.append(self.value(depth + 1))
            self.at += 1
        except _TextEnds:
            pass
        return found

    def _string(self) -> str:
        begin = self.at + 1
        while True:
            end = _END.search(self.text, self.at + 1)
            if end is None:
                raise _TextEnds
            self.at = end.start()
            # By hand: an expression would look at the whole string for each quote.
            plain = self.at
            while plain > begin and self.text[plain - 1] == "\\":
                plain -= 1
            if (self.at - plain) % 2 == 0:
                break
        inside = self.text[begin : self.at]
        self.at += 1
        quoted = re.sub(r'(?<!\\)((?:\\\\)*)"', r'\1\\"', inside)
        try:
            read: str = json.loads(f'"{quoted}"', strict=False)
        except ValueError:
            return inside
        return read

    def _constant(self) -> Any:
        word = self._word()
        if word in _NAMES:
            return _NAMES[word]
        try:
            return json.loads(word)
        except ValueError:
            raise NoValue("no value") from None

    def _word(self) -> str:
        found = _PLAIN.match(self.text, self.at)
        if found is None:
            raise NoValue("no value")
        if found.end() == len(self.text):
            raise _TextEnds
        self.at = found.end()
        return found[0]

    def _next(self) -> str:
        self.at = _SPACE.match(self.text, self.at).end()  # type: ignore[union-attr]
        if self.at == len(self.text):
            raise _TextEnds
        return self.text[self.at]
