"""The rules of seed 000: who gets which tier, and why."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.npc.keywords import Keywords
from glyphoxa_trio.npc.phrases_deep import DEEP_KEYWORDS
from glyphoxa_trio.npc.phrases_standard import STANDARD_KEYWORDS
from glyphoxa_trio.npc.selection import SelectionRules, Situation, select
from glyphoxa_trio.npc.topics import NamedTools, Topics, topics
from glyphoxa_trio.tools.tier import Tier

FAST, STANDARD, DEEP = Tier
RULES = SelectionRules()


def tier_of(text: str, **situation: object) -> Tier:
    return select(RULES, Situation(text=text, **situation)).tier  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("expected", "text", "situation"),
    [
        # 1. the DM's override beats everything, FAST too; None is no override (D2)
        (FAST, "think carefully", {"override": FAST}),
        (FAST, "remember?", {"override": FAST, "first_turn": True}),
        (STANDARD, "think carefully", {"override": STANDARD}),
        (DEEP, "hi", {"override": DEEP, "queue_depth": 9, "since_deep": 0.0}),
        (DEEP, "think carefully", {"override": None}),
        # 2. a DEEP keyword, more than the queue and STANDARD keywords
        (DEEP, "remember, and think carefully", {"queue_depth": 9}),
        (DEEP, "take your time", {"first_turn": True}),
        # ... but not again within 30 s: then it is STANDARD, whatever the queue
        (STANDARD, "think carefully", {"since_deep": 29.999}),
        (STANDARD, "think carefully", {"since_deep": 0.0, "queue_depth": 9}),
        (DEEP, "think carefully", {"since_deep": 30.0}),
        (DEEP, "think carefully", {"since_deep": None}),
        # 3. three who wait, more than STANDARD keywords and the first turn
        (FAST, "tell me about the rules", {"queue_depth": 3}),
        (FAST, "hi", {"queue_depth": 3, "first_turn": True}),
        (STANDARD, "tell me about the rules", {"queue_depth": 2}),
        # 4. a STANDARD keyword
        (STANDARD, "do you remember me?", {}),
        # 5. the first turn
        (STANDARD, "hi", {"first_turn": True}),
        # 6. ordinary talk
        (FAST, "hi", {}),
        (FAST, "", {}),
    ],
)
def test_the_first_rule_that_applies_wins(
    expected: Tier, text: str, situation: dict[str, object]
) -> None:
    # G18, D2
    assert tier_of(text, **situation) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A question for you", FAST),  # not "quest"
        ("requests and quests", STANDARD),  # the plural of one of them
        ("my request", FAST),
        ("the quest", STANDARD),
        ("The QUEST!", STANDARD),
        ("side-quest", STANDARD),
        ("he rules_lawyers", FAST),
        ("whois", FAST),
        ("Who\n  is... that?", STANDARD),
        ("who was, is and will be", STANDARD),  # "was" is an "is"
        ("Tell me\tabout “the duke”", STANDARD),
        ("the last, time and again", STANDARD),  # punctuation does not part words
        ("lasttime", FAST),
        ("THINK CAREFULLY", DEEP),
        ("think very carefully", DEEP),  # what says nothing may stand between
        ("think\ncarefully", DEEP),
        ("search the web", DEEP),
        ("search the webs", DEEP),
        ("the web of the spider", FAST),
        ("generate an image of it", DEEP),
        ("generate image", DEEP),
    ],
)
def test_keywords_are_whole_words_and_phrases(text: str, expected: Tier) -> None:
    # G18, G19: case and punctuation do not matter, parts of words do not count
    assert tier_of(text) is expected


def test_the_reason_names_what_was_found() -> None:
    def reason(text: str) -> str:
        return select(RULES, Situation(text=text)).reason

    assert reason("Who is she?") == "a question"
    assert reason("any quests for us?") == "'quest'"
    assert reason("tell us a bit more about it") == "'tell me about'"
    assert reason("how does concentration work") == "a question about 'concentration'"
    again = select(RULES, Situation(text="think carefully", since_deep=12.4))
    assert again.reason == "'think carefully', but the last deep turn was 12 s ago"
    crowd = select(RULES, Situation(text="who is she?", queue_depth=4))
    assert crowd.reason == "4 are waiting"


def test_every_option_can_be_replaced() -> None:
    # G19
    rules = SelectionRules(
        deep=Keywords.of(["ponder"]),
        standard=Keywords.of(["lore", "Straße"]),
        min_deep_interval=5.0,
        queue_depth=1,
    )

    def tier(text: str, **situation: object) -> Tier:
        return select(rules, Situation(text=text, **situation)).tier  # type: ignore[arg-type]

    assert tier("think carefully, remember the quest") is FAST
    assert tier("ponder", since_deep=5.0) is DEEP
    assert tier("ponder", since_deep=4.9) is STANDARD
    assert tier("some lore") is STANDARD
    assert tier("STRASSE") is STANDARD
    assert tier("some lore", queue_depth=1) is FAST


def only(*phrases: str, **more: object) -> SelectionRules:
    """Rules that listen for these phrases of an operator, and no others."""
    return SelectionRules(
        deep=Keywords.of(()),
        standard=Keywords.of(phrases),
        terms=Topics(),
        **more,  # type: ignore[arg-type]
    )


def finds(rules: SelectionRules, text: str, **more: object) -> bool:
    return select(rules, Situation(text=text, **more)).tier is STANDARD  # type: ignore[arg-type]


def test_no_keywords_are_never_found() -> None:
    assert not finds(only(), "think carefully, what is the quest")


@pytest.mark.parametrize(
    ("phrase", "said", "unlike"),
    [
        ("记得", "你还记得我吗", "记不得了"),
        ("覚えて", "私を覚えていますか", "覚悟はいいか"),
        ("ドラゴン", "あのドラゴンの話をして", "ドラマの話をして"),
        ("จำ", "คุณยังจำฉันได้ไหม", "สวัสดี"),
        ("任务 ... 森林", "上次的任务是在森林里吗", "森林里的任务"),
        ("quest", "那个quest怎么样", "那个request怎么样"),
        ("기억", "기억 나요?", "기분 좋아요"),  # has borders of words
    ],
)
def test_a_keyword_needs_no_borders_of_words_where_a_script_has_none(
    phrase: str, said: str, unlike: str
) -> None:
    assert finds(only(phrase), said)
    assert not finds(only(phrase), unlike)


@pytest.mark.parametrize("phrase", ["", "  ", "?!", "..."])
def test_a_keyword_without_a_word_is_refused(phrase: str) -> None:
    with pytest.raises(ValueError, match="needs a word"):
        Keywords.of(["quest", phrase])


WORDS = sorted(
    {word for phrase in (*DEEP_KEYWORDS, *STANDARD_KEYWORDS) for word in phrase.split()}
    | {"question", "quests", "re", "an", "times", "a1", "7", "naïve"}
)
SEPARATORS = [" ", "  ", "\n", ", ", "-", "...", "'", "_", "", "\t(", "—"]
texts = st.lists(
    st.tuples(
        st.sampled_from(WORDS), st.sampled_from(SEPARATORS), st.sampled_from("lut")
    ),
    max_size=12,
).map(
    lambda parts: "".join(
        {"l": word, "u": word.upper(), "t": word.title()}[case] + separator
        for word, separator, case in parts
    )
)


def occurs(phrases: tuple[str, ...], text: str) -> bool:
    """The dumbest way to look: one regular expression after the other."""
    return any(
        re.search(r"\b" + r"\W+".join(phrase.split()) + r"\b", text, re.IGNORECASE)
        for phrase in phrases
    )


@given(
    text=texts,
    override=st.sampled_from([None, None, None, *Tier]),
    queue_depth=st.integers(0, 5),
    first_turn=st.booleans(),
    since_deep=st.none() | st.floats(0, 60),
)
def test_the_rules_keep_the_order_of_the_seed(
    text: str,
    override: Tier | None,
    queue_depth: int,
    first_turn: bool,
    since_deep: float | None,
) -> None:
    # G18: what the words ask for is one thing, what becomes of it is another
    asked = tier_of(text)
    if occurs(DEEP_KEYWORDS, text):
        assert asked is DEEP
    elif occurs(STANDARD_KEYWORDS, text):
        assert asked >= STANDARD
    if override is not None:
        expected = override
    elif asked is DEEP:
        recent = since_deep is not None and since_deep < 30
        expected = STANDARD if recent else DEEP
    elif queue_depth >= 3:
        expected = FAST
    else:
        expected = STANDARD if first_turn else asked
    chosen = tier_of(
        text,
        override=override,
        queue_depth=queue_depth,
        first_turn=first_turn,
        since_deep=since_deep,
    )
    assert chosen is expected


@given(phrase=st.lists(st.sampled_from(WORDS), min_size=1, max_size=4), text=texts)
def test_a_phrase_of_the_operator_is_found_as_written_at_any_place(
    phrase: list[str], text: str
) -> None:
    # G19: what stands around it cannot hide it
    assert finds(only(" ".join(phrase)), f"{text} {' '.join(phrase)} {text}")


@pytest.mark.parametrize(
    ("phrase", "text"),
    [
        ("plan the siege", "We have planned, er, the sieges"),
        ("tell me ... about", "tell us everything that you know about it"),
        ("tell me … about", "tell me about it"),
        ("... the crown", "where is the crown"),
        ("well... maybe", "Well... maybe."),
        ("who is", "who's she"),
        ("armour", "my armor"),
        ("remembered", "I remember"),
    ],
)
def test_a_phrase_of_the_operator_has_stems_and_gaps(phrase: str, text: str) -> None:
    # G19
    assert finds(only(phrase), text)


@pytest.mark.parametrize(
    ("phrase", "text"),
    [
        ("quest", "a question, a request, a conquest"),
        ("think carefully", "carefully I think"),
        ("tell me ... about", "tell me " + "one two three four five six seven about"),
        ("search web", "search every dusty web"),
        ("rule", "the ruler"),
    ],
)
def test_a_phrase_of_the_operator_is_not_found_in_pieces(
    phrase: str, text: str
) -> None:
    # G19
    assert not finds(only(phrase), text)


anything = st.text(max_size=80) | texts


@given(text=anything, at=st.integers(0, 80))
def test_no_partial_transcript_is_too_much(text: str, at: int) -> None:
    # G18: as recognisers give them out, cut anywhere, in any script
    for partial in (text[:at], text):
        chosen = select(RULES, Situation(text=partial))
        assert chosen.tier in Tier
        assert chosen.reason


@given(text=texts)
def test_case_and_punctuation_do_not_matter(text: str) -> None:
    # G18
    words = re.findall(r"\w+", text)
    tiers = {
        tier_of(written)
        for written in (
            " ".join(words),
            " ".join(words).upper(),
            ", ".join(word.title() for word in words) + "?",
            "... ".join(words) + "!",
        )
    }
    assert len(tiers) == 1


def test_a_very_long_text_is_heard_at_its_ends_and_costs_little() -> None:
    chatter = "what what what is is the the a of about " * 5000
    assert tier_of(f"think carefully {chatter}") is DEEP
    assert tier_of(f"{chatter} think carefully") is DEEP
    # Each place is followed once, however many ways a phrase could begin.
    assert tier_of("tell " * 400 + "me " * 400) is FAST


NPCS = ["Bartok the Barkeep", "Captain Mira Voss", "Éowyn of the Marsh"]
TOLD = [
    "Keeper of the library at Hollow Hill.",
    "The history of the northern kingdoms, and the price of ale.",
    "It is autumn in Emberfall. {visitor} is expected.",
]
NAMED = only(topics=topics(NPCS, TOLD))


@pytest.mark.parametrize(
    ("npc", "text", "asked"),
    [
        ("Bartok the Barkeep", "Where is Mira's ship?", True),
        ("Bartok the Barkeep", "um so is captain voss any good", True),
        ("Bartok the Barkeep", "have you seen eowyn", True),
        ("Bartok the Barkeep", "what do you hear from Hollow Hill", True),
        ("Bartok the Barkeep", "tell me who rules the northern kingdom", True),
        ("Bartok the Barkeep", "how far is emberfall", True),
        # Whoever is spoken to knows all of himself; of the others he does not.
        ("Bartok the Barkeep", "bartok what have you got", False),
        ("Captain Mira Voss", "where is bartok", True),
        ("Captain Mira Voss", "where is mira", False),
        # No question, no matter.
        ("Bartok the Barkeep", "Mira sends her regards from Emberfall", False),
        # Words that are no names: common ones alone, titles, epithets, variables.
        ("Bartok the Barkeep", "what does the ale cost", False),
        ("Bartok the Barkeep", "what hill is that", False),
        ("Bartok the Barkeep", "who is the captain of the marsh", False),
        ("Bartok the Barkeep", "who is your visitor", False),
        ("Bartok the Barkeep", "who keeps the keeper", False),
    ],
)
def test_a_name_counts_in_a_question_about_it(npc: str, text: str, asked: bool) -> None:
    # G18
    assert finds(NAMED, text, npc=npc) is asked


TOOLS = NamedTools(
    (
        ("oracle.consult", "mcp__oracle__consult", STANDARD),
        ("memory.search_sessions", "search_sessions", STANDARD),
        ("studio.paintPortrait", "mcp__studio__paintPortrait", DEEP),
    )
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("consult the oracle for us", STANDARD),
        ("oracle, we consult you", STANDARD),
        ("what does the oracle say", STANDARD),
        ("the oracle is late", FAST),
        ("I consult my map", FAST),
        ("search our old sessions", STANDARD),
        ("paint her a portrait", DEEP),
        ("portrait", FAST),
    ],
)
def test_a_tool_that_is_asked_for_by_name_gets_its_tier(
    text: str, expected: Tier
) -> None:
    # G18: and the order of the seed holds for it
    rules = only()
    assert select(rules, Situation(text=text, tools=TOOLS)).tier is expected
    if expected is STANDARD:
        crowd = Situation(text=text, tools=TOOLS, queue_depth=3)
        assert select(rules, crowd).tier is FAST
    if expected is DEEP:
        soon = Situation(text=text, tools=TOOLS, since_deep=3.0)
        assert select(rules, soon).tier is STANDARD
