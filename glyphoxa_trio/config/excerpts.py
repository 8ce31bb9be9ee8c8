"""Excerpts of a file for a YAML error, the commonest cause and its remedy. Pure.

A line is shown only where no secret belongs: what an author writes about an NPC, and
no address, no command, no variable of a server.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

_LONGEST: Final = 100  # characters of a line that are shown
# The keys whose lines are shown: what an author writes, and no secret belongs into.
_SHOWN: Final = frozenset(
    {
        *("npcs", "name", "personality", "greeting", "identity", "knowledge_scope"),
        *("behaviour_rules", "tools", "budget_tier", "engine", "fallback", "prompt"),
        *("system_prompt", "contexts", "provider", "model", "context", "lines"),
        *("allow_tools", "prompts", "deep_keywords", "standard_keywords", "tables"),
    }
)
_SECRETIVE: Final = (
    r"(?:env|header|auth|key(?!words)|token|secret|passw|credential"
    r"|url|command|args|probe|extra)"
)
_PRIVATE: Final = re.compile(_SECRETIVE, re.IGNORECASE)
# Behind the key that begins a line there may be others, and options of a command.
_PRIVATE_ENTRY: Final = re.compile(
    rf"{_SECRETIVE}[\w-]*['\"]?\s*[:=]|-\w*{_SECRETIVE}", re.IGNORECASE
)
_TOKEN: Final = re.compile(r"(?=\S*\d)(?=\S*[A-Za-z])[\w+/=.~-]{16,}|://[^\s/]*@")
_KEY: Final = re.compile(r"(\s*(?:- +)*)([^\s:#'\"]+):")
_GLUED: Final = re.compile(r"\s*(?:- +)*([\w-]+):[^\s:]")


def excerpt(text: str, line: int, column: int) -> str:
    """Return the line, numbered, with a caret below the column; both from 0.

    Returns "" for a line that must not be shown, and for none at all.
    """
    lines = text.splitlines()
    if not line < len(lines) or not lines[line].strip() or not _is_shown(lines, line):
        return ""
    shown = "".join(x if x.isprintable() else " " for x in lines[line])
    start = max(0, column - _LONGEST + 20)
    number = f"  {line + 1} | "
    caret = f"{'|':>{len(number) - 1}} {' ' * (column - start)}^"
    return f"{number}{shown[start : start + _LONGEST]}\n{caret}"


def _is_shown(lines: Sequence[str], at: int) -> bool:
    """Return true if no secret belongs into the line: by its keys, by those that it
    stands below, and by its looks."""
    if _TOKEN.search(lines[at]) or _PRIVATE_ENTRY.search(lines[at]):
        return False
    keys = [*_keys_to(lines, at)]
    return bool(keys) and keys[0] in _SHOWN and not any(map(_PRIVATE.search, keys))


def _keys_to(lines: Sequence[str], at: int) -> Iterator[str]:
    """Yield the key of a line, if it has one, and those that it may stand below.

    Where the indentation is wrong, a line above is as good as a parent.
    """
    if key := _KEY.match(lines[at]):
        yield key[2]
    indent = _indent(lines[at])
    for line in reversed(lines[:at]):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        found = _KEY.match(line)
        is_sibling = key is not None and _indent(line) == indent
        if found and _indent(line) <= indent and not is_sibling:
            yield found[2]
        indent = min(indent, _indent(line))
        if indent == 0 and found and not line.lstrip().startswith("-"):
            return


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def remedy(problem: str, text: str, line: int, column: int) -> str:
    """Return the likely cause of a YAML error and what to write; "" if that is not
    clear. The line and the column are counted from 0."""
    lines = text.splitlines()
    here = lines[line] if line < len(lines) else ""
    above = next((x for x in reversed(lines[:line]) if x.strip()), "")
    value = here.partition(": ")[2].strip()
    if "'\\t'" in problem or "\t" in here[: _indent(here)]:
        return "a tab: indent with spaces"
    if "mapping values are not allowed" in problem:
        return _colon(here, above, column)
    if "<scalar>" in problem and "<block end>" in problem:
        if value.startswith("'"):
            return (
                "an apostrophe ends a text in single quotes: write '' for it, or put"
                ' the text in double quotes, as in "It\'s late"'
            )
        if value.startswith('"'):
            return (
                'a " ends a text in double quotes: write \\" for it, or put the text in'
                " single quotes"
            )
        if any(x.count('"') % 2 for x in lines[:line]):
            return "a quote is opened above and never closed"
        if value.startswith(("[", "{")):
            return "a text that begins with [ or { has to be in quotes"
        return _indentation(above)
    if "could not find expected ':'" in problem and (glued := _GLUED.match(above)):
        return f"a space is missing after {glued[1]}: in the line above"
    if "<block" in problem:
        return _indentation(above)
    if found := re.search(r"character '(.)' that cannot start", problem):
        return f"a text that begins with {found[1]} has to be in quotes"
    if "alias" in problem or "alphabetic or numeric" in problem:
        return 'a text that begins with * or & has to be in quotes, as in "*.read"'
    if "tag" in problem and "!!" not in here:
        return "a text that begins with ! has to be in quotes"
    if "end of stream" in problem:
        return "a quote is opened above and never closed"
    if "',' or" in problem:
        return "a bracket above is not closed, or a comma is missing"
    return ""


def _colon(here: str, above: str, column: int) -> str:
    """Return the fault of a colon: in a text, or after a line that has no key."""
    key = _KEY.match(here)
    if key is None or column >= key.end():
        return (
            "a colon and a space in a text: put the text in quotes, as in"
            ' greeting: "Listen: it rains"; or begin the second key on its own line'
        )
    if glued := _GLUED.match(above):
        return f"a space is missing after {glued[1]}: in the line above"
    return _indentation(above)


def _indentation(above: str) -> str:
    key = _KEY.match(above)
    beside = f", as {key[2]} in the line above" if key else ""
    return f"the indentation: keys of one entry begin in the same column{beside}"


# places


_STEP: Final = re.compile(r"\.([\w-]+)|\[(\d+)\]|\[(?:'([^']*)'|\"([^\"]*)\")\]")
_UNKNOWN: Final = re.compile(r"unknown key '([^']*)'")


def where_in(root: Any, place: str, what: str) -> str:
    """Return the line of a place such as ``.npcs[1].tools``, and which NPC it is about.

    Args:
      root: the node of the whole file, as ruamel composes it.
      what: the problem there; of an unknown key the line is its own.
    """
    steps = [
        int(x[2]) if x[2] else next(y for y in x.groups() if y is not None)
        for x in _STEP.finditer(place)
    ]
    if unknown := _UNKNOWN.match(what):
        steps.append(unknown[1])
    node, line, entry = root, None, ""
    for at, step in enumerate(steps):
        pairs = node.value if isinstance(getattr(node, "value", None), list) else []
        if isinstance(step, int) and step < len(pairs) and _is_list(node):
            node = pairs[step]
            line = node.start_mark.line
            if steps[at - 1] == "npcs":
                entry = _name(node)
            continue
        found = [] if _is_list(node) else [x for x in pairs if x[0].value == str(step)]
        if not found:
            break
        line, node = found[-1][0].start_mark.line, found[-1][1]
    if line is None:
        return ""
    return f", line {line + 1}" + (f", of {entry!r}" if entry else "")


def _is_list(node: Any) -> bool:
    return bool(getattr(node, "id", "") == "sequence")


def _name(node: Any) -> str:
    pairs = [] if _is_list(node) or not isinstance(node.value, list) else node.value
    names = [x[1].value for x in pairs if x[0].value == "name"]
    return names[0][:60] if names and isinstance(names[0], str) else ""


def advice(what: str, place: str) -> str:
    """Return what to write instead, for the commonest misunderstandings; else ""."""
    key = place.rpartition(".")[2]
    if key.endswith("]"):
        return ""
    if what.startswith("expected a list, got text"):
        if key == "tools":
            return "; write tools: [roll, roll_table]"
        return f"; write each line of {key} below it, after a dash: - …"
    if what.startswith("expected text, got a list"):
        return f"; write one text, or several lines below {key}: |"
    if what == "expected a list, got a mapping" and key == "npcs":
        return "; write each NPC as - name: NAME, and its keys below that"
    return ""
