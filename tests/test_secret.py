"""The mask: what it finds, however it is written, and what it leaves alone."""

from __future__ import annotations

import base64
import html
import json
import re
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.secret import HIDDEN, Mask

SECRET = 'k3y+/="é<&\\ 9'
MASK = Mask.of([SECRET])

BETWEEN = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
SECRETS = st.lists(st.text("abc+/é\"'&%=\\ 19", min_size=8, max_size=20), max_size=4)


@pytest.mark.parametrize(
    "written",
    [
        SECRET,
        json.dumps(SECRET)[1:-1],
        json.dumps(SECRET, ensure_ascii=False)[1:-1],
        json.dumps(json.dumps(SECRET)[1:-1])[1:-1],
        json.dumps(SECRET)[1:-1].replace("/", "\\/"),
        quote(SECRET),
        quote(SECRET, safe="").lower(),
        quote(SECRET, safe=""),
        quote_plus(SECRET),
        html.escape(SECRET),
        repr(SECRET)[1:-1],
    ],
)
def test_a_secret_is_hidden_as_whoever_writes_it_writes_it(written: str) -> None:
    assert MASK.text(f"bad key {written}!") == f"bad key {HIDDEN}!"


@given(before=BETWEEN, after=BETWEEN, urlsafe=st.booleans())
def test_base64_shows_no_secret_in_any_alignment(
    before: str, after: str, urlsafe: bool
) -> None:
    encode = base64.urlsafe_b64encode if urlsafe else base64.b64encode
    masked = MASK.text(encode(f"{before}{SECRET}{after}".encode()).decode())
    assert HIDDEN in masked
    for part in re.split(re.escape(HIDDEN), masked):
        for offset in range(4):
            piece = part[offset:].rstrip("=").replace("-", "+").replace("_", "/")
            whole = piece[: len(piece) // 4 * 4]
            assert SECRET.encode()[1:-1] not in base64.b64decode(whole)


@given(secrets=SECRETS, texts=st.lists(BETWEEN, min_size=2, max_size=6), at=st.data())
def test_data_is_masked_text_by_text(
    secrets: list[str], texts: list[str], at: st.DataObject
) -> None:
    mask = Mask.of(secrets)
    pieces = [*texts, *secrets]
    said = at.draw(st.lists(st.lists(st.sampled_from(pieces)).map("".join)))
    value = {"a": said, "b": {text: [text, 1, None, True] for text in said}}
    masked = mask.data(value)
    assert masked["a"] == [mask.text(text) for text in said]
    assert list(masked["b"]) == list(dict.fromkeys(map(mask.text, value["b"])))
    for text in masked["a"]:
        assert not any(x.strip() in text for x in secrets if len(x.strip()) >= 6)
    assert mask.data(masked) == masked


def test_what_holds_no_secret_is_the_same_object() -> None:
    value = {"content": [{"type": "text", "text": "well"}], "n": 1.5}
    assert MASK.data(value) is value
    assert Mask().data(value) is value


def test_keys_and_tuples_are_masked_too() -> None:
    value = {f"x{SECRET}": ({"y": SECRET}, 3)}
    assert MASK.data(value) == {f"x{HIDDEN}": ({"y": HIDDEN}, 3)}


def test_secrets_that_overlap_leave_nothing_of_either() -> None:
    mask = Mask.of(["abcdefgh", "efghijkl", "cdefgh"])
    assert mask.text("<abcdefghijkl>") == f"<{HIDDEN}>"


def test_a_secret_of_several_lines_is_hidden_line_by_line() -> None:
    mask = Mask.of(["-----BEGIN-----\nMIIEabcdef\nxyz123456\n"])
    assert mask.text("it read MIIEabcdef and xyz123456") == (
        f"it read {HIDDEN} and {HIDDEN}"
    )


def test_plain_words_are_not_blotted_out() -> None:
    mask = Mask.of(["true", "12345", "", "secret"])
    assert not mask
    assert mask.text("true 12345 [secret]") == "true 12345 [secret]"


def test_the_mask_is_made_again_from_its_pattern_and_shows_nothing() -> None:
    mask = Mask.of([SECRET, "other|(secret)"])
    again = Mask(pattern=mask.pattern)
    assert again == mask
    assert again.text(f"{SECRET} other|(secret)") == f"{HIDDEN} {HIDDEN}"
    assert re.search(mask.pattern, f"a {SECRET}") is not None
    assert "k3y" not in repr(mask)
    assert "k3y" not in str(mask)
