"""Remove a model's thoughts, between tags, from its answer. No I/O.

Models that reason write ``<think>…</think>`` into the text if their server does not
remove it. However the stream is split, neither the tags nor the text between them is
passed on. A thought that is never closed ends with the answer.

Some templates put the opening tag into the prompt, so that the answer starts with the
thought and has only ``</think>``. That cannot be known from the words before the tag.
If it is known that a model ``begins`` so, everything is held back until the tag;
otherwise ``lone`` is called at the first such tag. What comes before it was a thought:
what has not left yet never does, and if a part has, ``unsaid`` tells so. A tag after a
thought that had both of its tags ends nothing, and is dropped.

What was withheld is `written` as it came, with its tags: some models want it back.

A thought may mention its own tags. After a tag inside of a thought, the text that
follows the closing tag is held back until the end of the answer, or until another tag
ends it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

import attrs

_NAMES: Final = ("think", "thinking", "thought", "reasoning")
_OPEN: Final = {f"<{name}>": f"</{name}>" for name in _NAMES} | {
    "[think]": "[/think]",
    "<|begin_of_thought|>": "<|end_of_thought|>",
    "◁think▷": "◁/think▷",
    "<seed:think>": "</seed:think>",
}
_TAGS: Final = (*_OPEN, *_OPEN.values())
_LONGEST: Final = max(map(len, _TAGS))


def _one_of(tags: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern of these tags."""
    return re.compile("|".join(map(re.escape, tags)), re.IGNORECASE | re.ASCII)


_ANY: Final = _one_of(_TAGS)
_INSIDE: Final = {end: _one_of((tag, end)) for tag, end in _OPEN.items()}
_MOST_KEPT: Final = 1024 * 1024  # characters held back of an answer that began so

# Models that are known to start with a thought whose opening tag is in the prompt.
_BEGIN: Final = re.compile(
    r"deepseek-?r1|\br1\b|qwq|(?<!non)-thinking|magistral|(?<!non-)reasoning"
    r"|openthinker|marco-o1",
    re.IGNORECASE,
)


def begins_with_thought(model: str) -> bool:
    """Return whether a model of this name is known to start answers with a thought."""
    return _BEGIN.search(model) is not None


@attrs.define(eq=False)
class Thoughts:
    """The filter of thoughts: text in as it is written, text out that may be spoken.

    Args:
      begins: True if the answer starts with a thought, without an opening tag.
      lone: called when a closing tag came without an opening one.
      none: called when an answer that was to start with a thought had no tag at all.
    """

    begins: bool = False
    lone: Callable[[], None] = lambda: None
    none: Callable[[], None] = lambda: None
    # True once text that has left was a thought; whoever has seen that sets it back.
    unsaid: bool = attrs.field(default=False, init=False)
    _written: list[str] = attrs.field(factory=list, init=False)
    _room: int = attrs.field(default=_MOST_KEPT, init=False)
    _held: str = attrs.field(default="", init=False)  # may be the beginning of a tag
    _kept: list[str] = attrs.field(factory=list, init=False)
    _size: int = attrs.field(default=0, init=False)
    _until: str = attrs.field(default="", init=False)
    _depth: int = attrs.field(default=0, init=False)  # of thoughts in this thought
    # True once one of them was closed.
    _closed: bool = attrs.field(default=False, init=False)
    _whole: bool = attrs.field(default=False, init=False)
    _said: bool = attrs.field(default=False, init=False)
    _thought: bool = attrs.field(default=False, init=False)

    def elsewhere(self) -> None:
        """Note that the server separates thoughts from the text by itself."""
        if not self._kept:
            self.begins = False

    def come_whole(self) -> None:
        """Note that the answer comes as a whole, so holding it back costs nothing."""
        if not self.begins:
            self.begins = self._whole = True

    @property
    def written(self) -> str:
        """The thoughts as they came, with their tags and the blanks after them; empty
        if they are very long."""
        return "".join(self._written) if self._room >= 0 else ""

    def feed(self, piece: str) -> str:
        """Return the text that may be spoken now and has not been returned yet."""
        text, said, left = self._held + piece, "", self._said
        self._held = ""
        while text:
            found = self._next(text)
            if found is None:
                cut = _tail(text, _TAGS)
                self._held = text[cut:]
                return said + self._out(text[:cut])
            tag = found[0].lower()
            said += self._out(text[: found.start()])
            text = text[found.end() :]
            if self._until:
                self._inside(tag)
            elif tag in _OPEN:
                self._until, self._depth, self._closed = _OPEN[tag], 1, False
                self._think()
                self.begins = False
            elif self.begins or not self._said:
                self._think()
                self.begins = False
            elif not self._thought:
                self.lone()
                self._write(said)
                said, self.unsaid, self._said = "", left, False
            else:
                continue
            self._write(found[0])
            self._thought = True
        return said

    def end(self, *, cut: bool = False) -> str:
        """Return the rest, at the end of the answer.

        Args:
          cut: True if the answer was ended before it was complete.
        """
        held, self._held = self._held, ""
        kept = "".join([*self._kept, held])
        if self._until:  # it was closed as often as may have been meant
            said = "" if cut or not self._closed else kept.lstrip()
            self._write("" if said else kept)
            return said
        if self.begins:
            # No tag at all: it was the answer, unless it was a thought that was cut.
            self.begins = False
            if not self._whole and not cut:
                self.none()
            return kept if self._whole or not cut else ""
        return self._out(held)

    def _think(self) -> None:
        """Take what is held back as a thought."""
        self._write("".join(self._kept))
        self._kept.clear()

    def _write(self, text: str) -> None:
        """Keep a part of the thoughts as it came."""
        self._room -= len(text)
        self._written.append(text if self._room >= 0 else "")

    def _inside(self, tag: str) -> None:
        """Handle a tag inside a thought, of the thought's own kind."""
        self._think()
        if tag in _OPEN:
            self._depth += 1
            return
        self._depth -= 1
        self._closed = True
        if not self._depth:
            self._until = ""

    def _next(self, text: str) -> re.Match[str] | None:
        """Find the next tag that matters."""
        return (_INSIDE[self._until] if self._until else _ANY).search(text)

    def _out(self, text: str) -> str:
        """Return the part of ``text`` that may be spoken; hold the rest back."""
        if self._until and not self._closed:
            self._write(text)
            return ""
        if self._until or self.begins:
            self._size += len(text)
            if self._size <= _MOST_KEPT:
                self._kept.append(text)
            return ""
        if self._thought and not self._said:
            said = text.lstrip()  # a blank line stands between thought and answer
            self._write(text[: len(text) - len(said)])
            text = said
        self._said = self._said or bool(text.strip())
        return text


def _tail(text: str, tags: tuple[str, ...]) -> int:
    """Return where the end of ``text`` starts that may become a tag."""
    low = "".join(x.lower() if x.isascii() else x for x in text[-_LONGEST:])
    for size in range(min(len(low), _LONGEST - 1), 0, -1):
        if any(tag.startswith(low[-size:]) for tag in tags):
            return len(text) - size
    return len(text)
