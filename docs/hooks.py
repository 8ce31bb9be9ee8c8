"""MkDocs hooks: links to files outside the site, and the pages that are generated.

The pages link to programs, tests and configurations as GitHub needs it, by their path
in the repository. For each of those files the site gets a page with its text, so that
the links work there as well, also offline. The page of the command is written from the
command itself; that of the configuration gets every key.
"""

from __future__ import annotations

import inspect
import posixpath
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).parents[1]
SOURCE: Final = "source"
"""The folder of the site that has the pages of files outside it."""

COMMAND: Final = "<!-- the command -->"
"""What the reference of the command is put in place of."""

KEYS: Final = "<!-- every key -->"
"""What the configuration with every key is put in place of."""

_LINK: Final = re.compile(r"(?<=\]\()(?P<target>[^()\s]+)(?=[)\s])")
_CODE: Final = re.compile(
    r"^(?P<fence>`{3,}|~{3,}).*?^(?P=fence)[`~]*[ ]*$"
    r"|(?P<tick>`+)(?!`).+?(?<!`)(?P=tick)(?!`)",
    re.MULTILINE | re.DOTALL,
)
_ELSEWHERE: Final = re.compile(r"^(?:[a-z][a-z0-9+.-]*:|#|/)")
_LANGUAGES: Final = {
    ".py": "python",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".toml": "toml",
    ".json": "json",
    ".jsonc": "json",
    ".mjs": "javascript",
}
_LEFT_OUT: Final = {"__pycache__", "node_modules"}


def relinked(markdown: str, file: str, page: str, shown: Callable[[str], str]) -> str:
    """Return ``markdown``, which is in ``file``, with links that hold in the site.

    Args:
        file: its path in the repository.
        page: the path of its page, from the site's root.
        shown: maps the path of a file in the repository to the path of its page.
    """

    def replaced(match: re.Match[str]) -> str:
        target, _, anchor = match["target"].partition("#")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(file), target))
        there = posixpath.relpath(shown(path), posixpath.dirname(page) or ".")
        return f"{there}#{anchor}" if anchor and path.endswith(".md") else there

    parts: list[str] = []
    for text, is_code in _parts(markdown):
        if is_code:
            parts.append(text)
        else:
            parts.append(
                _LINK.sub(
                    lambda m: m[0] if _ELSEWHERE.match(m["target"]) else replaced(m),
                    text,
                )
            )
    return "".join(parts)


def _parts(markdown: str) -> Iterator[tuple[str, bool]]:
    """Split into text and code, which has no links."""
    at = 0
    for code in _CODE.finditer(markdown):
        yield markdown[at : code.start()], False
        yield code[0], True
        at = code.end()
    yield markdown[at:], False


def page_of(path: str) -> str:
    """Return the path, in the site, of what is at ``path`` in the repository."""
    inside = path.removeprefix("docs/")
    if inside != path and path.endswith((".md", ".svg", ".png")):
        return inside
    return f"{SOURCE}/{path}.md"


def _listing(path: str) -> str:
    entries = sorted(
        entry
        for entry in (ROOT / path).iterdir()
        if entry.name not in _LEFT_OUT and not entry.name.startswith(".")
    )
    lines = [f"- `{x.name}{'/' if x.is_dir() else ''}`" for x in entries]
    return f"# {path}/\n\nA folder of the repository:\n\n" + "\n".join(lines) + "\n"


def _text(path: str) -> str:
    """Return the page of a file or folder of the repository, as Markdown."""
    if (ROOT / path).is_dir():
        return _listing(path)
    text = (ROOT / path).read_text()
    if path.endswith(".md"):
        return text
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    language = _LANGUAGES.get(Path(path).suffix, "text")
    return f"# {path}\n\n{fence}{language}\n{text.rstrip()}\n{fence}\n"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each file outside the site that a page links to."""
    from mkdocs.structure.files import File

    seen: set[str] = set()

    def shown(path: str) -> str:
        page = page_of(path)
        if page.startswith(f"{SOURCE}/") and path not in seen and _there(path):
            seen.add(path)
            text = f"---\nsearch:\n  exclude: true\n---\n{_text(path)}"
            files.append(File.generated(config, page, content=text))
            if path.endswith(".md"):
                relinked(text, path, page, shown)
        return page

    for file in list(files.documentation_pages()):
        relinked(file.content_string, f"docs/{file.src_uri}", file.src_uri, shown)
    return files


def _there(path: str) -> bool:
    return not path.startswith("..") and (ROOT / path).exists()


def on_page_markdown(
    markdown: str, page: Page, config: MkDocsConfig, files: Files
) -> str:
    """Rewrite the links of a page, and write what is generated."""
    at = page.file.src_uri
    if at.startswith(f"{SOURCE}/"):
        path = at.removeprefix(f"{SOURCE}/").removesuffix(".md")
        return (
            relinked(markdown, path, at, page_of) if path.endswith(".md") else markdown
        )
    if COMMAND in markdown:
        markdown = markdown.replace(COMMAND, command_reference())
    if KEYS in markdown:
        keys = (ROOT / "config" / "reference.yaml").read_text()
        markdown = markdown.replace(KEYS, f"```yaml\n{keys.rstrip()}\n```")
    return relinked(markdown, f"docs/{at}", at, page_of)


def command_reference() -> str:
    """Return the reference of ``glyphoxa``, from its help, as Markdown."""
    import typer

    from glyphoxa_trio.cli.app import app

    root = typer.main.get_command(app)
    return "\n\n".join(_verbs(root, "glyphoxa"))


def _verbs(command: Any, name: str) -> Iterator[str]:
    verbs = getattr(command, "commands", None)
    if verbs is None:
        yield _verb(command, name)
        return
    if " " in name:  # the root has the page's own words
        yield f"## `{name}`\n\n{_prose(command.help)}"
    for verb, below in verbs.items():
        if not below.hidden:
            yield from _verbs(below, f"{name} {verb}")


def _verb(command: Any, name: str) -> str:
    import typer

    context = typer.Context(command, info_name=name)
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    usage = re.sub(r"\{(\w+)\}", lambda match: match[1].upper(), usage)
    usage = usage.replace("[[", "[").replace("]]", "]")
    records = [x.get_help_record(context) for x in command.get_params(context)]
    level = "#" * (name.count(" ") + 1)
    lines = [f"{level} `{name}`", _prose(command.help), _fenced(usage)]
    rows = [
        f"| `{shown.strip()}` | {_prose(said).replace('|', '&#124;')} |"
        for shown, said in filter(None, records)
        if shown.strip() != "--help"
    ]
    if rows:
        lines.append("\n".join(["| | |", "| --- | --- |", *rows]))
    return "\n\n".join(line for line in lines if line)


def _prose(text: str | None) -> str:
    """Return help as Markdown: its examples are code, its stars are stars."""
    shown: list[str] = []
    for paragraph in inspect.cleandoc(text or "").replace("\b", "").split("\n\n"):
        if paragraph.startswith("glyphoxa "):
            shown.append(_fenced(paragraph))
        else:
            shown.append(re.sub(r"([\\*_<\[$])", r"\\\1", paragraph))
    return "\n\n".join(shown)


def _fenced(text: str) -> str:
    return f"```text\n{text}\n```"
