"""HTML as plain paragraphs, with what is secret in it, and its links. Pure.

Tags, scripts and styles are gone. A heading stands before each paragraph below it, as
in "History: The tower burnt down.", since each becomes a fact of its own.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Final

import attrs

MOST_HTML: Final = 256 * 1024  # characters of one text
_DEEPEST: Final = 200
_LONGEST_HEADING: Final = 80

_NO_TEXT: Final = (
    "script style head title template iframe object svg noscript math audio video"
)
_DROPPED: Final = frozenset(_NO_TEXT.split())
_HEADINGS: Final = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))
_CONTAINERS: Final = frozenset(
    ("section", "div", "article", "aside", "blockquote", "details", "main", "figure")
)
_OTHER_BLOCKS: Final = (
    "p ul ol li dl dt dd table thead tbody tfoot tr hr pre header footer nav summary"
    " figcaption caption form fieldset address"
)
# Tags that begin or end a paragraph.
_BLOCKS: Final = _CONTAINERS | _HEADINGS | frozenset(_OTHER_BLOCKS.split())
_EMPTY: Final = "img input meta link source wbr area base col embed"
_VOID: Final = frozenset(_EMPTY.split())
# A `<` that begins no whole tag. The library's parser takes time squared over those.
_NO_TAG: Final = re.compile(
    r"""<(?!/?[A-Za-z](?:[^<>"']{1,500}|"[^"]{0,2000}"|'[^']{0,2000}'){0,60}+>)"""
)
_DECLARATION: Final = re.compile(r"<[!?][^<>]*>")


@attrs.frozen
class Passage:
    """A paragraph of plain text. ``secret``: the page hides it from the players."""

    text: str
    secret: bool = False


@attrs.frozen
class Anchor:
    """A link: the tag's attributes, and its words."""

    attributes: dict[str, str]
    label: str
    secret: bool = False


@attrs.frozen(kw_only=True)
class PlainPage:
    """The text of a page."""

    passages: tuple[Passage, ...] = ()
    anchors: tuple[Anchor, ...] = ()
    cut: bool = False  # the rest is missing


def plain(html: str) -> PlainPage:
    """Return the paragraphs and the links of an HTML text.

    Raises:
      ValueError: it is nested too deeply.
    """
    parser = _PageParser()
    text = _DECLARATION.sub("", _without_comments(html[:MOST_HTML]))
    parser.feed(_NO_TAG.sub("&lt;", text))
    parser.close()
    parser.end_block()
    parser.end_heading()
    return PlainPage(
        passages=tuple(parser.passages),
        anchors=tuple(parser.anchors),
        cut=len(html) > MOST_HTML,
    )


_HEADED: Final = re.compile(r"\s{0,3}(#{1,6})\s+(.*)")
_UNDERLINE: Final = re.compile(r"\s{0,3}(?:=+|-{2,})\s*")
_RULE: Final = re.compile(r"\s*(?:[-*_]\s*){3,}|\s*(?:```|~~~).*|(?=[^|]*\|)[\s|:-]+")
_ITEM: Final = re.compile(r"\s*(?:[-*+]|\d{1,9}[.)])\s+(.*)")
_EMPHASIS: Final = re.compile(
    r"\*{1,3}(?=[^\s*])([^*]{1,300})(?<=\S)\*{1,3}"
    r"|(?<!\w)_{1,3}(?=[^\s_])([^_]{1,300})(?<=\S)_{1,3}(?!\w)"
    r"|~~(?=\S)([^~]{1,300})(?<=\S)~~"
)
_WRITTEN_LINK: Final = re.compile(
    r"!?(?<![@&\w])\[([^\[\]]{0,300})\]\((?:[^()\s]|\([^()]*\)){0,500}[^()]{0,300}\)"
)


def from_markdown(text: str) -> str:
    """Return a text in Markdown as HTML, with its headings, paragraphs and items."""
    html, open_ = list[str](), list[str]()

    def end(tag: str = "p") -> None:
        if open_:
            html.append(f"<{tag}>{_inline(' '.join(open_))}</{tag}>")
            open_.clear()

    for written in text[:MOST_HTML].splitlines():
        line = re.sub(r"^(?:\s{0,3}>\s?)+", "", written)
        if open_ and _UNDERLINE.fullmatch(line):
            end("h2")
        elif not line.strip() or _RULE.fullmatch(line):
            end()
        elif headed := _HEADED.fullmatch(line):
            end()
            bare = headed[2].rstrip().rstrip("#")
            open_.append(bare if not bare.strip() or bare[-1].isspace() else headed[2])
            end(f"h{len(headed[1])}")
        elif item := _ITEM.fullmatch(line):
            end()
            open_.append(item[1])
        elif line.lstrip().startswith(("<", "|")):
            end()
            open_.append(line.strip().strip("|"))
            end("div" if line.lstrip()[0] == "|" else "span")
        else:
            open_.append(line.strip())
    end()
    return "\n".join(html)


def _inline(text: str) -> str:
    text = _WRITTEN_LINK.sub(lambda found: found[1], text)
    for _ in range(2):  # **_both_**
        text = _EMPHASIS.sub(lambda found: found[1] or found[2] or found[3], text)
    return text.replace("`", "")


def _without_comments(html: str) -> str:
    kept, at = [], 0
    while (begin := html.find("<!--", at)) >= 0:
        kept.append(html[at:begin])
        end = html.find("-->", begin + 4)
        if end < 0:
            return "".join(kept)
        at = end + 3
    return "".join([*kept, html[at:]])


class _PageParser(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.passages: list[Passage] = []
        self.anchors: list[Anchor] = []
        self._open: list[tuple[str, bool]] = []  # containers, and whether secret
        self._dropped = ""
        self._dropped_depth = 0
        self._words: list[str] = []
        self._heading = Passage("")
        self._heading_used = True
        self._in_heading = False
        self._link: tuple[dict[str, str], list[str]] | None = None

    @property
    def _secret(self) -> bool:
        return any(secret for _, secret in self._open)

    def handle_starttag(
        self, tag: str, attributes: list[tuple[str, str | None]]
    ) -> None:
        if self._dropped:
            self._dropped_depth += tag == self._dropped
            return
        if tag in _DROPPED:
            self._dropped, self._dropped_depth = tag, 1
            return
        if tag == "br":
            self._words.append("\n")
            return
        if tag in ("td", "th") and any(x.strip() for x in self._words):
            self._words.append(" | ")
            return
        given = {name: value or "" for name, value in attributes}
        if tag in _BLOCKS:
            self.end_block()
            if tag in _HEADINGS:
                self.end_heading()
                self._in_heading = True
        classes = given.get("class", "").casefold().split()
        secret = "secret" in classes and "revealed" not in classes
        if tag in _CONTAINERS or (secret and tag not in _VOID):
            if secret:
                self.end_block()
            if len(self._open) == _DEEPEST:
                raise ValueError(f"it is nested more than {_DEEPEST} levels deep")
            self._open.append((tag, secret))
        if tag == "a":
            self._end_link()
            self._link = given, []

    def handle_startendtag(
        self, tag: str, attributes: list[tuple[str, str | None]]
    ) -> None:
        if tag not in _DROPPED:
            self.handle_starttag(tag, attributes)
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if self._dropped:
            if tag == self._dropped:
                self._dropped_depth -= 1
                if not self._dropped_depth:
                    self._dropped = ""
            return
        if tag in _BLOCKS:
            self.end_block()
        if tag == "a":
            self._end_link()
        if any(open_ == tag for open_, _ in self._open):
            self.end_block()
            while self._open.pop()[0] != tag:
                pass

    def handle_data(self, data: str) -> None:
        if self._dropped:
            return
        self._words.append(data)
        if self._link is not None:
            self._link[1].append(data)

    def _end_link(self) -> None:
        if self._link is not None:
            given, words = self._link
            label = " ".join("".join(words).split())
            self.anchors.append(Anchor(given, label, self._secret))
            self._link = None

    def end_block(self) -> None:
        """End the paragraph or the heading that is being read."""
        text = " ".join("".join(self._words).split())
        self._words.clear()
        heading, self._in_heading = self._in_heading, False
        if not text:
            return
        if heading and len(text) <= _LONGEST_HEADING:
            self._heading, self._heading_used = Passage(text, self._secret), False
            return
        above = self._heading
        if above.text and (self._secret or not above.secret):
            self._heading_used = True
            text = f"{above.text}{'' if above.text[-1] in ':.!?' else ':'} {text}"
        self.passages.append(Passage(text, self._secret))

    def end_heading(self) -> None:
        """Keep a heading with nothing below it as a paragraph."""
        if not self._heading_used:
            self.passages.append(self._heading)
        self._heading, self._heading_used = Passage(""), True
