"""What one of our servers offers: tools, resources, and whatever else it answers.

Nothing here knows a transport, or how MCP writes it: `dispatch` does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import attrs

from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.tools.definition import Tool

if TYPE_CHECKING:
    from glyphoxa_trio.actors import Topic

    from .request import ClientRequest


class ResourceError(GlyphoxaError):
    """A resource cannot be read. ``code`` is ``NotFound``, ``InvalidArgument`` or
    ``Unavailable``."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class CannotServe(GlyphoxaError):
    """Nothing can be served as it was asked for: whoever started the server must act.

    The command says so in a line and ends with 2.
    """


@attrs.frozen(kw_only=True)
class Resource:
    """Something to read, at a URI that is known beforehand."""

    uri: str
    name: str
    title: str = ""
    description: str = ""
    mime: str = "application/json"


@attrs.frozen(kw_only=True)
class ResourceTemplate:
    """Something to read, at URIs of one form (RFC 6570)."""

    uri: str
    name: str
    title: str = ""
    description: str = ""
    mime: str = "application/json"


@attrs.frozen(kw_only=True)
class Content:
    """What is at a URI: text, or bytes."""

    uri: str
    data: str | bytes
    mime: str = "application/json"


@attrs.frozen
class ResourcePage:
    """Some resources, and where the next ones begin; None at the end."""

    resources: Sequence[Resource]
    after: str | None = None


@attrs.frozen
class Changed:
    """The resource at ``uri`` says something else now; None: there are others."""

    uri: str | None


class Resources(Protocol):
    """What can be read, by whoever calls; ``session`` is that of the client, empty if
    its requests have nothing to do with each other."""

    @property
    def templates(self) -> Sequence[ResourceTemplate]: ...

    @property
    def changes(self) -> Topic[Changed]:
        """What clients that subscribed are told of."""
        ...

    async def page(self, after: str | None) -> ResourcePage:
        """The resources behind a place that an earlier page named; first None.

        Raises:
          ResourceError: for a place that none did.
        """
        ...

    async def read(self, uri: str, session: str) -> Sequence[Content]:
        """Raises `ResourceError`."""
        ...


@attrs.frozen(kw_only=True)
class ServerDefinition:
    """One server, as `open_offer` of its shelf makes it.

    Args:
      name: of the server, as clients show it to people.
      instructions: for the client's model, how to use it.
      calls: answers to calls of tools that need more of MCP than arguments and a
        result, by the tool's name, in place of its handler: they ask or tell the
        client meanwhile, or answer in blocks of another kind.
      methods: answers to requests beyond tools and resources, by their MCP name.
      capabilities: what those methods let the server announce.
      ended: told of the session of each client that has left.

    Raises:
      ValueError: for two tools of one name.
    """

    name: str
    title: str = ""
    instructions: str = ""
    tools: tuple[Tool, ...] = ()
    resources: Resources | None = None
    calls: Mapping[str, Callable[[ClientRequest], Awaitable[Mapping[str, Any]]]] = (
        attrs.field(factory=dict)
    )
    methods: Mapping[str, Callable[[ClientRequest], Awaitable[Mapping[str, Any]]]] = (
        attrs.field(factory=dict)
    )
    capabilities: Mapping[str, Any] = attrs.field(factory=dict)
    ended: Callable[[str], None] = lambda session: None

    def __attrs_post_init__(self) -> None:
        names = [tool.definition.name for tool in self.tools]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"{self.name}: two tools have the name {name!r}")
