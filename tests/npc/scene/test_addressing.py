"""Addressing in a scene: the rules, one after the other, and that they never fail."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from glyphoxa_trio.npc.scene.addressing import (
    Addressed,
    Names,
    NobodyAddressed,
    NpcMuted,
    Why,
    addressed,
)
from glyphoxa_trio.npc.words import STOP_WORDS, TITLES

from .support import BARTOK, GREYMANTLE, NAMES, YSOLDE

TAVERN = Names(NAMES)


def meant(text: str, *names: str) -> str | None:
    return Names(names or NAMES).named(text)


@pytest.mark.parametrize(
    "text",
    [
        "Bartok the Barkeep, a beer",
        "Bartok, a beer",
        "a beer, barkeep!",
        "BARTOK",
        "is bartok here?",
        "What about Bartok's ale?",
        "Bartok\N{RIGHT SINGLE QUOTATION MARK}s ale",
        "(Bartok)",
        '"Bartok!"',
        "Bartók?",
        "b\N{COMBINING DIAERESIS}artok",
        "\N{FULLWIDTH LATIN CAPITAL LETTER B}artok",
        "tell me, Bartok - what now",
        "hey\nbartok",
        "x " * 5000 + "Bartok",
        "Bartok " + "x " * 5000,
    ],
)
def test_a_name_is_found_however_it_is_written(text: str) -> None:
    assert meant(text) == BARTOK


@pytest.mark.parametrize(
    "text",
    [
        "",
        "the",
        "hello the",
        "The.",
        "Bartokian",
        "embartok",
        "Bar tok",
        "seers and sages",
        "of the and",
        "'s",
        "\N{RIGHT SINGLE QUOTATION MARK}",
        "\ud800",
    ],
)
def test_a_stop_word_or_a_part_of_a_word_is_no_name(text: str) -> None:
    assert meant(text) is None


def test_a_word_of_two_names_is_nobody_s() -> None:
    names = ("Mira Stonefoot", "Tom Stonefoot", "Tom Tanner")
    assert meant("Stonefoot, come", *names) is None
    assert meant("Tom, come", *names) is None
    assert meant("Tanner, come", *names) == "Tom Tanner"
    assert meant("Tom Stonefoot, come", *names) == "Tom Stonefoot"
    assert meant("mira!", *names) == "Mira Stonefoot"


def test_a_whole_name_is_its_own_also_where_it_begins_another() -> None:
    names = ("Greymantle", "Greymantle the Younger")
    assert meant("Greymantle, hello", *names) == "Greymantle"
    assert meant("greymantle the younger, hello", *names) == "Greymantle the Younger"
    assert meant("what of the younger", *names) == "Greymantle the Younger"


def test_two_npcs_with_one_name_cannot_be_told_apart_by_it() -> None:
    assert meant("Rene, hello", "René", "Rene") is None


@pytest.mark.parametrize(
    ("text", "npc"),
    [
        # Set off from the sentence goes before talked about.
        ("Bartok, what did Greymantle the Sage say?", BARTOK),
        ("What did Greymantle the Sage say, Bartok?", BARTOK),
        ("I saw Greymantle, Bartok, and you?", BARTOK),
        ("Does Greymantle like Bartok?", GREYMANTLE),
        # The full name goes before a word of one.
        ("Does Bartok like Greymantle the Sage?", GREYMANTLE),
        # A possessive is last.
        ("Was Bartok's ale good for Ysolde?", YSOLDE),
        ("Bartok's ale, Ysolde?", YSOLDE),
        ("Bartok's and Greymantle's", BARTOK),
    ],
)
def test_of_several_that_are_named_the_likeliest_is_meant(text: str, npc: str) -> None:
    assert meant(text) == npc


def test_a_title_is_a_name_only_where_somebody_is_called() -> None:
    names = ("Captain Reva", "Old Tom", "Will")
    assert meant("The captain is late", *names) is None
    assert meant("Captain, the sails!", *names) == "Captain Reva"
    assert meant("Yes, captain.", *names) == "Captain Reva"
    assert meant("How old is Reva's ship?", *names) == "Captain Reva"
    assert meant("How old are you?", *names) is None
    # A name that is a stop word as a whole needs it as well.
    assert meant("Will you come?", *names) is None
    assert meant("Will, will you come?", *names) == "Will"
    assert meant("Come, Will", *names) == "Will"


def test_names_with_signs_and_of_other_scripts() -> None:
    names = ("Jean-Luc O'Brien", "D'Artagnan", "格雷", "Ирина", "สมชาย", "X")
    assert meant("ask O\N{RIGHT SINGLE QUOTATION MARK}Brien's dog", *names) == names[0]
    assert meant("jean luc o'brien", *names) == names[0]
    assert meant("Luc?", *names) == names[0]
    assert meant("d'artagnan, en garde", *names) == names[1]
    assert meant("格雷你好吗", *names) == names[2]
    assert meant("格, 你好", *names) is None
    assert meant("Послушай, ИРИНА", *names) == names[3]
    assert meant("สวัสดีสมชาย", *names) == names[4]
    assert meant("x, come here", *names) == "X"  # all of a name, however short
    assert meant("Y", "Yves Y Z") is None  # a letter of one is none


# The order of the rules.


def whom(text: str = "Hello", names: Names = TAVERN, **how: Any) -> Addressed:
    return addressed(text, names, **how)


def test_a_puppet_takes_everything_also_what_names_another() -> None:
    found = whom("Bartok, hello", puppet=YSOLDE, last=(GREYMANTLE,))
    assert found == Addressed(YSOLDE, Why.PUPPET)
    # One that is gone takes nothing.
    assert whom("Bartok, hello", puppet="Nobody") == Addressed(BARTOK, Why.NAMED)


def test_a_name_goes_before_the_last_speaker() -> None:
    assert whom("Bartok!", last=(YSOLDE,)) == Addressed(BARTOK, Why.NAMED)
    assert whom("And then?", last=(YSOLDE,)) == Addressed(YSOLDE, Why.LAST)


def test_the_first_who_is_there_and_awake_counts_as_the_last() -> None:
    last = (None, "Gone", BARTOK, GREYMANTLE)
    assert whom(last=last) == Addressed(BARTOK, Why.LAST)
    assert whom(last=last, muted={BARTOK}) == Addressed(GREYMANTLE, Why.LAST)


def test_the_only_one_left_is_meant() -> None:
    assert whom(names=Names((BARTOK,))) == Addressed(BARTOK, Why.ONLY)
    found = whom(muted={GREYMANTLE, YSOLDE})
    assert found == Addressed(BARTOK, Why.ONLY)


def test_nobody_is_meant_where_that_cannot_be_told() -> None:
    with pytest.raises(NobodyAddressed, match=r"Bartok.*Greymantle.*Ysolde"):
        whom()
    with pytest.raises(NobodyAddressed, match="no NPC is in this scene"):
        whom(names=Names(()))


def test_whoever_is_muted_is_not_meant_and_neither_is_another_in_their_place() -> None:
    with pytest.raises(NpcMuted, match="Bartok the Barkeep is muted"):
        whom("Bartok!", muted={BARTOK}, last=(YSOLDE,))
    with pytest.raises(NpcMuted, match="Bartok"):
        whom(puppet=BARTOK, muted={BARTOK}, last=(YSOLDE,))
    with pytest.raises(NpcMuted, match="all NPCs are muted"):
        whom("Bartok!", muted=set(NAMES))


# Whatever is said.

TEXTS = st.lists(
    st.one_of(
        st.text(max_size=10),
        st.sampled_from(
            [*NAMES, "Bartok", "the", "BARTOK'S", ",", ", ", "!", " ", "\n", "'s", "é"]
        ),
        st.sampled_from(sorted(STOP_WORDS)),
    ),
    max_size=12,
).map("".join)


@given(
    text=TEXTS,
    names=st.lists(st.one_of(st.text(max_size=12), TEXTS), max_size=5, unique=True),
)
@example(text="ﷺ ﷺ", names=["ﷺ"])
@example(text="İ i̇", names=["İ"])
def test_it_never_fails_and_only_ever_finds_who_is_there(
    text: str, names: list[str]
) -> None:
    found = Names(tuple(names)).named(text)
    assert found is None or found in names


WORDS = st.text("abcdefghijklmnopqrstuvwxyzäéñßøжя", min_size=2, max_size=8).filter(
    lambda word: not {word, plain(word)} & (STOP_WORDS | TITLES)
)


def plain(word: str) -> str:
    apart = unicodedata.normalize("NFKD", word.casefold())
    return "".join(c for c in apart if not unicodedata.combining(c))


@given(
    word=WORDS,
    change=st.sampled_from([str.upper, str.title, str.lower, str.casefold]),
    form=st.sampled_from(["NFC", "NFD", "NFKC", "NFKD"]),
    around=st.sampled_from(["{}", "so, {}!", "{}, come", "is {} here", "{}'s ale"]),
    rest=st.sampled_from(["the Brave", "of Oakvale", ""]),
)
def test_a_distinctive_word_finds_its_npc_in_every_form(
    word: str, change: Any, form: Any, around: str, rest: str
) -> None:
    name = f"{word} {rest}".strip()
    said = around.format(unicodedata.normalize(form, change(word)))
    assume(plain(word) not in ("so", "come", "is", "here", "ale"))
    assert meant(said, name, "Quxquux") == name


@given(
    shared=st.lists(WORDS, min_size=1, max_size=4),
    ends=st.lists(WORDS, min_size=2, max_size=3, unique_by=plain),
)
def test_a_shared_word_never_decides(shared: list[str], ends: list[str]) -> None:
    assume(not {plain(x) for x in ends} & {plain(x) for x in shared})
    names = [" ".join([*shared, end]) for end in ends]
    for word in shared:
        assert meant(word, *names) is None
    for name, end in zip(names, ends, strict=True):
        assert meant(end, *names) == name


@given(TEXTS, st.sets(st.sampled_from(NAMES)), st.sampled_from([None, *NAMES]))
def test_whoever_is_found_is_awake(
    text: str, muted: set[str], puppet: str | None
) -> None:
    try:
        found = whom(text, muted=muted, puppet=puppet, last=(YSOLDE, BARTOK))
    except NobodyAddressed:
        assert muted  # else there is always somebody who was spoken to last
    else:
        assert found.npc not in muted
        assert found.why is not Why.PUPPET or found.npc == puppet
