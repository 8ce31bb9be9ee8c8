"""The tool ``generate_image``."""

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
_LONGEST_ABOUT: Final = 60  # characters of the part that is spoken

# Drawing may go on after its turn has ended; the picture is announced then.
_LIMIT: Final = 30.0  # seconds, the longest time that any call may take
_DECLARED: Final = 3.5  # seconds; that of an image model, until it has been measured


class Painter(Protocol):
    """A source of images."""

    @property
    def label(self) -> str:
        """The name of the image source, as shown to people."""
        ...

    async def paint(self, prompt: str, style: str) -> bytes:
        """Return an image for the prompt, unchecked.

        Raises:
          ToolUnavailable: if it cannot draw at the moment.
          ToolError: if it does not draw this prompt.
        """
        ...


# Checks and stores an image, given the image and a description of it.
Keep = Callable[[bytes, str], Awaitable[tuple[Picture, Path]]]


def keep_in(album: Album) -> Keep:
    async def keep(data: bytes, about: str) -> tuple[Picture, Path]:
        # Not abandoned when cancelled: either the image is stored, or its call has
        # failed.
        return await trio.to_thread.run_sync(_checked_and_kept, album, data, about)

    return keep


def tools(painter: Painter, keep: Keep | Album) -> list[Tool]:
    """Return ``generate_image``, drawn by ``painter``."""
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
        prompt: Annotated[str, "The subject of the image, in a sentence or two"],
        style: Annotated[str, "For example ink drawing, oil painting, dark"] = "",
    ) -> Any:
        """Draw an image for the players, such as a portrait, a map or a scene."""
        prompt, style = _plain(prompt), _plain(style)
        if not prompt:
            raise ToolError("the prompt is empty; describe the image")
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
        raise AnswerUnusable(f"the server sent no image: {error}") from None
    return picture, album.keep(picture, about)


def _plain(text: str) -> str:
    """Remove control characters and lone surrogates, which no request can carry."""
    text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    marks = (mark if mark.isprintable() else " " for mark in text)
    return " ".join("".join(marks).split())


def _about(prompt: str) -> str:
    if len(prompt) <= _LONGEST_ABOUT:
        return prompt.rstrip(" .!?")
    cut = prompt[:_LONGEST_ABOUT].rpartition(" ")[0] or prompt[:_LONGEST_ABOUT]
    return cut.rstrip(" ,;:") + " …"
