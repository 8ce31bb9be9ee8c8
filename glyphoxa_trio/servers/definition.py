"""The description of a server: its tools, its resources, and other methods.

Nothing here depends on a transport, or on how MCP writes it: that is `dispatch`.
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
    """A resource cannot be read.

    ``code`` is ``NotFound``, ``InvalidArgument`` or ``Unavailable``.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class CannotServe(GlyphoxaError):
    """The server cannot be started as asked; its user must change something.

    The command prints the message in one line and exits with status 2.
    """


@attrs.frozen(kw_only=True)
class Resource:
    """A resource at a URI that is known beforehand."""

    uri: str
    name: str
    title: str = ""
    description: str = ""
    mime: str = "application/json"


@attrs.frozen(kw_only=True)
class ResourceTemplate:
    """Resources at URIs of one form (RFC 6570)."""

    uri: str
    name: str
    title: str = ""
    description: str = ""
    mime: str = "application/json"


@attrs.frozen(kw_only=True)
class Content:
    """The content at a URI: text, or bytes."""

    uri: str
    data: str | bytes
    mime: str = "application/json"


@attrs.frozen
class ResourcePage:
    """Some resources, and the position of the next ones; None at the end."""

    resources: Sequence[Resource]
    after: str | None = None


@attrs.frozen
class Changed:
    """The resource at ``uri`` has changed; None: the list of resources has."""

    uri: str | None


class Resources(Protocol):
    """The readable resources of a server.

    ``session`` is the session of the client that reads; it is empty if the client's
    requests have nothing to do with each other.
    """

    @property
    def templates(self) -> Sequence[ResourceTemplate]: ...

    @property
    def changes(self) -> Topic[Changed]:
        """The topic on which changes are published, for the clients that subscribed."""
        ...

    async def page(self, after: str | None) -> ResourcePage:
        """Return the resources after a position that an earlier page gave; first None.

        Raises:
          ResourceError: for a position that no page gave.
        """
        ...

    async def read(self, uri: str, session: str) -> Sequence[Content]:
        """Return the contents at a URI.

        Raises:
          ResourceError: if the URI is wrong or cannot be read.
        """
        ...


@attrs.frozen(kw_only=True)
class ServerDefinition:
    """The description of one server; `open_offer` of a module in `builtin` makes it.

    Args:
      name: the name of the server, as clients show it to people.
      instructions: how to use the server, for the client's model.
      calls: answers to calls of tools that need more of MCP than arguments and a
        result, by the tool's name. They replace its handler: they may ask or notify
        the client meanwhile, or answer in content blocks of another kind.
      methods: answers to requests other than tools and resources, by their MCP name.
      outputs: schemas of structured answers, objects, by the tool's name.
      capabilities: the capabilities that those methods let the server announce.
      ended: called with the session of each client that has disconnected.

    Raises:
      ValueError: if two tools have the same name.
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
    outputs: Mapping[str, Mapping[str, Any]] = attrs.field(factory=dict)
    capabilities: Mapping[str, Any] = attrs.field(factory=dict)
    ended: Callable[[str], None] = lambda session: None

    def __attrs_post_init__(self) -> None:
        names = [tool.definition.name for tool in self.tools]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"{self.name}: two tools have the name {name!r}")
