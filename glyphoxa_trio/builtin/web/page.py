"""A page that was fetched, as a tool gives it away. Pure."""

from __future__ import annotations

import re
from typing import Any, Final

import attrs

from .charset import decoded
from .content import check
from .refusals import Unreadable
from .urls import PageUrl

MAX_TITLE: Final = 200  # characters
_LANGUAGE: Final = re.compile(r"[A-Za-z]{2,3}(?:-[A-Za-z0-9]{2,8})*")
_BLANK: Final = re.compile(r"\n[ \t\n]*\n")


@attrs.frozen(kw_only=True)
class Page:
    """What is at an address.

    Args:
      url: where it was in the end.
      truncated: there is more of it.
    """

    url: str
    title: str
    text: str
    truncated: bool = False
    language: str | None = None

    def data(self) -> dict[str, Any]:
        said: dict[str, Any] = {"url": self.url, "title": self.title, "text": self.text}
        if self.language:
            said["language"] = self.language
        if self.truncated:
            said["truncated"] = True
        return said


def plain_page(
    url: PageUrl, data: bytes, charset: str | None, *, cut: bool, most_text: int
) -> Page:
    """A text that is no HTML.

    Raises:
      Unreadable: if there is none.
    """
    check(data)
    whole = decoded(data, charset, html=False)
    head = whole[: 4 * most_text]  # a look at each character of it takes a while
    text, truncated = bounded(tidy(head), most_text)
    if not text:
        raise Unreadable("The page is empty.")
    name = url.target.partition("?")[0].rpartition("/")[2]
    return Page(
        url=str(url),
        title=bounded(name or url.host.name, MAX_TITLE)[0],
        text=text,
        truncated=cut or truncated or len(head) < len(whole),
    )


def tidy(text: str) -> str:
    """Text without what is no writing; of several empty lines one is left."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = "".join(c for c in text if c.isprintable() or c in "\n\t")
    return _BLANK.sub("\n\n", text).strip()


def bounded(text: str, most: int) -> tuple[str, bool]:
    """At most so many characters, cut between words; and whether it was cut."""
    if len(text) <= most:
        return text, False
    head = text[:most]
    at = max(head.rfind(" "), head.rfind("\n"))
    return head[: at if at > most // 2 else most].rstrip(), True


def language_of(text: str | None) -> str | None:
    """A language as a page says it, if that is the name of one."""
    text = (text or "").partition(",")[0].strip()
    return text if _LANGUAGE.fullmatch(text) and len(text) <= 35 else None
