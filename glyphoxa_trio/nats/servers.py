"""The servers that a connection may use: those that were given, and those learned.

A server tells the addresses of the others of its cluster. Under TLS, one that was
learned must have a certificate for the name of the given one: the address itself came
over a line that nobody had secured yet.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import attrs

from glyphoxa_trio.secret import Mask, Secret

PORT: Final = 4222
MAX_LEARNED: Final = 64
_LEARNED: Final = re.compile(r"(?:\[([0-9a-fA-F:.]+)\]|([^\s:/@\[\]]+)):([0-9]{1,5})")
_WRONG: Final = (
    "the address of a NATS server is nats://host:port or tls://host:port, with"
    " user:password@ or token@ before the host; write in percent encoding what is not a"
    " letter or digit in them"
)


@attrs.frozen(kw_only=True)
class NatsCredentials:
    """The answer to a server's question who this is; all None for nothing."""

    user: str | None = None
    password: Secret | None = None
    token: Secret | None = None

    def options(self) -> dict[str, Any]:
        """Return the part of CONNECT that holds them, which must not be shown."""
        found = {"user": self.user}
        if self.password is not None:
            found["pass"] = self.password.reveal()
        if self.token is not None:
            found["auth_token"] = self.token.reveal()
        return {name: value for name, value in found.items() if value is not None}

    @property
    def mask(self) -> Mask:
        return Mask.around(self.password, self.token)


@attrs.frozen
class NatsAddress:
    """The address of a server, whose text has no credentials.

    ``name`` is the one that its certificate must have.
    """

    host: str
    port: int
    tls: bool
    name: str
    credentials: NatsCredentials = attrs.field(repr=False)

    @classmethod
    def of(
        cls, url: str, credentials: NatsCredentials = NatsCredentials()
    ) -> NatsAddress:
        """Parse an address; credentials in it come before ``credentials``.

        Raises:
          ValueError: without a word of the address, which may hold a password.
        """
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port or PORT
        except ValueError:
            raise ValueError(_WRONG) from None
        more = parts.path.strip("/") or parts.query or parts.fragment
        # More than one @ is a password that was not encoded.
        if parts.scheme not in ("nats", "tls") or not host or more or "@" in host:
            raise ValueError(_WRONG)
        if parts.netloc.count("@") > 1:
            raise ValueError(_WRONG)
        user, password = parts.username, parts.password
        if user and password is None:
            credentials = NatsCredentials(token=Secret(unquote(user)))
        elif user:
            credentials = NatsCredentials(
                user=unquote(user), password=Secret(unquote(password or ""))
            )
        return cls(host, port, parts.scheme == "tls", host, credentials)

    def beside(self, learned: str) -> NatsAddress | None:
        """Return the address of another member of this one's cluster, as ``host:port``;
        None if it is none."""
        found = _LEARNED.fullmatch(learned)
        if found is None or not 0 < int(found[3]) < 65536:
            return None
        return attrs.evolve(self, host=found[1] or found[2], port=int(found[3]))

    @property
    def place(self) -> tuple[str, int]:
        return self.host, self.port

    def __str__(self) -> str:
        return f"{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


@attrs.define(eq=False)
class ServerList:
    """The addresses to try, in an order that is drawn at random for each process."""

    given: tuple[NatsAddress, ...]
    _learned: tuple[NatsAddress, ...] = attrs.field(default=(), init=False)

    @classmethod
    def of(cls, urls: Iterable[str], credentials: NatsCredentials) -> ServerList:
        """Raises:
        ValueError: for an address that is none, or none at all."""
        given = [NatsAddress.of(url, credentials) for url in urls]
        if not given:
            raise ValueError("there is no address of a NATS server")
        random.shuffle(given)
        return cls(tuple(given))

    def learn(self, teller: NatsAddress, urls: Iterable[str]) -> None:
        """Replace what was learned before by the members that this server names."""
        found = {x.place: x for url in urls if (x := teller.beside(url)) is not None}
        for address in self.given:
            found.pop(address.place, None)
        learned = list(found.values())[:MAX_LEARNED]
        random.shuffle(learned)
        self._learned = tuple(learned)

    def round(self, last: NatsAddress | None) -> Iterator[NatsAddress]:
        """Yield every address once, the ``last`` one that was used in the end."""
        every = (*self.given, *self._learned)
        at = next(
            (n for n, x in enumerate(every) if last and x.place == last.place), -1
        )
        yield from every[at + 1 :]
        yield from every[: at + 1]
