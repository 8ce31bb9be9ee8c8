"""Words in a search for tools: the stem of a word, and everyday words.

In English, because tools describe themselves in it; a word of any other language is
left as it is. The list is small on purpose: the model that searches can try again.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

_NOTHINGSAID: Final = (
    "a about all also am an and any anything are as at be been but by can could d did"
    " do does eight five for four from had has have he her here him his how i if in"
    " into is it its just like ll m may me might must my need nine no not of on one or"
    " our out please re s seven shall she should six so some somebody something t ten"
    " than that the their them then there these they this those three to tool two up us"
    " use using ve want was we were what when where which who whom whose why will with"
    " would you your"
)
EMPTY: Final = frozenset(_NOTHINGSAID.split())
"""Words that say nothing about the tool that is wanted."""

_ENDINGS: Final = ("ingly", "edly", "ings", "ing", "ied", "ies", "ed", "es", "ly", "s")


@lru_cache(maxsize=16_384)
def stem(word: str) -> str:
    """Return the part that forms of a word share: ``writ`` of write and writing.

    It is not the root, and not always a word; it only has to be the same for each form.
    """
    if len(word) <= 3 or not word.isascii() or not word.isalpha():
        return word
    for ending in _ENDINGS:
        if not word.endswith(ending) or word.endswith("ss"):
            continue
        rest = word.removesuffix(ending)
        if len(rest) < 3 or not any(letter in "aeiouy" for letter in rest):
            continue
        if ending in ("ied", "ies"):
            return f"{rest}i"
        if rest[-1] == rest[-2] and rest[-1] not in "lsz" and ending != "s":
            rest = rest[:-1]  # committed, running
        word = rest
        break
    word = word.removesuffix("e") if len(word) > 3 else word
    return f"{word[:-1]}i" if word.endswith("y") and len(word) > 3 else word


# Everyday words, and the words that tools use. Each word on the left may mean each on
# the right, and not the other way round.
SAID: Final[Mapping[str, str]] = {
    "clock hour day date weekday month year today tomorrow now": "time",
    "website site homepage internet online web browse surf page article": (
        "fetch url web internet browser"
    ),
    "download visit link http https www": "fetch url web browser",
    "google": "search web",
    "remember memorize memorise": "memory entity observation store create add graph",
    "recall": "memory node entity search knowledge",
    "know knew known": "knowledge memory graph search",
    "forget": "delete remove entity observation memory",
    "fact facts": "observation knowledge entity",
    "person people character npc": "entity node",
    "connect relate friend enemy ally family married": "relation link",
    "version revision author": "commit log diff blame",
    "compare differ different": "diff",
    "everything whole": "entire list",
    "history past earlier before": "log commit",
    "said told heard mentioned met": "memory observation node search",
    "uncommitted pending": "status",
    "folder": "directory",
    "document text note book page": "file",
    "note jot": "observation",
    "picture photo drawing": "image media",
    "sound song": "audio media",
    "save keep store": "write create commit",
    "make build new invent": "create",
    "change correct modify fix replace": "edit update",
    "changed modified changes": "diff status log edit",
    "rename relocate": "move",
    "remove erase discard rid throw wipe": "delete",
    "undo revert unstage discard": "reset restore",
    "look find seek": "search",
    "open show view see tell": "read get",
    "inside contents": "read list",
    "big large": "size",
    "switch": "checkout toggle",
    "zip compress": "gzip archive",
    "plus calculate total": "sum add",
    "repeat": "echo",
    "think reason ponder puzzle": "thinking",
    "settings": "environment env config",
    "weather rain snow sunny": "forecast",
    "message mail": "send",
    "database table": "query sql",
}


def meant_by(word: str) -> tuple[str, ...]:
    """Return the stems of the words that tools may use for it; mostly none."""
    return _MEANT.get(stem(word), ())


def _meant() -> Mapping[str, tuple[str, ...]]:
    meant: dict[str, dict[str, None]] = {}
    for said, names in SAID.items():
        for word in said.split():
            meant.setdefault(stem(word), {}).update(
                dict.fromkeys(map(stem, names.split()))
            )
    return {word: tuple(names) for word, names in meant.items()}


_MEANT: Final = _meant()
