"""A page that was fetched, as a tool returns it. Pure."""

from __future__ import annotations

from typing import Any

import attrs

from .charset import decoded
from .content import check
from .refusals import Unreadable
from .text import MAX_TITLE, bounded, tidy
from .urls import PageUrl


@attrs.frozen(kw_only=True)
class WebPage:
    """The content of an address.

    Args:
      url: the address after all redirects.
      truncated: whether the page is longer.
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
) -> WebPage:
    """Return a page from a text that is not HTML.

    Raises:
      Unreadable: if it has no text.
    """
    check(data)
    whole = decoded(data, charset, html=False)
    # cut first, since checking each character takes a while
    head = whole[: 4 * most_text]
    text, truncated = bounded(tidy(head), most_text)
    if not text:
        raise Unreadable("The page is empty.")
    name = url.target.partition("?")[0].rpartition("/")[2]
    return WebPage(
        url=str(url),
        title=bounded(name or url.host.name, MAX_TITLE)[0],
        text=text,
        truncated=cut or truncated or len(head) < len(whole),
    )
