"""The kind of a body: by its label, and by its first bytes. Pure."""

from __future__ import annotations

from enum import Enum
from typing import Final

from .refusals import Unreadable


class ContentKind(Enum):
    HTML = "html"
    TEXT = "text"
    UNSAID = "unsaid"


_HTML: Final = frozenset({"text/html", "application/xhtml+xml"})
_TEXT: Final = frozenset(
    {
        "application/json",
        "application/ld+json",
        "application/x-ndjson",
        "application/xml",
        "application/yaml",
        "application/x-yaml",
        "application/javascript",
    }
)
_BEGINNINGS: Final = (
    (b"%PDF-", "a PDF"),
    (b"\x89PNG", "an image"),
    (b"GIF8", "an image"),
    (b"\xff\xd8\xff", "an image"),
    (b"RIFF", "a recording"),
    (b"OggS", "a recording"),
    (b"ID3", "a recording"),
    (b"PK\x03\x04", "an archive"),
    (b"\x1f\x8b", "an archive"),
    (b"\x28\xb5\x2f\xfd", "an archive"),
    (b"BZh", "an archive"),
    (b"7z\xbc\xaf", "an archive"),
    (b"\x7fELF", "a program"),
    (b"MZ\x90\x00", "a program"),
)
_KINDS: Final = {
    "image": "an image",
    "audio": "a recording",
    "video": "a film",
    "font": "a font",
}


def kind_of(header: str) -> tuple[ContentKind, str | None]:
    """Return the kind that the ``Content-Type`` header names, and the charset in it.

    Raises:
      Unreadable: if it is a kind without text.
    """
    mime, *parameters = (part.strip() for part in header.split(";"))
    mime = mime.lower()
    charset = None
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset" and charset is None:
            charset = value
    if not mime:
        return ContentKind.UNSAID, charset
    if mime in _HTML:
        return ContentKind.HTML, charset
    if mime.startswith(("text/", "application/")) and mime.endswith(("+json", "+xml")):
        return ContentKind.TEXT, charset
    if mime.startswith("text/") or mime in _TEXT:
        return ContentKind.TEXT, charset
    if mime == "application/pdf":
        raise _unreadable("a PDF")
    raise _unreadable(_KINDS.get(mime.partition("/")[0], "a file, not a page"))


def guess(data: bytes) -> ContentKind:
    """Return the kind of a body without a label."""
    html = data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<")
    return ContentKind.HTML if html else ContentKind.TEXT


def check(data: bytes) -> None:
    """Check that a body can be text, however it is labelled.

    Raises:
      Unreadable: if it is something else.
    """
    for beginning, what in _BEGINNINGS:
        if data.startswith(beginning):
            raise _unreadable(what)
    wide = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    # In UTF-16 without a mark every second byte may be zero.
    if not wide and b"\0\0" in data[:1024]:
        raise _unreadable("a file, not a page")


def _unreadable(what: str) -> Unreadable:
    return Unreadable(f"That is {what}, and only pages and texts are read.")
