"""Markdown is not read aloud, and what is no Markdown is read as it is written."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import trio
from trio.testing import MockClock

from glyphoxa_trio.npc import Sentence, TextDelta, TurnEnd
from glyphoxa_trio.npc.events import Speech, SpeechFailed
from glyphoxa_trio.npc.markdown import MarkdownReader
from glyphoxa_trio.npc.sentences import Sentences
from glyphoxa_trio.providers.espeak import Espeak

from .support import ask, open_table
from .voices import FakeSynthesizer


def sentences(*pieces: str) -> list[str]:
    found = Sentences()
    return [*(x for piece in pieces for x in found.feed(piece)), *found.end()]


def spoken(*pieces: str) -> list[str]:
    """What a synthesizer gets of an answer that is written in these pieces."""
    reader = MarkdownReader()
    read = [reader.read(sentence).text for sentence in sentences(*pieces)]
    return [text for text in read if text]


@pytest.mark.parametrize(
    ("written", "said"),
    [
        # emphasis
        ("**Welcome** to the *old* inn.", "Welcome to the old inn."),
        ("***Stop*** right there, __now__!", "Stop right there, now!"),
        ("**Bold with *nested* words** here.", "Bold with nested words here."),
        ("*never* do that.", "never do that."),
        ("*nicht* du.", "nicht du."),
        ("when x<y and z>w stop", "when x<y and z>w stop"),
        ("It costs ~~fifty~~ ==forty== gold.", "It costs fifty forty gold."),
        ("un**frigging**believable", "unfriggingbelievable"),
        # blocks
        ("### The **rules** ###", "The rules"),
        ("##Rules", "Rules"),
        ("**## Rules**", "Rules"),
        ("> Who goes there?", "Who goes there?"),
        ("> > - deep", "deep"),
        ("- rope", "rope"),
        ("* rope", "rope"),
        ("+ rope", "rope"),
        ("• rope", "rope"),
        ("- [ ] sharpen the sword", "sharpen the sword"),
        ("- [x] sharpen the sword", "sharpen the sword"),
        ("1. [x] done", "1. done"),
        ("2. Take the `left` path.", "2. Take the left path."),
        # tables
        ("| Item | Price |", "Item, Price"),
        ("| **Rope** | 5 gold |", "Rope, 5 gold"),
        ("Sword | 10", "Sword, 10"),
        # links and addresses
        ("See [the map](https://maps.example/a_(b)?x=1#y).", "See the map."),
        ('A [map](<https://m.example/a b> "of it") here', "A map here"),
        ("The [inn][1] and ![a dragon](d.png).", "The inn and a dragon."),
        ("[![logo](l.png)](https://inn.example) Come in!", "logo Come in!"),
        ("[](https://www.inn.example/rooms)", "inn.example"),
        ("[https://inn.example/a](https://inn.example/a)", "inn.example"),
        ("Read https://www.example.com/a/b?x=1!", "Read example.com!"),
        ("Read <https://example.com/a>, friend.", "Read example.com, friend."),
        ("看https://map.example/a吧。", "看map.example吧。"),
        ("(see www.example.org/x_y)", "(see example.org)"),
        ("Write to <bob@inn.example>.", "Write to bob@inn.example."),
        ("The well[^2] is dry.", "The well is dry."),
        ("[^2]: Since last year.", "Since last year."),
        # code, HTML, entities, escapes, formulas
        ("Say `open_door` now.", "Say open_door now."),
        ("Type `(sighs)` or `*waves*`.", "Type (sighs) or waves."),
        ("Two ``tick ticks`` here", "Two tick ticks here"),
        ("<b>Beware</b> of Tom &amp; Jerry.<br>Run!", "Beware of Tom & Jerry. Run!"),
        ("A <!-- secret --> word", "A word"),
        (r"1\. Not \*a\* list, snake\_case", "1. Not a list, snake_case"),
        (r"So \(a \times b\) is $\frac{1}{2}$ of $x^2$", "So a × b is 1 / 2 of x²"),  # noqa: RUF001
        ("![](dragon.png) Look.", "Look."),
        ("H~2~O &nbsp;is ~5 gold.", "H2O is ~5 gold."),
        ("<details><summary>Why</summary>So it is.</details>", "Why So it is."),
        ("Two ``more `ticks` here``", "Two more ticks here"),
        ("Pay $5 (see https://a.example/b_c) or 6$.", "Pay $5 (see a.example) or 6$."),
        ("#DnD at the (#tavern), C# and #1.", "DnD at the (tavern), C# and #1."),
        ("un**believ**able and x^2^ ^(small)", "unbelievable and x2 (small)"),
        ("See https://a.example/Dwarf_(myth).", "See a.example."),
        ("> [!NOTE] It is out.", "It is out."),
        ("--- Menu === Ale---Bread ---", "Menu, Ale, Bread"),
        ("| Orc (chief) | 15 |", "Orc (chief), 15"),
        (r"\textbf{Beware}\n the \emph{orc} in A♯.", "Beware the orc in A♯."),
        (": The definition.", "The definition."),
        ("Hi {{user}}, {name}.", "Hi {{user}}, {name}."),
        # signs that are no marks
        ("2**3 is eight; 2**10 more.", "2**3 is eight; 2**10 more."),
        (">= 5 will do.", ">= 5 will do."),
        ("About ~ 5 miles.", "About ~ 5 miles."),
        ("Go -> there <- back => so.", "Go, there, back, so."),
        (r"It is \frac{1}{2} or 3 \times 4.", "It is 1 / 2 or 3 × 4."),  # noqa: RUF001
        ("See the book[1], friend.[12]", "See the book, friend."),
        ("See it【4:0†map.md】 here.", "See it here."),
        ("Read inn.example/rooms?x=1 now.", "Read inn.example now."),
        ("Read https://a.example/b*c and/or go.", "Read a.example and/or go."),
        # emoji
        ("Hello :) there ;-) friend :smile:", "Hello there friend"),
        ("Hi xD :/ ^_^ o_O (^_^) there", "Hi there"),
        (r"Well ¯\_(ツ)_/¯ met (◕‿◕) friend ʕ•ᴥ•ʔ", "Well met friend"),  # noqa: RUF001
        ("Hello 😀!", "Hello!"),
        ("👨‍👩‍👧‍👦 A family 🇩🇪 of 👍🏽 four ❤️.", "A family of four."),
        ("1️⃣ Go → 2️⃣ Run", "1 Go, 2 Run"),
        ("**🎲 You rolled 7! 🎉**", "You rolled 7!"),
        # what is left over goes as well
        ("The killer is ||Bartok||.", "The killer is Bartok."),
        ("Some **unclosed words", "Some unclosed words"),
        ("words that** end", "words that end"),
        ("See [the map", "See the map"),
        ("it is here](https://x.example) now", "it is here now"),
    ],
)
def test_markdown_is_not_spoken(written: str, said: str) -> None:
    assert MarkdownReader().read(written).text == said


@pytest.mark.parametrize(
    "written",
    [
        *(
            "---",
            "***",
            "___",
            "- - -",
            "===",
            "|---|:--:|",
            "--- | ---",
            "🎉🎉",
            "😀!",
        ),
        *("~~~", "```", "```python", "[1]: https://x.example", "**", "|", "<br>", "\\"),
        *("*waves*", "_(sighs)_", "*Bartok looks up. He smiles.*", "> ---"),
    ],
)
def test_of_some_sentences_nothing_is_spoken(written: str) -> None:
    assert MarkdownReader().read(written).text == ""


@pytest.mark.parametrize(
    "written",
    [
        *("2 * 3 * 4 is 24.", "2*3*4 is 24.", "So x * y is y * x.", "(1 + 2) * 3"),
        *("Use snake_case here.", "#1 is -5.", "It is well-known.", "-5 degrees"),
        *("It costs $5 to $10.", "$5-$10 each", "AT&T and R&D", "I <3 you", "a < b"),
        *("~5 miles", "C:\\temp", "Wait... what?", "“Yes,” she said.", "— Bonjour !"),
        *("1. Take the sword.", "10:30", "50 % (half)", "ca. 3,5 km", "क्‍ष", "می‌خواهم"),
        *("…", "?!", "", "20 °C", "№ 5", "[DM only] Roll."),
    ],
)
def test_what_is_no_markdown_is_spoken_as_it_is_written(written: str) -> None:
    assert MarkdownReader().read(written).text == written


EMPHASIS = [
    *("I *never* lie.", "*Never* go there.", "*Never!* I said.", "*Note:* it is late."),
    *("She *laughs* at you.", "I read *The Hobbit*.", "*The Hobbit* is good."),
    *("It is *very* dark, *really*.", "*Never.* Go away.", '*"Run!"* he cried.'),
    *("Das ist *wirklich* gut.", "C'est *très* bon.", "Es *muy* bueno.", "这*很*好。"),
    *("You *must*, and *will*, pay.", "Take *all* of it!", "**waves** are high"),
    *("**_very_** strong", "*__very__* strong"),
    *("That *is* the one...", "Is it *you*?", "Well... *never* again."),
]


# A language in a paragraph, each line as a model writes it; with what is said of it
# behind " ~ ", which may be nothing. Between sentences a space is enough.
LINES = [
    line
    for line in Path(__file__)
    .with_name("spoken_lines.txt")
    .read_text(encoding="utf-8")
    .splitlines()
    if line
]


@pytest.mark.parametrize("line", LINES)
def test_a_line_is_heard_without_its_stage_directions(line: str) -> None:
    written, _, said = line.partition(" ~")
    assert " ".join(spoken(written)) == said.strip()
    assert spoken(*written) == spoken(written)


@pytest.mark.parametrize("written", EMPHASIS)
def test_emphasis_is_spoken(written: str) -> None:
    plain = written.replace("*", "").replace("_", "")
    assert MarkdownReader().read(written).text == plain


@given(
    st.lists(
        st.from_regex(r"[a-zA-ZäßéñłжД你]{1,8}|\d{1,4}([.,]\d{1,2})?", fullmatch=True)
        | st.sampled_from(["well-known", "don't", "(so)", '"yes"', "J.", "-5", "3rd"]),
        min_size=1,
    ),
    st.sampled_from([" ", ", ", ". ", "; ", ": ", "! ", "? ", "... ", " - ", " — "]),
)
def test_letters_digits_and_punctuation_are_spoken_as_written(
    words: list[str], between: str
) -> None:
    written = between.join(words)
    form = MarkdownReader().read(written)
    assert form.text == written
    assert [form.words(n) for n in range(len(written.split()) + 1)] == [
        " ".join(written.split()[:n]) for n in range(len(written.split()) + 1)
    ]


ANSWER = """\
## 🍺 The **Prancing Pony**

*Moira wipes a mug. She smiles.* Welcome, *traveller*! **Welcome to the
inn. You look tired.** See [our
menu](https://inn.example/menu?x=1) or https://inn.example/rooms.

| Dish | Price |
|------|:-----:|
| Stew | 5 gp. |

1. **Stew**: hot.
2. ~~Fish~~ Bread.
- [ ] Pay `before` you leave.

```python
print("**never** spoken. Never!")
```

~~~
Not spoken either.
~~~

> Mind the step. <!-- a
secret. -->Good night! 🌙
"""
SPOKEN = [
    *("The Prancing Pony", "Welcome, traveller!", "Welcome to the", "inn."),
    *("You look tired.", "See our", "menu or inn.example.", "Dish, Price"),
    *("Stew, 5 gp.", "1. Stew: hot.", "2. Fish Bread.", "Pay before you leave."),
    *("Mind the step.", "Good night!"),
]


@given(st.lists(st.integers(0, len(ANSWER)), max_size=40))
@example(list(range(len(ANSWER))))
def test_no_mark_reaches_a_synthesizer_however_an_answer_is_cut(
    cuts: list[int],
) -> None:
    places = sorted({*cuts, 0, len(ANSWER)})
    assert spoken(*(ANSWER[a:b] for a, b in pairwise(places))) == SPOKEN


PIECES = st.sampled_from(
    [
        *("**", "*", "***", "_", "__", "`", "```", "~~", "||", "|", "#", "## ", "> "),
        *("(sighs) ", "*He nods. ", "（微笑）", "＊", "（", "】", " :) ", " -> "),  # noqa: RUF001
        *("[sighs] ", "{", "}", "<i>", "</i>", "::", "~", "se ", "He ", "\\*", "摸"),
        *(
            "- ",
            "* ",
            "1. ",
            "[",
            "](https://x.example/y)",
            "![",
            "]",
            "\\",
            "$",
            "<b>",
        ),
        *(
            "</b>",
            "<!--",
            "-->",
            "&amp;",
            "&#42;",
            "😀",
            "❤️",
            "---",
            "https://a.example",
        ),
        *(
            "(",
            ")",
            "Go",
            "never",
            "the door",
            "5",
            "waves",
            ". ",
            "! ",
            ", ",
            " ",
            "\n",
            "?",
        ),
    ]
)
MARKS = re.compile(r"(?<!\d)\*\*|\*\*(?!\d)|~~|``|\|\||^#+ |\|---|😀|❤|\ufe0f|://")


@given(st.lists(PIECES, max_size=30), st.lists(st.integers(0, 99), max_size=8))
def test_whatever_is_written_no_sign_is_spoken(
    pieces: list[str], cuts: list[int]
) -> None:
    text = "".join(pieces)
    places = sorted({min(cut, len(text)) for cut in cuts} | {0, len(text)})
    said = spoken(*(text[a:b] for a, b in pairwise(places)))
    words = [x.split() for x in said]  # how many spaces are between them may differ
    assert words == [x.split() for x in spoken(text)]
    assert words == [x.split() for x in spoken(*text)]
    for sentence in said:
        assert not MARKS.search(sentence)
        assert sentence == sentence.strip() != ""


@given(st.lists(PIECES, max_size=30))
def test_more_spoken_words_are_never_fewer_written_ones(pieces: list[str]) -> None:
    reader = MarkdownReader()
    for sentence in sentences("".join(pieces)):
        form = reader.read(sentence)
        count = len(form.text.split())
        told = [form.written_words(n) for n in range(count + 1)]
        assert told == sorted(told)
        assert told[0] == 0
        assert told[-1] <= len(sentence.split())


@pytest.mark.parametrize(
    "piece",
    [
        *(
            "*",
            "*a ",
            "*waves* ",
            "_a",
            "[",
            "[a](",
            "[a]",
            "](b(",
            "[](a '",
            "<a ",
            "<!--",
        ),
        *(
            "`",
            "`a",
            "``` ",
            "$",
            "$a",
            "$-",
            "\\(",
            "\\[a",
            "~",
            "|",
            "| ",
            "😀",
            "👍\u200d",
        ),
        *("[sighs] ", "[a", "{a", "<i>a", "::a", "~a", "^a", "(a b) ", "at ", "ʕ", "¯"),
        *("&am", "==", "#", "> ", "- ", "https://", "www.a", "*a.", "a ", "(*a", "1. "),
    ],
)
def test_the_time_for_a_sentence_grows_with_its_length(
    piece: str, five_seconds_of_work: None
) -> None:
    text = piece * (200_000 // len(piece))
    reader = MarkdownReader()
    reader.read(text).written_words(10)


# In a turn.


def aloud(synthesizer: FakeSynthesizer) -> list[str]:
    return [text for text, _, _ in synthesizer.said]


async def test_the_text_keeps_what_is_written_and_the_voice_gets_speech(
    autojump_clock: MockClock,
) -> None:
    synthesizer = FakeSynthesizer()
    answer = "## Rules\n**Welcome!** 🎉\n*waves*\n---\n- [map](https://x.example)\n"
    async with open_table([list(answer), ["Yes."]], synthesizer=synthesizer) as table:
        heard = await ask(table.npc)
        await ask(table.npc)
    assert heard.done.end is TurnEnd.COMPLETED
    assert "".join(x.text for x in heard.of(TextDelta)) == answer
    written = [x.text for x in heard.of(Sentence)]
    assert " ".join(written) == " ".join(answer.split())
    assert aloud(synthesizer) == ["Rules", "Welcome!", "map", "Yes."]
    assert not heard.of(SpeechFailed)
    assert table.llm.told()[1] == ("assistant", " ".join(written))


async def test_a_turn_of_which_nothing_is_spoken_ends_well(
    autojump_clock: MockClock,
) -> None:
    synthesizer = FakeSynthesizer()
    async with open_table([["*nods*"], ["Yes."]], synthesizer=synthesizer) as table:
        heard = await ask(table.npc)
        await ask(table.npc)
    assert heard.done.end is TurnEnd.COMPLETED
    assert not heard.of(Speech)
    assert table.llm.told()[1] == ("assistant", "*nods*")


@pytest.mark.parametrize(
    ("played", "delivered"),
    [
        (0, ""),
        (500, "**Get**"),  # "Get the old map, fool!" is 22 letters, 2.2 s
        (900, "**Get** the"),
        (1_400, "**Get** the [old"),
        (1_800, "**Get** the [old map](https://maps.example/x),"),
        (2_200, "**Get** the [old map](https://maps.example/x), fool! 😀"),
        (2_600, "**Get** the [old map](https://maps.example/x), fool! 😀 *waves* Now"),
        (
            9_000,
            "**Get** the [old map](https://maps.example/x), fool! 😀 *waves* Now go.",
        ),
    ],
)
async def test_what_was_heard_is_remembered_as_it_was_written(
    autojump_clock: MockClock, played: int, delivered: str
) -> None:
    synthesizer = FakeSynthesizer()
    answer = "**Get** the [old map](https://maps.example/x), fool! 😀\n*waves* Now go."
    async with open_table([[answer], ["Yes."]], synthesizer=synthesizer) as table:
        async with table.npc.say("And?") as turn:
            turn.played(0)
            await turn.finish()
            turn.played(played)
        await ask(table.npc, "Who?")
        if delivered:
            assert table.llm.told()[1] == ("assistant", delivered)
    assert aloud(synthesizer)[:2] == ["Get the old map, fool!", "Now go."]
    assert turn.delivered == delivered


@pytest.mark.border
@pytest.mark.usefixtures("espeak")
async def test_espeak_gets_no_mark_of_markdown(tmp_path: Path) -> None:
    program, got = tmp_path / "espeak", tmp_path / "got"
    program.write_text(f'#!/bin/sh\ntee -a "{got}" | espeak-ng "$@"\n')
    program.chmod(0o700)
    voice = Espeak(program=str(program))
    with trio.fail_after(120):
        async with open_table([[ANSWER]], synthesizer=voice) as table:
            heard = await ask(table.npc)
            seconds = sum(x.seconds for x in heard.of(Speech))
    assert not heard.of(SpeechFailed)
    assert "".join(got.read_text().split()) == "".join("".join(SPOKEN).split())
    assert seconds > 5
