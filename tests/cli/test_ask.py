"""``glyphoxa ask``: one turn, for people and for programs."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from glyphoxa_trio.testing.model_server import (
    CallTools,
    Die,
    Fail,
    Reply,
    SayText,
    open_model_server,
)

from .support import (
    COMMAND,
    LIMIT,
    PATIENT,
    beside,
    environment,
    is_dead,
    reports,
    run,
    seer,
    written,
)

KEY = "sk-the-key-that-nobody-may-see"


def ask(
    *words: str | Path, **env: str
) -> tuple[subprocess.CompletedProcess[str], str, str]:
    done = run("ask", *words, env=env)
    return done, done.stdout, done.stderr


def events(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


# ------------------------------------------------------------- one answer


def test_the_answer_is_on_stdout_and_the_fan_out_a_quiet_line(tmp_path: Path) -> None:
    asked = run("ask", written(tmp_path), "bo", "roll 2d6+3 for me")
    assert asked.returncode == 0
    assert re.fullmatch(r"2d6\+3 comes to \d+\.\n", asked.stdout)
    assert re.fullmatch(
        r"· fast · 2 tools shown · dice\.roll [\d.]+ ms · [\d.]+ ms of 500 ms\n",
        asked.stderr,
    )


def test_json_is_every_event_as_a_line(tmp_path: Path) -> None:
    asked = run("ask", written(tmp_path), "Bo", "roll 2d6+3", "--json")
    assert (asked.returncode, asked.stderr) == (0, "")
    told = events(asked.stdout)
    # On a slow machine, what memory could not add in time.
    told = [event for event in told if event["event"] != "ContextAdded"]
    kinds = [event["event"] for event in told]
    assert kinds[:5] == [
        "TierSelected",
        "ToolsShown",
        "ToolStarted",
        "ToolFinished",
        "FanOutDone",
    ]
    assert kinds[-1] == "TurnDone"
    assert {event["npc"] for event in told} == {"Bo"}
    assert told[0]["budget_ms"] == 500
    assert told[1]["shown"] == ["roll", "roll_table"]
    (outcome,) = told[-1]["outcomes"]
    assert (outcome["tool"], outcome["status"]) == ("dice.roll", "ok")
    assert outcome["elapsed_ms"] <= told[4]["elapsed_ms"] <= 500
    assert outcome["data"]["expression"] == "2d6+3"
    written_out = "".join(x["text"] for x in told if x["event"] == "TextDelta")
    assert told[-1]["text"].split() == written_out.split()
    assert told[-1]["end"] == "completed"
    assert told[-1]["timings"]["total_ms"] >= told[-1]["timings"]["tools_ms"]


def test_the_tier_of_the_command_line_is_the_dms(tmp_path: Path) -> None:
    npcs = [{"name": "Bo", "tools": ["dice"], "budget_tier": "deep"}]
    path = written(tmp_path, npcs=npcs)
    asked = run("ask", path, "Bo", "hello", "--tier", "deep", "--json")
    assert events(asked.stdout)[0]["tier"] == "deep"


def test_an_unknown_npc_is_told_the_nearest_before_any_server_is_started(
    tmp_path: Path,
) -> None:
    with reports(tmp_path) as told:
        servers = [seer(told.path, "mute")]
        path = written(
            tmp_path,
            npcs=[{"name": "Bartok the Barkeep"}, {"name": "Greymantle"}],
            mcp={"servers": servers},
        )
        asked = run("ask", path, "Graymantel", "hello")
        assert told.silent()
    assert (asked.returncode, asked.stdout) == (2, "")
    assert asked.stderr == "glyphoxa: no NPC 'Graymantel', there is Greymantle\n"


def test_a_broken_configuration_is_every_problem_and_no_turn(tmp_path: Path) -> None:
    path = written(tmp_path, npcs=[{"name": "Bo", "tools": ["dise", "dice.rol"]}])
    asked = run("ask", path, "Bo", "hello")
    assert (asked.returncode, asked.stdout) == (2, "")
    first, second = asked.stderr.splitlines()
    assert first.startswith("glyphoxa: no tool 'dise', did you mean dice")
    assert second.startswith("glyphoxa: no tool 'dice.rol', did you mean dice.roll")


@pytest.mark.border
def test_servers_that_misbehave_are_warnings_and_the_npc_answers(
    tmp_path: Path,
) -> None:
    """One hangs at the handshake, one exits, one prints garbage and works."""
    path = written(
        tmp_path,
        npcs=[{"name": "Bo", "tools": ["dice", "garbage.whisper", "mute.x"]}],
        mcp={
            "servers": [
                seer("-", "mute", start_timeout_ms=700),
                seer("-", "exits"),
                seer("-", "garbage", start_timeout_ms=20_000),
            ]
        },
    )
    asked = run("ask", path, "Bo", "whisper and roll 2d6")
    assert asked.returncode == 0
    assert "a word about whisper" in asked.stdout.lower()
    # A busy machine may not give dice the few milliseconds that they have.
    assert "dice.roll" in asked.stderr
    cut = "dice.roll cut after" in asked.stderr
    assert cut or "2d6 comes to" in asked.stdout
    assert "warning: mute: no handshake within 700 ms\n" in asked.stderr
    assert (
        "warning: exits: exited with status 3\n  the crystal is cracked\n"
        in asked.stderr
    )
    assert "\x1b" not in asked.stdout + asked.stderr


@pytest.mark.border
def test_whoever_reads_only_the_first_line_gets_no_traceback(tmp_path: Path) -> None:
    line = '"$0" ask "$1" Bo "roll 2d6" --json | head -n 1'
    asked = subprocess.run(
        ["sh", "-c", line, str(COMMAND), str(written(tmp_path))],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        env=environment(),
        check=False,
    )
    assert asked.stdout.count("\n") == 1
    assert asked.stderr == ""


@pytest.mark.border
def test_a_signal_leaves_in_order_and_leaves_no_process(tmp_path: Path) -> None:
    """Also when the server resists and its tool never answers."""
    with reports(tmp_path) as told:
        path = written(
            tmp_path,
            npcs=[{"name": "Bo", "tools": ["stubborn.ponder"]}],
            mcp={"servers": [seer(told.path, "stubborn", "parent")]},
            tiers=PATIENT,
        )
        asking = subprocess.Popen(
            [COMMAND, "ask", path, "Bo", "ponder"],
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            pids = [told.expect("started"), told.expect("child")]
            told.expect("called ponder")
            asking.send_signal(signal.SIGINT)
            _, said = asking.communicate(timeout=LIMIT)
        finally:
            asking.kill()
    assert asking.returncode == 130
    assert said == ""
    assert all(map(is_dead, pids))


# ------------------------------------------------- a model of somebody else's


@pytest.mark.border
def test_a_model_server_speaks_with_tools_and_the_key_stays_secret(
    tmp_path: Path,
) -> None:
    script: list[Reply] = [
        [SayText("Let me see."), CallTools([("roll", {"expression": "2d6"})])],
        SayText("There \x1b[2Jit is."),
    ]
    with beside(open_model_server(script)) as server:
        done, out, err = ask(
            written(tmp_path),
            "Bo",
            "roll",
            "--model",
            "llama",
            "--base-url",
            server.base_url,
            GLYPHOXA_API_KEY=KEY,
        )
    assert done.returncode == 0
    assert out == "Let me see.\nThere [2Jit is.\n"
    assert " dice.roll " in err
    assert [body["model"] for body in server.requests] == ["llama", "llama"]
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"
    assert KEY not in out + err


@pytest.mark.border
def test_a_key_of_the_file_is_not_shown_to_another_server(tmp_path: Path) -> None:
    llm = {
        "provider": "chat_completions",
        "model": "theirs",
        "base_url": "http://127.0.0.1:9/v1",
        "api_key": KEY,
    }
    with beside(open_model_server([SayText("Hello.")])) as server:
        other = ["--model", "llama", "--base-url", server.base_url]
        done, out, _ = ask(written(tmp_path, llm=llm), "Bo", "hi", *other)
        assert (done.returncode, out) == (0, "Hello.\n")
        assert "authorization" not in server.headers[0]
        # At its own server it is used, whichever model is asked for.
        own = written(tmp_path, llm={**llm, "base_url": server.base_url})
        done, out, _ = ask(own, "Bo", "hi", "--model", "llama")
    assert (done.returncode, out) == (0, "Hello.\n")
    assert server.requests[1]["model"] == "llama"
    assert server.headers[1]["authorization"] == f"Bearer {KEY}"


@pytest.mark.border
def test_a_model_of_the_command_line_is_asked_at_the_configured_anthropic(
    tmp_path: Path,
) -> None:
    script: list[Reply] = [
        [SayText("Let me see."), CallTools([("roll", {"expression": "2d6"})])],
        SayText("There it is."),
    ]
    with beside(open_model_server(script, api_key=KEY)) as server:
        llm = {
            "provider": "anthropic",
            "model": "theirs",
            "base_url": server.origin,
            "api_key": "not-the-one",
            "extra": {"top_k": 5},
            "fallbacks": [{"provider": "offline"}],
        }
        path = written(tmp_path, llm=llm)
        keys = {"ANTHROPIC_API_KEY": KEY, "OPENAI_API_KEY": "sk-of-others"}
        done, out, err = ask(path, "Bo", "roll", "--model", "ours", **keys)
        assert (done.returncode, out) == (0, "Let me see.\nThere it is.\n")
        assert KEY not in err
        asked = [(body["model"], body["top_k"]) for body in server.requests]
        assert asked == [("ours", 5)] * 2
        assert server.headers[0]["x-api-key"] == KEY
        # Without a key of the environment it is the configured one, and no other model
        # is asked in its place.
        done, out, err = ask(path, "Bo", "hi", "--model", "ours")
        assert done.returncode == 1
        assert "authentication" in err
        # At another address it is a server of chat completions, without what was
        # meant for the other one.
        at = ["--model", "llama", "--base-url", server.base_url + "/"]
        done, out, _ = ask(path, "Bo", "hi", *at, OPENAI_API_KEY=KEY)
        assert (done.returncode, out) == (0, "There it is.\n")
        assert server.headers[2]["authorization"] == f"Bearer {KEY}"
        assert "top_k" not in server.requests[2]


@pytest.mark.border
def test_a_model_server_that_is_away_is_a_typed_event_and_1(
    tmp_path: Path,
) -> None:
    with beside(open_model_server([SayText("never")])) as server:
        pass  # it was there: the port is free again, and nobody listens
    away = ["Bo", "hi", "--model", "llama", "--base-url", server.base_url]
    path = written(tmp_path, npcs=[{"name": "Bo", "fallback": ["Hm?"]}])
    done, out, err = ask(path, *away, "--json", OPENAI_API_KEY=KEY)
    assert done.returncode == 1
    told = events(out)
    (failed,) = [event for event in told if event["event"] == "ModelFailed"]
    assert failed["kind"] == "unreachable"
    assert server.base_url in failed["detail"]
    (fell,) = [event for event in told if event["event"] == "FellBack"]
    assert fell["reason"] == "model_failed"
    assert (told[-1]["event"], told[-1]["end"]) == ("TurnDone", "failed")
    assert told[-1]["text"] == "Hm?"
    assert (err, KEY in out) == ("", False)


@pytest.mark.border
def test_a_failure_reads_as_a_line_and_echoes_no_key(tmp_path: Path) -> None:
    refusal = Fail(401, {"error": {"message": f"Incorrect API key: {KEY}"}})
    with beside(open_model_server([refusal])) as server:
        done, out, err = ask(
            written(tmp_path, npcs=[{"name": "Bo", "fallback": ["Hm?"]}]),
            "Bo",
            "hi",
            "--model",
            "llama",
            "--base-url",
            server.base_url,
            OPENAI_API_KEY=KEY,
        )
    assert (done.returncode, out) == (1, "Hm?\n")
    assert err.startswith("the model failed: authentication: ")
    assert KEY not in out + err


@pytest.mark.border
def test_an_answer_that_ends_halfway_is_kept_and_counts_as_failed(
    tmp_path: Path,
) -> None:
    with beside(open_model_server([[SayText("Well, I"), Die()]])) as server:
        done, out, err = ask(
            written(tmp_path), "Bo", "hi", "--model", "m", "--base-url", server.base_url
        )
    assert (done.returncode, out) == (1, "Well, I\n")
    assert err.startswith("the model failed: interrupted: ")


@pytest.mark.parametrize(
    ("base_url", "problem"),
    [
        ("localhost:11434/v1", "must be an address that starts with http://"),
        ("http://me:secret@localhost/v1", "no credentials"),
    ],
)
def test_an_address_that_is_none_is_told_without_its_secret(
    tmp_path: Path, base_url: str, problem: str
) -> None:
    words = ("--model", "m", "--base-url", base_url)
    asked = run("ask", written(tmp_path), "Bo", "hi", *words)
    assert (asked.returncode, asked.stdout) == (2, "")
    assert problem in asked.stderr
    assert asked.stderr.count("\n") == 1
    assert "secret" not in asked.stderr


# --------------------------------------------------- a conversation that goes on


@pytest.mark.border
def test_a_conversation_goes_on_in_its_file(tmp_path: Path) -> None:
    npcs = [{"name": "Bo", "tools": []}]
    with beside(
        open_model_server([SayText("Well met."), SayText("You are Rolf.")])
    ) as server:
        path = written(tmp_path, npcs=npcs)
        llama = ["--model", "llama", "--base-url", server.base_url]
        kept = tmp_path / "evening"
        done, out, err = ask(path, "Bo", "I am Rolf.", "--session", kept, *llama)
        assert (done.returncode, out, err) == (0, "Well met.\n", "")
        assert kept.stat().st_mode & 0o777 == 0o600
        done, out, err = ask(path, "Bo", "Who am I?", "--session", kept, *llama)
        assert (done.returncode, out, err) == (0, "You are Rolf.\n", "")
        told = [x["content"] for x in server.requests[-1]["messages"][1:]]
        assert told == ["player: I am Rolf.", "Well met.", "player: Who am I?"]

        # What is no such file is not asked with, and not overwritten.
        broken = tmp_path / "broken"
        broken.write_bytes(kept.read_bytes()[:-1])
        done, out, err = ask(path, "Bo", "Well?", "--session", broken, *llama)
        assert (done.returncode, out) == (2, "")
        assert (
            err
            == f"glyphoxa: {broken}: the snapshot is damaged: its checksum differs\n"
        )
        assert broken.read_bytes() == kept.read_bytes()[:-1]
        nowhere = tmp_path / "nowhere" / "evening"
        done, out, err = ask(path, "Bo", "Well?", "--session", nowhere, *llama)
        assert (done.returncode, out) == (2, "")
        assert "there is no such folder" in err
        assert len(server.requests) == 2
