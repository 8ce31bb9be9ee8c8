"""Join a model's text to an opener that was said before it. Pure.

A model that is shown the beginning of its answer may continue from there, or may write
the beginning again. The repetition is removed.
"""

from __future__ import annotations

from typing import Final

import attrs

# Characters besides spaces that two writings of the same words may differ in.
_ORNAMENTS: Final = frozenset("\"'\u201c\u201d\u2018\u2019*_")
# Characters that follow a word without a space.
_ATTACHED: Final = frozenset(",.;:!?\u2026)]\u201d\u2019")


@attrs.define(eq=False)
class Continuation:
    """Takes text in pieces and removes a repetition of ``opener`` at its start.

    Text that may be a repetition is held back until this is certain. ``joined``: the
    text directly follows the opener, so a space is put between them. Without an opener
    the text passes unchanged.
    """

    opener: str
    joined: bool = True
    # its characters in the form in which they are compared
    _same: list[str] = attrs.field(init=False)
    _held: str = attrs.field(default="", init=False)
    # how many of them were repeated so far
    _at: int = attrs.field(default=0, init=False)
    _certain: bool = attrs.field(default=False, init=False)
    _begun: bool = attrs.field(init=False)  # the text needs no space before it

    def __attrs_post_init__(self) -> None:
        self._same = [x for x in map(_compared, self.opener) if x]
        self._certain = not self._same
        self._begun = not (self.joined and self.opener)

    def feed(self, text: str) -> str:
        """Return the part of the text so far that is certainly new."""
        return self._join(text if self._certain else self._new(text))

    def end(self) -> str:
        """Return what was held back, at the end; a complete repetition is dropped."""
        held, self._held = self._held, ""
        again = not self._certain and self._at == len(self._same)
        self._certain = True
        return "" if again else self._join(held)

    def _new(self, text: str) -> str:
        for at, character in enumerate(text):
            compared = _compared(character)
            if self._at == len(self._same) and character not in _ORNAMENTS:
                # In "the older", "the old" is no repetition.
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
    """Return the character as it is compared; empty if it is ignored."""
    if character.isspace() or character in _ORNAMENTS:
        return ""
    return character.casefold()
