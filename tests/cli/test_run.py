"""``glyphoxa run``: the service as a process, with clients, signals and bad options."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
from pathlib import Path

import pytest
from glyphoxa_client import GlyphoxaClosed, connect

import trio

from glyphoxa_trio.testing.model_server import Forever, SayText, open_model_server

from .support import Terminal, is_dead, run, seer, terminal, written

SERVING = "serving 1 NPC at "


def address(shown: Terminal) -> str:
    shown.expect(SERVING)
    shown.expect("token: ")
    (found,) = re.findall(rf"{SERVING}(http://127\.0\.0\.1:\d+)", shown.screen)
    return str(found)


def configured(folder: Path, url: str) -> Path:
    llm = {"provider": "chat_completions", "model": "m", "base_url": url}
    return written(
        folder,
        llm=llm,
        npcs=[{"name": "Bo", "tools": ["seer.*"]}],
        mcp={"servers": [seer()], "remember": False},
        trust={"mode": "full"},
    )


@pytest.mark.border
async def test_it_serves_until_it_is_told_to_stop(tmp_path: Path) -> None:
    async with open_model_server([SayText("Well. "), SayText("met.")]) as model:
        config = configured(tmp_path, model.base_url)
        with terminal("run", config, "--http", "127.0.0.1:0") as shown:
            url = await trio.to_thread.run_sync(address, shown)
            (token,) = re.findall(r"token: (\S+)", shown.screen)
            ws = f"{url.replace('http', 'ws', 1)}/ws"
            async with connect(ws, token=token) as client:
                assert client.role == "operator"
                async with client.say("Hail", npc="Bo", session="one") as turn:
                    done = await turn.finish()
                assert done["end"] == "completed"
                pid = f"{shown.process.pid}"
                told = await trio.to_thread.run_sync(_status, pid)
                status = json.loads(told.stdout)
                assert status["sessions"]["latest"] == ["one"]
                (server,) = (x["pid"] for x in status["servers"])
                shown.process.send_signal(signal.SIGTERM)
                with pytest.raises(GlyphoxaClosed) as closed:
                    while True:
                        await client.join()
                        await trio.sleep(0.01)
            assert closed.value.code == 1001
            ended = await trio.to_thread.run_sync(lambda: shown.ends())
            assert ended == 0
            assert is_dead(server)


def _status(pid: str) -> subprocess.CompletedProcess[str]:
    return run("status", "--json", "--pid", pid)


@pytest.mark.border
async def test_a_second_signal_does_not_wait_for_turns(tmp_path: Path) -> None:
    async with open_model_server([SayText("Well. "), Forever("x")]) as model:
        config = configured(tmp_path, model.base_url)
        with terminal("run", config, "--http", "127.0.0.1:0") as shown:
            url = await trio.to_thread.run_sync(address, shown)
            async with connect(f"{url.replace('http', 'ws', 1)}/ws") as client:
                async with client.say("Hail", npc="Bo") as turn:
                    async for event in turn:
                        if event["event"] == "Sentence":
                            break
                    shown.press_ctrl_c()
                    await trio.to_thread.run_sync(shown.expect, "stopping")
                    shown.press_ctrl_c()
                    ended = await trio.to_thread.run_sync(lambda: shown.ends())
                    assert ended == 128 + signal.SIGINT


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--http", "0.0.0.0:0"], "--token-file"),
        (["--http", "nonsense"], "HOST:PORT"),
        (["--tls-cert", "cert.pem"], "--tls-key"),
        (["--token-file", "none"], "No such file"),
        (["--rate-limit", "0"], "--rate-limit"),
    ],
)
def test_options_that_cannot_be_are_one_line(
    tmp_path: Path, options: list[str], told: str
) -> None:
    done = run("run", written(tmp_path), *options)
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_an_address_that_is_taken_is_told(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run("run", written(tmp_path), "--http", f"127.0.0.1:{port}")
    assert done.returncode == 2
    assert "--http 127.0.0.1:" in done.stderr
    assert "another program uses the port" in done.stderr
