"""An NPC that hears a WAV file, and answers into another one.

python docs/examples/talk.py [QUESTION.wav]

Without a question `espeak-ng` asks one. It is heard by pocketsphinx, which understands
what it was told to expect; for free talk use a transcription server (docs/voices.md).
"""

import sys
import wave
from pathlib import Path

import trio

from glyphoxa_trio import open_runtime
from glyphoxa_trio.npc import Sentence, Speech, Transcript, TurnDone
from glyphoxa_trio.providers.espeak import Espeak
from glyphoxa_trio.providers.pocketsphinx import Pocketsphinx
from glyphoxa_trio.providers.speech import VoiceStyle

TAVERN = Path(__file__).parents[2] / "config" / "tavern.yaml"
EXPECTED = ("What does blinded mean?", "What does charmed mean?", "Good morning.")


async def main(question: Path | None, answer: Path) -> None:
    rate, pcm = await ask_aloud() if question is None else read(question)
    speech, out = b"", 0
    async with open_runtime(
        TAVERN, synthesizer=Espeak(), recognizer=Pocketsphinx(phrases=EXPECTED)
    ) as runtime:
        async with runtime.npc("Greymantle").voice(speaker="Ann", rate=rate) as voice:
            voice.hear(pcm)  # a microphone would give it bit by bit
            async for event in voice:
                match event:
                    case Transcript(speaker=who, text=text, final=True):
                        print(f"{who}: {text}")
                    case Sentence(text=text):
                        print(f"Greymantle: {text}")
                    case Speech(pcm=piece, rate=out):
                        speech += piece
                    case TurnDone():
                        break
    with wave.open(str(answer), "wb") as file:
        file.setparams((1, 2, out, 0, "NONE", ""))
        file.writeframes(speech)
    print(f"{len(speech) / 2 / out:.1f} s of speech in {answer}")


async def ask_aloud() -> tuple[int, bytes]:
    espeak, voice = Espeak(), VoiceStyle(name="en-us", speed=0.85)
    async with espeak.speak(EXPECTED[0], voice) as pieces:
        return espeak.rate, b"".join([piece async for piece in pieces])


def read(path: Path) -> tuple[int, bytes]:
    with wave.open(str(path)) as file:
        if (file.getnchannels(), file.getsampwidth()) != (1, 2):
            raise SystemExit("PCM16 mono, please")
        return file.getframerate(), file.readframes(file.getnframes())


if __name__ == "__main__":
    given = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    trio.run(main, given, Path("answer.wav"))
