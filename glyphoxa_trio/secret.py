"""A string that never shows itself, and what takes such strings out of others' texts.

`Secret` is what we hold. `Mask` is for what somebody else says who was told one: a
server's answer, an error of a model's vendor, the log of a library.
"""

from __future__ import annotations

import html
import json
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Final
from urllib.parse import quote, quote_plus

import attrs

HIDDEN: Final = "[secret]"
_BETWEEN: Final = "\0"  # no secret has it: neither an environment nor a header can
SHORTEST: Final = 6  # characters: hiding anything shorter would blot out plain words

# What the functions of browsers leave as it is, beside Python's.
_LEFT_BY_COMPONENT: Final = "!'()*"
_LEFT_BY_URI: Final = ";,/?:@&=+$#!'()*"
_FORM: Final = re.compile(r"(?:\\.|[^|\\])+", re.DOTALL)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


@attrs.frozen
class Secret:
    """A token, key or password: `reveal` it at the wire and nowhere else."""

    _value: str = attrs.field(repr=False)

    def reveal(self) -> str:
        return self._value

    def __str__(self) -> str:
        return HIDDEN


@attrs.frozen
class Mask:
    """Puts ``[secret]`` where a text has one of some secrets, however it is written.

    It is false if it hides nothing. 16 KiB of text cost 0.3 ms with ten secrets, 1 MiB
    20 ms; a server that writes nothing but secrets doubles that.

    Args:
      pattern: as `of` makes it, a regular expression: any of these texts, the longest
        first. Another process makes the same mask of it. It holds the secrets.
      forms: these texts.
    """

    pattern: str = attrs.field(default="", repr=False)
    forms: tuple[str, ...] = attrs.field(init=False, repr=False, eq=False)

    @forms.default
    def _split(self) -> tuple[str, ...]:
        return tuple(_ESCAPED.sub(r"\1", x) for x in _FORM.findall(self.pattern))

    @classmethod
    def of(cls, secrets: Iterable[str]) -> Mask:
        """For these secrets, each as it is and as JSON, addresses, HTML and base64
        write it. A secret of several lines may come as one of them; what is
        shorter than six characters is none."""
        found = {
            form
            for secret in secrets
            for part in (secret, *secret.splitlines())
            if len(part) >= SHORTEST and part not in HIDDEN
            for form in _written(part)
            if len(form) >= SHORTEST
        }
        in_order = sorted(found, key=lambda form: (-len(form), form))
        return cls("|".join(map(re.escape, in_order)))

    @classmethod
    def around(cls, *secrets: Secret | None) -> Mask:
        """For what we hold ourselves, as far as we do."""
        return cls.of(secret.reveal() for secret in secrets if secret is not None)

    def __bool__(self) -> bool:
        return bool(self.forms)

    def text(self, text: str) -> str:
        """The text without secrets."""
        spans = self.spans(text)
        return text if not spans else _without(text, 0, spans)

    def data(self, value: Any) -> Any:
        """A value as JSON has it, each text in it without secrets, keys too.

        Returns the same object if nothing had to be hidden. Many short texts cost no
        more than one long one.
        """
        if not self.forms:
            return value
        texts: list[str] = []
        _gather(value, texts)
        spans = self.spans(_BETWEEN.join(texts))
        if not spans:
            return value
        shown: list[str] = []
        begin = at = 0
        for text in texts:
            end = begin + len(text)
            inside = at
            while at < len(spans) and spans[at][1] <= end:
                at += 1
            shown.append(_without(text, begin, spans[inside:at]))
            begin = end + len(_BETWEEN)
        return _rebuilt(value, iter(shown))

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where secrets are, from the left; those that overlap are one."""
        # To look for each is many times faster than an alternation of all of them.
        found = [
            span for form in self.forms if form in text for span in _found(form, text)
        ]
        found.sort()
        spans: list[tuple[int, int]] = []
        for begin, end in found:
            if spans and begin < spans[-1][1]:
                spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
            else:
                spans.append((begin, end))
        return spans


def _found(form: str, text: str) -> Iterator[tuple[int, int]]:
    at = text.find(form)
    while at >= 0:
        yield at, at + len(form)
        at = text.find(form, at + len(form))


def _without(text: str, offset: int, spans: Sequence[tuple[int, int]]) -> str:
    """The text, which begins at ``offset``, without these spans of the whole."""
    if not spans:
        return text
    shown: list[str] = []
    at = 0
    for begin, end in spans:
        shown += (text[at : begin - offset], HIDDEN)
        at = end - offset
    return "".join([*shown, text[at:]])


def _gather(value: Any, texts: list[str]) -> None:
    if isinstance(value, str):
        texts.append(value)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            _gather(key, texts)
            _gather(item, texts)
    elif isinstance(value, list | tuple):
        for item in value:
            _gather(item, texts)


def _rebuilt(value: Any, texts: Iterator[str]) -> Any:
    """The value with other texts, in the order of `_gather`."""
    if isinstance(value, str):
        return next(texts)
    if isinstance(value, Mapping):
        made = {}
        for key, item in value.items():
            key_ = _rebuilt(key, texts)
            made[key_] = _rebuilt(item, texts)
        return made
    if isinstance(value, list | tuple):
        items = []
        for item in value:
            items.append(_rebuilt(item, texts))  # noqa: PERF401  a frame less a level
        return items if isinstance(value, list) else tuple(items)
    return value


def _written(secret: str) -> Iterator[str]:
    """The secret as it is, and in the ways in which others write it."""
    yield secret
    yield repr(secret)[1:-1]
    yield html.escape(secret)
    yield html.escape(secret, quote=False)
    yield html.escape(secret).replace("&#x27;", "&#39;")
    for ascii_only in (True, False):
        inner = secret
        for _ in range(2):  # JSON, and JSON in a text in JSON
            inner = json.dumps(inner, ensure_ascii=ascii_only)[1:-1]
            yield inner
            yield inner.replace("/", "\\/")
    data = secret.encode("utf-8", "surrogatepass")
    safe: Iterable[str] = ("", "/", _LEFT_BY_COMPONENT, _LEFT_BY_URI)
    for quoted in (*(quote(data, safe=x) for x in safe), quote_plus(data)):
        yield quoted
        yield re.sub("%..", lambda found: found[0].lower(), quoted)
    for before, alphabet in product(range(3), (None, b"-_")):
        encoded = b64encode(b"\0" * before + data, alphabet).decode()
        # The characters that no neighbour of the secret has a part in.
        yield encoded[-(-before * 8 // 6) : (before + len(data)) * 8 // 6]
