"""Markdown as it is spoken: written sentences in, words for a synthesizer out. Pure.

    written   ## **Rules** of the [inn](https://inn.example/rules) 🍺
    spoken    Rules of the inn

Chat models write Markdown, whatever their prompt says. Its marks are not spoken, nor
are code blocks, the rows of signs in a table, emoji and stage directions
(`stage_directions`). A table's cells are joined by commas. Of a bare address the host
is said, of a link its text. Numbers of a list are said, since people refer to them.
Text without such marks is spoken as it is written, and costs one search.

A mark is left out wherever it stands, and not only where its counterpart is found, so
that it does not matter how an answer is cut into sentences. Only what is left out as a
whole, a code block or a comment, is remembered from one sentence to the next.

Every alternative of `_MARK` stops at the next sign of its kind, so that the time for a
sentence grows with its length, whatever is in it.
"""

from __future__ import annotations

import html
import re
from typing import Final

import attrs

from .stage_directions import stage_directions

_EMOJI: Final = (
    "\u2139\u2300-\u23ff\u2500-\u266c\u2670-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff"
)
# What changes the look of the character before it, and is never spoken.
_LOOK: Final = "\ufe0e\ufe0f\u20e3\U000e0020-\U000e007f"
_ARROWS: Final = "\u2190-\u21ff\u27f0-\u27ff"
_BULLETS: Final = "\u2022\u2023\u2043\u2219\u25aa\u25cf\u25e6\u00b7"
# Any of these in a sentence, and it is read in full.
_SPECIAL: Final = re.compile(
    rf"[*_`~#<>|\[\]\\$&({{\uff08\u3010\uff0a\u3008\u3014\u301c\uff3b\uff5e{_EMOJI}{_LOOK}{_ARROWS}{_BULLETS}]"
    r"|::|://|---|\bwww\.|==|^\s*[-+=:](?:\s|[-+=]|$)|[A-Za-z]/"
    r"|[:;=]['-]?[()DPpOo3/]|:\w+:|\bxD\b|\^|ʕ|¯"
)
# A line of nothing but signs: a rule, the underline of a heading, a row of a table.
_RULE: Final = re.compile(r"[-*_=~|:+>#\s]+")
# The signs at the beginning of a line. A number is said, the others are not.
_SIGN: Final = re.compile(
    rf"[ \t]*(?:>(?![\d=])|\#{{1,6}}(?:[ \t]+|$)|\#{{2,6}}(?=[^\s#])"
    rf"|(?:[-+*:]|[{_BULLETS}])[ \t]+|\[[ xX]\][ \t]+|\[\^[^\[\]]*\]:[ \t]*)"
)
_NUMBER: Final = re.compile(r"[ \t]*\d{1,9}[.)][ \t]+(?=[-+*>#]?[ \t]*\[[ xX]\][ \t])")
_REFERENCE: Final = re.compile(r"[ \t]*\[[^\[\]^][^\[\]]*\]:[ \t]*\S+")
_HEADING: Final = re.compile(r"(?:#+\s+)+")  # in marks of emphasis
_CLOSING_SIGN: Final = re.compile(r"(?<=[ \t])#+[ \t]*$")
_FENCE: Final = re.compile(r"[ \t]*(`{3,}|~{3,})[^`]*$")

# Scripts without spaces, and emoji: an address ends in front of them.
_NOT_IN_URLS: Final = f"\u2e80-\uffff{_EMOJI}{_LOOK}"
_PICTURES: Final = re.compile(f"[{_EMOJI}{_LOOK}]")
_ADDRESS: Final = r"[^()\s<>]*(?:\([^()\s]*\)[^()\s<>]*)*"
_TARGET: Final = rf"\((?:<[^<>]*>|{_ADDRESS})(?:[ \t]+[\"'(][^\"')]*[\"')])?[ \t]*\)"
_COMMAND: Final = re.compile(r"\\([A-Za-z]+|.)")
_FRACTION: Final = re.compile(r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}")
_SIGNS: Final = dict(
    re.findall(
        r"(\S+) (\S+)",
        "times × cdot · div ÷ pm ± le ≤ leq ≤ ge ≥ geq ≥ ne ≠ neq ≠ approx ≈ infty ∞"  # noqa: RUF001
        " sqrt √ pi π circ ° to → % % $ $",
    )
)
_COMMANDS: Final = (
    _SIGNS
    | dict.fromkeys(("text", "mathrm", "mathbf", "left", "right", "quad"), "")
    | dict.fromkeys(",;:! ", " ")
)
_MARK: Final = re.compile(
    rf"""
      (?P<comment><!--)
    | \\\((?P<maths>[^\\]*(?:\\[^()][^\\]*)*)\\\)
    | \\\[(?P<display>[^\\]*(?:\\[^\[\]][^\\]*)*)\\\]
    | \$\$?(?P<inline>(?![\s$]|[^$]*://)
      (?=[^$]*[\\^_={{}}+*/<>]|[^\w$]*\w{{1,3}}[^\w$]*\$)[^$]*)
      (?<!\s)\$\$?(?!\d)
    | (?<![\w:\\])(?P<loose>\\(?:[dt]?frac\s*\{{[^{{}}]*\}}\s*\{{[^{{}}]*\}}
      |(?:{"|".join(filter(str.isalpha, _SIGNS))})(?![A-Za-z])))
    | (?<![\w:\\])(?P<newline>(?:\\n)+)(?!eq|[eiu]\b|abla|ot\b)
    | \\(?:text[a-z]*|emph|math[a-z]+)\{{(?P<styled>[^{{}}]*)\}}
    | \\(?P<escaped>[!-/:-@\[-`{{-~])
    | (?P<break>\\$)
    | (?P<fence>`{{3,}})[^`]*$
    | (?P<ticks>`+)(?:(?P<code>[^`]*)`+)?
    | !?\[(?P<label>[^\[\]]*)\](?P<target>{_TARGET}|\[[^\[\]]*\])
    | (?P<note>\[[\^!][^\[\]]*\]|(?<=[^\W\d]|[.,!?])\[\d{{1,3}}\]
      |\u3010\d+[:†][^\u3010\u3011]*\u3011)
    | (?P<halflink>\](?:{_TARGET}|(?=\())|!?\[(?![^\[\]]*\]))
    | <?(?P<url>(?:(?:https?|ftp)://|(?<![A-Za-z\d.])www\.(?=\w)
      |(?<![\w./@-])(?:[A-Za-z\d-]+\.)+[A-Za-z]{{2,12}}/)[^\s<>|`\"\]{_NOT_IN_URLS}]*)>?
    | <(?:mailto:)?(?P<mail>[\w.+-]+@[\w.-]+)>
    | <(?P<tag>/?[A-Za-z][\w-]*)(?:\s*/|[\s/][^<>]*=[^<>]*)?>
    | (?<!\w)<(?P<aside>/?[A-Za-z][\w-]*[\s/][^<>]*)>
    | <(?:[!?:@\#][^<>]*|a:\w+:\d+)>
    | (?P<entity>&(?:\#\d{{1,7}}|\#[xX][\da-fA-F]{{1,6}}|[A-Za-z][A-Za-z\d]{{1,31}});)
    | (?P<stars>\*+)
    | \uff0a+
    | (?<!\S)(?:[:;=]['-]?[()DPpOo3/]|[xX]D|:[a-z][a-z\d_+-]{{1,30}}:)(?=[\s.,!?]|$)
    | [¯ヽ]\\*_*[(\uff08]\w[)\uff09]_*/¯|[ʕ(](?:[^\w\s()]|_|ᴥ){{2,9}}[)\u0294]
    | (?<!\S)(?:[-\^>o0OTu]_+[-\^<o0OTu]|\^\^)(?!\w)
    | \^(?P<raised>[^\s^]{{1,9}})\^|\^(?=\()|(?<![\w\#&/])\#(?=[^\W\d])
    | (?P<arrow>(?<!\S)(?:<?-{{1,2}}>|<-{{1,2}}|=>)(?!\S))
    | (?P<lines>_+)
    | (?P<waves>~+)
    | (?P<bright>==(?!=))
    | (?P<hidden>\|\|)(?!\s*\|)
    | (?P<cell>\|[\s|]*|-{{3,}}|={{3,}}|[{_ARROWS}]+|[{_BULLETS}])
    | [\#*][{_LOOK}]+
    | (?P<emoji>[{_EMOJI}](?:[{_EMOJI}{_LOOK}]|\u200d)*|[{_LOOK}]+)
    """,
    re.VERBOSE,
)
_HOST: Final = re.compile(
    r"(?:\w+://)?(?:[^/@\s]*@)?(?:www\.)?([\w-]+[\w.-]*)(?=[/:?#]|$)"
)
_BEHIND_ADDRESS: Final = ".,;:!?'\"*_~)"  # part of the sentence, and not of it
_APART: Final = frozenset(
    re.findall(
        r"\S+", "br p div li tr td th hr ul ol dt dd details summary h1 h2 h3 h4 h5 h6"
    )
)
_TIGHT: Final = ",.;:!?…)\u3002\uff0c\uff01\uff1f\u060c\u061f"
_AFTER_COMMA: Final = tuple(",.;!?…")
_OPENING: Final = "\"'“„«([¿¡「『\uff08"
# What is on the left and on the right of an asterisk that multiplies.
_FACTOR: Final = re.compile(r"(?:[\d)]|(?<!\w)[^\W\d])[ \t]?$")
_NEXT_FACTOR: Final = re.compile(r"[ \t]?(?:[-(]?\d|\(|[^\W\d](?!\w))")
_NO_MARKS: Final = {ord(mark): None for mark in "*`|"}
_NO_LINES: Final = {ord(mark): None for mark in "_~"}


@attrs.frozen
class SpokenForm:
    """A sentence as it is spoken, beside its written form.

    ``text`` is for a synthesizer; empty if nothing of the sentence is spoken.
    ``places`` are pairs of places in ``text`` and in ``written``: so much of the one is
    said for so much of the other. Without any, both are the same.
    """

    text: str
    written: str
    places: tuple[tuple[int, int], ...] = ()

    def written_words(self, count: int) -> int:
        """Return how many words were written for the first ``count`` spoken words.

        A written word counts if the end of its last spoken part is among them; what is
        written next to a word without a space belongs to it.
        """
        if not self.places or count <= 0:
            return max(0, count)
        end = 0
        for found in re.finditer(r"\S+", self.text):
            end = found.end()
            count -= 1
            if not count:
                break
        spoken, written = 0, 0
        for next_spoken, next_written in self.places:
            if next_spoken >= end:
                # Text that was copied is as long in both.
                copied = next_spoken - spoken == next_written - written
                written = written + end - spoken if copied else next_written
                break
            spoken, written = next_spoken, next_written
        return len(self.written[:written].split())

    def words(self, count: int) -> str:
        """Return the written words that the first ``count`` spoken words stand for."""
        return " ".join(self.written.split()[: self.written_words(count)])

    def heard(self, count: int) -> str:
        """Return what was heard of it if the first ``count`` spoken words were: all, if
        these are all of them."""
        whole = count >= len(self.text.split())
        return self.written if whole else self.words(count)


@attrs.define(eq=False)
class MarkdownReader:
    """Reads the sentences of one answer, in their order."""

    acts: bool = True  # stage directions are left out
    # What ends the code block or the comment that is open: its fence, or "-->".
    _until: str = attrs.field(default="", init=False)
    # What ends the stage direction that is open: "*".
    _inside: str = attrs.field(default="", init=False)

    def read(self, written: str) -> SpokenForm:
        """Return the spoken form of the next sentence."""
        if not (self._until or self._inside) and _SPECIAL.search(written) is None:
            return SpokenForm(written, written)
        spoken = _FormBuilder()
        at = 0
        for line in written.splitlines(keepends=True):
            self._read_line(line, at, spoken)
            at += len(line)
        return spoken.form(written)

    def _read_line(self, line: str, at: int, spoken: _FormBuilder) -> None:
        begin = 0
        if self._until:
            begin = self._end_of_block(line)
            if begin < 0:
                return
        spoken.leave_out()
        rule = _RULE.fullmatch(line, begin) and not _FENCE.match(line, begin)
        if rule or _REFERENCE.match(line, begin):
            return
        if number := _NUMBER.match(line, begin):
            spoken.add(number[0], at + number.end())
            begin = number.end()
        while sign := _SIGN.match(line, begin):
            begin = sign.end()
        if fence := _FENCE.match(line, begin):
            self._until = fence[1]
            return
        end = len(line)
        if "#" in line[:begin] and (closing := _CLOSING_SIGN.search(line, begin)):
            end = closing.start()
        self._read_words(line, begin, end, at, spoken)
        spoken.leave_out()

    def _end_of_block(self, line: str) -> int:
        """Return where the words after an open block begin; -1 if it goes on."""
        end = line.find(self._until)
        if end < 0:
            return -1
        end += len(self._until)
        mark, self._until = self._until[0], ""
        while line[end : end + 1] == mark:
            end += 1
        return end

    def _read_words(
        self, line: str, begin: int, end: int, at: int, spoken: _FormBuilder
    ) -> None:
        directions: dict[int, int] = {}
        if self.acts:
            directions, self._inside = stage_directions(line, begin, self._inside)
        place = begin
        silent = sorted(directions, reverse=True)
        mark = _MARK.search(line, place, end)
        while mark or silent:
            if mark and mark.start() < place:
                mark = _MARK.search(line, place, end)
                continue
            start = mark.start() if mark else end
            if silent and silent[-1] <= start:
                start = silent.pop()
                if start >= place:
                    spoken.add(line[place:start], at + start)
                    spoken.leave_out()
                    place = directions[start]
                continue
            if mark is None:
                break
            spoken.add(line[place:start], at + start)
            place = mark.end()
            kind = mark.lastgroup
            if kind == "comment":
                spoken.leave_out()
                close = line.find("-->", place)
                if close < 0:
                    self._until = "-->"
                    return
                place = close + 3
            elif kind == "fence":
                self._until = mark["fence"]
                return
            elif (
                kind == "target"
                and mark["label"]
                and not _SPECIAL.search(mark["label"])
            ):
                spoken.add(mark["label"], at + mark.end("label"))
                spoken.leave_out()
            elif kind in ("cell", "arrow"):
                spoken.part(at + place)
            else:
                spoken.replace(_said(kind, mark, line), at + place)
        spoken.add(line[place:end], at + end)


@attrs.define(eq=False)
class _FormBuilder:
    """A spoken form while it is made."""

    _pieces: list[str] = attrs.field(factory=list, init=False)
    _places: list[tuple[int, int]] = attrs.field(factory=list, init=False)
    _length: int = attrs.field(default=0, init=False)
    _gap: bool = attrs.field(default=False, init=False)  # something was left out

    def add(self, text: str, written: int) -> None:
        """Add text, of which the last character is before this place when written."""
        if not text:
            return
        whole = len(text)
        if self._gap or not self._length:
            before = self._pieces[-1][-1] if self._length else " "
            if before.isspace() or self._opens_quotation():
                text = text.lstrip()
            if text and text[0] in _TIGHT and before.isspace():
                if self._length:
                    self._trim()
                else:
                    text = text.lstrip(",;: ")
            if (
                self._length
                and self._pieces[-1][-1] == ","
                and text[:1] in _AFTER_COMMA
            ):
                self._pieces[-1] = self._pieces[-1][:-1]
                self._length -= 1
        if text:
            self._places.append((self._length, written - min(whole, len(text))))
            self._put(text, written)

    def _opens_quotation(self) -> bool:
        last = self._pieces[-1]
        return last[-1] in _OPENING and not last[-2:-1].strip()

    def replace(self, text: str, written: int) -> None:
        """Add text in place of a mark that ends at this place when written."""
        if not self._length or (text.isspace() and self._pieces[-1][-1].isspace()):
            text = text.lstrip()
        if text:
            self._put(text, written)
            self._gap = text.isspace()
        else:
            self.leave_out()

    def part(self, written: int) -> None:
        """Put a comma between two cells, if both have words."""
        self._trim()
        if self._length:
            last = self._pieces[-1][-1]
            self._put(" " if last in _TIGHT and last != ")" else ", ", written)
        self._gap = True

    def leave_out(self) -> None:
        """Record that nothing is said for what stands here when written."""
        self._gap = True

    def _put(self, text: str, written: int) -> None:
        self._pieces.append(text)
        self._length += len(text)
        self._places.append((self._length, written))
        self._gap = False

    def _trim(self) -> None:
        """Take back spaces at the end."""
        while self._pieces:
            kept = self._pieces[-1].rstrip()
            self._length -= len(self._pieces[-1]) - len(kept)
            if kept:
                self._pieces[-1] = kept
                return
            self._pieces.pop()

    def form(self, written: str) -> SpokenForm:
        self._trim()
        text = "".join(self._pieces).removesuffix(",").rstrip()
        places = tuple(self._places)
        if sign := _HEADING.match(text):
            text = text[sign.end() :]
            places = tuple((max(0, at - sign.end()), there) for at, there in places)
        if not any(map(str.isalnum, text)):
            return SpokenForm("", written)
        return SpokenForm(text, written, places)


def _said(kind: str | None, mark: re.Match[str], line: str) -> str:
    """Return the words that are said for a mark of this kind; empty for most."""
    match kind:
        case "stars":
            return _literal("*", mark, line)
        case "lines":
            return _literal("_", mark, line)
        case "escaped":
            return _literal(mark["escaped"], mark, line)
        case "code":
            code = mark["code"]
            plain = MarkdownReader(acts=False)  # "(laughs)" may be a command
            return plain.read(code).text if _SPECIAL.search(code) else code
        case "target":
            label, target = mark["label"], mark["target"]
            words = MarkdownReader().read(label).text if label else ""
            return words or (
                "" if mark[0][0] == "!" else _host(target[1:-1].strip("<>"))
            )
        case "url":
            url = mark["url"].rstrip(_BEHIND_ADDRESS)
            tail = mark["url"][len(url) :].lstrip(")" if "(" in url else "")
            return _host(url) + tail.translate(_NO_MARKS | _NO_LINES)
        case "newline":
            return " "
        case "mail" | "raised" | "styled":
            return mark[kind]
        case "tag":
            return " " if mark["tag"].strip("/").lower() in _APART else ""
        case "entity":
            return (
                html.unescape(mark["entity"]).replace("\xa0", " ").translate(_NO_MARKS)
            )
        case "maths" | "display" | "inline" | "loose":
            return _formula(mark[kind])
        case "waves":
            inside = line[mark.start() - 1 : mark.start()].isalnum()
            about = line[mark.end() : mark.end() + 2].lstrip()[:1].isdigit()
            return "~" if mark[0] == "~" and about and not inside else ""
        case "bright":
            start, end = mark.span()
            alone = line[start - 1 : start] + line[end : end + 1]
            return mark[0] if alone.isspace() else ""
    return ""


def _literal(character: str, mark: re.Match[str], line: str) -> str:
    """Return a character of Markdown where it is none of its marks, else nothing."""
    start, end = mark.span()
    left, right = line[max(0, start - 3) : start], line[end : end + 5]
    if character == "*":
        spaced = left[-1:].isspace(), right[:1].isspace()
        tight = left[-1:].isalpha() or right[:1].isalpha()
        sign = mark[0].strip("\\")
        multiplies = _FACTOR.search(left) and _NEXT_FACTOR.match(right)
        is_power = sign == "**" and left[-1:].isdigit() and right[:1].isdigit()
        here = sign == "*" and multiplies and spaced[0] == spaced[1] and not tight
        return sign if here or is_power else ""
    if character == "_":
        inside = left[-1:].isalnum() and right[:1].isalnum()
        return mark[0].strip("\\") if inside else ""
    return "" if character in "`~|[]" else character


def _formula(text: str) -> str:
    """Return a formula of LaTeX as plain text."""
    text = _FRACTION.sub(r"\1 / \2", text)
    text = _COMMAND.sub(lambda found: _COMMANDS.get(found[1], f"{found[1]} "), text)
    text = text.replace("^2", "²").replace("^3", "³").translate(_NO_SIGNS)
    return " ".join(_PICTURES.sub("", text.translate(_NO_MARKS)).split())


_NO_SIGNS: Final = {ord(sign): None for sign in "{}`|$"} | {
    ord("_"): " ",
    ord("~"): " ",
    ord("&"): " ",
}


def _host(address: str) -> str:
    """Return the part of an address that people say."""
    if address.startswith("mailto:"):
        return address.removeprefix("mailto:").partition("?")[0]
    found = _HOST.match(address)
    return found[1] if found and "." in found[1] else ""
