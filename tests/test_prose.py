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
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# Files and folders that are held to this. A folder is walked.
PLACES = ("glyphoxa_trio", "docs", "config", "README.md", "CHANGELOG.md")
SUFFIXES = (".md", ".py", ".yaml", ".toml")
EXPLAINS_CODES = "docs/acceptance.md"

# Terms of others that look like a code.
TERMS = ["G711", "S2S", "H11"]
CODE = re.compile(
    rf"(?<![\w/.-])(?!(?:{'|'.join(TERMS)})\b)[ADGNTSHFCXMU]\d{{1,3}}[a-z]?\b"
    r"|\bseed 0\d+"
)
NOQA = re.compile(r"#\s*(?:ruff:\s*)?noqa\b[^#]*")

VAGUE = ["somebody", "someone", "nobody", "anybody", "everybody", "whoever", "everyone"]
NO_BEGINNING = ["what", "whether", "who", "it", "it's", "where", "how", "that", *VAGUE]
BEGINS_BADLY = re.compile(rf"(?:{'|'.join(NO_BEGINNING)})\b(?!\.)", re.IGNORECASE)
# A vague word is the subject where a verb follows it.
SUBJECT = re.compile(
    rf"\b(?:{'|'.join(VAGUE)}) (?:who |else |that )?"
    r"(?:is|are|was|has|had|may|can|could|will|would|should|must|does|did|[a-z]+s)\b",
    re.IGNORECASE,
)

Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def codes(text: str) -> list[str]:
    return [found.group() for found in CODE.finditer(NOQA.sub("", text))]


def faults_of_line(line: str) -> list[str]:
    """Name what is wrong with the first line of a text."""
    found = []
    if begins := BEGINS_BADLY.match(line):
        found.append(f"begins with {begins.group()!r}")
    if subject := SUBJECT.search(line):
        found.append(f"has {subject.group()!r} for a subject and its verb")
    return found


def public(tree: ast.AST, at: str = "") -> Iterator[tuple[str, Documented]]:
    """Yield the public definitions of a module, itself included, by their names."""
    if isinstance(tree, ast.Module):
        yield "the module", tree
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if node.name.startswith("_") and not node.name.endswith("__"):
                continue
            yield f"{at}{node.name}", node
            if isinstance(node, ast.ClassDef):
                yield from public(node, f"{at}{node.name}.")


def faults_of_python(source: str) -> list[str]:
    text = {tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", -1)}
    found = [
        f"line {token.start[0]}: the code {code}"
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type in text
        for code in codes(token.string)
    ]
    for name, node in public(ast.parse(source)):
        first = (ast.get_docstring(node) or "").partition("\n")[0]
        found += [f"the docstring of {name} {fault}" for fault in faults_of_line(first)]
    return found


def faults_of_page(text: str, *, may_use_codes: bool = False) -> list[str]:
    found = [
        f"line {number}: the code {code}"
        for number, line in enumerate(text.splitlines(), 1)
        for code in codes(line)
        if not may_use_codes
    ]
    title, _, rest = text.lstrip().partition("\n")
    first = rest.strip().partition("\n")[0]
    if not title.startswith("# "):
        found.append("the page begins without a title")
    if not first or first.startswith(("#", "|", "```", "* ")):
        found.append("no paragraph says what the page tells and to whom")
    return found + [f"the first paragraph {fault}" for fault in faults_of_line(first)]


def faults(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return faults_of_python(text)
    if path.suffix == ".md":
        explains = path.relative_to(ROOT).as_posix() == EXPLAINS_CODES
        return faults_of_page(text, may_use_codes=explains)
    return [f"the code {code}" for code in codes(text)]


def files(places: tuple[str, ...]) -> list[Path]:
    found = []
    for place in places:
        path = ROOT / place
        inside = sorted(path.rglob("*")) if path.is_dir() else [path]
        found += [file for file in inside if file.suffix in SUFFIXES]
    return found


FILES = files(PLACES)


@pytest.mark.parametrize("place", PLACES)
def test_a_place_has_files(place: str) -> None:
    assert files((place,))


@pytest.mark.parametrize("path", FILES, ids=[str(p.relative_to(ROOT)) for p in FILES])
def test_what_people_read_is_in_words(path: Path) -> None:
    assert not faults(path)


# A check that finds nothing is worth nothing.


@pytest.mark.parametrize("code", ["D12a", "G31", "N17", "A4", "F1", "F50", "T8", "D0"])
@pytest.mark.parametrize("around", ["as {} says", "({})", "see {}.", "{}, {}: both"])
def test_a_code_is_found(code: str, around: str) -> None:
    text = around.replace("{}", code)
    assert code in codes(text)
    assert faults_of_python(f"x = 1  # {text}")
    assert faults_of_python(f"x = {text!r}")
    assert faults_of_page(f"# Title\n\nA page for readers.\n\n{text}\n")
    assert not faults_of_page(f"# A\n\nA page of {text}", may_use_codes=True)


@pytest.mark.parametrize(
    "text",
    [
        "G711 at 8 kHz, S2S, H11, macro-F1, 2d6, 09/M04",
        "print()  # noqa: T201",
        "# ruff: noqa: A002, S101",
        "DUALITY_D12_V1, sha256, U+202E, x86_64, gpt-4, v1beta, 0xA1",
    ],
)
def test_a_term_is_no_code(text: str) -> None:
    assert not codes(text)


@pytest.mark.parametrize(
    "line",
    [
        "What the model may see.",
        "Whether a tool may run.",
        "Who is meant.",
        "It waits.",
        "Somebody speaks.",
        "Nobody, so far.",
        "Whoever asks.",
        "Where an utterance ends.",
        "How long it took.",
        "That a call ended.",
        "Ends the turn when somebody speaks.",
        "A line that nobody has heard.",
    ],
)
def test_a_bad_first_line_is_found(line: str) -> None:
    assert faults_of_line(line)
    assert faults_of_python(f'"""{line}"""')
    assert faults_of_python(f'class A:\n    """{line}"""')
    assert faults_of_python(
        f'class A:\n    def f(self):\n        """{line}\n\nMore."""'
    )
    assert faults_of_python(f'async def f():\n    """{line}"""')
    assert faults_of_page(f"# Title\n\n{line}\n")
    assert not faults_of_python(f'def _private():\n    """{line}"""')
    assert not faults_of_python(f'def f():\n    """Return it.\n\n{line}"""')


@pytest.mark.parametrize(
    "line",
    [
        "Return the tools the model may see.",
        "The queue of utterances that wait for this NPC.",
        "Item by item, read from the stream.",
        "Wholesale prices.",
        "Tell a listener who is meant.",
        "Send to everybody.",
    ],
)
def test_a_good_first_line_passes(line: str) -> None:
    assert not faults_of_line(line)


@pytest.mark.parametrize(
    "page",
    ["", "No title.\n", "# Title\n", "# Title\n\n## At once\n", "# Title\n\n| a |\n"],
)
def test_a_page_needs_a_title_and_a_first_paragraph(page: str) -> None:
    assert faults_of_page(page)
