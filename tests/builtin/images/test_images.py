"""Cards that are drawn here, the folder they are kept in, and the tool. G13."""

# ruff: noqa: ASYNC240  (nothing else runs while a test looks at its own folder)

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trio

from glyphoxa_trio.builtin.images import Album, Card, album, size_of, tools
from glyphoxa_trio.builtin.images.card import drawn
from glyphoxa_trio.builtin.images.picture import Picture, picture_of
from glyphoxa_trio.tools.definition import (
    AnswerUnusable,
    CallContext,
    OnInterrupt,
    ToolError,
)
from glyphoxa_trio.tools.outcome import ToolResult

SMALL = (256, 256)


def picture(data: bytes) -> Picture:
    return Picture(data=data, mime="image/png", width=1, height=1)


class Painted:
    label = "a painter"

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.asked: list[tuple[str, str]] = []

    async def paint(self, prompt: str, style: str) -> bytes:
        await trio.lowlevel.checkpoint()
        self.asked.append((prompt, style))
        return self.data


async def call(painter: Any, folder: Path, **arguments: Any) -> ToolResult:
    (tool,) = tools(painter, Album(folder))
    result = tool.handler(arguments, CallContext())
    assert not isinstance(result, ToolResult)
    return await result


async def test_without_a_server_a_card_is_drawn(tmp_path: Path) -> None:  # G13
    result = await call(Card(SMALL), tmp_path, prompt="The tavern.", style="dark")
    (media,) = result.media
    found = picture_of(media.data)
    assert (found.mime, found.width, found.height) == ("image/png", 256, 256)
    assert Path(result.structured["path"]).read_bytes() == media.data
    assert result.structured["drawn_by"] == "a parchment card"
    again = await call(Card(SMALL), tmp_path, prompt="The tavern.", style="dark")
    assert again == result
    assert len(os.listdir(tmp_path)) == 1


def test_a_card_depends_on_prompt_style_and_size_alone() -> None:
    first = drawn("The tavern", "", SMALL)
    assert drawn("The tavern", "", SMALL) == first
    others = {
        drawn("The taverns", "", SMALL),
        drawn("The tavern", "dark", SMALL),
        drawn("The tavern", "forest green", SMALL),
        drawn("The tavern", "", (256, 300)),
        first,
    }
    assert len(others) == 5


def test_a_style_changes_the_palette() -> None:
    from PIL import Image

    def middle(style: str) -> int:
        import io

        with Image.open(io.BytesIO(drawn("x", style, SMALL))) as image:
            plain = image.convert("L").resize((1, 1))
            value = plain.getpixel((0, 0))
        assert isinstance(value, int)
        return value

    assert middle("dark and grim") < middle("") - 40


@settings(max_examples=15)
@given(st.text(max_size=900), st.text(max_size=40))
def test_any_prompt_can_be_drawn(prompt: str, style: str) -> None:
    painter = Painted(drawn("x", "", SMALL))
    # As the tool hands it on: no half characters, no control characters.
    folder = Path("/nowhere")

    async def main() -> None:
        (tool,) = tools(painter, keep)
        try:
            result = tool.handler({"prompt": prompt, "style": style}, CallContext())
            assert not isinstance(result, ToolResult)
            await result
        except ToolError as error:
            assert str(error) == "the prompt is empty; describe the image"  # noqa: PT017

    async def keep(data: bytes, about: str) -> tuple[Picture, Path]:
        await trio.lowlevel.checkpoint()
        return picture_of(data), folder

    trio.run(main)
    for said, how in painter.asked:
        data = drawn(said, how, SMALL)
        assert picture_of(data).width == 256


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1024x1024", (1024, 1024)),
        ("auto", (1024, 1024)),
        ("10x9999", (256, 2048)),
        ("512x768", (512, 768)),
    ],
)
def test_sizes(text: str, expected: tuple[int, int]) -> None:
    assert size_of(text) == expected


@pytest.mark.parametrize("text", ["", "x", "10", "10x", "-1x5", "9" * 30 + "x1", "axb"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match="width and height"):
        size_of(text)


def test_the_tool_may_outlast_its_turn_and_is_never_probed() -> None:
    (tool,) = tools(Painted(b""), Album(Path("x")))
    definition = tool.definition
    assert definition.interruption is OnInterrupt.FINISH_AND_SPEAK
    assert definition.side_effects
    assert not definition.repeatable
    assert definition.open_world


async def test_what_cannot_be_drawn_is_refused_before_anybody_is_asked(
    tmp_path: Path,
) -> None:
    painter = Painted(b"no image")
    for prompt, style in (
        ("", ""),
        ("\x00 \n", ""),
        ("x" * 2001, ""),
        ("x", "s" * 201),
    ):
        with pytest.raises(ToolError):
            await call(painter, tmp_path, prompt=prompt, style=style)
    assert painter.asked == []
    with pytest.raises(AnswerUnusable, match="the server sent no image"):
        await call(painter, tmp_path, prompt="x")
    assert list(os.listdir(tmp_path)) == []


async def test_what_is_spoken_of_a_long_prompt_is_its_beginning(tmp_path: Path) -> None:
    painter = Painted(drawn("x", "", SMALL))
    prompt = "A very long description, " * 20
    about = (await call(painter, tmp_path, prompt=prompt)).structured["about"]
    assert about == "A very long description, A very long description, A very …"
    assert (await call(painter, tmp_path, prompt="y" * 100)).structured["about"] == (
        "y" * 60 + " …"
    )


# The folder.


def test_an_image_is_kept_under_what_it_is_of(tmp_path: Path) -> None:
    kept = Album(tmp_path / "a" / "b").keep(picture(b"1"), "Ä../../etc/passwd")
    assert kept.parent == (tmp_path / "a" / "b").resolve()
    assert kept.name.startswith("etc-passwd-")
    assert Album(tmp_path).keep(picture(b"2"), "图").name.startswith("image-")


def test_a_full_folder_takes_no_more_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(album, "MOST", 3)
    (tmp_path / "somebody-elses.png").write_bytes(b"x")
    folder = Album(tmp_path)
    first, *_ = [folder.keep(picture(bytes([n])), "x") for n in range(3)]
    with pytest.raises(ToolError, match=r"the image folder is full \(3\)"):
        folder.keep(picture(b"more"), "x")
    assert folder.keep(picture(bytes([0])), "x") == first  # it is there already
    assert len(os.listdir(tmp_path)) == 4


def test_a_folder_that_cannot_be_written_to_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(ToolError, match="cannot be kept: "):
        Album(tmp_path / "file").keep(picture(b"1"), "x")
    (tmp_path / "link").symlink_to(tmp_path / "gone" / "deep")
    with pytest.raises(ToolError, match="cannot be kept: "):
        Album(tmp_path / "link").keep(picture(b"1"), "x")


def test_many_at_once_are_each_kept_whole(tmp_path: Path) -> None:
    folder = Album(tmp_path)
    data = [bytes([n]) * 200_000 for n in range(4)]
    threads = [
        threading.Thread(target=folder.keep, args=(picture(x), "x")) for x in data * 3
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(x.read_bytes() for x in tmp_path.iterdir()) == sorted(data)
