"""The settings of the tools of the group ``web``. Times are in seconds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import attrs

from .addresses import Allowed
from .robots import product

USER_AGENT: Final = "glyphoxa-trio (NPC runtime, obeys robots.txt)"
PORTS: Final = frozenset({80, 443})
NOTHING_MORE: Final = Allowed()
DEEP: Final = 4.0


def _agent(_: object, __: attrs.Attribute[str], value: str) -> None:
    if not (value.isascii() and value.isprintable() and product(value)):
        raise ValueError("user_agent: must begin with a name, as in Name/1.0 (who)")


@attrs.frozen(kw_only=True)
class FetchSettings:
    """The permissions and limits of `fetch_page`.

    Args:
      user_agent: sent with every request; sites know us by its first word.
      allowed: addresses that may be fetched from besides the public internet.
      ports: allowed ports; by default those of HTTP and HTTPS.
      most_text: characters of an answer.
      timeout: seconds for a whole call.

    Raises:
      ValueError: for a user agent that does not begin with a name.
    """

    user_agent: str = attrs.field(default=USER_AGENT, validator=_agent)
    allowed: Allowed = NOTHING_MORE
    ports: frozenset[int] = PORTS
    most_text: int = 8000
    timeout: float = DEEP

    @classmethod
    def of(
        cls,
        *,
        allow_private: Iterable[str] = (),
        ports: Iterable[int] = PORTS,
        user_agent: str | None = None,
        most_text: int = 8000,
        timeout: float = DEEP,
    ) -> FetchSettings:
        """Build settings from values as they are written in a file or a command.

        Raises:
          ValueError: for a value that is wrong; the message names it.
        """
        try:
            allowed = Allowed.of(allow_private)
        except ValueError as error:
            raise ValueError(f"allow_private: {error}") from None
        return cls(
            user_agent=user_agent or USER_AGENT,
            allowed=allowed,
            ports=frozenset(ports),
            most_text=most_text,
            timeout=timeout,
        )


DEFAULTS: Final = FetchSettings()
