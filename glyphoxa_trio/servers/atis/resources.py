"""The resources ``atis://ENGM``: the answers of the tool, to read and subscribe to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

import attrs

import trio

from glyphoxa_trio.actors import Topic
from glyphoxa_trio.servers.definition import (
    Changed,
    Content,
    Resource,
    ResourceError,
    ResourcePage,
    ResourceTemplate,
)
from glyphoxa_trio.tools.definition import ToolError, ToolUnavailable

from .keeper import COLD_PATIENCE
from .tools import Atis

SCHEME: Final = "atis://"
PAGE: Final = 100


@attrs.define(eq=False)
class AtisResources:
    """One resource for each configured aerodrome, and a template for others."""

    _atis: Atis
    changes: Topic[Changed] = attrs.field(factory=Topic, init=False)

    @property
    def templates(self) -> Sequence[ResourceTemplate]:
        return (
            ResourceTemplate(
                uri=f"{SCHEME}{{icao}}",
                name="atis",
                title="ATIS of an aerodrome",
                description="By the four letters of its ICAO code.",
            ),
        )

    async def page(self, after: str | None) -> ResourcePage:
        config = await self._atis.settings.current()
        codes = sorted(config.aerodromes)
        if after is not None:
            if after not in codes:
                raise ResourceError(
                    "InvalidArgument", "the cursor is not from this list"
                )
            codes = codes[codes.index(after) + 1 :]
        return ResourcePage(
            [
                Resource(
                    uri=f"{SCHEME}{icao}",
                    name=icao,
                    title=config.aerodromes[icao].name,
                )
                for icao in codes[:PAGE]
            ],
            after=codes[PAGE - 1] if len(codes) > PAGE else None,
        )

    async def read(self, uri: str, session: str) -> Sequence[Content]:
        if not uri.startswith(SCHEME):
            raise ResourceError(
                "NotFound", "write atis:// and an ICAO code, such as atis://ENGM"
            )
        until = trio.current_time() + COLD_PATIENCE
        try:
            told = await self._atis.told(uri.removeprefix(SCHEME), until=until)
        except ToolError as error:
            raise ResourceError(error.code or "NotFound", str(error)) from None
        except ToolUnavailable as error:
            raise ResourceError("Unavailable", str(error)) from None
        return (Content(uri=uri, data=json.dumps(told, ensure_ascii=False)),)

    def tell(self, icao: str) -> None:
        """Publish that an aerodrome has a new report."""
        self.changes.publish(Changed(f"{SCHEME}{icao}"))
