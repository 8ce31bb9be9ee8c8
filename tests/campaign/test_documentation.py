"""docs/campaign.md says what the server has, and the example is what it shows."""

from __future__ import annotations

import re
from pathlib import Path

from glyphoxa_trio.campaign import checks, errors
from glyphoxa_trio.campaign.listing import DEFAULT_LIMIT, MOST_LIMIT
from glyphoxa_trio.campaign.tools.transfer import MOST_BACKUPS

from .table import served

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "campaign.md").read_text()


def section(title: str) -> str:
    found = re.search(rf"(?ms)^## {title}$(.*?)(?=^## |\Z)", PAGE)
    assert found, title
    return found[1]


async def test_every_tool_is_in_the_table_with_its_arguments(tmp_path: Path) -> None:
    async with served(None, "--backups", str(tmp_path)) as server:
        tools = {tool.definition.name: tool for tool in server.offer.tools}
        guest = server.guest()
        resources = await guest.ask("resources/templates/list")
    rows = {}
    for line in re.findall(r"(?m)^\| `.*$", section("Tools")):
        _, names, takes, *_ = line.split("|")
        for name in re.findall(r"`(\w+)`", names):
            rows[name] = takes
    assert rows.keys() == tools.keys()
    for name, takes in rows.items():
        properties = tools[name].definition.parameters["properties"]
        if name.startswith(("duality", "roll")):
            continue
        # Above the table it says where the campaign may be left out.
        told = set(re.findall(r"`(\w+)`", takes)) - {"GM", "campaign_id"}
        assert told == properties.keys() - {"campaign_id"}, name
    for template in resources["resourceTemplates"]:
        assert f"`{template['uriTemplate']}`" in section("Resources")


def test_every_code_is_told() -> None:
    told = set(re.findall(r"(?m)^\| `(\w+)` \|", section("Errors")))
    codes = {
        kind.code
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.CampaignError)
        if kind is not errors.CampaignError
    }
    assert told == codes | {"DeadlineExceeded"}


def test_the_bounds_are_those_of_the_program() -> None:
    assert f"up to {checks.MOST_NAME} characters" in PAGE
    assert f"`notes` up to {checks.MOST_TEXT}" in PAGE
    assert f"`limit` records ({DEFAULT_LIMIT}; up to {MOST_LIMIT})" in PAGE
    assert f"There may be {MOST_BACKUPS} of them" in PAGE


def test_what_is_shown_stands_in_the_example() -> None:
    source = (DOCS / "examples" / "campaign_night.py").read_text()
    indented = {line.strip() for line in source.splitlines()}
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert {line.strip() for line in block.splitlines()} <= indented
