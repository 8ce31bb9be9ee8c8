"""Mask the secrets that a server was told, in everything that it sends.

All parsed messages of both transports pass through `Masked`, before they are cut,
compared, stored, logged or shown. What we send is not masked: a model writes its
arguments itself, and knows no secret. Pictures and sounds are not masked either.

Import `Masked` lazily: it needs the SDK.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs

from glyphoxa_trio.config import ServerSpec
from glyphoxa_trio.config.secrecy import secrets_of
from glyphoxa_trio.secret import Mask
from glyphoxa_trio.tools.repair import texts_of_blobs

if TYPE_CHECKING:
    import anyio.abc
    from mcp.shared.dispatcher import (
        CallOptions,
        Dispatcher,
        OnNotify,
        OnNotifyIntercept,
        OnRequest,
    )
    from mcp.shared.exceptions import MCPError

_TOKENS: Final = 4  # the most recent ones: a late answer may contain an older token
# Only we and the server read these, and they must come back unchanged.
_MACHINERY: Final = ("nextCursor", "protocolVersion")


@attrs.define(eq=False)
class Masking:
    """The mask of one session, to which fetched tokens are added."""

    _secrets: tuple[str, ...] = attrs.field(default=(), repr=False)
    _learned: deque[str] = attrs.field(
        factory=lambda: deque(maxlen=_TOKENS), init=False, repr=False
    )
    mask: Mask = attrs.field(init=False)

    @mask.default
    def _of_these(self) -> Mask:
        return Mask.of((*self._secrets, *self._learned))

    @classmethod
    def of(cls, spec: ServerSpec) -> Masking:
        """Return the mask of the secrets in ``spec``."""
        return cls(secrets_of(spec))

    def learn(self, secret: str) -> None:
        """Mask this secret, too, from now on."""
        if secret not in self._learned:
            self._learned.append(secret)
            self.mask = self._of_these()

    def text(self, text: str) -> str:
        """Return ``text`` without secrets."""
        return self.mask.text(text)

    def clean(self, error: MCPError) -> None:
        """Remove the secrets from a server's error."""
        said = error.error
        data = self.mask.data(said.data)
        message = self.text(said.message)
        error.error = said.model_copy(update={"message": message, "data": data})
        error.args = (said.code, message, data)


@attrs.define(eq=False)
class Masked:
    """An SDK `Dispatcher` that masks what another one receives."""

    _inner: Dispatcher[Any]
    _masking: Masking

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        on_notify_intercept: OnNotifyIntercept | None = None,
        *,
        task_status: anyio.abc.TaskStatus[None] | None = None,
    ) -> None:
        async def ask(
            context: Any, method: str, params: Mapping[str, Any] | None
        ) -> dict[str, Any]:
            return await on_request(context, method, self._data(params))

        async def notify(
            context: Any, method: str, params: Mapping[str, Any] | None
        ) -> None:
            await on_notify(context, method, self._data(params))

        def intercept(method: str, params: Mapping[str, Any] | None) -> bool:
            assert on_notify_intercept is not None
            return on_notify_intercept(method, self._data(params))

        more = {} if task_status is None else {"task_status": task_status}
        await self._inner.run(
            ask, notify, None if on_notify_intercept is None else intercept, **more
        )

    async def notify(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,
    ) -> None:
        await self._inner.notify(method, params, opts)

    async def send_raw_request(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,
    ) -> dict[str, Any]:
        from mcp.shared.exceptions import MCPError

        try:
            answer = await self._inner.send_raw_request(method, params, opts)
        except MCPError as error:
            self._masking.clean(error)
            raise
        return masked(self._masking.mask, answer)

    def _data(self, value: Any) -> Any:
        return self._masking.mask.data(value)


def masked(mask: Mask, answer: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a request without secrets. Media are left unchanged.

    Text that was sent as a blob becomes text first, for a secret may be in it.
    """
    answer = texts_of_blobs(answer)
    if not mask:
        return answer
    media: list[tuple[dict[str, Any], str, str]] = []
    for holder, key in _media(answer):
        media.append((holder, key, holder[key]))
        holder[key] = f"\0{len(media) - 1}"
    shown: dict[str, Any] = mask.data(answer)
    for holder, key in _media(shown) if media else ():
        holder[key] = media[int(holder[key][1:])][2]
    for key in _MACHINERY:
        if key in answer:
            shown[key] = answer[key]
    return shown


def _media(answer: Mapping[str, Any]) -> list[tuple[dict[str, Any], str]]:
    """Return where a result has pictures, sounds and files: the object and its key."""
    found: list[tuple[dict[str, Any], str]] = []
    for key in ("content", "contents"):
        blocks = answer.get(key)
        for block in blocks if isinstance(blocks, list) else ():
            if not isinstance(block, dict):
                continue
            if block.get("type") in ("image", "audio"):
                found.append((block, "data"))
            if key == "contents":
                found.append((block, "blob"))
            if isinstance(resource := block.get("resource"), dict):
                found.append((resource, "blob"))
    return [(x, name) for x, name in found if isinstance(x.get(name), str)]
