"""The tool ``generate_image`` (G13)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, Final, Protocol

import trio

from glyphoxa_trio.tools.decorate import tool
from glyphoxa_trio.tools.definition import AnswerUnusable, Tool, ToolError
from glyphoxa_trio.tools.outcome import Media, ToolResult

from .album import Album
from .picture import NoPicture, Picture, picture_of

MAX_PROMPT: Final = 2000  # characters
MAX_STYLE: Final = 200
_LONGEST_ABOUT: Final = 60  # characters of what is spoken

# Drawn, and nobody else's yet: it may end after its turn, and is spoken of then.
_LIMIT: Final = 30.0  # seconds, as long as any call may go on
_DECLARED: Final = 3.5  # seconds: of an image model, where nothing is measured


class Painter(Protocol):
    """Whoever makes images."""

    @property
    def label(self) -> str:
        """Who that is, for people."""
        ...

    async def paint(self, prompt: str, style: str) -> bytes:
        """An image of the prompt.

        Raises:
          ToolUnavailable, ToolError: why there is none.
        """
        ...


# Checks and keeps an image, given what it is of.
Keep = Callable[[bytes, str], Awaitable[tuple[Picture, Path]]]


def keep_in(album: Album) -> Keep:
    async def keep(data: bytes, about: str) -> tuple[Picture, Path]:
        # Not left to itself: an image is kept, or its call has failed.
        return await trio.to_thread.run_sync(_checked_and_kept, album, data, about)

    return keep


def tools(painter: Painter, keep: Keep | Album) -> list[Tool]:
    """``generate_image``, drawn by this painter."""
    kept = keep_in(keep) if isinstance(keep, Album) else keep

    @tool(
        group="images",
        category="media",
        title="Draw an image",
        estimated_duration_ms=_DECLARED * 1000,
        max_duration_ms=_LIMIT * 1000,
        open_world=True,
        on_interrupt="finish_and_speak",
        speech_template="The picture is ready: {about}.",
    )
    async def generate_image(
        prompt: Annotated[str, "What is to be seen, in a sentence or two"],
        style: Annotated[str, "For example ink drawing, oil painting, dark"] = "",
    ) -> Any:
        """Draw an image for the players, such as a portrait, a map or a scene."""
        prompt, style = _plain(prompt), _plain(style)
        if not prompt:
            raise ToolError("say what is to be seen")
        if len(prompt) > MAX_PROMPT or len(style) > MAX_STYLE:
            raise ToolError(
                f"the prompt has at most {MAX_PROMPT} characters, the style {MAX_STYLE}"
            )
        about = _about(prompt)
        picture, path = await kept(await painter.paint(prompt, style), about)
        return ToolResult(
            structured={
                "about": about,
                "path": str(path),
                "mime": picture.mime,
                "width": picture.width,
                "height": picture.height,
                "drawn_by": painter.label,
            },
            media=(Media(picture.mime, picture.data),),
        )

    return [generate_image]


def _checked_and_kept(album: Album, data: bytes, about: str) -> tuple[Picture, Path]:
    try:
        picture = picture_of(data)
    except NoPicture as error:
        raise AnswerUnusable(f"what came is no image: {error}") from None
    return picture, album.keep(picture, about)


def _plain(text: str) -> str:
    """Without control characters and half characters, which no request can carry."""
    text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    marks = (mark if mark.isprintable() else " " for mark in text)
    return " ".join("".join(marks).split())


def _about(prompt: str) -> str:
    if len(prompt) <= _LONGEST_ABOUT:
        return prompt.rstrip(" .!?")
    cut = prompt[:_LONGEST_ABOUT].rpartition(" ")[0] or prompt[:_LONGEST_ABOUT]
    return cut.rstrip(" ,;:") + " …"
