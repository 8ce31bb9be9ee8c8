"""Keys that do nothing where they stand: a warning with the remedy, never an error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trio.testing import MockClock

from glyphoxa_trio import Config, open_runtime
from glyphoxa_trio.cli.check import check
from glyphoxa_trio.config import CalibrationConfig, McpConfig, NpcConfig
from glyphoxa_trio.config.voices import CascadeMode, Engine
from glyphoxa_trio.runtime.unused_keys import idle_keys

from ..npc.support import ScriptedLLM


def config(**npc: Any) -> Config:
    more = {"template_defaults": npc.pop("template_defaults", {})}
    return Config(
        npcs=(NpcConfig(name="Bo", **npc),),
        mcp=McpConfig(remember=False),
        calibration=CalibrationConfig(at_start=False),
        **more,
    )


MISSPELT = config(greeting="Hail, {caler_name}!")
SAID = (
    "nothing gives {caler_name} a value unless Npc.set_variables does, so it stays as"
    " it is written: did you mean {caller_name}? Else put it into template_defaults"
    " @ npcs[Bo].greeting"
)


@pytest.mark.parametrize("engine", [Engine.CASCADED, Engine.S2S])
def test_keys_of_the_sentence_cascade_do_nothing_elsewhere(engine: Engine) -> None:
    chosen = config(engine=engine, fast_model="s", cascade_mode=CascadeMode.ALWAYS)
    why = f"is for engine: sentence_cascade, and does nothing for {engine}"
    assert list(idle_keys(chosen)) == [
        f"fast_model {why} @ npcs[Bo].fast_model",
        f"cascade_mode {why} @ npcs[Bo].cascade_mode",
    ]


def test_a_sentence_cascade_is_what_they_are_for() -> None:
    cascade = {"fast_model": "s", "cascade_mode": CascadeMode.OFF}
    assert not [*idle_keys(config(engine=Engine.SENTENCE_CASCADE, **cascade))]
    assert not [*idle_keys(config())]


@pytest.mark.parametrize(
    "where",
    ["identity", "knowledge_scope", "secret_knowledge", "behaviour_rules"],
)
def test_a_variable_that_nobody_knows_is_named_once_with_its_place(where: str) -> None:
    chosen = config(**{where: ("Knows {dragon}.", "Fears {dragon}.")})
    (said,) = idle_keys(chosen)
    assert said == (
        "nothing gives {dragon} a value unless Npc.set_variables does, so it stays as"
        f" it is written: put it into template_defaults @ npcs[Bo].{where}"
    )


def test_variables_that_have_a_value_and_other_braces_are_no_mistake() -> None:
    text = "{caller_name} {call_id} {dragon} {{jinja}} {a: 1} {}"
    chosen = config(personality=text, template_defaults={"dragon": ""})
    assert not [*idle_keys(chosen)]


async def test_a_runtime_warns_of_it_once(autojump_clock: MockClock) -> None:
    async with open_runtime(MISSPELT, llm=ScriptedLLM([])) as runtime:
        assert [x.text for x in runtime.warnings] == [SAID]
        await runtime.reload(MISSPELT)
        assert len(runtime.warnings) == 1
        await runtime.reload(config(fast_model="s"))
        assert runtime.warnings[-1].text.startswith("fast_model is for engine:")


def test_check_says_it_and_is_content(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "table.yaml"
    lines = ["npcs:", "  - name: Bo", "    greeting: 'Hail, {caler_name}!'"]
    path.write_text("\n".join(lines))
    assert check(path, servers=False) == 0
    assert f"warning: configuration: {SAID}" in capsys.readouterr().out
