"""A server that speaks OpenAI Realtime just enough to be the other end of many sockets.

    python benchmarks/servers/realtime_peer.py [SECONDS]

The strict fake checks every message; at 4,000 a second that would be the measurement.
This one trusts its clients. On every socket, over and over: somebody speaks, a
response calls the tool ``look``, and once its result is there and a response is asked
for, one of so many seconds of speech comes, a frame every 20 ms.

It prints its port. Then a line on stdin each, answered by a line of JSON, or none:

    report     what happened since the last report, times on the monotonic clock
    cut        all sockets are cut in this moment, without a word
    away 2.0   the same, and nobody is let in for so many seconds
"""

from __future__ import annotations

import json
import random
import sys
from base64 import b64encode
from functools import partial
from time import perf_counter, process_time
from typing import Any, Final

from trio_websocket import ConnectionClosed, WebSocketConnection, wrap_server_stream

import trio

FRAME: Final = 0.02  # seconds
PATIENCE: Final = 1.0
THINKS: Final = 0.1  # seconds before it calls, and before somebody speaks again
AUDIO: Final = b64encode(bytes(960)).decode()  # 20 ms at 24 kHz
APPEND: Final = '{"type":"input_audio_buffer.append"'

SPEECH = float(sys.argv[1]) if len(sys.argv) > 1 else 2.0

streams: set[trio.SocketStream] = set()
asked_at: dict[str, float] = {}  # by call
told_at: dict[str, float] = {}
attempts: list[float] = []
opened: list[float] = []
cut_at = back_at = 0.0
heard = said = 0
ids = 0


class Session:
    """One socket: the messages on it in both directions."""

    def __init__(self, socket: WebSocketConnection) -> None:
        self.socket = socket
        self.ready = trio.Event()
        self.asked = trio.Event()

    async def say(self, kind: str, **fields: Any) -> None:
        await self.socket.send_message(json.dumps({"type": kind, **fields}))

    async def read(self) -> None:
        global heard
        while True:
            message = await self.socket.get_message()
            if isinstance(message, str) and message.startswith(APPEND):
                heard += 1
                continue
            fields = json.loads(message)
            match fields["type"]:
                case "session.update":
                    await self.say("session.updated", session={})
                    opened.append(perf_counter())
                    self.ready.set()
                case "conversation.item.create":
                    item = fields["item"]
                    if item["type"] == "function_call_output":
                        told_at[item["call_id"]] = perf_counter()
                case "response.create":
                    self.asked.set()
                case _:
                    pass

    async def talk(self) -> None:
        await self.ready.wait()
        await trio.sleep(random.uniform(0, SPEECH))
        while SPEECH:
            await self.listen()
            await trio.sleep(THINKS)
            self.asked = trio.Event()  # a late request is for another response
            await self.call()
            with trio.move_on_after(PATIENCE):
                await self.asked.wait()
            if self.asked.is_set():  # else its client turned the turn away
                await self.speak()
            await trio.sleep(THINKS)

    async def listen(self) -> None:
        item = _new("item")
        await self.say("input_audio_buffer.speech_started", item_id=item)
        await self.say("input_audio_buffer.speech_stopped", item_id=item)
        await self.say("input_audio_buffer.committed", item_id=item)
        kind = "conversation.item.input_audio_transcription.completed"
        words = "What is there?"
        await self.say(kind, item_id=item, content_index=0, transcript=words)

    async def call(self) -> None:
        response, call = _new("resp"), _new("call")
        item = {
            "id": _new("item"),
            "type": "function_call",
            "status": "completed",
            "call_id": call,
            "name": "look",
            "arguments": json.dumps({"call": call}),
        }
        await self.begin(response, item)
        asked_at[call] = perf_counter()
        await self.end(response, item)

    async def speak(self) -> None:
        global said
        response = _new("resp")
        item: dict[str, Any] = {"id": _new("item"), "type": "message"}
        item |= {"role": "assistant", "status": "in_progress", "content": []}
        await self.begin(response, item)
        at = {"response_id": response, "item_id": item["id"]}
        at |= {"output_index": 0, "content_index": 0}
        words = "A door."
        await self.say("response.output_audio_transcript.delta", **at, delta=words)
        frame = json.dumps(
            {"type": "response.output_audio.delta", **at, "delta": AUDIO}
        )
        following = trio.current_time()
        for _ in range(round(SPEECH / FRAME)):
            await self.socket.send_message(frame)
            said += 1
            following += FRAME
            await trio.sleep_until(following)
        part = {"type": "output_audio", "transcript": words}
        await self.end(response, item | {"status": "completed", "content": [part]})

    async def begin(self, response: str, item: dict[str, Any]) -> None:
        running = {"id": response, "status": "in_progress", "output": []}
        await self.say("response.created", response=running)
        at = {"response_id": response, "output_index": 0}
        await self.say("response.output_item.added", **at, item=item)

    async def end(self, response: str, item: dict[str, Any]) -> None:
        at = {"response_id": response, "output_index": 0}
        await self.say("response.output_item.done", **at, item=item)
        whole = {"id": response, "status": "completed", "output": [item]}
        await self.say("response.done", response=whole)


def _new(kind: str) -> str:
    global ids
    ids += 1
    return f"{kind}_{ids}"


async def serve(stream: trio.SocketStream) -> None:
    attempts.append(perf_counter())
    streams.add(stream)
    try:
        async with trio.open_nursery() as nursery:
            request = await wrap_server_stream(nursery, stream)
            if perf_counter() < back_at:
                await request.reject(503)
            else:
                session = Session(await request.accept())
                nursery.start_soon(session.talk)
                await session.say("session.created", session={})
                await session.read()
            nursery.cancel_scope.cancel()
    except* (ConnectionClosed, trio.ClosedResourceError, trio.BrokenResourceError):
        pass
    finally:
        streams.discard(stream)
        await trio.aclose_forcefully(stream)


async def obey(line: str) -> None:
    global cut_at, back_at, heard, said
    order, _, seconds = line.partition(" ")
    if order == "report":
        found = {
            "asked": dict(asked_at),
            "told": dict(told_at),
            "attempts": list(attempts),
            "opened": list(opened),
            "cut": cut_at,
            "heard": heard,
            "said": said,
            "processor": process_time(),
        }
        for old in (asked_at, told_at, attempts, opened):
            old.clear()
        heard = said = 0
        print(json.dumps(found), flush=True)
        return
    cut_at = perf_counter()
    back_at = cut_at + float(seconds or 0)
    for stream in list(streams):
        await trio.aclose_forcefully(stream)


async def main() -> None:
    async with trio.open_nursery() as nursery:
        open_port = partial(trio.serve_tcp, host="127.0.0.1")
        (listener,) = await nursery.start(open_port, serve, 0)
        print(listener.socket.getsockname()[1], flush=True)
        orders = trio.lowlevel.FdStream(0)
        rest = b""
        async for data in orders:
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                await obey(line.decode())
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main)
