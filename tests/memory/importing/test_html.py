"""HTML becomes plain paragraphs, whatever it is (G38)."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.memory.importing.html import MOST_HTML, plain


def texts(html: str) -> list[str]:
    return [x.text for x in plain(html).passages]


@pytest.mark.parametrize(
    ("html", "paragraphs"),
    [
        ("<p>One <b>two</b>&nbsp;three &amp; four.</p>", ["One two three & four."]),
        ("<p>One<p>Two<div>Three</div>", ["One", "Two", "Three"]),
        ("One<br>two", ["One two"]),
        ("<ul><li>One<li>Two</ul>", ["One", "Two"]),
        ("<table><tr><td>1</td><td>2</td></tr></table>", ["1 | 2"]),
        (
            "<h2>Past</h2><p>It burnt.</p><p>Twice.</p>",
            ["Past: It burnt.", "Past: Twice."],
        ),
        ("<h2>Lone</h2><h2>End</h2>", ["Lone", "End"]),
        ("a<script>alert('<p>no</p>')</script>b<style>x{}</style>c", ["abc"]),
        ("<img src=x onerror=alert(1)>text", ["text"]),
        ("a <!-- no --> b <!-- never closed", ["a b"]),
        ("<!DOCTYPE html><?xml x?>a", ["a"]),
        ("1 < 2 and 3 > 2", ["1 < 2 and 3 > 2"]),
        ('<a title="a<b>c">in</a>', ["in"]),
        ("&lt;script&gt;", ["<script>"]),
        ("<p>open", ["open"]),
        ("", []),
    ],
)
def test_tags_become_paragraphs(html: str, paragraphs: list[str]) -> None:
    assert texts(html) == paragraphs


def test_a_section_of_the_page_may_be_secret_until_it_is_revealed() -> None:
    page = plain(
        "<p>Open.</p><section class='secret'><h2>Bones</h2><div>Hidden.</div></section>"
        "<p>After.</p><section class='secret revealed'>Told.</section>"
    )
    assert [(x.text, x.secret) for x in page.passages] == [
        ("Open.", False),
        ("Bones: Hidden.", True),
        ("After.", False),  # and the secret heading is not above it
        ("Told.", False),
    ]


def test_a_secret_section_that_is_never_closed_hides_the_rest() -> None:
    page = plain("<section class=secret>a</div><p>b</p>")
    assert {x.secret for x in page.passages} == {True}


def test_links_are_found_with_their_words() -> None:
    page = plain('<p><a href="u">the <i>baron</i></a> <a data-uuid="x">')
    first = page.anchors[0]
    assert (first.attributes, first.label) == ({"href": "u"}, "the baron")


def test_what_is_nested_too_deeply_is_refused() -> None:
    with pytest.raises(ValueError, match="levels deep"):
        plain("<div>" * 1000)


def test_a_long_text_is_cut_and_says_so() -> None:
    page = plain("a " * MOST_HTML)
    assert page.cut
    assert not plain("a").cut


@pytest.mark.parametrize(
    "piece",
    ["<", "<a ", "<!--", "</", "<a b='", "<?", "<![CDATA[", "&#", "<a '<a' \"<b'\" ",
     "<script></", "<p>x"],
)  # fmt: skip
def test_no_text_takes_long(piece: str) -> None:
    text = piece * (MOST_HTML // len(piece))
    began = time.process_time()
    plain(text)
    assert time.process_time() - began < 5  # time squared would be minutes


@given(st.text(alphabet="<>/a p='\"&;!-section clas secret", max_size=60))
def test_no_tag_is_left_of_any_text(html: str) -> None:
    try:
        page = plain(f"<p>{html}</p><script>{html}")
    except ValueError:
        return
    assert all(x.text == " ".join(x.text.split()) for x in page.passages)
    assert not any("<script>" in x.text for x in page.passages)
