"""The notifications about changed resources that a client has yet to receive. No I/O.

A notification says "read it again", so one that has not been sent yet makes the next
one for the same resource unnecessary. At most one waits for each URI that the client
subscribed to, however slowly the client reads, and none is lost.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

import attrs

from .definition import Changed

LIST_CHANGED: Final = "notifications/resources/list_changed"
UPDATED: Final = "notifications/resources/updated"


@attrs.define(eq=False)
class PendingNotifications:
    """The changes that one client subscribed to and has not been told of.

    Args:
      uris: the URIs of the subscribed resources; their owner may change the collection.
      lists: whether the client wants to know when the list of resources changes.
    """

    uris: Collection[str]
    lists: bool
    _uris: dict[str, None] = attrs.field(factory=dict, init=False)
    _list: bool = attrs.field(default=False, init=False)

    def __bool__(self) -> bool:
        return self._list or bool(self._uris)

    def note(self, changed: Changed) -> None:
        """Remember a change, if the client subscribed to it."""
        if changed.uri is None:
            self._list = self._list or self.lists
        elif changed.uri in self.uris:
            self._uris[changed.uri] = None

    def take(self) -> list[tuple[str, Mapping[str, Any]]]:
        """Return and forget the notifications to send now: (method, params)."""
        told: list[tuple[str, Mapping[str, Any]]] = []
        if self._list:
            told.append((LIST_CHANGED, {}))
        # The subscription may have ended since the change was noted.
        told += [(UPDATED, {"uri": uri}) for uri in self._uris if uri in self.uris]
        self._list = False
        self._uris.clear()
        return told
