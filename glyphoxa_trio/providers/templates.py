"""Remove the marks of chat templates from an answer, and read the calls among them.

Templates have marks of their own for calls, results, channels and the ends of turns. A
server that does not know a model's template passes them on as text. None of them is
spoken, however the stream is split: a block between two marks is withheld and read as
calls (`template_calls`), the header of a role or a channel is read for whose words
follow, and any other mark is dropped. Words of another role than the model's own, and
of a channel that is not the final one, are withheld as well.

What has no marks of a template comes back as text unless it is a call: an object, a
fence of code, an element with a tool's name, and a tool's name with arguments where a
sentence may begin. It is withheld until it is complete or cannot be a call any more.
Words after a mark that was written where none was meant are spoken.

No I/O. The work is linear in the length of the answer.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final

import attrs

from glyphoxa_trio.tools.arguments import InvalidArguments, as_object, load
from glyphoxa_trio.tools.outcome import ToolCall

from .template_calls import VENDOR, Call, calls_in, tool_named

MOST_ANSWER: Final = 2 * 1024 * 1024  # characters of one block
MOST_HELD: Final = 400  # characters that name no tool and may be text
_MOST_HEADER: Final = 200
_MOST_OF_USER: Final = 1_000  # characters of a turn of the user's

_TAGS: Final = (
    r"(?:[a-z]{1,12}_){0,3}(?:tool|function)?(?:tools?|functions?|calls?|invoke)"
    r"(?:_[a-z]{1,12}){0,2}"
)
_ATTRIBUTE: Final = r"(?:\s{1,9}\w{1,24}\s{0,9})?=[^<>\[{`]{0,200}"  # a name
_HALVES: Final = "tool_call|tool_response|channel|turn"
_SQUARE: Final = (
    r"(?-i:(?:[A-Z]{1,12}_){0,2}(?:(?:TOOL|CALL|FUNCTION)S?|INST|ARGS)"
    r"(?:_[A-Z]{1,12}){0,2})"
)
_MARK: Final = re.compile(
    rf"<(?!end_){VENDOR}(?P<tag>{_TAGS})(?:{_ATTRIBUTE}|\s{{0,9}})>"
    rf"|</{VENDOR}(?:{_TAGS}|parameters?|arguments?|s)>|<end_{_TAGS}>|<escape>"
    rf"|<\|(?P<half>{_HALVES})>|<(?:{_HALVES})\|>"  # of Gemma 4
    r"|<(?:s|bos|eos|pad|unk|end_of_turn)>"
    r"|<(?P<turn>start_of_turn)>"
    r"|<[|\uff5c](?P<token>[^|\uff5c<>\n\[{`]{1,48})[|\uff5c]>"
    rf"|(?P<own><(?P<tool>[a-z][\w.-]{{0,63}})(?:{_ATTRIBUTE}|\s{{0,9}})>)"
    rf"|\[(?P<square>{_SQUARE})\]|\[(?:/|END_){_SQUARE}\]"
    r"|(?P<fence>```)"
    r"|(?P<object>(?:\[\s{0,9})?\{\s{0,9}[\"'][\w./:-]{1,64}[\"']\s{0,9}:"
    r"|(?:\[\s{0,9}){1,2}[a-z_][\w.:/-]{0,64}\()",
    re.IGNORECASE,
)
# The end of a piece that may become one of them.
_BEGINNING: Final = re.compile(
    rf"</?{VENDOR}[\w.-]{{0,64}}[|:\uff5c]?\Z"
    rf"|<{VENDOR}[a-z][\w.-]{{0,63}}(?:{_ATTRIBUTE}|\s{{0,9}}\w{{0,24}}\s{{0,9}})\Z"
    r"|</?[|\uff5c][^|\uff5c<>\n\[{`]{0,48}[|\uff5c]?\Z"
    r"|\[/?[A-Z_]{0,64}\Z|`{1,2}\Z"
    r"|(?:\[\s{0,9}){1,2}(?:[A-Z_][\w.:/-]{0,64})?\Z"
    r"|(?:\[\s{0,9})?\{\s{0,9}(?:[\"'][\w./:-]{0,64}(?:[\"']\s{0,9})?)?\Z",
    re.IGNORECASE,
)
_FENCE: Final = re.compile(r"tool_\w{1,8}(?=\W)|\w{0,14}[ \t]{0,9}(?:\r?\n|(?=[\[{<]))")
_FENCE_BEGINS: Final = re.compile(r"\w{0,14}[ \t]{0,9}\r?\Z")
_SIGNS: Final = re.compile(r"[<\[`{]")
_FORM: Final = re.compile(r"[=\s].*", re.DOTALL)  # all of a mark but its name
_LONGEST: Final = 300  # characters that `_BEGINNING` may match
_AT_ONCE: Final = 512  # characters; the rest is copied at each mark

# Where a sentence may begin, by the three characters before.
_SIGN: Final = r"[^\w\s<\[{(\"'`]"
_STARTS: Final = re.compile(
    r"(?:\A[ \t]*|(?<=\n)|(?<=[.!?:\u2026] )|(?<=[.!?\u2026][\"'\u201d\u2019\xbb)*] )"
    rf"|(?<=[\u3002\uff01\uff1f]))(?=\w|{_SIGN})"
)
# What may stand before a tool's name in a call without marks, and behind the name.
_LABELS: Final = (
    *("tool", "tools", "function", "functions", "call", "calls", "action", "print("),
    *("default_api", "functools", "commentary", "to"),
)
_LABELLED: Final = re.compile(
    rf"(?:{_SIGN}{{1,4}}[ \t]{{0,3}}"
    rf"|(?:{'|'.join(map(re.escape, _LABELS))})(?<!\w(?=[^\W_]))[_ \t]{{0,3}}){{0,8}}",
    re.IGNORECASE,
)
_SURE: Final = re.compile(
    r"[:=>@/(]|\w\.|functools"
)  # in a label that needs no line of its own
_FILLERS: Final = ("action", "input", "arguments", "parameters", "args", "json")
_GLUE: Final = re.compile(
    rf"(?:\s{{1,4}}|:\d{{1,3}}|{_SIGN}{{1,3}}|<[|\uff5c][^|\uff5c<>\n]{{1,48}}[|\uff5c]>"
    rf"|```|(?:{'|'.join(_FILLERS)})(?![^\W_])){{0,16}}",
    re.IGNORECASE,
)
_GLUE_BEGINS: Final = re.compile(
    r"<(?:[|\uff5c][^|\uff5c<>\n]{0,48}[|\uff5c]?)?|`{1,2}"
)
_KEYWORD: Final = re.compile(r"\(\s{0,9}(?:[){]|\w{1,64}\s{0,9}=(?=[^=]))")
_KEYWORD_BEGINS: Final = re.compile(r"\(\s{0,9}(?:\w{1,64}\s{0,9}=?)?")
_IDENTIFIER: Final = re.compile(r"[\w-]{1,128}")

_STOPS: Final = r"<\|(?:eot_id|im_end|end)\|>|</s>|<end_of_turn>"
# How the token that begins a block changes in the one that ends it.
_PAIRS: Final = {"begin": "end", "start": "end", "prefix": "suffix"}
_BEGINS: Final = re.compile(r"call|action|tools_|output|response|thinking")
_NO_BEGIN: Final = frozenset({"end", "suffix", "sep", "argument"})
_NO_CALLS: Final = re.compile(
    r"response|result|output|available|inst|thinking", re.IGNORECASE
)
_ROLES: Final = frozenset(
    {"turn", "im_start", "start_header_id", "start", "start_of_turn"}
)
_ROLE_ENDS: Final = re.compile(
    r"\n|<\|(?:end_header_id|message|im_sep)\|>|(?=<\|channel\|>)", re.IGNORECASE
)
_MESSAGE: Final = re.compile(re.escape("<|message|>"), re.IGNORECASE)
_CHANNEL_ENDS: Final = re.compile(
    r"<\|(?:end|call|return)\|>|(?=<\|(?:start|channel)\|>)", re.IGNORECASE
)
_FENCE_ENDS: Final = re.compile("```")
# The end of a piece that may become the end of a block.
_ENDING: Final = re.compile(r"(?:[<\[][^<\[\]>\s]{0,48}[>\]]?|`{1,2})\Z")
# Words, of a block that never ends: a mark was written where none was meant.
_WORDS: Final = re.compile(r"[^<>{}\[\]=|`]*\w\s+\w[^<>{}\[\]=|`]*")
_OTHERS: Final = re.compile(r"response|result|output|available|thinking", re.IGNORECASE)
_OWN: Final = re.compile(r"(?:assistant|model|ai|gpt|bot)\b", re.IGNORECASE)
_TO: Final = re.compile(r"\bto=([^\s<]+)")

_STRINGS: Final = {sign: re.compile(rf"\\.|{sign}", re.DOTALL) for sign in "\"'"}
_BRACKETS: Final = re.compile(r"[\"'`{}\[\]()]|[\w.-]{1,128}")
_AFTER_WORD: Final = re.compile(r"\s{0,64}(.)?", re.DOTALL)
_LITERALS: Final = frozenset({"true", "false", "null", "True", "False", "None"})
_BLANK: Final = re.compile(r"[^\w<\[{(`]{0,64}")
_WORD: Final = re.compile(r"([\w.:/'\u2019-]{1,128})([ \t]{0,64})")
_LINE: Final = re.compile(r"[ \t]{0,64}(.)?", re.DOTALL)
_NAMED: Final = re.compile(r"(?<![\w-])[\w-]{1,128}(?=[\"'<(>])")


@attrs.define(eq=False, kw_only=True)
class _Withheld:
    """A block of text that is withheld until its end.

    Args:
      mark: the mark that began it.
      content: the part of it that was taken already.
      end: the pattern that ends it; None at the end of its outermost bracket.
      names: of the tools that were shown.
      most: how many characters may be taken; of text, if they name no tool.
      header: "role" or "channel", if it says whose words follow.
      to: the tool for which it has arguments, if a header named it.
      whole: True if the marks belong to the call that it is.
      calls: False if it has the words of others, such as results.
      text: True if it comes back as text unless it is a call.
      lone: True if it is a call only if its line ends after it.
      state: what is looked at: "start", what follows a mark or a bracket, where words
        end the block; "open", whether a bracket follows a fence; "brackets", inside of
        them; "line", what follows on the line; "end", nothing but the pattern.
      depth: how many brackets are open.
    """

    mark: str = ""
    content: str = ""
    end: re.Pattern[str] | None = None
    names: frozenset[str] = frozenset()
    most: int = MOST_ANSWER
    header: str = ""
    to: str = ""
    whole: bool = False
    calls: bool = True
    text: bool = False
    lone: bool = False
    state: str = "end"
    depth: int = 0
    closed: bool = attrs.field(default=False, init=False)
    looked: int = attrs.field(default=-1, init=False)  # up to where it is spoken
    _spoken: bool = attrs.field(default=False, init=False)
    _parts: list[str] = attrs.field(factory=list, init=False)
    _size: int = attrs.field(default=0, init=False)
    _rest: str = attrs.field(default="", init=False)  # not looked at yet
    _quote: str = attrs.field(default="", init=False)

    def take(self, text: str) -> str | None:
        """Take text up to the block's end, and return the rest; None before the end.

        If the block turns out to be none, all that was taken is in the rest, and
        ``looked`` says how much of it that is.
        """
        text, self._rest = self._rest + text, ""
        # A fence does not end in a text of an object.
        end = None if self.text and self.state in ("open", "brackets") else self.end
        found = end.search(text) if end is not None else None
        stop = len(text) if found is None else found.start()
        if found is None and end is not None:
            tail = _ENDING.search(text, max(0, stop - 64))
            stop = stop if tail is None else tail.start()
        at, ended = self._look(text[:stop], searched=end is not None)
        if self._size + at > self.most and not self._goes_on(text):
            at, ended = self.most - self._size, True
            self._spoken = not self.header
        elif found is not None and not ended:
            self.closed = ended = True
            self._parts.append(text[: found.end() if self.whole else stop])
            self.content += "".join(self._parts)
            return text[found.end() :]
        if self._spoken:
            taken = (self.content if self.text else "") + "".join(self._parts)
            self.looked = len(taken) + at
            return taken + text
        self._parts.append(text[:at])
        self._size += at
        if end is not self.end and self.state == "end" and not ended:
            return self.take(text[at:])
        if ended:
            self.content += "".join(self._parts)
            return text[at:]
        self._rest = text[at:]
        return None

    def finish(self) -> None:
        """Take what is left, at the end of the answer."""
        self.content += "".join(self._parts) + self._rest

    def names_a_tool(self, more: str = "", most: int = MOST_ANSWER) -> bool:
        """Return whether one of the tools is named in the content."""
        text = self.content + ("".join(self._parts) + more)[:most]
        return not self.names.isdisjoint(_NAMED.findall(text))

    def _goes_on(self, text: str) -> bool:
        """Return whether this much text may still be a call."""
        if not self.text or not self.names_a_tool(text, self.most):
            return False
        self.most = MOST_ANSWER
        return True

    def _look(self, text: str, *, searched: bool) -> tuple[int, bool]:
        """Return up to where the text was looked at, and whether the block ends there
        without a mark. ``searched``: True if the mark that ends it is not in the text.
        """
        at, ended = 0, False
        while not ended:
            before = at, self.state
            match self.state:
                case "start":
                    at, ended = self._start(text, at)
                case "brackets":
                    at = self._brackets(text, at)
                case "open":
                    at += len(text[at:]) - len(text[at:].lstrip())
                    if text[at:]:
                        self.state = "brackets" if text[at] in "{[" else "end"
                case "line":
                    after = _LINE.match(text, at)
                    if after is not None and (after[1] or after.end() - at == 64):
                        self._spoken = after[1] not in ("\r", "\n")
                        ended = True
                case _:
                    return len(text) if searched else at, self.end is None
            ended = ended or self._spoken
            if (at, self.state) == before:
                break
        return at, ended

    def _start(self, text: str, at: int) -> tuple[int, bool]:
        """Look at what follows the mark, or a bracket that was closed: words end it."""
        begin = at
        at += len(_BLANK.match(text, at)[0])  # type: ignore[index]
        word = _WORD.match(text, at)
        if at == len(text) or (word is not None and word.end() == len(text)):
            return begin, False
        if word is None:
            self.state = "brackets" if text[at] in "{[(" else "end"
            return at, False
        follows, gap = text[word.end()], word[2]
        if (
            (gap and follows.isalnum() and word[1][-1] != ":")
            or follows in ",!?;\u2026\u3002\uff0c\uff01\uff1f"
            or (word[1][-1] in ".'" and (gap or follows == "\n"))
        ):
            self._spoken = not self._size and not begin
            return begin, True
        return word.end(), False

    def _brackets(self, text: str, at: int) -> int:
        """Go on to the end of the outermost bracket; return up to where it was looked.
        Words that are neither quoted nor names are none of a call's."""
        while True:
            signs = _STRINGS[self._quote] if self._quote else _BRACKETS
            found = signs.search(text, at)
            if found is None:
                cut = self._quote and text.endswith("\\")
                return max(at, len(text) - 1 if cut else len(text))
            sign = found[0]
            if sign in ('"', "'"):
                self._quote = "" if self._quote else sign
            elif sign in ("{", "[", "("):
                self.depth += 1
            elif sign == "`":
                if self.end is _FENCE_ENDS:
                    self.state = "end"
                    return found.start()
            elif sign in ("}", "]", ")"):
                self.depth -= 1
                if self.depth <= 0:
                    fenced = self.text and not self.lone
                    self.state = "line" if self.lone else "end" if fenced else "start"
                    return found.end()
            elif not self._quote and self.text:
                after = _AFTER_WORD.match(text, found.end())
                if after is None or not after[1]:
                    return found.start()
                known = not sign[0].isidentifier() or sign in _LITERALS
                if not known and after[1] not in "=:(":
                    self._spoken = True
                    return found.end()
            at = found.end()


@attrs.define(eq=False, kw_only=True)
class Templates:
    """The filter: text in as it is written, text out that may be spoken.

    Args:
      names: of the tools that the model was shown.
      schemas: of their arguments, as far as they are known.
      found: called with the first mark of this answer and "", and with the mark and the
        content of the first block of calls in which none of a tool that was shown
        could be read.
    """

    names: frozenset[str] = frozenset()
    schemas: Mapping[str, Any] = attrs.field(factory=dict)
    found: Callable[[str, str], None] = lambda _mark, _unread: None
    _calls: list[Call] = attrs.field(factory=list, init=False)
    # The form in which each of them was written first, by tool and arguments.
    _forms: dict[tuple[str, str], str] = attrs.field(factory=dict, init=False)
    _held: str = attrs.field(default="", init=False)  # may be the beginning of a mark
    _block: _Withheld | None = attrs.field(default=None, init=False)
    _to: str = attrs.field(default="", init=False)  # the recipient that a role named
    _muted: bool = attrs.field(default=False, init=False)  # by another role's words
    _code: bool = attrs.field(default=False, init=False)  # in a fence that is text
    _told: int = attrs.field(default=0, init=False)  # 1: of a mark; 2: of a block
    _before: str = attrs.field(default="", init=False)  # the last characters, if words
    _fed: int = attrs.field(default=0, init=False)
    _plain: int = attrs.field(default=0, init=False)  # text up to there is no call

    def feed(self, piece: str) -> str:
        """Return the text that may be spoken now and has not been returned yet."""
        self._fed += len(piece)
        if self._block is None and not self._held and not _SIGNS.search(piece):
            window = self._before + piece
            if not self.names or not _STARTS.search(window, len(self._before)):
                return self._spoken(piece)
        if len(piece) > _AT_ONCE:
            self._fed -= len(piece)
            starts = range(0, len(piece), _AT_ONCE)
            return "".join(self.feed(piece[at : at + _AT_ONCE]) for at in starts)
        text, self._held = self._held + piece, ""
        said = ""
        while text:
            if (block := self._block) is not None:
                rest = block.take(text)
                if rest is None:
                    return said
                if block.looked >= 0:
                    said += self._not_a_block(block, rest)
                elif (back := self._close()) and block.whole:
                    # Marks of a template in an element are none of its text.
                    self._plain, rest = self._fed - len(rest), back + rest
                else:
                    said += back
                text = rest
                continue
            match = self._mark(text)
            cut = len(text) if match is None else match.start()
            begin, end, lone = self._head(text, cut) if self.names else (cut, 0, False)
            if begin < cut and end:
                said += self._spoken(text[:begin])
                text = self._begin_head(text[begin:end], text[end:], lone)
            elif begin < cut or match is None:
                held = _BEGINNING.search(text, max(0, cut - _LONGEST))
                cut = min(begin, cut if held is None else held.start())
                self._held = text[cut:]
                return said + self._spoken(text[:cut])
            elif not match["fence"]:
                said += self._spoken(text[:cut])
                text = self._begin(match, text[match.end() :])
            elif not self._code and (fence := _FENCE.match(text, match.end())):
                said += self._spoken(text[:cut])
                text = self._begin_fence(text[cut : fence.end()], text[fence.end() :])
            elif not self._code and _FENCE_BEGINS.match(text, match.end()):
                self._held = text[cut:]
                return said + self._spoken(text[:cut])
            else:
                self._code = not self._code
                said += self._spoken(text[: match.end()])
                text = text[match.end() :]
        return said

    def end(self, *, cut: bool = False) -> str:
        """Return the rest, at the end of the answer.

        Args:
          cut: True if the answer was ended before it was complete.
        """
        held, self._held = self._held, ""
        said = self._spoken(held)
        if self._block is not None:
            self._block.finish()
            if self._block.text and self._block.whole and (back := self._close()):
                self._plain, self._held = self._fed, back
                return self.feed("") + self.end(cut=cut)
        if self._block is not None:
            self._block.calls = self._block.calls and not cut
            mark, words = self._block.mark, self._block.content
            before = len(self._calls)
            said += self._close()
            # It had no end, and no call is in it: what looks like speech was speech.
            meant = not mark.startswith(("<|", "<\uff5c")) and not _OTHERS.search(mark)
            if meant and not said and before == len(self._calls):
                said = self._spoken(words if _WORDS.fullmatch(words) else "")
        return said

    def besides(self, calls: Iterable[ToolCall]) -> list[Call]:
        """Return the calls in the text, by the names of tools that were shown.

        A call is often repeated as text beside itself: those of ``calls`` are left out.
        """
        if not self._calls:
            return []
        known = {(call.name, _loosely(as_object(call.arguments))) for call in calls}
        return [
            x for x in self._calls if (x[0], _loosely(as_object(x[1]))) not in known
        ]

    def _spoken(self, text: str) -> str:
        window = self._before + text
        begun = self._before or window.strip(" \t")
        self._before = window[-3:] if begun else ""
        return "" if self._muted else text

    def _is_plain(self, text: str, at: int) -> bool:
        """Return whether this was looked at before, and is no call."""
        return self._fed - len(text) + at < self._plain

    def _mark(self, text: str) -> re.Match[str] | None:
        """Find the first mark that means something here."""
        for match in _MARK.finditer(text):
            may_be_text = match["own"] or match["fence"] or match["object"]
            if not (may_be_text and self._is_plain(text, match.start())):
                return match
        return None

    def _head(self, text: str, stop: int) -> tuple[int, int, bool]:
        """Find the beginning of a call without marks before ``stop``.

        Returns where it begins (``stop`` for none), where its arguments do (0 if more
        text is needed), and whether its line must end after it.
        """
        size = len(self._before)
        for start in _STARTS.finditer(self._before + text, size, size + stop):
            begin = start.end() - size
            if begin < stop and not self._is_plain(text, begin):
                with suppress(LookupError):
                    return begin, *_head_at(text, begin, self.names)
        return stop, 0, False

    def _begin_head(self, head: str, rest: str, lone: bool) -> str:
        """Begin the block of a call without marks; return the text that follows."""
        named = not self.names.isdisjoint(_IDENTIFIER.findall(head))
        self._block = _Withheld(
            content=head,
            end=_FENCE_ENDS if "```" in head else None,
            names=self.names,
            most=MOST_ANSWER if named else MOST_HELD,
            text=True,
            lone=lone,
            state="brackets",
            depth=head.count("(") + head.count("["),
        )
        return rest

    def _begin_fence(self, mark: str, rest: str) -> str:
        """Begin the block of a fence; return the text that follows."""
        text = "tool_" not in mark
        self._block = _Withheld(
            mark=mark,
            end=_FENCE_ENDS,
            names=self.names,
            most=MOST_HELD if text else MOST_ANSWER,
            text=text,
            state="open" if text else "end",
        )
        return rest

    def _begin(self, match: re.Match[str], rest: str) -> str:
        """Begin the block of a mark, if it begins one; return the text that follows."""
        mark = match.group()
        block: _Withheld | None = None
        if name := match["tag"]:
            half = name.lower().removeprefix("start_")
            last = f"/{VENDOR}{name}" if half == name.lower() else f"end_{half}"
            end = re.compile(f"<{last}>|{_STOPS}", re.IGNORECASE)
            whole = "=" in mark  # it names the tool
            block = _Withheld(mark=mark, end=end, whole=whole, state="start")
            block.content = mark if whole else ""
        elif name := match["square"]:
            end = re.compile(rf"\[(?:/|END_){name}\]|{_STOPS}", re.IGNORECASE)
            block = _Withheld(mark=mark, end=end, state="start")
            if name == "INST":
                plain = self._is_plain(rest, 0)
                block.most = _MOST_OF_USER
                block = None if plain else block
        elif (name := match["half"]) and name != "turn":
            end = re.compile(rf"<{name}\|>", re.IGNORECASE)
            block = _Withheld(mark=mark, end=end, calls=name != "channel")
        elif name := match["token"] or match["turn"] or match["half"]:
            block = self._of_token(mark, name.lower().replace("\u2581", "_").strip())
        elif own := match["own"]:
            end = re.compile(f"</{re.escape(match['tool'])}>")
            block = _Withheld(content=own, end=end, text=True, whole=True)
            block.most = MOST_HELD
            block.state = "start"
        elif match["object"]:
            block = _Withheld(text=True, most=MOST_HELD, state="brackets")
            rest = mark + rest
        if mark.endswith("/>") and block is not None:
            block.end = re.compile("")
        if block is None or not block.text:
            self._before = ""
        if block is not None:
            block.names = self.names
            block.calls = block.calls and _NO_CALLS.search(mark) is None
            if not block.calls or block.header:
                block.state = "end"
        if block is None or not (block.calls or block.text):
            self._tell(mark)
        self._block = block
        return rest

    def _of_token(self, mark: str, name: str) -> _Withheld | None:
        """Return the block that a token begins, if it begins one."""
        if name in _ROLES:
            return _Withheld(
                mark=mark, end=_ROLE_ENDS, header="role", most=_MOST_HEADER
            )
        if name == "channel":
            return _Withheld(
                mark=mark, end=_MESSAGE, header="channel", most=_MOST_HEADER
            )
        words = name.split("_")
        begins = _BEGINS.search(name) and _NO_BEGIN.isdisjoint(words)
        if name != "python_tag" and (not begins or name[0] == "/"):
            return None
        last = "[_\u2581]".join(_PAIRS.get(x, re.escape(x)) for x in words)
        last = f"/{last}" if _PAIRS.keys().isdisjoint(words) else last
        last = "eom_id" if name == "python_tag" else last
        ends = rf"<[|\uff5c]{last}[|\uff5c]>|{_STOPS}"
        return _Withheld(mark=mark, end=re.compile(ends, re.IGNORECASE), state="start")

    def _not_a_block(self, block: _Withheld, rest: str) -> str:
        """Let the text of a block that is none be read as text; return its mark, if
        that is to be spoken."""
        self._block = None
        self._plain = self._fed - len(rest) + block.looked
        if not block.text:
            self._tell(block.mark)
            return ""
        self._code = self._code or block.end is _FENCE_ENDS
        return self._spoken(block.mark)

    def _close(self) -> str:
        """End the block; return the text that comes back."""
        block, self._block = self._block, None
        assert block is not None
        if block.header == "role":
            self._tell(block.mark)
            role = block.content.strip()
            self._muted = bool(role) and _OWN.match(role) is None
            self._to = _recipient(block.content)
        elif block.header == "channel":
            self._tell(block.mark)
            self._muted = False
            to, self._to = _recipient(block.content) or self._to, ""
            if not block.content.strip().lower().startswith("final"):
                self._block = _Withheld(
                    mark=block.mark, end=_CHANNEL_ENDS, to=to, calls=bool(to)
                )
        elif self._found_calls(block):
            self._tell(block.mark or block.content[:20])
            self._before = ""
        elif not block.text:
            self._tell(block.mark, block.content.strip() if block.calls else "")
        # A call that was cut is neither run nor said.
        elif not (
            (block.depth > 0 or (block.lone and not block.calls))
            and block.names_a_tool()
        ):
            ended = "```" if block.closed and block.end is _FENCE_ENDS else ""
            return self._spoken(f"{block.mark}{block.content}{ended}")
        return ""

    def _found_calls(self, block: _Withheld) -> bool:
        """Add the calls of a block; return whether it has any."""
        if not block.calls:
            return False
        if block.to:
            named = tool_named(block.to, self.names)
            found = [(named, block.content)] if named else []
        else:
            tools = {name: self.schemas.get(name) for name in self.names}
            found = calls_in(block.content, tools, bare=block.text)
        form = _FORM.sub("", block.mark).lower()
        read = False
        for call in found:
            with suppress(InvalidArguments):
                # Written before in another form, it is the same one; two in one form
                # are two.
                known = call[0], _loosely(load(call[1]))
                read = True
                if self._forms.setdefault(known, form) == form:
                    self._calls.append(call)
        return read

    def _tell(self, mark: str, unread: str = "") -> None:
        """Report the first mark, and the first block that could not be read."""
        if self._told < (2 if unread else 1):
            self._told = 2 if unread else 1
            self.found(mark, unread)


def _recipient(header: str) -> str:
    """Return the tool that a header of the harmony format names."""
    found = _TO.search(header)
    return found[1] if found else ""


@lru_cache(maxsize=32)
def _in_order(names: frozenset[str]) -> list[str]:
    return sorted(names)


def _head_at(text: str, at: int, names: frozenset[str]) -> tuple[int, bool]:
    """Return where the arguments of a call begin whose name may begin here (0 if more
    text is needed), and whether nothing but the name says that it is a call.

    Raises:
      LookupError: if none begins here.
    """
    label = _LABELLED.match(text, at)
    assert label is not None
    at, sure = label.end(), _SURE.search(label[0]) is not None
    rest = text[at : at + 130]
    if _is_begun(rest, _LABELS):
        return 0, False
    word = _IDENTIFIER.match(rest)
    if word is not None:
        order = _in_order(names)
        nearest = bisect_left(order, word[0])
        if word.end() == len(rest) and _is_begun(rest, order[nearest : nearest + 1]):
            return 0, False
        if word[0] not in names:
            raise LookupError
        at += word.end()
        if text[at : at + 1] == "(":
            if _KEYWORD.match(text, at):
                return at, not sure
            if _KEYWORD_BEGINS.fullmatch(text, at):
                return 0, False
            raise LookupError
    elif not sure:
        raise LookupError
    at += len(_GLUE.match(text, at)[0])  # type: ignore[index]
    if text[at : at + 1] == "{" or (word is None and text[at : at + 1] == "["):
        return at, False
    if _is_begun(text[at : at + 130], _FILLERS) or _GLUE_BEGINS.fullmatch(text, at):
        return 0, False
    raise LookupError


def _is_begun(text: str, words: Iterable[str]) -> bool:
    """Return whether one of the words begins with all of the text."""
    low = text.lower()
    return any(word.lower().startswith(low) for word in words)


def _loosely(value: Any) -> str:
    """Return arguments as a text that does not tell numbers from their texts."""
    return json.dumps(_plain(value), sort_keys=True)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if isinstance(value, str):
        with suppress(ValueError, RecursionError):
            read = json.loads(value)
            return value if isinstance(read, str) else _plain(read)
        return value
    return (
        float(value) if isinstance(value, int | float) and abs(value) < 2**53 else value
    )
