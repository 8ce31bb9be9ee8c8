"""Sentences out of a stream: the same ones however it is cut, and nothing lost."""

from __future__ import annotations

import unicodedata
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from glyphoxa_trio.npc.sentences import (
    _A_WORD,
    _NO_BLANKS,
    AnswerOpening,
    Sentences,
)


def split(*pieces: str) -> list[str]:
    sentences = Sentences()
    found = [whole for piece in pieces for whole in sentences.feed(piece)]
    return [*found, *sentences.end()]


@pytest.mark.parametrize(
    "sentences",
    [
        ["Hello there.", "How are you?", "Fine!"],
        ["Dr. Ahn paid 3.50 for it, i.e. too much.", "She left."],
        ["Mr. J. R. Smith lives in St. Ives.", "He waits."],
        ["Use rope, torches, etc. for the climb.", "Go."],
        ["The cost is 12.", "Pay it."],
        ["He comes on Jan. 3rd, or on Dec. 25.", "Wait for him."],
        ["Version 2.5.1 it is.", "Good."],
        ["Wait... what is that?", "A bear!"],
        ["Wait…", "That is a bear."],
        ["Well... maybe.", "Or not."],
        ['"Run!" she cried.', "He ran."],
        ['"Run!"', "He ran."],
        ["(He lied.)", "Nobody knew."],
        ["“Is it you?” he asked.", "“Yes.”", "Silence."],
        ["You did WHAT?!", "Oh no!!!"],
        ["1. Take the sword.", "2. Leave."],
        ["no newline", "needs a stop", "at all"],
        ["Ünder Öl.", "Ärger…", "Ñandú?"],
        ["هل أنت هنا؟", "نعم."],
        ["यह दरवाज़ा बंद है।", "जाओ!", "ठीक है॥"],
        ["آؤ\u06d4", "جاؤ\u06d4"],
        ["በሩ ተዘግቷል።", "ሂድ።"],
    ],
    ids=lambda sentences: sentences[0][:20],
)
def test_what_is_a_sentence(sentences: list[str]) -> None:
    joint = "\n" if sentences[0].startswith(("1.", "no newline")) else " "
    assert split(joint.join(sentences)) == sentences


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("", []),
        (" \n\t ", []),
        ("no end", ["no end"]),
        ("  one.  \n\n  two.  ", ["one.", "two."]),
        ("A list:\n- one\n- two", ["A list:", "- one", "- two"]),
        ("a\r\nb", ["a", "b"]),
        ("...", ["..."]),
        ("? !", ["?", "!"]),
        ("No.More", ["No.More"]),  # a stop without a blank after it ends nothing
    ],
)
def test_blanks_and_lines(text: str, sentences: list[str]) -> None:
    assert split(text) == sentences


@pytest.mark.parametrize(
    "sentences",
    [
        ["你好。", "门是开着的\uff01", "你要什么\uff1f"],
        ["「走れ\uff01」", "彼女は叫んだ。", "彼は走った。"],
        ["すごい\uff01\uff01\uff01", "本当\uff1f", "はい。"],
        ["他说“走吧。”", "然后他走了……"],
        ["価格は3.5です。", "安い。"],
    ],
    ids=lambda sentences: sentences[0],
)
def test_scripts_without_blanks_have_sentences(sentences: list[str]) -> None:
    text = "".join(sentences)
    assert split(text) == sentences
    assert split(*text) == sentences
    # Each comes with the next character, and not with the next blank.
    pieces = Sentences()
    assert pieces.feed(f"{sentences[0]}{sentences[1][0]}") == [sentences[0]]


def test_an_opener_without_blanks_has_an_end() -> None:
    beginning = AnswerOpening(most_words=5)
    assert beginning.feed("长" * 9) is None
    assert beginning.feed("长" * 9) == "长" * 10
    mixed = AnswerOpening(most_words=5)
    assert mixed.feed("one two 长长长长长长长") == "one two 长长长长长长"


def test_a_text_without_an_end_costs_no_more_for_each_piece() -> None:
    # Read anew with each piece, this is some ten thousand million characters.
    sentences = Sentences()
    for _ in range(150_000):
        assert sentences.feed("ab") == []
    assert len(sentences.end()[0]) == 300_000


def test_blanks_behind_a_quotation_cost_no_more_for_each() -> None:
    sentences = Sentences()
    said = f'{"word " * 20}"Hi." '
    assert sentences.feed(said) == []
    for _ in range(150_000):
        assert sentences.feed("  ") == []
    assert sentences.feed("She") == [said.strip()]
    assert sentences.end() == ["She"]


def test_a_sentence_comes_as_soon_as_it_is_certain() -> None:
    sentences = Sentences()
    assert sentences.feed("It is open.") == []  # "It is open.5" could follow
    assert sentences.feed(" ") == []  # "It is open. and" could follow
    assert sentences.feed("C") == ["It is open."]  # whatever follows now
    assert sentences.feed("ome in") == []
    assert sentences.feed("\n") == ["Come in"]
    assert sentences.feed("Sit down.\n") == ["Sit down."]  # a line is certain at once
    assert sentences.end() == []
    assert sentences.feed("Again. And") == ["Again."]
    assert sentences.end() == ["And"]
    assert sentences.end() == []
    assert sentences.feed("Dr. Ahn") == []
    assert sentences.end() == ["Dr. Ahn"]
    assert sentences.feed("Go. On") == ["Go."]  # nothing is left of the text before
    assert sentences.end() == ["On"]
    # After a quotation or a pause only the next word tells.
    assert sentences.feed('"Run!" ') == []
    assert sentences.feed("she cried. H") == ['"Run!" she cried.']
    assert sentences.feed("e ran.\n") == ["He ran."]
    assert sentences.feed("Wait... ") == []
    assert sentences.feed("W") == ["Wait..."]


# Thirty lines and more of each language: sentences with " | " between them, and before
# them what is written, with " ~ ", if that is not the same.
LANGUAGES = {
    path.stem: path.read_text(encoding="utf-8").splitlines()
    for path in sorted(Path(__file__).with_name("sentences").glob("*.txt"))
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_speaker_of_the_language_would_call_them_sentences(language: str) -> None:
    lines = LANGUAGES[language]
    assert len(lines) >= 30
    between = "" if language in ("ja", "zh") else " "
    for line in lines:
        written, _, expected = line.rpartition(" ~ ")
        sentences = expected.split(" | ")
        text = written or between.join(sentences)
        assert split(text) == sentences
        assert split(*text) == sentences
        # A whole table is as many sentences as its lines, but for the last capital.
        assert split(f"{text}\n{text}") == sentences * 2


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("It is open. Come in.", "It is open. C"),
        ("At 5 p.m. The gate closes.", "At 5 p.m. The "),
        ("Rope etc. Then go.", "Rope etc. T"),
        ("No. Go.", "No. G"),
        ("It is 12. Buy it.", "It is 12. B"),
        ("बंद है। जाओ।", "बंद है। "),
        ("هل أنت هنا؟ نعم.", "هل أنت هنا؟ "),
        ("你好。再见。", "你好。再"),
        ("*He nods.* You?", "*He nods.* Y"),
        ("One\nTwo", "One\n"),
    ],
)
def test_no_sentence_is_held_longer_than_it_is_in_doubt(text: str, after: str) -> None:
    sentences = Sentences()
    held = [bool(sentences.feed(character)) for character in after]
    assert text.startswith(after)
    assert held == [False] * (len(after) - 1) + [True]


def test_a_writer_without_capitals_has_sentences() -> None:
    assert split("come in. sit down, dr. ahn. the soup is hot.") == [
        *("come in.", "sit down, dr. ahn.", "the soup is hot."),
    ]


RUN_ON = "and so we walked on through the rain"


@pytest.mark.parametrize(
    ("text", "most"),
    [
        (f"Then it rained, {RUN_ON} {'and on ' * 300}", 240),
        (f"{RUN_ON}, " * 40, 240),
        (f"*He looks up, {RUN_ON} " * 40, 240),  # its closing mark is forgotten
        (f"**{RUN_ON} " * 40, 240),
        ("und so gingen wir weiter über die Brücke " * 30, 240),
        ("и мы пошли дальше под дождём " * 30, 240),
        ("然后我们继续往前走" * 60, 80),
        ("然后我们继续往前走，" * 60, 80),  # noqa: RUF001
        ("そしてわたしたちはあるいていった" * 40, 80),
        ("แล้วเราก็เดินต่อไปท่ามกลางสายฝน" * 40, 80),
        ("ແລ້ວພວກເຮົາກໍຍ່າງຕໍ່ໄປ" * 40, 80),
        ("ហើយយើងបន្តដើរទៅមុខ" * 40, 80),
        ("ပြီးတော့ကျွန်တော်တို့ဆက်လျှောက်" * 40, 80),
    ],
)
def test_a_sentence_without_an_end_is_cut(text: str, most: int) -> None:
    pieces = split(text)
    assert pieces == split(*text)
    assert "".join("".join(pieces).split()) == "".join(text.split())
    assert max(map(len, pieces)) <= most
    assert min(map(len, pieces[:-1])) >= most / 8
    # The first comes early, whatever follows.
    early = Sentences()
    assert any(early.feed(x) for x in text[: 131 if most > 80 else 45])
    for before, piece in pairwise(pieces):
        assert unicodedata.category(piece[0])[0] != "M"  # it would change nothing
        assert before[-1] not in "เแโใไເແໂໃໄ"  # its consonant follows
        # No word is cut that has spaces around it.
        assert most == 80 or f"{before[-9:]} {piece[:9]}" in text


def test_a_long_sentence_is_cut_behind_a_comma_and_a_short_one_is_not() -> None:
    short = f"Well met, friend, {RUN_ON} to the old mill at the end of the lane."
    assert split(short) == [short]
    long = f"{short[:-1]}, where we slept in the straw until the morning came."
    assert split(long) == [
        f"Well met, friend, {RUN_ON} to the old mill at the end of the lane,",
        "where we slept in the straw until the morning came.",
    ]
    # What follows a cut is no new sentence: "Yahoo! is" has no end in it.
    name = f"{RUN_ON} {'and on ' * 16}to Yahoo! is far."
    assert split(name)[-1].endswith("to Yahoo! is far.")


PIECES = st.sampled_from(
    [
        *("。", "\uff01", "\uff1f", "」", "「", "你好", "।", "؟", "..。"),
        *("Hello", "the bear", "Dr", "e.g", "J", "12", "3.5", "A", "well", "is"),
        *(".", "!", "?", "…", "...", '"', "'", ")", "(", "“", "”", ","),
        *(" ", " ", "\n", "\t", "\r\n", "\u00a0", "  "),
        *(
            "No",
            "p.m",
            "The",
            "etc",
            "Jr",
            "am",
            "Mai",
            "I",
            ";",
            "ποιος",
            "¿",
            "—",
            "*",
        ),
        *("»", "«", "“", "|", "_", "U.S", "Them"),
    ]
)
LONG = ("the long road " * 7, "on, " * 31, "长路" * 30, "ยาวไกล" * 20, "x" * 131)
prose = st.lists(PIECES, max_size=30).map("".join) | st.text(max_size=60)
long_prose = prose | st.lists(PIECES | st.sampled_from(LONG)).map("".join)


@given(long_prose, st.lists(st.integers(0, 900), max_size=12))
def test_any_chunking_gives_the_same_sentences(text: str, cuts: list[int]) -> None:
    places = sorted({min(cut, len(text)) for cut in cuts} | {0, len(text)})
    pieces = [text[a:b] for a, b in pairwise(places)]
    # How many blanks there are within a sentence is nobody's concern.
    whole = [x.split() for x in split(text)]
    assert [x.split() for x in split(*pieces)] == whole
    assert [x.split() for x in split(*text)] == whole


@given(long_prose)
def test_nothing_but_blanks_is_lost(text: str) -> None:
    sentences = split(text)
    assert "".join("".join(sentences).split()) == "".join(text.split())
    assert all(sentence == sentence.strip() != "" for sentence in sentences)


# What may follow: if it makes no difference to a sentence, that is decided.
FUTURES = (
    *("", "x", "X", " x", " X", "7", ".", " .", '"', "\n", " ", " 7", "e ", "etc. X"),
    *(" The X", " Mai X", "* X", "_ X", " »", "» X", "\u2019x X", "I X", " I X", " | "),
)


@given(prose)
def test_a_sentence_comes_with_the_first_character_that_decides_it(text: str) -> None:
    sentences, found = Sentences(), 0
    for at, character in enumerate(text, 1):
        found += len(sentences.feed(character))
        futures = [split(text[:at] + more)[found : found + 1] for more in FUTURES]
        assert any(future != futures[0] for future in futures) or not futures[0]


def opening(*pieces: str, most_words: int = 25) -> tuple[str | None, int]:
    """The opening, and how many of the pieces it took; 0 if it took their end."""
    beginning = AnswerOpening(most_words)
    for count, piece in enumerate(pieces, 1):
        if (found := beginning.feed(piece)) is not None:
            return found, count
    return beginning.end(), 0


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Well, Dr. Ahn. He left.", "Well, Dr. Ahn."),
        ("Hm... let me see. Yes.", "Hm... let me see."),
        ("Hm... Let me see.", "Hm..."),
        ('"Aye?" he says. No.', '"Aye?" he says.'),
        ("one two three four five six", "one two three four five"),
        ("one two three four five", "one two three four five"),
        ("one  two\tthree four five. Six", "one  two\tthree four five."),
        ("one two\nthree four five six", "one two"),
        ("  \n ", None),
        ("", None),
    ],
)
def test_what_an_opening_is(text: str, found: str | None) -> None:
    assert opening(text, most_words=5)[0] == found


def test_an_opening_comes_with_the_character_that_decides_it() -> None:
    assert opening("It is", " open.", " ", "Come") == ("It is open.", 4)
    assert opening("Hm...", " ", "let", " me see. Y") == ("Hm... let me see.", 4)
    assert opening("a b", " c", " d", most_words=3) == ("a b c", 3)
    assert opening("a b", " c", most_words=3) == ("a b c", 0)  # "cat" could follow
    assert opening(*["word "] * 40) == (" ".join(["word"] * 25), 25)
    assert opening("Aye", "!") == ("Aye!", 0)


@given(long_prose, st.lists(st.integers(0, 900), max_size=12), st.integers(1, 30))
@example("\u2e80\u2e80\u2e80\u2e800", [], 2)
def test_any_chunking_gives_the_same_opening(
    text: str, cuts: list[int], most_words: int
) -> None:
    places = sorted({min(cut, len(text)) for cut in cuts} | {0, len(text)})
    pieces = [text[a:b] for a, b in pairwise(places)]
    found, _ = opening(*pieces, most_words=most_words)
    assert found == opening(text, most_words=most_words)[0]
    # It is the beginning, of at most so many words, and no more than a sentence.
    whole = split(text)
    assert (found is None) == (not whole)
    if found is not None:
        assert len(found.split()) <= most_words
        # A sentence that is cut for its length may be shorter.
        begins = sorted((" ".join(x.split()) for x in (found, whole[0])), key=len)
        assert begins[1].startswith(begins[0])
        words = found.split()
        wide = sum(x >= _NO_BLANKS for x in found) // _A_WORD  # need no blanks
        long = len(words) == most_words or len(words) - 1 + wide >= most_words
        assert found == whole[0] or long


@pytest.mark.parametrize("piece", [".", "?!", "Dr. ", "... and ", '." ', "1. ", "x"])
def test_a_model_that_repeats_itself_holds_nobody_up(
    piece: str, five_seconds_of_work: None
) -> None:
    # Work that grows with the cube of the length would stop the whole table, every
    # clock included; this takes hundredths of a second.
    text = piece * 3000
    visible = "".join(text.split())
    for pieces in ([text], list(text)):
        assert "".join("".join(split(*pieces)).split()) == visible
        assert visible.startswith("".join((opening(*pieces)[0] or "").split()))


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("先生。*笑* 你好。*点头* 好。", ["先生。", "*笑* 你好。", "*点头* 好。"]),
        ("你好!请坐!喝酒!", ["你好!", "请坐!", "喝酒!"]),
    ],
)
def test_a_mark_behind_a_wide_stop_opens_what_follows(
    text: str, sentences: list[str]
) -> None:
    reader = Sentences()
    assert [*reader.feed(text), *reader.end()] == sentences
