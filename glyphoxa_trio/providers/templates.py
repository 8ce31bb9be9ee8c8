"""Remove the marks of chat templates from an answer, and read the calls among them.

Templates have marks of their own for calls, results, channels and the ends of turns. A
server that does not know a model's template passes them on as text. None of them is
spoken, however the stream is split: a block between two marks is withheld and read as
calls (`template_calls`), the header of a role or a channel is read for whose words
follow, and any other mark is dropped. Words of another role than the model's own, and
of a channel that is not the final one, are withheld as well.

An object such as ``{"name": "roll", "arguments": …}`` is withheld only if it is a call.
Otherwise, and so with a fence of code, it comes back as text once it is complete.

No I/O. The work is linear in the length of the answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

import attrs

from glyphoxa_trio.tools.arguments import InvalidArguments, as_object, load
from glyphoxa_trio.tools.outcome import ToolCall

from .template_calls import Call, calls_in, tool_named

MOST_ANSWER: Final = 2 * 1024 * 1024  # characters of one block

_VENDOR: Final = (
    r"(?:[|\uff5c]\w{1,12}[|\uff5c]|\w{1,12}:)?"  # as in <minimax:tool_call>
)
_TAGS: Final = (
    r"(?:[a-z]{2,12}_)?tool_?calls?|function_?calls?|tool_use|tool_code|tool_response|tool_results?"
    r"|function_results?|function_response|function|invoke"
)
_ATTRIBUTE: Final = r"(?:\s{1,9}\w{1,24}\s{0,9})?=[^<>\[{`]{0,200}"  # a name
_OF: Final = "(?:call|response)"
_HALVES: Final = "tool_call|tool_response|channel|turn"
_SQUARE: Final = "TOOL_CALLS|TOOL_RESULTS|TOOL_REQUEST|INST|AVAILABLE_TOOLS"
_KEYS: Final = (  # of an object that is a call
    "id|tool_call_id|action|name|type|tool|tool_name|tool_calls?|function|function_name|function_call"
    "|recipient_name|arguments|parameters"
)
_MARK: Final = re.compile(
    rf"<{_VENDOR}(?P<tag>{_TAGS})(?:{_ATTRIBUTE}|\s{{0,9}})>"
    rf"|</{_VENDOR}(?:{_TAGS}|parameter|s)>"
    rf"|<(?P<start>start_)function_(?P<of>call|response)>|<end_function_{_OF}>|<escape>"
    rf"|<\|(?P<half>{_HALVES})>|<(?:{_HALVES})\|>"  # of Gemma 4
    r"|<(?:s|bos|eos|pad|unk|end_of_turn)>"
    r"|<(?P<turn>start_of_turn)>"
    r"|<[|\uff5c](?P<token>[^|\uff5c<>\n\[{`]{1,48})[|\uff5c]>"
    rf"|\[(?P<square>{_SQUARE})\]|\[(?:/|END_)(?:{_SQUARE})\]"
    r"|(?P<fence>```(?:(?:json|tool_\w{1,8})?[ \t]{0,9}\r?\n?(?=[ \t]{0,9}[\[{])"
    r"|py(?:thon)?[ \t]{0,9}\r?\n))"
    r"|(?P<code>```tool_\w{1,8}(?!\w|\Z))"
    r"|(?P<object>(?:\[\s{0,9})?\{\s{0,9}"
    rf'"(?:{_KEYS})"\s{{0,9}}:|\[\s{{0,9}}[a-z_][\w.]{{0,64}}\()',
    re.IGNORECASE,
)
# The end of a piece that may become one of them.
_BEGINNING: Final = re.compile(
    rf"</?{_VENDOR}\w{{0,24}}[|:\uff5c]?\Z"
    rf"|<{_VENDOR}(?:{_TAGS})(?:{_ATTRIBUTE}|\s{{0,9}}\w{{0,24}}\s{{0,9}})\Z"
    r"|</?[|\uff5c][^|\uff5c<>\n\[{`]{0,48}[|\uff5c]?\Z"
    r"|\[/?[A-Z_]{0,20}\Z"
    r"|`{1,2}\Z|```\w{0,14}[ \t]{0,9}\r?\n?[ \t]{0,9}\Z"
    r"|\[\s{0,9}(?:[A-Za-z_][\w.]{0,64})?\Z"
    r'|(?:\[\s{0,9})?\{\s{0,9}(?:"\w{0,14}"?\s{0,9})?\Z'
)
_SIGNS: Final = re.compile(r"[<\[`{]")
_FORM: Final = re.compile(r"[=\s].*", re.DOTALL)  # all of a mark but its name
_LONGEST: Final = 256  # characters that `_BEGINNING` may match
_AT_ONCE: Final = 4_096  # characters; the rest is copied at each mark
_OVERLAP: Final = 64  # characters; no end of a block is longer
_MOST_HEADER: Final = 200  # characters of a header

# The token that begins a block, and the one that ends it.
_ENDS: Final = {
    "python_tag": "eom_id",
    "tool_calls_section_begin": "tool_calls_section_end",
    "tool_call_begin": "tool_call_end",
    "tool_call_start": "tool_call_end",
    "tool_calls_begin": "tool_calls_end",
    "tool_call": "/tool_call",
    "tool_calls": "/tool_calls",
    "tool_outputs_begin": "tool_outputs_end",
    "tool_output_begin": "tool_output_end",
    "tool_response": "/tool_response",
    "start_action": "end_action",
    "action_start": "action_end",
    "start_thinking": "end_thinking",
    "tools_prefix": "tools_suffix",
}
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
_OBJECT_SIGNS: Final = re.compile(r'\\.|\\\Z|["{}\[\]]', re.DOTALL)
# Words, of a block that never ends: a mark was written where none was meant.
_WORDS: Final = re.compile(r"[^<>{}\[\]=|`]*\w\s+\w[^<>{}\[\]=|`]*")
_OTHERS: Final = re.compile(r"response|result|output|available|thinking", re.IGNORECASE)
_NAMED_FIRST: Final = re.compile(
    r'\s*(?:\[\s*)?\{\s*(?:"type"\s*:\s*"function"\s*,\s*)?'
    r'"(?:name|tool|tool_name|function)"\s*:\s*"([^"]{1,128})"'
)
_OWN: Final = re.compile(r"(?:assistant|model|ai|gpt|bot)\b", re.IGNORECASE)
_TO: Final = re.compile(r"\bto=([^\s<]+)")


@attrs.define(eq=False, kw_only=True)
class _Withheld:
    """A block of text that is withheld until its end.

    Args:
      mark: the mark that began it.
      end: the pattern that ends it; None at the end of its outermost bracket.
      header: "role" or "channel", if it says whose words follow.
      to: the tool for which it has arguments, if a header named it.
      whole: True if the marks belong to the call that it is.
      calls: False if it has the words of others, such as results.
      text: True if it comes back as text unless it is a call.
    """

    mark: str
    end: re.Pattern[str] | None = None
    header: str = ""
    to: str = ""
    whole: bool = False
    calls: bool = True
    text: bool = False
    closed: bool = attrs.field(default=False, init=False)
    _parts: list[str] = attrs.field(factory=list, init=False)
    _size: int = attrs.field(default=0, init=False)
    _tail: str = attrs.field(default="", init=False)
    _depth: int = attrs.field(default=0, init=False)
    _quoted: bool = attrs.field(default=False, init=False)
    _escaped: bool = attrs.field(default=False, init=False)

    @property
    def unfinished(self) -> bool:
        """True before the end of its outermost bracket."""
        return self._depth > 0

    @property
    def content(self) -> str:
        """The text that was taken so far."""
        return "".join(self._parts)

    def take(self, text: str) -> str | None:
        """Take text up to the block's end, and return the rest; None before the end."""
        at = self._end_of_object(text) if self.end is None else None
        if self.end is not None:
            window = self._tail + text
            if match := self.end.search(window):
                self.closed = True
                taken = "".join([*self._parts, text])
                begin = self._size - len(self._tail)
                last = match.end() if self.whole else match.start()
                self._parts = [taken[: begin + last]]
                return window[match.end() :]
            self._tail = window[-_OVERLAP:]
        elif at is not None:
            self._parts.append(text[:at])
            return text[at:]
        self._parts.append(text)
        self._size += len(text)
        if self._size > (_MOST_HEADER if self.header else MOST_ANSWER):
            return ""
        return None

    def _end_of_object(self, text: str) -> int | None:
        """Return where the outermost bracket is closed, None if it is not."""
        begin, self._escaped = (1 if self._escaped else 0), False
        for sign in _OBJECT_SIGNS.finditer(text, begin):
            match sign.group():
                case '"':
                    self._quoted = not self._quoted
                case "\\":
                    self._escaped = True
                case "{" | "[" if not self._quoted:
                    self._depth += 1
                case "}" | "]" if not self._quoted:
                    self._depth -= 1
                    if self._depth <= 0:
                        return sign.end()
        return None


@attrs.define(eq=False, kw_only=True)
class Templates:
    """The filter: text in as it is written, text out that may be spoken.

    Args:
      names: of the tools that the model was shown.
      found: called with the first mark of this answer.

    """

    names: frozenset[str] = frozenset()
    found: Callable[[str], None] = lambda _: None
    _calls: list[Call] = attrs.field(factory=list, init=False)
    # The form in which each of them was written first, by tool and arguments.
    _forms: dict[tuple[str, str], str] = attrs.field(factory=dict, init=False)
    _held: str = attrs.field(default="", init=False)  # may be the beginning of a mark
    _block: _Withheld | None = attrs.field(default=None, init=False)
    _to: str = attrs.field(default="", init=False)  # the recipient that a role named
    _muted: bool = attrs.field(default=False, init=False)  # by another role's words
    _told: bool = attrs.field(default=False, init=False)

    def feed(self, piece: str) -> str:
        """Return the text that may be spoken now and has not been returned yet."""
        if self._block is None and not self._held and not _SIGNS.search(piece):
            return "" if self._muted else piece
        if len(piece) > _AT_ONCE:
            starts = range(0, len(piece), _AT_ONCE)
            return "".join(self.feed(piece[at : at + _AT_ONCE]) for at in starts)
        text, self._held = self._held + piece, ""
        said = ""
        while text:
            if self._block is not None:
                rest = self._block.take(text)
                if rest is None:
                    return said
                said += self._close()
                text = rest
            elif match := _MARK.search(text):
                said += self._spoken(text[: match.start()])
                text = self._begin(match, text[match.end() :])
            else:
                held = _BEGINNING.search(text, max(0, len(text) - _LONGEST))
                cut = len(text) if held is None else held.start()
                self._held = text[cut:]
                return said + self._spoken(text[:cut])
        return said

    def end(self, *, cut: bool = False) -> str:
        """Return the rest, at the end of the answer.

        Args:
          cut: True if the answer was ended before it was complete.
        """
        held, self._held = self._held, ""
        said = self._spoken(held)
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
        known = [(call.name, as_object(call.arguments)) for call in calls]
        return [x for x in self._calls if (x[0], as_object(x[1])) not in known]

    def _spoken(self, text: str) -> str:
        return "" if self._muted else text

    def _begin(self, match: re.Match[str], rest: str) -> str:
        """Begin the block of a mark, if it begins one; return the text that follows."""
        mark = match.group()
        block: _Withheld | None = None
        if name := match["tag"]:
            whole = "=" in mark  # it names the tool
            end = re.compile(rf"</{_VENDOR}{name}>", re.IGNORECASE)
            block = _Withheld(mark=mark, end=end, whole=whole)
            rest = mark + rest if whole else rest
        elif name := match["square"]:
            block = _Withheld(
                mark=mark, end=re.compile(rf"\[(?:/|END_){name}\]|</s>", re.IGNORECASE)
            )
        elif match["start"]:
            end = re.compile(rf"<end_function_{match['of']}>", re.IGNORECASE)
            block = _Withheld(mark=mark, end=end)
        elif (name := match["half"]) and name != "turn":
            end = re.compile(rf"<{name}\|>", re.IGNORECASE)
            block = _Withheld(mark=mark, end=end, calls=name != "channel")
        elif name := match["token"] or match["turn"] or match["half"]:
            block = self._of_token(mark, name.lower().replace("\u2581", "_").strip())
        elif match["fence"] or match["code"]:
            text = not match["code"] and "tool_" not in mark
            block = _Withheld(mark=mark, end=re.compile("```"), text=text)
        elif match["object"]:
            block = _Withheld(mark="", text=True)
            rest = mark + rest
        if block is not None:
            block.calls = block.calls and _NO_CALLS.search(mark) is None
        if block is None or not block.text:
            self._tell(mark)
        self._block = block
        return rest

    def _of_token(self, mark: str, name: str) -> _Withheld | None:
        """Return the block that a token begins, if it begins one."""
        if name in _ROLES:
            return _Withheld(mark=mark, end=_ROLE_ENDS, header="role")
        if name == "channel":
            return _Withheld(mark=mark, end=_MESSAGE, header="channel")
        if name in _ENDS:
            last = re.escape(_ENDS[name]).replace("_", "[_\u2581]")
            ends = rf"<[|\uff5c]{last}[|\uff5c]>|<\|(?:eot_id|im_end|end)\|>|</s>"
            return _Withheld(mark=mark, end=re.compile(ends, re.IGNORECASE))
        return None

    def _close(self) -> str:
        """End the block; return the text that comes back."""
        block, self._block = self._block, None
        assert block is not None
        if block.header == "role":
            role = block.content.strip()
            self._muted = bool(role) and _OWN.match(role) is None
            self._to = _recipient(block.content)
        elif block.header == "channel":
            self._muted = False
            to, self._to = _recipient(block.content) or self._to, ""
            if not block.content.strip().lower().startswith("final"):
                self._block = _Withheld(
                    mark=block.mark, end=_CHANNEL_ENDS, to=to, calls=bool(to)
                )
        elif not self._found_calls(block) and block.text and not self._cut_call(block):
            ended = "```" if block.closed else ""
            return self._spoken(f"{block.mark}{block.content}{ended}")
        return ""

    def _cut_call(self, block: _Withheld) -> bool:
        """Return True for the beginning of a call of a tool that was shown, of which
        the end is missing: it is not run, and nobody wants to hear it."""
        named = _NAMED_FIRST.match(block.content)
        return (
            named is not None
            and block.end is None
            and block.unfinished
            and bool(tool_named(named[1], self.names))
        )

    def _found_calls(self, block: _Withheld) -> bool:
        """Add the calls of a block; return whether it has any."""
        if not block.calls:
            return False
        found = [(block.to, block.content)] if block.to else calls_in(block.content)
        form = _FORM.sub("", block.mark).lower()
        known = False
        for name, arguments in found:
            tool = tool_named(name, self.names)
            with suppress(InvalidArguments):
                given = load(arguments)
                if tool and not self._is_repeated(tool, given, form):
                    self._calls.append((tool, arguments))
                known = known or bool(tool)
        if known:
            self._tell(block.mark or block.content[:20])
        return known

    def _is_repeated(self, tool: str, arguments: Mapping[str, Any], form: str) -> bool:
        """Return whether a call was written before, in another form: that is the same
        one. Two in one form are two."""
        call = tool, json.dumps(arguments, sort_keys=True)
        return self._forms.setdefault(call, form) != form

    def _tell(self, mark: str) -> None:
        """Report a mark, if it is the first one."""
        if not self._told:
            self._told = True
            self.found(mark)


def _recipient(header: str) -> str:
    """Return the tool that a header of the harmony format names."""
    found = _TO.search(header)
    return found[1] if found else ""
