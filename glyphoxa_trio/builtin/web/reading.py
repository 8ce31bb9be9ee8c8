"""Extracting the text of an HTML page. No I/O, but slow: for the worker process."""

from __future__ import annotations

import re
from typing import Any, Final

from .charset import decoded
from .text import MAX_TITLE, bounded, language_of, tidy

MOST_FRAMES: Final = 5
_FORWARD: Final = re.compile(
    r"\s*(\d{1,6})(?:\.\d*)?\s*(?:[;,]\s*(?:url\s*=\s*)?[\"']?(.*?)[\"']?\s*)?",
    re.IGNORECASE | re.DOTALL,
)


def load() -> None:
    """Import the libraries, which takes long."""
    import lxml.html  # noqa: F401
    import trafilatura  # noqa: F401


def read(data: bytes, charset: str | None, most_text: int) -> dict[str, Any]:
    """Return the fields of an `extraction.Read`."""
    import lxml.html
    from lxml.etree import LxmlError
    from trafilatura import bare_extraction, html2txt

    # NULs end strings in C.
    html = decoded(data, charset).replace("\0", "")
    parser = lxml.html.HTMLParser(encoding="utf-8", remove_comments=True)
    try:
        tree = lxml.html.document_fromstring(
            html.encode("utf-8", "replace"), parser=parser
        )
    except (LxmlError, ValueError):  # there is nothing in it
        return {"scripted": False}
    said: dict[str, Any] = {
        "title": _title(tree),
        "language": language_of(tree.get("lang") or tree.get("xml:lang")),
        "frames": [
            frame.get("src")
            for frame in tree.xpath("//frame[@src] | //iframe[@src]")[:MOST_FRAMES]
        ],
        "scripted": bool(tree.xpath("//script[1]")),
    }
    said |= _forward(tree)
    for apology in tree.xpath("//noscript"):
        apology.drop_tree()
    document = bare_extraction(
        tree,
        fast=True,
        include_comments=False,
        with_metadata=False,
    )
    text = getattr(document, "text", None) or html2txt(tree)
    said["text"], said["truncated"] = bounded(tidy(text or ""), most_text)
    return said


def _title(tree: Any) -> str:
    for path in (
        "//head//title//text()",
        "//meta[@property='og:title']/@content",
        "//h1[1]//text()",
        "//title//text()",
    ):
        if found := " ".join("".join(tree.xpath(path)).split()):
            return bounded(tidy(found), MAX_TITLE)[0]
    return ""


def _forward(tree: Any) -> dict[str, Any]:
    for meta in tree.xpath("//meta[@http-equiv and @content]"):
        if meta.get("http-equiv").strip().lower() == "refresh":
            found = _FORWARD.fullmatch(meta.get("content"))
            if found is not None and found[2]:
                return {"forward": found[2], "forward_after": float(found[1])}
    return {}
