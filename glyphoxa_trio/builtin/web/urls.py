"""The address of a page, parsed once and put together again. Pure.

A check is circumvented where two programs read one address differently. So only
addresses that all programs read alike are accepted, and the text is not parsed again:
the parts that were checked are the parts that are connected to and requested.
"""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Final
from urllib.parse import quote, urljoin

import attrs

from .refusals import BadAddress

MAX_LENGTH: Final = 2048  # characters

_DEFAULT_PORT: Final = {"http": 80, "https": 443}
_WHOLE: Final = re.compile(
    r"(https?)://([^/?#]*)([^?#]*)(?:\?([^#]*))?(?:#.*)?", re.IGNORECASE | re.DOTALL
)
_AUTHORITY: Final = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::([0-9]{0,5}))?")
_LABEL: Final = re.compile(r"[a-z0-9_-]{1,63}")
# Labels that other programs read as a number, and so the whole as an IPv4 address.
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_STRAY_PERCENT: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_PATH_SAFE: Final = "%/:@!$&'()*+,;=~-._"


@attrs.frozen
class Host:
    """A host: its name as the resolver gets it, or an address."""

    name: str  # in lower case, without a dot at the end; an address as it is
    address: IPv4Address | IPv6Address | None = None

    def __str__(self) -> str:
        return f"[{self.name}]" if ":" in self.name else self.name


@attrs.frozen
class PageUrl:
    """The address of a page. ``target`` is the path and query of the request."""

    scheme: str
    host: Host
    port: int
    target: str

    def __str__(self) -> str:
        return f"{self.origin}{self.target}"

    @property
    def authority(self) -> str:
        """Host and port as they stand in an address and in the ``Host`` header."""
        if self.port == _DEFAULT_PORT[self.scheme]:
            return str(self.host)
        return f"{self.host}:{self.port}"

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.authority}"

    def at(self, target: str) -> PageUrl:
        """Return the address of another page of the same site."""
        return attrs.evolve(self, target=target)

    def joined(self, reference: str) -> PageUrl:
        """Return the address to which a reference on this page leads.

        Raises:
          BadAddress: as `parse` does.
        """
        reference = _checked(reference)
        try:
            return parse(urljoin(str(self), reference))
        except ValueError:
            raise BadAddress("That does not lead to the address of a page.") from None


def parse(text: str) -> PageUrl:
    """Parse an address.

    Raises:
      BadAddress: if it is not one of a page, or could be read in two ways.
    """
    found = _WHOLE.fullmatch(_checked(text))
    if found is None:
        raise BadAddress("An address must begin with http:// or https://.")
    scheme, authority, path, query = found.groups()
    if "@" in authority:
        raise BadAddress("An address must not hold a user or a password.")
    parts = _AUTHORITY.fullmatch(authority)
    if parts is None:
        raise BadAddress("The host and port of that address cannot be read.")
    try:
        host = host_of(parts[1].removeprefix("[").removesuffix("]"), parts[1][:1])
    except ValueError as error:
        raise BadAddress(f"That address cannot be used: {error}.") from None
    scheme = scheme.lower()
    port = int(parts[2]) if parts[2] else _DEFAULT_PORT[scheme]
    if not 0 < port < 65536:
        raise BadAddress("There is no such port.")
    target = _path(path) + ("" if query is None else f"?{_encoded(query, '?')}")
    return PageUrl(scheme, host, port, target)


def host_of(text: str, bracket: str = "") -> Host:
    """Parse a host in an address; ``bracket`` is "[" if it was in brackets.

    Raises:
      ValueError: if it is no host; the message says why.
    """
    if bracket == "[" or (not bracket and ":" in text):
        try:
            if "%" in text:
                raise AddressValueError
            address = IPv6Address(text)
        except AddressValueError:
            raise ValueError("the text in brackets is not an IPv6 address") from None
        return Host(str(address), address)
    name = (text if text.isascii() else _ascii(text)).lower().removesuffix(".")
    labels = name.split(".")
    if len(name) > 253 or not all(map(_LABEL.fullmatch, labels)):
        raise ValueError("its host is not a valid name")
    if _NUMBER.fullmatch(labels[-1]):
        try:
            number = IPv4Address(name)
        except AddressValueError:
            raise ValueError(
                "its host is an IPv4 address that is not written as four numbers"
            ) from None
        return Host(name, number)
    return Host(name)


def _ascii(text: str) -> str:
    import idna  # its tables take a while to load

    try:
        return idna.encode(text, uts46=True).decode("ascii")
    except (idna.IDNAError, UnicodeError):
        raise ValueError("its host is not a valid name") from None


def _checked(text: str) -> str:
    text = text.strip(" \t\r\n")
    if not text:
        raise BadAddress("The address is empty.")
    if len(text) > MAX_LENGTH:
        raise BadAddress(f"An address has at most {MAX_LENGTH} characters.")
    # Some programs drop these, and some read a backslash as a slash.
    if "\\" in text or any(c.isspace() or not c.isprintable() for c in text):
        raise BadAddress("An address must not hold spaces or backslashes.")
    return text


def _path(path: str) -> str:
    """Return the path as a server gets it.

    It has no dot segments, which robots.txt rules could not match, and no characters
    that must be escaped.
    """
    kept: list[str] = []
    segments = _encoded(path, "").split("/")[1:] or [""]
    for segment in segments:
        plain = segment.replace("%2e", ".").replace("%2E", ".")
        if plain == "..":
            del kept[-1:]
        elif plain != ".":
            kept.append(segment)
    if segments[-1].replace("%2e", ".").replace("%2E", ".") in (".", ".."):
        kept.append("")
    return "/" + "/".join(kept)


def _encoded(text: str, more: str) -> str:
    return quote(_STRAY_PERCENT.sub("%25", text), safe=_PATH_SAFE + more)
