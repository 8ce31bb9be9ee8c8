"""What a client still has to be told of the resources that changed. No I/O.

A change says "read it again", so one that was not yet told makes the next one
needless: at most one waits for each URI that the client asked about, however slowly
it reads, and none is lost.
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
    """The changes that one client wants to hear of and has not been told.

    Args:
      uris: of the resources; whoever owns it may change it.
      lists: whether it hears that there are others.
    """

    uris: Collection[str]
    lists: bool
    _uris: dict[str, None] = attrs.field(factory=dict, init=False)
    _list: bool = attrs.field(default=False, init=False)

    def __bool__(self) -> bool:
        return self._list or bool(self._uris)

    def note(self, changed: Changed) -> None:
        """Something changed, whether it is wanted or not."""
        if changed.uri is None:
            self._list = self._list or self.lists
        elif changed.uri in self.uris:
            self._uris[changed.uri] = None

    def take(self) -> list[tuple[str, Mapping[str, Any]]]:
        """The notifications to send now: method and params, in order."""
        told: list[tuple[str, Mapping[str, Any]]] = []
        if self._list:
            told.append((LIST_CHANGED, {}))
        # A subscription may have ended since.
        told += [(UPDATED, {"uri": uri}) for uri in self._uris if uri in self.uris]
        self._list = False
        self._uris.clear()
        return told
