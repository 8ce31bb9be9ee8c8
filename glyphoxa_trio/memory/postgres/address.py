"""The address of a PostgreSQL database, whose password never shows."""

from __future__ import annotations

from typing import Any, Final

import attrs
import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from glyphoxa_trio.errors import words
from glyphoxa_trio.memory.errors import MemoryUnusable

_HIDDEN: Final = "***"
# A connection without an answer for this long is lost; in seconds, and milliseconds.
_DEFAULTS: Final[dict[str, Any]] = {
    "application_name": "glyphoxa",
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}


@attrs.frozen(repr=False)
class PostgresAddress:
    """Parameters of connections; as text, only where the database is."""

    _parameters: dict[str, Any]

    @classmethod
    def of(cls, address: str) -> PostgresAddress:
        """Return an address of a URL, such as ``postgresql://me@host/database``.

        Raises:
          MemoryUnusable: PostgreSQL's client does not understand it.
        """
        try:
            given = conninfo_to_dict(address)
        except psycopg.Error:
            given = None
        if given is None or not _is_whole(given):
            # PostgreSQL's text would name what is wrong, a password perhaps.
            raise MemoryUnusable(
                "the address of the memory is none of a PostgreSQL database; write it"
                " as postgresql://user:password@host:port/database, and in percent"
                " encoding what is not a letter or digit in the password"
            )
        return cls(_DEFAULTS | given)

    def connect(self) -> psycopg.Connection[Any]:
        """Return a new connection, on which each statement commits by itself.

        Raises:
          psycopg.Error: there is none now.
        """
        return psycopg.connect(
            make_conninfo(**self._parameters), autocommit=True, client_encoding="utf8"
        )

    def told(self, error: BaseException) -> str:
        """Return the text of an error of a connection, in one line, without secrets."""
        text = " ".join(words(error, 500).split())
        for name in ("password", "passfile", "sslpassword"):
            if secret := str(self._parameters.get(name) or ""):
                text = text.replace(secret, _HIDDEN)
        return text or type(error).__name__

    def __str__(self) -> str:
        given = self._parameters
        host = given.get("host") or given.get("hostaddr") or "this machine"
        port = f":{given['port']}" if given.get("port") else ""
        name = given.get("dbname") or given.get("user") or "of this user"
        return f"the database {name} at {host}{port}"

    def __repr__(self) -> str:
        return f"<PostgresAddress of {self}>"


def _is_whole(given: dict[str, Any]) -> bool:
    """Return False if a part of the password went elsewhere: with @ or / in it."""
    host, name = str(given.get("host") or ""), str(given.get("dbname") or "")
    port = str(given.get("port") or "0").replace(",", "")
    return port.isdigit() and "@" not in host.lstrip("@") and "@" not in name
