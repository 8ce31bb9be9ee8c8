"""What the tests of vendors' speech run, in the environment of their SDKs.

    PYTHONPATH=. tests/frameworks/.voices/bin/python \
        -m tests.frameworks.voices_program deepgram|elevenlabs|types ...

It imports nothing of ours. It prints one line of JSON: what the SDK saw. Nothing is
judged here but types, by the SDKs' own models.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
import sys
from array import array
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from deepgram import AsyncDeepgramClient
from deepgram.core.api_error import ApiError as DeepgramError
from deepgram.environment import DeepgramClientEnvironment
from deepgram.listen.v2.socket_client import V2SocketClientResponse
from elevenlabs.client import ElevenLabs
from elevenlabs.core.api_error import ApiError as ElevenLabsError
from elevenlabs.types.audio_output import AudioOutput
from elevenlabs.types.close_connection import CloseConnection
from elevenlabs.types.final_output import FinalOutput
from elevenlabs.types.initialize_connection import InitializeConnection
from elevenlabs.types.send_text import SendText
from pydantic import BaseModel, ValidationError

RATE = 16_000


def loud(seconds: float) -> bytes:
    return array("h", [4000, -4000] * int(seconds * RATE / 2)).tobytes()


def quiet(seconds: float) -> bytes:
    return bytes(2 * int(seconds * RATE))


async def understand(base_url: str, key: str) -> dict[str, Any]:
    """Two utterances, of which the second is ended by hand."""
    ws = base_url.replace("http", "ws", 1)
    environment = DeepgramClientEnvironment(
        base=base_url, production=ws, agent=ws, agent_rest=base_url
    )
    client = AsyncDeepgramClient(api_key=key, environment=environment)
    seen: list[tuple[str, str, str]] = []
    try:
        async with client.listen.v2.connect(
            model="flux-general-multi",
            encoding="linear16",
            sample_rate=RATE,
            eager_eot_threshold=0.5,
            keyterm=["Moira", "Sir Vex"],
            language_hint=["en"],
        ) as connection:
            await connection.send_configure(
                {"type": "Configure", "thresholds": {"eot_threshold": 0.7}}
            )
            said = loud(1.0) + quiet(0.7) + loud(0.6)
            for at in range(0, len(said), 2560):
                await connection.send_media(said[at : at + 2560])
            await connection.send_force_end_turn()
            await connection.send_close_stream()
            async for message in connection:
                kind = type(message).__name__
                event, text = (
                    getattr(message, name, "") for name in ("event", "transcript")
                )
                seen.append((kind, str(event), str(text)))
    except DeepgramError as error:
        return {"status": error.status_code}
    return {"seen": seen}


def speak(base_url: str, key: str) -> dict[str, Any]:
    """One sentence, in the pieces of a model."""
    client = ElevenLabs(api_key=key, base_url=base_url)
    speech = client.text_to_speech
    # It would use TLS whatever the address says.
    speech._ws_base_url = base_url.replace("http", "ws", 1)

    def text() -> Iterator[str]:
        yield from ("It sleeps ", "below ", "the hill.")

    try:
        pieces = list(
            speech.convert_realtime(
                "Rachel", text=text(), model_id="eleven_v3", output_format="pcm_24000"
            )
        )
    except ElevenLabsError as error:
        return {"status": error.status_code, "body": str(error.body)}
    except Exception as error:  # the refusal of a handshake comes as it is
        return {"refused": f"{type(error).__name__}: {error}"}
    pcm = b"".join(pieces)
    return {"bytes": len(pcm), "sha": hashlib.sha256(pcm).hexdigest()}


def strictly(model: type[BaseModel], message: dict[str, Any]) -> str:
    """What is wrong with a message; empty if nothing is. Unknown fields are."""
    try:
        model.model_validate(message, strict=True)
    except ValidationError as error:
        return str(error)
    known = {x.alias or name for name, x in model.model_fields.items()}
    known |= set(model.model_fields)
    for field in model.model_fields.values():
        for note in field.metadata:
            known.add(getattr(note, "alias", ""))
    unknown = set(message) - known
    return f"unknown: {sorted(unknown)}" if unknown else ""


def judge(found: dict[str, list[Any]]) -> dict[str, list[str]]:
    """What the SDKs' types say against messages and addresses; nothing is best."""
    problems: dict[str, list[str]] = {}

    def check(name: str, *models: type[BaseModel]) -> None:
        for message in found.get(name, []):
            said = [strictly(model, message) for model in models]
            if all(said):
                problems.setdefault(name, []).append(f"{list(message)}: {said}")

    check("deepgram_server", *V2SocketClientResponse.__args__)
    check("elevenlabs_server", AudioOutput, FinalOutput)
    check("elevenlabs_client", InitializeConnection, SendText, CloseConnection)
    parameters = inspect.signature(AsyncDeepgramClient(api_key="k").listen.v2.connect)
    for path in found.get("deepgram_paths", []):
        asked = {name for name, _ in parse_qsl(urlsplit(path).query)}
        if unknown := asked - set(parameters.parameters):
            problems.setdefault("deepgram_paths", []).append(str(sorted(unknown)))
    return problems


def main() -> None:
    match sys.argv[1:]:
        case ["deepgram", base_url, key]:
            seen: Any = asyncio.run(understand(base_url, key))
        case ["elevenlabs", base_url, key]:
            seen = speak(base_url, key)
        case ["types"]:
            seen = judge(json.load(sys.stdin))
        case other:
            raise SystemExit(f"what is {other}?")
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
