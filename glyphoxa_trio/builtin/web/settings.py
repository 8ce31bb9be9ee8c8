"""How the tools of the group ``web`` are set up. Times are in seconds."""

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
    """What `fetch_page` may do.

    Args:
      user_agent: sent with every request; sites call us by its first word.
      allowed: what may be fetched from beside the public internet.
      ports: on which; those of HTTP and HTTPS, unless others are given.
      most_text: characters of an answer.
      timeout: of a call, all of it together.

    Raises:
      ValueError: for an agent without a name.
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
        """As they are written in a file or a command.

        Raises:
          ValueError: naming what does not fit.
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
