"""What a model thinks between tags in its answer, kept out of it. Pure.

Models that reason write ``<think>…</think>`` into the text when their server does not
take it out. However the stream is split, nothing between the tags leaves, nor do the
tags. A thought that is never closed ends with the answer.

Some templates put the opening tag into the prompt, so that the answer begins with the
thought and has only ``</think>``. Nobody can tell that from words before the tag has
come. Where it is known that a model ``begins`` so, all is kept back until then; where
it is not, ``lone`` is told of the first such tag, and what came before has left, unless
the answer came as a whole.

A thought may speak of its own tags. After a tag inside of it what follows the closing
one is kept back until the end of the answer, or until another one ends it.
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
}
_TAGS: Final = (*_OPEN, *_OPEN.values())
_LONGEST: Final = max(map(len, _TAGS))


def _one_of(tags: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, tags)), re.IGNORECASE | re.ASCII)


_ANY: Final = _one_of(_TAGS)
_INSIDE: Final = {end: _one_of((tag, end)) for tag, end in _OPEN.items()}
_MOST_KEPT: Final = 1024 * 1024  # characters held back of an answer that began so

# Models that are known to begin with a thought whose opening tag is in the prompt.
_BEGIN: Final = re.compile(
    r"deepseek-?r1|\br1\b|qwq|(?<!non)-thinking|magistral|(?<!non-)reasoning"
    r"|openthinker|marco-o1",
    re.IGNORECASE,
)


def begins_with_thought(model: str) -> bool:
    """Whether a model of this name is known to begin its answers with a thought."""
    return _BEGIN.search(model) is not None


@attrs.define(eq=False)
class Thoughts:
    """Text in, as it is written; what may be said out.

    Args:
      begins: the answer begins with a thought, though no tag says so.
      lone: told when a closing tag came that nothing had opened.
      none: told when an answer that was to begin with a thought had no tag at all.
    """

    begins: bool = False
    lone: Callable[[], None] = lambda: None
    none: Callable[[], None] = lambda: None
    _held: str = attrs.field(default="", init=False)  # may be the beginning of a tag
    _kept: list[str] = attrs.field(factory=list, init=False)
    _size: int = attrs.field(default=0, init=False)
    _until: str = attrs.field(default="", init=False)
    _depth: int = attrs.field(default=0, init=False)  # of thoughts in this thought
    _closed: bool = attrs.field(default=False, init=False)  # one of them
    _whole: bool = attrs.field(default=False, init=False)
    _said: bool = attrs.field(default=False, init=False)
    _thought: bool = attrs.field(default=False, init=False)

    def elsewhere(self) -> None:
        """The server tells thoughts apart from the text by itself."""
        if not self._kept:
            self.begins = False

    def come_whole(self) -> None:
        """The answer comes in one piece: to keep it back costs nothing."""
        if not self.begins:
            self.begins = self._whole = True

    def feed(self, piece: str) -> str:
        """What may be said of the text so far, and has not been given out."""
        text, said = self._held + piece, ""
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
                self._kept.clear()
                self.begins = False
            else:
                if self.begins or not self._said:
                    self._kept.clear()
                else:
                    self.lone()
                self.begins = False
            self._thought = True
        return said

    def end(self, *, cut: bool = False) -> str:
        """What is left at the end of the answer.

        Args:
          cut: the answer was ended before it was whole.
        """
        held, self._held = self._held, ""
        kept = "".join([*self._kept, held])
        self._kept.clear()
        if self._until:  # closed as often as it may have been meant to
            return "" if cut or not self._closed else kept.lstrip()
        if self.begins:
            # No tag at all: it was the answer, unless it was a thought that was cut.
            self.begins = False
            if not self._whole and not cut:
                self.none()
            return kept if self._whole or not cut else ""
        return self._out(held)

    def _inside(self, tag: str) -> None:
        """A tag in a thought, of its own kind."""
        self._kept.clear()
        if tag in _OPEN:
            self._depth += 1
            return
        self._depth -= 1
        self._closed = True
        if not self._depth:
            self._until = ""

    def _next(self, text: str) -> re.Match[str] | None:
        return (_INSIDE[self._until] if self._until else _ANY).search(text)

    def _out(self, text: str) -> str:
        if self._until and not self._closed:
            return ""
        if self._until or self.begins:
            self._size += len(text)
            if self._size <= _MOST_KEPT:
                self._kept.append(text)
            return ""
        if self._thought and not self._said:
            text = text.lstrip()  # a blank line stands between the two
        self._said = self._said or bool(text.strip())
        return text


def _tail(text: str, tags: tuple[str, ...]) -> int:
    """Where the end of ``text`` begins that may become a tag."""
    low = "".join(x.lower() if x.isascii() else x for x in text[-_LONGEST:])
    for size in range(min(len(low), _LONGEST - 1), 0, -1):
        if any(tag.startswith(low[-size:]) for tag in tags):
            return len(text) - size
    return len(text)
