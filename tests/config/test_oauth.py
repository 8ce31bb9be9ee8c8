"""``auth.oauth`` of a server: what may stand there, and what may not."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

import pytest

from glyphoxa_trio.config import ConfigError, ServerSpec, load_text, parse
from glyphoxa_trio.config.servers import OAuth, is_private, without_secrets
from glyphoxa_trio.secret import Secret

SOURCE = PurePath("/table/tavern.yaml")
PLACE = "@ tavern.yaml.mcp.servers[0]"
CREDENTIALS = {"client_id": "sage", "client_secret": "sesame-9"}


def read(oauth: Any = None, **entry: Any) -> ServerSpec:
    if oauth is not None:
        entry["auth"] = {"oauth": oauth} | entry.pop("auth", {})
    server = {"name": "one", "url": "https://tools.example/mcp"} | entry
    data = {"mcp": {"servers": [server]}}
    return parse(data, source=SOURCE, env={"SECRET": "sesame-9"}).mcp.servers[0]


def problem(*args: Any, **entry: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        read(*args, **entry)
    (text,) = caught.value.problems
    return text


def test_the_seeds_server_with_oauth_loads() -> None:  # G27, G28
    text = """
    mcp:
      servers:
        - name: premium-tools
          transport: streamable-http
          url: https://premium.example.com/mcp
          auth:
            oauth:
              client_id: "glyphoxa-${WHO}"
              client_secret: "${SECRET}"
              token_url: https://auth.example.com/oauth/token
              scopes: ["tools:read", "tools:execute"]
    """
    env = {"WHO": "prod", "SECRET": "sesame-9"}
    (spec,) = load_text(text, source=SOURCE, env=env).mcp.servers
    assert spec.oauth == OAuth(
        client_id="glyphoxa-prod",
        client_secret=Secret("sesame-9"),
        token_url="https://auth.example.com/oauth/token",
        scopes=("tools:read", "tools:execute"),
    )
    assert spec.token is None


def test_two_credentials_are_enough() -> None:
    assert read(CREDENTIALS).oauth == OAuth(
        client_id="sage", client_secret=Secret("sesame-9")
    )


def test_a_token_may_stand_beside_it() -> None:  # G28: oauth overrides it
    spec = read(CREDENTIALS, auth={"token": "t"})
    assert (spec.oauth is not None, spec.token) == (True, Secret("t"))


@pytest.mark.parametrize(
    "token_url",
    [
        "https://login.example/token",
        "http://127.0.0.1:8080/token",
        "http://127.9.9.9/token",
        "http://[::1]:8080/token",
        "http://localhost/token",
        "http://login.localhost/token",
    ],
)
def test_a_secret_may_go_where_nobody_reads_along(token_url: str) -> None:
    oauth = read(CREDENTIALS | {"token_url": token_url}).oauth
    assert oauth is not None
    assert oauth.token_url == token_url


@pytest.mark.parametrize(
    "token_url",
    [
        "http://login.example/token",
        "http://10.0.0.7/token",
        "http://localhost.example/token",
        "http://127.0.0.1.example/token",
        "http://0.0.0.0/token",
    ],
)
def test_a_secret_goes_nowhere_else(token_url: str) -> None:
    said = problem(CREDENTIALS | {"token_url": token_url})
    assert said == (
        "must start with https://, unless it is on this machine: the secret would be"
        f" readable on the way {PLACE}.auth.oauth.token_url"
    )


def test_who_issues_tokens_is_not_asked_where_others_can_answer() -> None:
    url = "http://tools.example/mcp"
    assert problem(CREDENTIALS, url=url) == (
        "auth.oauth needs a token_url or a url with https://: over http an"
        f" attacker on the way could name the receiver of the secret {PLACE}"
    )
    # With a token_url nobody is asked.
    assert read(CREDENTIALS | {"token_url": "https://login.example/"}, url=url).oauth


@pytest.mark.parametrize(
    ("oauth", "said"),
    [
        ({"client_id": "x"}, f"client_secret is missing {PLACE}.auth.oauth"),
        ({"client_secret": "x"}, f"client_id is missing {PLACE}.auth.oauth"),
        (
            CREDENTIALS | {"client_id": " "},
            f"must not be empty {PLACE}.auth.oauth.client_id",
        ),
        (
            CREDENTIALS | {"client_secret": "${UNSET:-}"},
            f"must not be empty {PLACE}.auth.oauth.client_secret",
        ),
        (
            CREDENTIALS | {"client_secret": 12345678},
            f"expected text in quotes, got a number {PLACE}.auth.oauth.client_secret",
        ),
        (
            CREDENTIALS | {"token_url": "login.example/token"},
            (
                "must be an address that starts with http:// or https://"
                f" {PLACE}.auth.oauth.token_url"
            ),
        ),
        (
            CREDENTIALS | {"scopes": ["read write"]},
            f"a scope is one word: write a list of them {PLACE}.auth.oauth.scopes",
        ),
        (
            CREDENTIALS | {"scopes": "read"},
            (
                "expected a list, got text; write each line of scopes below it, after"
                f" a dash: - … {PLACE}.auth.oauth.scopes"
            ),
        ),
        (
            CREDENTIALS | {"scope": ["read"]},
            f"unknown key 'scope', did you mean 'scopes'? {PLACE}.auth.oauth",
        ),
    ],
)
def test_what_is_wrong_with_it_is_said_at_its_place(oauth: Any, said: str) -> None:
    assert problem(oauth) == said


def test_one_way_in_is_enough() -> None:
    assert problem(CREDENTIALS, headers={"AUTHORIZATION": "x"}) == (
        f"auth.oauth and an Authorization header: give one {PLACE}"
    )
    assert problem(CREDENTIALS, url="https://jo:sesame-9@tools.example/") == (
        f"auth.oauth and a password in the url: give one {PLACE}"
    )
    assert problem(auth={"token": "t"}, url="https://jo:sesame-9@tools.example/") == (
        f"auth.token and a password in the url: give one {PLACE}"
    )


def test_a_process_is_not_asked_for_a_token() -> None:
    with pytest.raises(ConfigError, match="auth means nothing to a stdio"):
        ServerSpec(
            name="x",
            command=("x",),
            oauth=OAuth(client_id="a", client_secret=Secret("b")),
            token=Secret("t"),
        )


def test_nothing_of_it_shows() -> None:  # A39
    spec = ServerSpec(
        name="x",
        url="https://tools.example/mcp?key=sesame-1#sesame-2",
        oauth=OAuth(
            client_id="sage",
            client_secret=Secret("sesame-3"),
            token_url="https://jo:sesame-4@login.example/token?key=sesame-5",
        ),
        headers={"X-Key": Secret("sesame-6")},
    )
    assert "sesame" not in repr(spec)
    assert "https://tools.example/mcp" in repr(spec)
    assert "https://login.example/token" in repr(spec)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://h/mcp", "https://h/mcp"),
        ("https://a:b@h:8/mcp/?k=v&l#f", "https://h:8/mcp/"),
        ("http://a@b@h", "http://h"),
        ("http://[::1]:8/x", "http://[::1]:8/x"),
    ],
)
def test_an_address_for_people(url: str, shown: str) -> None:  # A39
    assert without_secrets(url) == shown


def test_what_is_private() -> None:
    assert is_private("https://anywhere.example")
    assert is_private("http://LOCALHOST./x")
    assert not is_private("http://anywhere.example")
