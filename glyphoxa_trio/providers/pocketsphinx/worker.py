"""The worker process: audio in, words out (see `wire`). One for each microphone.

It is run as a program, with a JSON object of options as its argument. It ends when its
stdin does.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, Final

from glyphoxa_trio.providers.endpointing import RATE
from glyphoxa_trio.providers.pocketsphinx.wire import LENGTH, grammar, line, words_of

_SILENCE: Final = bytes(2 * RATE * 3 // 10)
_OFTEN: Final = 4800  # bytes of audio (0.15 s) between two reports of partial words


def main() -> None:
    """Run the worker."""
    options = json.loads(sys.argv[1])
    try:
        decoder = _decoder(options["phrases"])
    except (ImportError, RuntimeError, ValueError) as error:
        sys.exit(str(error))
    _say(ready=True)
    utterance = False
    last, unseen = "", 0
    while (pcm := _packet()) is not None:
        if pcm:
            if not utterance:
                decoder.start_utt()
                utterance, last, unseen = True, "", 0
            decoder.process_raw(pcm, False, False)
            unseen += len(pcm)
            if unseen >= _OFTEN:
                unseen = 0
                words = _words(decoder)
                if words and words != last:
                    last = words
                    _say(partial=words)
        else:
            if utterance:
                # A microphone may stop in the middle of the last sound.
                decoder.process_raw(_SILENCE, False, False)
                decoder.end_utt()
            _say(final=_words(decoder) if utterance else "")
            utterance = False


def _decoder(phrases: list[str]) -> Any:
    """Return a decoder for these phrases; for free speech if there are none.

    Raises:
      ValueError: if the model does not know a word.
    """
    from pocketsphinx import Decoder

    if not phrases:
        return Decoder(samprate=RATE, loglevel="FATAL")
    # With a grammar, the second search takes paths that do not reach the grammar's end.
    decoder = Decoder(samprate=RATE, loglevel="FATAL", lm=None, bestpath=False)
    words = [word for phrase in phrases for word in words_of(phrase)]
    unknown = sorted({word for word in words if decoder.lookup_word(word) is None})
    if unknown:
        raise ValueError(f"it does not know the words {', '.join(unknown)}")
    decoder.add_jsgf_string("phrases", grammar(phrases))
    decoder.activate_search("phrases")
    return decoder


def _words(decoder: Any) -> str:
    """Return the words so far."""
    found = decoder.hyp()
    return "" if found is None else str(found.hypstr)


def _packet() -> bytes | None:
    """Read a packet; None at the end of stdin."""
    head = sys.stdin.buffer.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (length,) = LENGTH.unpack(head)
    return sys.stdin.buffer.read(length)


def _say(**said: Any) -> None:
    """Write a line."""
    os.write(1, line(**said))


if __name__ == "__main__":
    main()
