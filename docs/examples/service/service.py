"""A runtime as a service: a log, metrics, a control socket, and signals.

    python service.py npcs.yaml

SIGTERM ends it, SIGHUP has it read its configuration again.
"""

import signal
import sys

import trio

from glyphoxa_trio import open_runtime
from glyphoxa_trio.control import open_control
from glyphoxa_trio.observability import json_lines, log_events, open_metrics


async def main(path: str) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with (
            open_runtime(
                path, reload_on=[signal.SIGHUP], collector="settle"
            ) as runtime,
            log_events(runtime, json_lines(sys.stderr)),
            open_metrics(runtime, port=0) as metrics,
            open_control(runtime),
        ):
            print("metrics:", metrics.url, flush=True)
            async for _ in signals:
                break  # leaving the block ends turns and servers, within 2 s


if __name__ == "__main__":
    trio.run(main, sys.argv[1])
