"""Text as it is spoken: words replaced by how they are pronounced. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping


def replaced(text: str, pronunciation: Mapping[str, str]) -> str:
    """Replace whole words, in any case, the longest first; nothing twice."""
    spoken, done = "", 0
    for begin, end, said in replacements(text, pronunciation):
        spoken += text[done:begin] + said
        done = end
    return spoken + text[done:]


def replacements(
    text: str, pronunciation: Mapping[str, str]
) -> Iterator[tuple[int, int, str]]:
    """Yield what `replaced` replaces: where it begins and ends, and what is said."""
    known = {word.casefold(): said for word, said in pronunciation.items() if word}
    if not known:
        return
    longest_first = sorted(known, key=len, reverse=True)
    words = "|".join(re.escape(word) for word in longest_first)
    for found in re.finditer(rf"(?<!\w)(?:{words})(?!\w)", text, re.IGNORECASE):
        yield found.start(), found.end(), known.get(found[0].casefold(), found[0])
