"""The shipped rules, searching them, looking them up, and data sets from outside."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.builtin.rules import DatasetError, Rule, RuleIndex, tools
from glyphoxa_trio.builtin.rules.datasets import load, read, shipped
from glyphoxa_trio.builtin.rules.index import excerpt, terms
from glyphoxa_trio.tools.definition import CallContext, Tool, ToolError
from glyphoxa_trio.tools.outcome import ToolResult

SEARCH, GET = tools()
RULES = {rule.id: rule for rule in shipped()}


async def run(tool: Tool, **arguments: Any) -> Any:
    """Through the handler, as the host does."""
    result = tool.handler(arguments, CallContext())
    if not isinstance(result, ToolResult):
        result = await result
    return result.structured


async def found(query: str, **more: Any) -> list[str]:
    return [result["id"] for result in (await SEARCH(query, **more))["results"]]


def rule(key: str, name: str = "", text: str = "", **more: Any) -> Rule:
    given = {"category": "general", "system": "dnd5e"} | more
    return Rule(id=key, name=name or key, text=text, **given)


# -- what is shipped: D21 -----------------------------------------------------------


def test_the_shipped_rules_are_enough_and_well_formed() -> None:
    by_category: dict[str, list[Rule]] = {}
    for one in RULES.values():
        by_category.setdefault(one.category, []).append(one)
        assert one.id.startswith(f"{one.category}-")
        assert one.system == "dnd5e"
        assert one.keywords
        assert 60 < len(one.text) < 700
    assert len(by_category["condition"]) == 15
    assert len(by_category["spell"]) >= 30
    assert len(by_category["combat"]) >= 20
    assert len(by_category["general"]) >= 20
    assert len(shipped()) == len(RULES)  # no id twice


def test_every_shipped_file_carries_the_attribution() -> None:
    folder = resources.files("glyphoxa_trio.builtin") / "data" / "rules"
    for file in folder.iterdir():
        notice = json.loads(file.read_text("utf-8"))["notice"]
        assert "System Reference Document 5.1" in notice
        assert "creativecommons.org/licenses/by/4.0" in notice


@pytest.mark.parametrize(
    ("key", "figures"),
    [
        ("spell-fireball", ["8d6 fire", "20-foot-radius", "150 feet", "Dexterity"]),
        ("spell-cure-wounds", ["1d8", "Undead", "touch"]),
        ("spell-magic-missile", ["Three", "1d4 + 1 force", "120 feet"]),
        ("spell-revivify", ["last minute", "300 gp", "1 hit point"]),
        ("condition-exhaustion", ["speed halved", "6, death"]),
        ("combat-death-saving-throws", ["10 or higher", "natural 1", "natural 20"]),
        ("combat-cover", ["+2", "+5"]),
        ("general-falling", ["1d6", "every 10 feet", "20d6"]),
        ("general-concentration", ["DC 10", "half the damage"]),
        ("general-proficiency-bonus", ["+2 at levels 1 to 4", "+6 at 17 to 20"]),
    ],
)
def test_figures_are_those_of_the_srd(key: str, figures: list[str]) -> None:
    for figure in figures:
        assert figure in RULES[key].text


@pytest.mark.border
def test_importing_the_module_reads_no_data() -> None:
    # Not even the folder is looked at: opening files is an audit event.
    program = """
import sys
seen = []
def hook(event, arguments):
    if event in ("open", "os.listdir", "os.scandir"):
        seen.append(str(arguments[0]))
sys.addaudithook(hook)
import glyphoxa_trio.builtin.rules
assert not [name for name in seen if "builtin/data" in name]
glyphoxa_trio.builtin.rules.tools()
assert [name for name in seen if name.endswith("builtin/data/rules/spells.json")]
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


# -- searching: G9 ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "best"),
    [
        ("blinded", "condition-blinded"),
        ("Blinded!", "condition-blinded"),
        ("condition-blinded", "condition-blinded"),
        ("how does fireball work?", "spell-fireball"),
        ("what happens when I am prone", "condition-prone"),
        ("grapple", "combat-grapple"),
        ("grappled", "condition-grappled"),
        ("escape a grapple", "condition-grappled"),
        ("opportunity attack", "combat-opportunity-attack"),
        ("death saves", "combat-death-saving-throws"),
        ("short rest hit dice", "general-short-rest"),
        ("concentration check damage", "general-concentration"),
        ("cover bonus", "combat-cover"),
        ("invisibility", "spell-invisibility"),
        ("drowning", "general-suffocating"),
        ("falling damage", "general-falling"),
        ("how far can I jump", "general-jumping"),
        ("how much gold is a platinum piece", "general-currency"),
        ("raise the dead", "spell-raise-dead"),
        ("ambush", "combat-surprise"),
        ("passive perception", "general-passive-checks"),
        ("teleport", "spell-misty-step"),
    ],
)
async def test_the_best_match_comes_first(query: str, best: str) -> None:
    assert (await found(query))[0] == best


async def test_a_result_says_what_it_is_and_why() -> None:
    answer = await run(SEARCH, query="fireball", limit=1)
    [result] = answer["results"]
    assert result.pop("score") > 0
    assert "fire" in result.pop("excerpt")
    assert result == {
        "id": "spell-fireball",
        "name": "Fireball",
        "category": "spell",
        "system": "dnd5e",
    }


@pytest.mark.parametrize("limit", [1, 3, 20, 3.0])
async def test_limit_bounds_the_results_and_not_the_total(limit: float) -> None:
    answer = await run(SEARCH, query="damage", limit=limit)
    assert len(answer["results"]) == limit
    assert answer["total"] > 20
    scores = [result["score"] for result in answer["results"]]
    assert scores == sorted(scores, reverse=True)


async def test_five_results_unless_asked() -> None:
    assert len(await found("damage")) == 5


async def test_words_that_stand_nowhere_find_nothing() -> None:
    assert await run(SEARCH, query="xyzzy the of") == {"results": [], "total": 0}
    assert await run(SEARCH, query="what is the") == {"results": [], "total": 0}


async def test_a_system_is_a_filter_and_an_unknown_one_is_refused(
    tmp_path: Path,
) -> None:
    other = {"id": "pf-blinded", "name": "Blinded", "category": "condition"}
    file = tmp_path / "other.json"
    file.write_text(json.dumps([other | {"system": "PF2e", "text": "It is dark."}]))
    search, _ = tools([file])
    both = [one["id"] for one in (await search("blinded"))["results"]]
    assert {"pf-blinded", "condition-blinded"} <= set(both)
    only = (await search("blinded", system="pf2E"))["results"]
    assert [one["id"] for one in only] == ["pf-blinded"]
    assert (await search("blinded", system=""))["total"] == len(both)
    with pytest.raises(ToolError, match="'gurps'; there are: dnd5e, pf2e"):
        await search("blinded", system="gurps")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"query": ""}, "the query is empty"),
        ({"query": " \n"}, "the query is empty"),
        ({"query": "x" * 1001}, "more than 1000 characters"),
        ({"query": "fire", "limit": 0}, "from 1 to 20, got 0"),
        ({"query": "fire", "limit": 21}, "from 1 to 20, got 21"),
    ],
)
async def test_bad_arguments_are_refused(
    arguments: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ToolError, match=problem):
        await run(SEARCH, **arguments)


@pytest.mark.parametrize(
    "words",
    [
        "grapple grappled grappling grapples",
        "stun stunned stunning",
        "save saves saving saved",
        "fall falls falling",
        "ability abilities",
        "fly flies flying",
        "miss missed missing",
    ],
)
def test_forms_of_a_word_share_a_stem(words: str) -> None:
    assert set.intersection(*(set(terms(word)) for word in words.split()))


def test_accents_and_case_do_not_matter() -> None:
    assert terms("Naïve NAÏVE nai\u0308ve") == terms("naive")


def test_a_word_counts_by_where_it_stands() -> None:
    # Equally long, each with the word once, and last in the order of ids.
    index = RuleIndex.build(
        [
            rule("zd", "Dragon lair", "Gold.", keywords=("cave",)),
            rule("y-dragon", "Deep lair", "Gold.", keywords=()),
            rule("xk", "Deep lair", "Gold.", keywords=("dragon",)),
            rule("at", "Deep lair", "Dragon.", keywords=("cave",)),
        ]
    )
    ranked = [match.rule.id for match in index.search("dragons")]
    assert ranked == ["zd", "y-dragon", "xk", "at"]


def test_a_rare_word_outweighs_a_common_one() -> None:
    common = [rule(f"r{n}", f"Name{n}", "Fire burns here.") for n in range(9)]
    index = RuleIndex.build([*common, rule("ice", "Cold", "Ice melts here.")])
    assert index.search("fire ice")[0].rule.id == "ice"


def test_equal_scores_are_in_the_order_of_ids() -> None:
    index = RuleIndex.build([rule(key, "Same", "Same text.") for key in "cab"])
    assert [match.rule.id for match in index.search("same")] == ["a", "b", "c"]


def test_an_empty_index_finds_nothing() -> None:
    assert RuleIndex.build([]).search("fire") == []


def test_an_excerpt_starts_where_the_words_are_and_is_never_long() -> None:
    text = "First of all. Then the dragon wakes! At last silence."
    assert excerpt(text, "dragons wake") == "Then the dragon wakes! At last silence."
    assert excerpt(text, "nothing") == text
    assert excerpt(f"{text} {'So be it. ' * 30}", "dragon") == (
        f"Then the dragon wakes! At last silence.{' So be it.' * 20}"
    )
    long = excerpt("word " * 200, "word")
    assert len(long) <= 244
    assert long.endswith("word ...")


words = st.sampled_from(["fire", "ice", "dragon", "stone", "save", "rest"])
rules_found = st.lists(
    st.builds(
        rule,
        key=st.text("abc", min_size=1, max_size=3),
        name=words,
        text=st.lists(words, max_size=6).map(" ".join),
    ),
    max_size=8,
)


@given(rules_found, st.lists(words, max_size=3).map(" ".join))
def test_found_is_exactly_what_shares_a_word(rules: list[Rule], query: str) -> None:
    latest = {one.id: one for one in rules}
    matches = RuleIndex.build(rules).search(query)
    expected = {
        key
        for key, one in latest.items()
        if set(query.split()) & {*one.text.split(), one.name}
    }
    assert {match.rule.id for match in matches} == expected
    assert all(match.rule == latest[match.rule.id] for match in matches)
    assert all(match.score > 0 for match in matches)


@given(st.text(max_size=200))
async def test_any_query_is_answered_or_refused(query: str) -> None:
    try:
        answer = await SEARCH(query)
    except ToolError:
        assert not query.strip()
    else:
        assert len(answer["results"]) == min(5, answer["total"])


# -- looking up: G9 -----------------------------------------------------------------


@pytest.mark.parametrize("key", ["condition-blinded", " Condition-Blinded\n"])
async def test_a_rule_comes_whole(key: str) -> None:
    blinded = RULES["condition-blinded"]
    assert await run(GET, id=key) == {
        "id": "condition-blinded",
        "name": "Blinded",
        "category": "condition",
        "system": "dnd5e",
        "text": blinded.text,
        "keywords": list(blinded.keywords),
    }


async def test_every_id_found_can_be_looked_up() -> None:
    for key in await found("damage", limit=20):
        assert (await GET(key))["id"] == key


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("fireball", "did you mean spell-fireball"),
        ("spell-firebal", "did you mean spell-fireball"),
        ("blinded", "did you mean condition-blinded"),
        ("combat-grappling", "combat-grapple"),
        ("spell-xyzzyx", "search_rules finds ids"),
        ("", "search_rules finds ids"),
    ],
)
async def test_an_unknown_id_is_refused_with_the_nearest(key: str, hint: str) -> None:
    with pytest.raises(ToolError, match=hint):
        await run(GET, id=key)


async def test_an_endless_id_is_not_repeated() -> None:
    with pytest.raises(ToolError) as caught:
        await run(GET, id="x" * 100_000)
    assert len(str(caught.value)) < 200


# -- data sets of one's own: D21 ----------------------------------------------------

OWN = {"id": "general-tavern", "name": "Tavern", "category": "general", "text": "Ale."}


def write(path: Path, document: object) -> Path:
    path.write_text(json.dumps(document), "utf-8")
    return path


@pytest.mark.parametrize("document", [[OWN], {"notice": "ours", "entries": [OWN]}])
async def test_our_own_layout_is_read(tmp_path: Path, document: object) -> None:
    [one] = load(write(tmp_path / "house.json", document))
    assert (one.id, one.system, one.keywords) == ("general-tavern", "dnd5e", ())
    _, get = tools([tmp_path / "house.json"])
    assert (await get("general-tavern"))["text"] == "Ale."


async def test_a_later_data_set_overrides_an_earlier_one(tmp_path: Path) -> None:
    house = OWN | {"id": "spell-fireball", "name": "Fireball", "category": "spell"}
    first = write(tmp_path / "first.json", [house | {"text": "9d6 fire damage."}])
    second = write(tmp_path / "second.json", [house | {"text": "10d6 fire damage."}])
    search, get = tools([first, second])
    assert (await get("spell-fireball"))["text"] == "10d6 fire damage."
    results = (await search("fireball"))["results"]
    assert [one["id"] for one in results].count("spell-fireball") == 1
    assert results[0]["excerpt"] == "10d6 fire damage."


async def test_the_5e_database_layout_is_read(tmp_path: Path) -> None:
    conditions = [
        {"index": "blinded", "name": "Blinded", "desc": ["- Dark.", "- Really."]},
        {"index": "level-name-only", "name": "Without words", "url": "/api/x"},
    ]
    spells = [
        {
            "index": "acid-arrow",
            "name": "Acid Arrow",
            "desc": ["A green arrow hits."],
            "higher_level": ["It hits harder."],
            "level": 2,
            "school": {"index": "evocation", "name": "Evocation"},
            "casting_time": "1 action",
            "range": "90 feet",
            "concentration": True,
        }
    ]
    sections = [{"index": "cover", "name": "Cover", "desc": "## Cover\nWalls help."}]
    files = [
        write(tmp_path / "5e-SRD-Conditions.json", conditions),
        write(tmp_path / "my homebrew.json", spells),  # level and school say it
        write(tmp_path / "5e-SRD-Rule-Sections.json", sections),
    ]
    _, get = tools(files)
    blinded = await get("condition-blinded")  # in place of the shipped one
    assert (blinded["text"], blinded["category"]) == ("Dark.\nReally.", "condition")
    arrow = await get("spell-acid-arrow")
    assert arrow["category"] == "spell"
    assert arrow["text"].splitlines() == [
        "Level 2 Evocation; casting time 1 action; range 90 feet; concentration.",
        "A green arrow hits.",
        "It hits harder.",
    ]
    assert (await get("general-cover"))["text"] == "## Cover\nWalls help."
    with pytest.raises(ToolError):
        await get("condition-level-name-only")


@pytest.mark.parametrize(
    ("name", "category"),
    [
        ("5e-SRD-Conditions.json", "condition"),
        ("5e-SRD-Magic-Items.json", "magic-item"),
        ("5e-SRD-Proficiencies.json", "proficiency"),
        ("5e-SRD-Classes.json", "class"),
        ("5e-SRD-Rules.json", "general"),
        ("5e-SRD-Equipment.json", "equipment"),
        ("darkness.json", "darkness"),
    ],
)
def test_the_category_comes_from_the_files_name(name: str, category: str) -> None:
    [one] = read('[{"index": "x", "name": "X", "desc": "Text."}]', f"/some/{name}")
    assert (one.category, one.id) == (category, f"{category}-x")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[\n  {"id": }', r"house\.json: line 2, column 10: "),
        ("", r"house\.json: line 1, column 1: "),
        ("[" * 200_000, r"house\.json: "),
        ("[" + "1" * 5000 + "]", r"house\.json: "),
        ('"text"', "expected a list of entries"),
        ('{"rules": []}', "expected a list of entries"),
        ("[]", "no entry with a text"),
        ("[7]", r"house\.json\[0\]: expected an object, got 7"),
        ('[{"name": "X"}]', r"\[0\]: has neither 'id'"),
        ('[{"index": "x", "name": "X", "desc": 7}]', r"\[0\]\.desc: .* got 7"),
        ('[{"index": "x", "desc": ["Text"]}]', r"\[0\]\.name: .* got null"),
    ],
)
def test_a_broken_file_is_refused_with_file_and_place(
    tmp_path: Path, text: str, problem: str
) -> None:
    file = tmp_path / "house.json"
    file.write_text(text, "utf-8")
    with pytest.raises(DatasetError, match=problem):
        tools([file])


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"name": ""}, r"\[1\]\.name: expected a text, got \"\""),
        ({"text": None}, r"\[1\]\.text: expected a text, got null"),
        ({"category": ["x"]}, r"\[1\]\.category: expected a text"),
        ({"system": 5}, r"\[1\]\.system: expected a text, got 5"),
        ({"keywords": "ale"}, r"\[1\]\.keywords: expected a list of texts"),
        ({"keywords": [1]}, r"\[1\]\.keywords: expected a list of texts"),
        ({"txet": "?"}, r"\[1\]\.txet: unknown key"),
        ({"id": "general-tavern"}, r"\[1\]: general-tavern occurs twice"),
    ],
)
def test_a_wrong_entry_is_refused_with_its_place(
    change: dict[str, Any], problem: str
) -> None:
    with pytest.raises(DatasetError, match=problem):
        read(json.dumps([OWN, OWN | {"id": "general-other"} | change]), "house.json")


def test_all_that_is_wrong_is_said_at_once_within_reason() -> None:
    with pytest.raises(DatasetError) as caught:
        read(json.dumps([{"id": 1, "name": 2}] + [7] * 30), "house.json")
    lines = str(caught.value).splitlines()
    assert len(lines) == 21
    assert lines[0].startswith("house.json[0].id: ")
    assert lines[3].startswith("house.json[0].text: ")
    assert lines[-1] == "house.json and 14 more"


@pytest.mark.parametrize("content", [None, b"\xff\xfe["])
def test_a_file_that_is_no_text_or_not_there_is_refused(
    tmp_path: Path, content: bytes | None
) -> None:
    file = tmp_path / "house.json"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(DatasetError, match=r"house\.json"):
        tools([file])


# -- the tools: G9, G29 -------------------------------------------------------------


def test_the_definitions_say_what_the_seeds_say() -> None:
    assert [SEARCH.key, GET.key] == ["rules.search_rules", "rules.get_rule"]
    durations = [
        (tool.definition.estimated_duration, tool.definition.max_duration)
        for tool in (SEARCH, GET)
    ]
    assert durations == [(0.03, 0.1), (0.005, 0.02)]
    for definition in (SEARCH.definition, GET.definition):
        assert definition.read_only
        assert definition.idempotent
        assert definition.cacheable == 3600
    assert SEARCH.definition.parameters["required"] == ["query"]
    assert set(SEARCH.definition.parameters["properties"]) == {
        "query",
        "system",
        "limit",
    }
    assert GET.definition.parameters["required"] == ["id"]


async def test_the_examples_work() -> None:  # D9
    for example in SEARCH.definition.examples:
        assert (await run(SEARCH, **example))["total"] > 0
    for example in GET.definition.examples:
        assert (await run(GET, **example))["text"]
