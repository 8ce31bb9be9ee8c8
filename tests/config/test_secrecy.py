"""What of a server is secret, and what is not (D15a)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from glyphoxa_trio.config import ConfigError, ServerSpec, load_mcp_json, parse
from glyphoxa_trio.config.secrecy import mask_of, secrets_of
from glyphoxa_trio.config.servers import OAuth
from glyphoxa_trio.secret import SHORTEST, Secret

ENV = {
    "GIVEN": "given-by-variable",
    "HOME": "/home/somebody",
    "ROOM": "/tmp/a-room",
    "ZONE": "Europe/Berlin",
    "HALF": "half-of-an-address",
}


def spec(**keys: Any) -> ServerSpec:
    keys = {"name": "s", **keys}
    data = {"mcp": {"servers": [keys]}}
    (made,) = parse(data, source=Path("/c.yaml"), env=ENV).mcp.servers
    return made


def secrets(made: ServerSpec) -> set[str]:
    return {text for text in secrets_of(made) if len(text) >= SHORTEST}


def test_a_variable_is_secret_by_its_name_or_by_where_its_value_is_from() -> None:
    made = spec(
        command="x --with ${HALF}",
        env={
            "API_KEY": "by-name-1",
            "auth_header": "by-name-2",
            "DB_PASS": "by-name-3",
            "SERVICE_TOKEN": "by-name-4",
            "MY_SECRETS": "by-name-5",
            "PLAIN": "${GIVEN}",
            "CURRENCY": "golden-coins",
            "ALLOWED_DIR": "/tmp/a-room",
            "DIR": "${ROOM}",
            "BELOW": "${HOME}/x",
            "TZ": "${ZONE}",
            "WITH_DEFAULT": "${ABSENT:-default-value}",
        },
    )
    assert secrets(made) == {
        *(f"by-name-{number}" for number in range(1, 6)),
        "given-by-variable",
        "half-of-an-address",
    }
    assert mask_of(made).text("in /tmp/a-room, Europe/Berlin") == (
        "in /tmp/a-room, Europe/Berlin"
    )


def test_the_entry_says_what_else_is_secret_and_what_is_not() -> None:
    made = spec(
        command="x",
        env={
            "PIN": "open-sesame",
            "AUTHOR": "Jane Doe",
            "A": "${GIVEN}",
            "B": "${HALF}",
        },
        secrets=["PIN"],
        not_secret=["AUTHOR", "A", "HALF"],
    )
    assert secrets(made) == {"open-sesame"}


def test_headers_tokens_and_credentials_in_addresses_are_secret() -> None:
    made = ServerSpec(
        name="s",
        url="https://jo:pass%20word@e.test/a1b2c3d4e5f6a7b8c9/mcp?key=in-query&v=2.1.10-b",
        headers={
            "X-Key": Secret("in-header"),
            "X-Auth": Secret("Bearer bare-token"),
            "Accept": Secret("application/json"),
        },
        not_secret=("v",),
    )
    found = secrets(made)
    assert found >= {
        "in-header",
        "bare-token",
        "Bearer bare-token",
        "pass word",
        "pass%20word",
        "in-query",
        "a1b2c3d4e5f6a7b8c9",
    }
    assert not found & {"application/json", "2.1.10-b", "Bearer"}
    oauth = OAuth(
        client_id="us",
        client_secret=Secret("client+secret"),
        token_url="https://e.test/?key=of-token-url",
    )
    made = ServerSpec(name="s", url="https://e.test/", oauth=oauth)
    assert secrets(made) >= {"client+secret", "client%2Bsecret", "of-token-url"}


@pytest.mark.parametrize("key", ["secrets", "not_secret"])
def test_a_name_that_nothing_has_is_said(key: str) -> None:
    with pytest.raises(ConfigError, match=f"{key} names PINN, which is no variable"):
        spec(command="x", env={"PIN": "1"}, **{key: ["PINN"]})


def test_a_name_in_both_lists_is_said() -> None:
    with pytest.raises(ConfigError, match="PIN is in secrets and in not_secret"):
        spec(command="x", env={"PIN": "1"}, secrets=["PIN"], not_secret=["PIN"])


def test_a_shared_file_has_the_same_keys_also_for_its_env_file(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(
        "PIN=open-sesame\nMY_KEY=of-the-file\nX_KEY=free-one"
    )
    entry = {
        "command": "x",
        "args": ["${env:GIVEN}"],
        "envFile": "${workspaceFolder}/.env",
        "secrets": ["PIN"],
        "not_secret": ["X_KEY"],
    }
    path = tmp_path / ".mcp.json"
    path.write_text(json.dumps({"mcpServers": {"s": entry}}))
    (server,) = load_mcp_json(path, env=ENV).entries
    assert secrets(server.spec) == {"given-by-variable", "open-sesame", "of-the-file"}


def test_a_misspelt_name_beside_an_env_file_is_said(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("PIN=open-sesame")
    entry = {"command": "x", "envFile": ".env", "secrets": ["PINN"]}
    path = tmp_path / ".mcp.json"
    path.write_text(json.dumps({"servers": {"s": entry}}))
    (left_out,) = load_mcp_json(path, env=ENV).left_out
    assert "secrets names PINN" in left_out.why
