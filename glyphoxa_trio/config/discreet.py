"""The parts of a server's entry that a person may see, variables unexpanded.

``${VAR}`` is shown as it stands; what stands where a secret may be is ``[secret]``.
Commands and addresses have no field for their secrets, so those are guessed by
the text before them, rather once too often.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

HIDDEN: Final = "[secret]"

_NAMES_SECRET: Final = re.compile(
    r"key|token|secret|passw|pwd|auth|credential|cookie|bearer|session", re.IGNORECASE
)
_REFERENCE: Final = re.compile(
    r"(?<!\$)\$\{(?P<name>[A-Za-z_]\w*)(?::-(?P<default>[^}]*))?\}", re.ASCII
)
_SCHEME: Final = re.compile(r"\s*(?:bearer|basic|token)?\s*", re.IGNORECASE)
# How the tokens of some vendors begin.
_TOKEN: Final = re.compile(r"\b(?:sk|pk|ghp|gho|glpat|xox[a-z]|github_pat)[-_]\w{8}")
_ADDRESS: Final = re.compile(r"(\w[\w+.-]*://)([^/?#]*)([^?#]*)(\?[^#]*)?(#.*)?")
# A piece of a path that looks random: long, letters and digits mixed.
_RANDOM: Final = re.compile(r"(?=[^/]*\d)(?=[^/]*[A-Za-z])[\w.~=+%-]{16,}")


def value(text: str) -> str:
    """The value of a variable or a header: its references, and nothing else."""
    shown, at = [], 0
    for found in _REFERENCE.finditer(text):
        shown += [_plain(text[at : found.start()]), _reference(found, hidden=True)]
        at = found.end()
    return "".join([*shown, _plain(text[at:])])


def _plain(text: str) -> str:
    return text if _SCHEME.fullmatch(text) else HIDDEN


def _reference(found: re.Match[str], *, hidden: bool) -> str:
    name, default = found["name"], found["default"]
    if not default or not (hidden or _NAMES_SECRET.search(name)):
        return found[0]
    return f"${{{name}:-{HIDDEN}}}"


def command(words: Iterable[str]) -> str:
    """A command as one would type it, without the secrets among its words."""
    shown: list[str] = []
    hide = False
    for word in words:
        shown.append(value(word) if hide and not word.startswith("-") else _word(word))
        hide = word.startswith("-") and "=" not in word and names_secret(word)
    return " ".join(
        word if HIDDEN in word or "${" in word else shlex.quote(word) for word in shown
    )


def names_secret(name: str) -> bool:
    """Return true if a value of that name is probably a secret."""
    return bool(_NAMES_SECRET.search(name))


def looks_random(piece: str) -> bool:
    """Return true if a piece of an address's path looks random."""
    return bool(_RANDOM.fullmatch(piece))


def _word(word: str) -> str:
    if _ADDRESS.fullmatch(word):
        return address(word)
    # --token=…, API_KEY=…, Authorization: …
    name, mark, rest = re.fullmatch(r"([\w-]*)(=|: ?)?(.*)", word, re.DOTALL).groups()  # type: ignore[union-attr]
    if mark and names_secret(name):
        return f"{name}{mark}{value(rest)}"
    if mark and _ADDRESS.fullmatch(rest):
        return f"{name}{mark}{address(rest)}"
    if _TOKEN.search(word):
        return HIDDEN
    return _REFERENCE.sub(lambda found: _reference(found, hidden=False), word)


def address(url: str) -> str:
    """An address without its user, its query's values and what looks random."""
    references: list[str] = []

    def put_aside(found: re.Match[str]) -> str:  # it may hold a / or a ?
        references.append(_reference(found, hidden=False))
        return f"\0{len(references) - 1}\0"

    def put_back(text: str) -> str:
        return re.sub(r"\0(\d+)\0", lambda found: references[int(found[1])], text)

    aside = _REFERENCE.sub(put_aside, url.replace("\0", ""))
    parts = _ADDRESS.fullmatch(aside)
    if parts is None:
        return put_back(aside) if references else HIDDEN
    scheme, authority, path, query, fragment = parts.groups()
    user, at, host = authority.rpartition("@")
    path = _RANDOM.sub(HIDDEN, path)
    if query:
        query = "?" + "&".join(
            f"{name}={shown if _only_references(shown) else HIDDEN}"
            for name, _, shown in (x.partition("=") for x in query[1:].split("&"))
        )
    return put_back(
        f"{scheme}{HIDDEN if user else ''}{at}{host}{path}{query or ''}"
        f"{'#' + HIDDEN if fragment else ''}"
    )


def _only_references(text: str) -> bool:
    return bool(re.fullmatch(r"(?:\0\d+\0)+", text))


def target(entry: Mapping[str, Any]) -> str:
    """Return what an entry of a file starts or reaches, and in the lines below the
    variables or headers that it gets. Secrets are hidden."""
    url, command_ = entry.get("url"), entry.get("command")
    if isinstance(url, str):
        shown = address(url)
    else:
        args = entry.get("args")
        rest = args if isinstance(args, list) else []
        shown = command([*_words(command_), *map(str, rest)])
    beside = [
        f"{name}{mark}{value(str(given))}"
        for key, mark in (("env", "="), ("headers", ": "))
        if isinstance(pairs := entry.get(key), Mapping)
        for name, given in pairs.items()
    ]
    places = [
        f"{key}: {command([place])}"
        for key in ("cwd", "envFile")
        if isinstance(place := entry.get(key), str)
    ]
    return "\n".join([shown or "nothing", *places, *beside, *_way_in(entry)])


def _way_in(entry: Mapping[str, Any]) -> Iterator[str]:
    """Return how we identify ourselves to a server, and where its token comes from."""
    auth = entry.get("auth")
    if not isinstance(auth, Mapping):
        return
    oauth = auth.get("oauth")
    given = {
        "auth.token": auth.get("token"),
        **{
            f"auth.oauth.{key}": oauth.get(key)
            for key in ("client_id", "client_secret", "token_url")
            if isinstance(oauth, Mapping)
        },
    }
    for key, text in given.items():
        if isinstance(text, str):
            yield f"{key}: {address(text) if key.endswith('_url') else value(text)}"


def _words(command: Any) -> list[str]:
    if isinstance(command, list):
        return [str(word) for word in command]
    if not isinstance(command, str):
        return []
    try:
        return shlex.split(command)
    except ValueError:
        return [command]
