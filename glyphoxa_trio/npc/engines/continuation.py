"""What a model says after an opener that was said for it: once, and joined to it. Pure.

A model that is shown the beginning of its answer may go on from there, or write all
of it again.
"""

from __future__ import annotations

from typing import Final

import attrs

# Beside blanks, what two writings of the same words may differ in.
_ORNAMENTS: Final = frozenset("\"'\u201c\u201d\u2018\u2019*_")
# What follows a word without a blank.
_ATTACHED: Final = frozenset(",.;:!?\u2026)]\u201d\u2019")


@attrs.define(eq=False)
class Continuation:
    """Takes text in pieces, gives it without a repetition of ``opener`` at its start.

    What may be one is held back until that is certain. ``joined``: the text comes
    right behind the opener, so that a blank stands between their words. Without an
    opener everything passes.
    """

    opener: str
    joined: bool = True
    _same: list[str] = attrs.field(init=False)  # its characters, as they are compared
    _held: str = attrs.field(default="", init=False)
    _at: int = attrs.field(default=0, init=False)  # so many of them came again
    _certain: bool = attrs.field(default=False, init=False)
    _begun: bool = attrs.field(init=False)  # nothing is put before it any more

    def __attrs_post_init__(self) -> None:
        self._same = [x for x in map(_compared, self.opener) if x]
        self._certain = not self._same
        self._begun = not (self.joined and self.opener)

    def feed(self, text: str) -> str:
        """As much of the text so far as is certain to be new."""
        return self._join(text if self._certain else self._new(text))

    def end(self) -> str:
        """What was held back, when nothing follows: a whole repetition is dropped."""
        held, self._held = self._held, ""
        again = not self._certain and self._at == len(self._same)
        self._certain = True
        return "" if again else self._join(held)

    def _new(self, text: str) -> str:
        for at, character in enumerate(text):
            compared = _compared(character)
            if self._at == len(self._same) and character not in _ORNAMENTS:
                # "the old" is no repetition of itself in "the older".
                if not (character.isalnum() and self._same[-1][-1].isalnum()):
                    self._held = ""
                return self._let_go(text[at:])
            if compared:
                if compared != self._same[self._at]:
                    return self._let_go(text[at:])
                self._at += 1
            self._held += character
        return ""

    def _let_go(self, rest: str) -> str:
        held, self._held = self._held, ""
        self._certain = True
        return held + rest

    def _join(self, text: str) -> str:
        if not text or self._begun:
            return text
        self._begun = True
        apart = text[0].isspace() or text[0] in _ATTACHED
        return text if apart else f" {text}"


def _compared(character: str) -> str:
    """Nothing for what makes no difference."""
    if character.isspace() or character in _ORNAMENTS:
        return ""
    return character.casefold()
