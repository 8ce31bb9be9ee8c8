"""What is shown of a server: references, and never what may be a secret."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.config import discreet


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("${TOKEN}", "${TOKEN}"),
        ("Bearer ${TOKEN}", "Bearer ${TOKEN}"),
        ("Bearer abc", "[secret]"),
        ("${A}${B}", "${A}${B}"),
        ("abc${B}", "[secret]${B}"),
        ("${A:-fallback}", "${A:-[secret]}"),
        ("${A:-}", "${A:-}"),
        ("$${A}", "[secret]"),  # a plain ${A}: whatever it is, it is not looked up
        ("production", "[secret]"),
        ("", ""),
    ],
)
def test_of_a_value_only_the_references_are_shown(written: str, shown: str) -> None:
    assert discreet.value(written) == shown


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["npx", "-y", "@scope/server-fs", "."], "npx -y @scope/server-fs ."),
        (["x", "my notes"], "x 'my notes'"),
        (["x", "--api-key", "abc", "rest"], "x --api-key [secret] rest"),
        (["x", "--api-key", "${KEY}"], "x --api-key ${KEY}"),
        (["x", "--token=abc"], "x --token=[secret]"),
        (["x", "--auth", "--verbose", "y"], "x --auth --verbose y"),
        (["env", "API_KEY=abc", "MODE=fast"], "env API_KEY=[secret] MODE=fast"),
        (
            ["x", "--header", "Authorization: Bearer a"],
            "x --header Authorization: [secret]",
        ),
        (["x", "https://u:p@h/p?a=b"], "x https://[secret]@h/p?a=[secret]"),
        (["x", "--db=postgres://u:p@h/d"], "x --db=postgres://[secret]@h/d"),
        (["x", "sk-abcdefgh123"], "x [secret]"),
        (["x", "task-management"], "x task-management"),
        (
            ["x", "${API_KEY:-abc}", "${MODE:-fast}"],
            "x ${API_KEY:-[secret]} ${MODE:-fast}",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_of_a_command_what_looks_like_a_secret_is_hidden(
    words: list[str], shown: str
) -> None:
    assert discreet.command(words) == shown


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("https://world.example/mcp", "https://world.example/mcp"),
        ("https://u:p@w.example:8443/mcp", "https://[secret]@w.example:8443/mcp"),
        ("https://w/mcp?key=abc&x=${X}", "https://w/mcp?key=[secret]&x=${X}"),
        ("https://w/mcp#abc", "https://w/mcp#[secret]"),
        ("https://w/s/Zm9vYmFyYmF6MTIz/mcp", "https://w/s/[secret]/mcp"),
        ("https://${HOST:-a/b}/mcp", "https://${HOST:-a/b}/mcp"),
        ("https://${TOKEN:-abc}@w/mcp", "https://[secret]@w/mcp"),
        ("${URL}", "${URL}"),
        ("${BASE}/mcp", "${BASE}/mcp"),
        ("not an address", "[secret]"),
        ("https://w/\x000\x00", "https://w/0"),
    ],
)
def test_of_an_address_the_place_is_shown(written: str, shown: str) -> None:
    assert discreet.address(written) == shown


_SECRET = "Qx7vT2mKp9Rw4LzN"
_TEXT = st.text(alphabet="ab/?#&=@: .$-", max_size=8)


@given(_TEXT, _TEXT)
def test_a_secret_of_an_address_is_never_shown(before: str, after: str) -> None:
    for url in (
        f"https://user:{_SECRET}@w.example/{after.replace('@', '')}",
        f"https://w.example/mcp?{before.replace('#', '')}={_SECRET}&{after}",
        f"https://w.example/mcp#{before}{_SECRET}{after}",
        f"https://w.example/{_SECRET}/mcp",
    ):
        assert _SECRET not in discreet.address(url)
        assert _SECRET not in discreet.command(["x", url])


@given(st.text(max_size=12), st.lists(st.text(max_size=12), max_size=4))
def test_any_words_can_be_shown(text: str, words: list[str]) -> None:
    assert isinstance(discreet.command(words), str)
    assert isinstance(discreet.address(text), str)
    # What is shown of a value is made of references, schemes, space and nothing.
    assert discreet.value(discreet.value(text)) in (discreet.value(text), "[secret]")
