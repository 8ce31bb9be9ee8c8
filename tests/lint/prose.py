"""What people read is in words: no codes of ours, and first lines that name a thing.

A code such as the number of a decision leads a reader nowhere. It may stand in tests,
and in docs/acceptance.md, which explains it. The first line of a docstring says what
the thing is or does, and is about a caller, a player or a server, not about somebody.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from typing import Final

from .repository import File, Finding, PythonFile, Repository

_EXPLAINS_CODES: Final = "docs/acceptance.md"

# Terms of others that look like a code.
_TERMS: Final = ("G711", "S2S", "H11")
_CODE: Final = re.compile(
    rf"(?<![\w/.-])(?!(?:{'|'.join(_TERMS)})\b)[ADGNTSHFCXMU]\d{{1,3}}[a-z]?\b"
    r"|\bseed 0\d+"
)
_NOQA: Final = re.compile(r"#\s*(?:ruff:\s*)?noqa\b[^#\n]*")

_VAGUE: Final = (
    *("somebody", "someone", "nobody", "anybody", "everybody", "whoever", "everyone"),
)
_NO_BEGINNING: Final = (
    *("what", "whether", "who", "it", "it's", "where", "how", "that", *_VAGUE),
)
_BEGINS_BADLY: Final = re.compile(
    rf"(?:{'|'.join(_NO_BEGINNING)})\b(?!\.)", re.IGNORECASE
)
# A vague word is the subject where a verb follows it.
_SUBJECT: Final = re.compile(
    rf"\b(?:{'|'.join(_VAGUE)}) (?:who |else |that )?"
    r"(?:is|are|was|has|had|may|can|could|will|would|should|must|does|did|[a-z]+s)\b",
    re.IGNORECASE,
)
_TEXT: Final = {tokenize.COMMENT, tokenize.STRING}

_Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def python_is_in_words(repository: Repository) -> Iterator[Finding]:
    for file in (*repository.modules.values(), *repository.programs):
        yield from _codes_of_python(file)
        for name, node in _public(file.tree):
            first = (ast.get_docstring(node) or "").partition("\n")[0]
            for fault in _faults_of_line(first):
                line = 1 if isinstance(node, ast.Module) else node.lineno
                yield file.wrong(line, f"the docstring of {name} {fault}")


def pages_are_in_words(repository: Repository) -> Iterator[Finding]:
    for page in repository.pages.values():
        if page.shown != _EXPLAINS_CODES:
            yield from _codes(page)
        yield from _beginning(page)
    for file in repository.settings:
        yield from _codes(file)


def _codes_of_python(file: PythonFile) -> Iterator[Finding]:
    if not _CODE.search(file.text):  # to take it apart takes much longer
        return
    for token in tokenize.generate_tokens(io.StringIO(file.text).readline):
        if token.type in _TEXT:
            for code in _CODE.finditer(_NOQA.sub("", token.string)):
                yield _is_a_code(file, token.start[0], code)


def _codes(file: File) -> Iterator[Finding]:
    for number, line in enumerate(file.text.splitlines(), 1):
        for code in _CODE.finditer(_NOQA.sub("", line)):
            yield _is_a_code(file, number, code)


def _is_a_code(file: File, line: int, code: re.Match[str]) -> Finding:
    text = f"{code.group()} is a code that no reader knows; say it in words"
    return file.wrong(line, text)


def _beginning(page: File) -> Iterator[Finding]:
    title, _, rest = page.text.lstrip().partition("\n")
    first = rest.strip().partition("\n")[0]
    if not title.startswith("# "):
        yield page.wrong(1, "the page begins without a title; begin it with '# '")
    if not first or first.startswith(("#", "|", "```", "* ")):
        text = "no first paragraph; say what the page tells and to whom"
        yield page.wrong(1, text)
    for fault in _faults_of_line(first):
        yield page.wrong(1, f"the first paragraph {fault}")


def _faults_of_line(line: str) -> Iterator[str]:
    """Name what is wrong with the first line of a text."""
    if begins := _BEGINS_BADLY.match(line):
        yield f"begins with {begins.group()!r}; begin with a noun or a verb"
    if subject := _SUBJECT.search(line):
        yield f"has {subject.group()!r} for a subject and its verb; say who it is"


def _public(tree: ast.AST, at: str = "") -> Iterator[tuple[str, _Documented]]:
    """Yield the public definitions of a module, itself included, by their names."""
    if isinstance(tree, ast.Module):
        yield "the module", tree
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if node.name.startswith("_") and not node.name.endswith("__"):
                continue
            yield f"{at}{node.name}", node
            if isinstance(node, ast.ClassDef):
                yield from _public(node, f"{at}{node.name}.")
