"""Decoding bytes as text, however their server labels them. Pure.

A byte order mark wins, then the header, then the page's own declaration. A label that
does not fit the bytes is ignored.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_WINDOWS: Final = "cp1252"
# Python's names of the encodings that browsers read. Not among them are codecs that
# are no text encoding (zlib), and those that hide letters as other letters (UTF-7).
_KNOWN: Final = frozenset(
    {
        "utf-8",
        *("utf-16", "utf-16-le", "utf-16-be"),
        *("ascii", "iso8859-1", "mac-roman", "mac-cyrillic"),
        *(f"iso8859-{number}" for number in (*range(2, 11), *range(13, 17))),
        *(f"cp{number}" for number in (866, 874, *range(1250, 1259))),
        *("koi8-r", "koi8-u", "tis-620", "euc_kr", "cp949"),
        *("gb2312", "gbk", "gb18030", "big5", "big5hkscs"),
        *("euc_jp", "iso2022_jp", "shift_jis", "cp932"),
    }
)
# pages labelled so are nearly always in Windows' encoding
_LATIN: Final = ("ascii", "iso8859-1")
_SAID: Final = re.compile(
    rb"<meta[^>]{0,500}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE
)
_CUT: Final = frozenset(
    {"unexpected end of data", "truncated data", "incomplete multibyte sequence"}
)
_HEAD: Final = 4096  # bytes in which a page declares its encoding


def decoded(data: bytes, declared: str | None, *, html: bool = True) -> str:
    """Return the text of a page; undecodable bytes in it are replaced.

    Args:
      declared: the charset in the ``Content-Type`` header, if there is one.
      html: whether to look for a declaration in the page, too.
    """
    for mark, name in _MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(name, "replace")
    # Text that is valid UTF-8 and not ASCII is UTF-8, even if it is labelled as Latin.
    names = sorted(_names(data, declared, html), key=lambda name: name == _WINDOWS)
    for name in names:
        with suppress(UnicodeDecodeError):
            return data.decode(name)
    for name in names:
        try:
            data.decode(name)
        except UnicodeDecodeError as error:
            if error.reason in _CUT:  # in the middle of its last character
                return data[: error.start].decode(name, "replace")
    if _mostly_fits(data, names[0]):
        return data.decode(names[0], "replace")
    return data.decode(_WINDOWS, "replace")


def _names(data: bytes, declared: str | None, html: bool) -> Iterator[str]:
    if declared is not None and (name := _known(declared)):
        yield name
    said = _SAID.search(data, 0, _HEAD) if html else None
    name = None if said is None else _known(said[1].decode("ascii", "replace"))
    if name is not None and "16" not in name:  # it was found as ASCII
        yield name
    yield "utf-8"


def _known(label: str) -> str | None:
    label = label.strip(" \t\"'").lower()
    try:
        name = codecs.lookup(label).name
    except (LookupError, ValueError):
        return None
    if name in _LATIN:
        return _WINDOWS
    return name if name in _KNOWN else None


def _mostly_fits(data: bytes, name: str) -> bool:
    """Return whether at most two percent of the characters do not fit."""
    text = data.decode(name, "replace")
    return text.count("\N{REPLACEMENT CHARACTER}") * 50 <= len(text)
