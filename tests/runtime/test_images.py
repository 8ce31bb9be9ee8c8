"""Images in a runtime: a card, an image model, and one that outlasts its turn. G13."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pytest

import trio

from glyphoxa_trio import Config, open_runtime
from glyphoxa_trio.builtin.images import tools
from glyphoxa_trio.builtin.images.card import drawn
from glyphoxa_trio.builtin.images.picture import Picture, picture_of
from glyphoxa_trio.config import (
    BuiltinConfig,
    CalibrationConfig,
    ConfigError,
    ImagesConfig,
    McpConfig,
    NpcConfig,
)
from glyphoxa_trio.npc import LateResult
from glyphoxa_trio.runtime import Runtime
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.simulation import virtual
from glyphoxa_trio.testing.image_server import open_image_server
from glyphoxa_trio.tools.outcome import Effect, Outcome, Status
from glyphoxa_trio.tools.tier import Tier

LIMIT = 30.0
CARD = drawn("x", "", (256, 256))
ASK = "Please generate an image of a red dragon."


def config(**images: Any) -> Config:
    return Config(
        npcs=(NpcConfig(name="Bard", tools=("images",), budget_tier=Tier.DEEP),),
        mcp=McpConfig(remember=False),
        calibration=CalibrationConfig(at_start=False),
        builtin=BuiltinConfig(images=ImagesConfig(**images)),
    )


async def asked(runtime: Runtime) -> tuple[str, Outcome]:
    async with runtime.npc("Bard").say(ASK, tier=Tier.DEEP) as turn:
        await turn.finish()
    assert turn.done is not None
    (outcome,) = turn.done.outcomes
    return turn.done.text, outcome


async def test_an_npc_draws_a_card_and_the_embedder_has_it(
    tmp_path: Path,
) -> None:  # G13
    with trio.fail_after(LIMIT):
        async with open_runtime(
            config(enabled=True, folder=tmp_path, size="256x256")
        ) as runtime:
            said, outcome = await asked(runtime)
    assert (outcome.status, outcome.effect) == (Status.OK, Effect.DONE)
    assert said.startswith("The picture is ready: ")
    (media,) = outcome.media
    assert picture_of(media.data).mime == "image/png"
    assert media.placeholder in str(outcome.data)  # all that its model has read
    (kept,) = tmp_path.iterdir()  # noqa: ASYNC240
    assert kept.read_bytes() == media.data
    assert outcome.data["structured"]["path"] == str(kept)


async def test_an_image_model_draws_it_where_there_is_one(tmp_path: Path) -> None:
    with trio.fail_after(LIMIT):
        async with open_image_server([CARD], key="k", model="m") as server:
            settings = config(
                enabled=True,
                folder=tmp_path,
                base_url=server.base_url,
                api_key=Secret("k"),
                model="m",
            )
            async with open_runtime(settings) as runtime:
                _, outcome = await asked(runtime)
    assert outcome.media[0].data == CARD
    assert "dragon" in server.asked[0].prompt


async def test_a_reload_brings_another_model_at_once(tmp_path: Path) -> None:
    first = config(enabled=True, folder=tmp_path, size="256x256")
    with trio.fail_after(LIMIT):
        async with (
            open_image_server([CARD]) as server,
            open_runtime(first) as runtime,
        ):
            images = attrs.evolve(first.builtin.images, base_url=server.base_url)
            builtin = attrs.evolve(first.builtin, images=images)
            done = await runtime.reload(attrs.evolve(first, builtin=builtin))
            assert done.groups == ("images",)
            await asked(runtime)
            assert len(server.asked) == 1


@attrs.define
class Slow:
    """Takes seven seconds for an image, on virtual time."""

    label: str = "a slow model"

    async def paint(self, prompt: str, style: str) -> bytes:
        await trio.sleep(7)
        return CARD


async def keep(data: bytes, about: str) -> tuple[Picture, Path]:
    await trio.lowlevel.checkpoint()
    return picture_of(data), Path("/images/a-dragon.png")


def test_an_image_that_outlasts_its_turn_is_spoken_of_later() -> None:  # G13
    """The player goes on talking meanwhile: the image is not lost, nor forgotten."""
    late: list[tuple[float, LateResult]] = []
    texts: list[str] = []

    async def main() -> None:
        async with open_runtime(config(), tools=tools(Slow(), keep)) as runtime:
            bard = runtime.npc("Bard")
            with runtime.events.tap(
                lambda x: (
                    late.append((trio.current_time(), x))
                    if isinstance(x, LateResult)
                    else None
                )
            ):
                async with trio.open_nursery() as nursery:

                    async def first() -> None:
                        async with bard.say(ASK, tier=Tier.DEEP) as turn:
                            await turn.finish()

                    nursery.start_soon(first)
                    await trio.sleep(2)
                    async with bard.say("Hello there.") as turn:
                        await turn.finish()
                        texts.append(turn.done.text if turn.done else "")
                await trio.sleep(8)
            async with bard.say("And now?") as turn:
                await turn.finish()
                texts.append(turn.done.text if turn.done else "")

    virtual.run(main)
    ((at, event),) = late
    assert (at, event.speak, event.outcome.status) == (7.0, True, Status.OK)
    assert event.outcome.media[0].data == CARD
    assert "picture" not in texts[0]
    assert texts[1].startswith("The picture is ready: ")
    assert texts[1].endswith("an image of a red dragon.")


@pytest.mark.parametrize(
    ("images", "words"),
    [
        ({"size": "large"}, "width and height"),
        ({"base_url": "images.example"}, "http"),
        (
            {"base_url": "http://images.example/v1", "api_key": Secret("k")},
            "must start with https://",
        ),
    ],
)
def test_what_cannot_be_configured(images: dict[str, Any], words: str) -> None:
    with pytest.raises((ConfigError, ValueError), match=words):
        ImagesConfig(**images)


async def test_an_address_with_a_password_is_refused_at_the_start() -> None:
    settings = config(enabled=True, base_url="https://u:p@images.example/v1")
    with pytest.raises(ConfigError, match=r"no credentials.* @ builtin\.images"):
        async with open_runtime(settings):
            pytest.fail("it starts")
