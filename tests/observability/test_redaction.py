"""What never gets into a log, wherever it comes from."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio import Config
from glyphoxa_trio.config import LlmConfig, McpConfig, ServerSpec
from glyphoxa_trio.config.servers import OAuth
from glyphoxa_trio.observability.redaction import Redaction
from glyphoxa_trio.secret import Secret

CONFIG = Config(
    llm=LlmConfig(api_key=Secret("model-key-1")),
    mcp=McpConfig(
        servers=(
            ServerSpec(
                name="a",
                command=("a",),
                env={"KEY": Secret("env-value-2"), "SHORT": Secret("gold")},
            ),
            ServerSpec(
                name="b",
                url="https://example.test/mcp?key=query-key-4&x=1",
                token=Secret("token-5"),
                headers={"X": Secret("token-5-and-more\nsecond-line-6")},
            ),
            ServerSpec(name="c", url="https://me:pass-word-3@example.test/mcp"),
            ServerSpec(
                name="d",
                url="https://example.test/mcp",
                oauth=OAuth(
                    client_id="our-name",
                    client_secret=Secret("client-secret-7"),
                    token_url="https://example.test/token?key=query-key-8",
                ),
            ),
        )
    ),
)
SECRETS = (
    "model-key-1",
    "env-value-2",
    "pass-word-3",
    "query-key-4",
    "token-5",
    "client-secret-7",
    "query-key-8",
)


def test_every_secret_of_a_configuration_is_found_wherever_it_stands() -> None:
    # A39
    clean = Redaction.of(CONFIG).clean
    for secret in SECRETS:
        assert clean(f"<{secret}>") == "<[secret]>"
    assert clean("second-line-6 alone") == "[secret] alone"
    assert clean("token-5-and-more") == "[secret]"  # whole, not its beginning only
    assert clean("gold and x=1") == "gold and x=1"  # too short to be hidden


def test_also_inside_of_what_a_field_holds() -> None:
    clean = Redaction.of(CONFIG).clean
    assert clean({"token-5": ["a token-5", ("token-5",)], "n": 5}) == {
        "[secret]": ["a [secret]", ["[secret]"]],
        "n": 5,
    }


def test_control_characters_and_endless_texts_are_not_written() -> None:
    clean = Redaction().clean
    assert clean("a\x1b[2Jb\nc\u2028d\u202e") == "a [2Jb c d"
    assert clean("x" * 10_000) == "x" * 2_000 + " …"
    assert clean("ünï ☂") == "ünï ☂"


@given(
    st.recursive(
        st.none() | st.integers() | st.text() | st.sampled_from(SECRETS),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=12,
    ),
    st.text(),
)
def test_no_secret_survives_in_any_value(value: Any, around: str) -> None:
    clean = Redaction.of(CONFIG).clean
    held = str(clean([value, *(f"{around}{secret}{around}" for secret in SECRETS)]))
    assert not [secret for secret in SECRETS if secret in held]
