"""The picture of a spoken answer: what each part of the wait costs.

    python docs/pictures/talk.py [FILE]

The command `glyphoxa talk` is run with WAV files in place of devices: espeak-ng asks
eight times, silero detects, pocketsphinx recognizes and espeak-ng answers, for a model
that begins at once. Then the same with a shorter `turn_taking.end_ms`, and with a
speech-to-speech model's protocol at a fake of its server. So it is what this runtime
and this machine add to a model; the bars are medians, and differ from machine to
machine. It takes four minutes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final
from xml.sax.saxutils import escape

import trio

from glyphoxa_trio.providers.audio import bytes_of
from glyphoxa_trio.providers.espeak import Espeak
from glyphoxa_trio.providers.speech import VoiceStyle
from glyphoxa_trio.providers.wav import wav
from glyphoxa_trio.testing.model_server import SayText, open_model_server
from glyphoxa_trio.testing.realtime_server import Speak, open_realtime_server

FILE: Final = Path(__file__).with_suffix(".svg")
QUESTION, ANSWER = "What does blinded mean?", "Good morning."
TIMES, PAUSE = 8, 4.0  # questions, and seconds after each
PARTS: Final = {
    "detected": "#8aa0b8",
    "recognized": "#5b7fa6",
    "model": "#2a8f7b",
    "voice": "#c9922e",
    "device": "#b8621b",
}
TITLE: Final = "From the end of a question to the first sound of its answer"
BELOW: Final = (
    "glyphoxa talk, medians, with a model that answers at once: what a real one takes"
    " is added."
)
BOLD: Final = 'font-weight="600" font-size="15"'
COMMAND: Final = "from glyphoxa_trio.cli import main; main()"


async def question(path: Path) -> None:
    """Write the questions into a WAV file."""
    espeak = Espeak()
    async with espeak.speak(QUESTION, VoiceStyle(name="en-us", speed=0.85)) as pieces:
        pcm = b"".join([piece async for piece in pieces])
    spoken = pcm + bytes(bytes_of(PAUSE, espeak.rate))
    await trio.Path(path).write_bytes(wav(spoken * TIMES, espeak.rate))


async def measured(folder: Path, config: dict[str, Any]) -> list[dict[str, int]]:
    """Return the latencies of a run, in milliseconds."""
    path = trio.Path(folder / "talk.json")
    await path.write_text(json.dumps(config))
    words = ["talk", path, "--file-in", folder / "q.wav", "--loudspeaker", "null"]
    ran = await trio.run_process(
        [sys.executable, "-c", COMMAND, *words, "--json"], capture_stdout=True
    )
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    return [line for line in lines if line["event"] == "TurnLatency"]


async def rows() -> list[tuple[str, dict[str, float], int]]:
    """Return the name of each way, the medians of its parts, and of how many turns."""
    made = []
    with TemporaryDirectory() as name:
        folder = Path(name)
        await question(folder / "q.wav")
        async with (
            open_model_server(lambda _: SayText(ANSWER)) as server,
            open_realtime_server(lambda _: Speak(ANSWER, ms=800)) as spoken,
        ):
            reads: dict[str, Any] = {
                "npcs": [{"name": "Greymantle"}],
                "llm": {
                    "provider": "chat_completions",
                    "model": "m",
                    "base_url": server.base_url,
                },
                "speech": {
                    "recognition": {
                        "provider": "pocketsphinx",
                        "phrases": [QUESTION, ANSWER],
                    }
                },
            }
            speaks: dict[str, Any] = {
                "npcs": [{"name": "Bartok", "engine": "s2s"}],
                "s2s": {
                    "provider": "openai_realtime",
                    "model": "gpt-realtime-2",
                    "base_url": spoken.base_url,
                    "api_key": "none",
                },
            }
            for title, config in (
                ("reads and writes", reads),
                ("the same, end_ms: 300", {**reads, "turn_taking": {"end_ms": 300}}),
                ("speech to speech", speaks),
            ):
                found = await measured(folder, config)
                parts = {
                    part: median(line.get(f"{part}_ms", 0) for line in found)
                    for part in PARTS
                }
                made.append((title, parts, len(found)))
    return made


def drawn(found: Sequence[tuple[str, dict[str, float], int]]) -> str:
    """Return the picture as SVG."""
    width, left, top, row = 860, 190, 84, 54
    height = top + row * len(found) + 50
    longest = max(sum(parts.values()) for _, parts, _ in found)
    scale = (width - left - 110) / longest
    ink, grey = "#1f2933", "#6b7784"
    body = [
        f'<text x="24" y="34" fill="{ink}" {BOLD}>{TITLE}</text>',
        f'<text x="24" y="56" fill="{grey}">{BELOW}</text>',
    ]
    facts = []
    for at, (title, parts, count) in enumerate(found):
        x, y = float(left), top + at * row
        body.append(
            f'<text x="{left - 14}" y="{y + 16}" fill="{ink}" text-anchor="end">'
            f"{escape(title)}</text>"
        )
        for part, value in parts.items():
            body.append(
                f'<rect x="{x:.1f}" y="{y}" width="{value * scale:.1f}" height="22"'
                f' fill="{PARTS[part]}"/>'
            )
            x += value * scale
        said = ", ".join(
            f"{name} {value:.0f}" for name, value in parts.items() if value
        )
        total = sum(parts.values())
        body.append(
            f'<text x="{x + 8:.1f}" y="{y + 16}" fill="{ink}">{total:.0f} ms</text>'
        )
        body.append(f'<text x="{left}" y="{y + 39}" fill="{grey}">{said}</text>')
        facts.append(f"{title}: {said}, together {total:.0f} ms; {count} answers.")
    x, y = float(left), height - 22
    for part, colour in PARTS.items():
        body.append(
            f'<rect x="{x:.0f}" y="{y - 11}" width="12" height="12" fill="{colour}"/>'
            f'<text x="{x + 18:.0f}" y="{y}" fill="{grey}">{part}</text>'
        )
        x += 110
    lines = "\n".join(body)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
        f' width="{width}" height="{height}" role="img" font-size="13"'
        ' font-family="system-ui, -apple-system, Segoe UI, Roboto, DejaVu Sans,'
        ' sans-serif">\n<title>The wait for a spoken answer</title>\n'
        f"<desc>{escape(' '.join(facts))}</desc>\n"
        f'<rect width="{width}" height="{height}" rx="8" fill="#fff"'
        f' stroke="#e4e8ec"/>\n{lines}\n</svg>\n'
    )


async def main(path: Path) -> None:
    """Measure, and draw."""
    found = await rows()
    await trio.Path(path).write_text(drawn(found))
    for title, parts, count in found:
        print(f"{title} ({count} answers): {parts}")
    print(path)


if __name__ == "__main__":
    trio.run(main, Path(sys.argv[1]) if len(sys.argv) > 1 else FILE)
