"""Tell stage directions, which are not spoken, from emphasis, which is. Pure.

Both are written in single asterisks or underscores: ``*waves* Come in!`` has a stage
direction, ``I *never* lie.`` has emphasis. A phrase in them is a stage direction

* if it is in brackets: ``*(sighs)*``;
* if it stands where a sentence begins and has a small letter: ``*sighs* fine``;
* if it stands by itself, from the beginning of a sentence to the next one or to the
  end, and has several words or tells an act: ``*Bartok looks up.* You again?``;
* if it tells an act, behind a pause, in brackets or at the very end: ``Well, *shrugs*
  perhaps.``

It is emphasis if it is exclaimed or asked (``*Never!*``), if it is a label
(``*Note:*``) or in quotation marks, and in all other cases. An act is told by a word of
a table.
"""

from __future__ import annotations

import re
from typing import Final

_RUN: Final = re.compile(r"\*+|_+")
_WINDOW: Final = 40  # characters beside a phrase that decide
_STOPS: Final = ".!?…。！？؟।۔։;"  # noqa: RUF001
_PAUSES: Final = ",;:-–—…)،、，"  # noqa: RUF001
_QUOTES: Final = "\"'“”„‟«»‹›‘’‚「」『』"  # noqa: RUF001
_NOT_SPOKEN_SO: Final = "!?:！？؟："  # noqa: RUF001  # the end of emphasis
_BEGINS: Final = "¿¡([*_-–—…#|<"  # noqa: RUF001  # what a new sentence may begin with
# From this character on, scripts have no capitals, and words have no spaces.
_WIDE: Final = "⺀"

# What people do while they speak: the forms that chat models write. English verbs are
# known with their endings.
_ACTS: Final = frozenset(
    re.findall(
        r"\S+",
        """
        bow cackle chuckle clap cough cringe cry curtsey curtsy exhale frown
        gasp gesture giggle glare grimace grin groan growl grumble grunt gulp
        hesitate hiccup hiss hug hum inhale kneel laugh lean leer moan mumble
        murmur mutter nod pause point ponder pout salute scoff scowl scream
        shiver shout shrug shudder sigh smile smirk snarl sneer sneeze sniff
        snicker snore snort sob spit squint stammer stare stutter swallow sweat
        tremble wave whimper whisper whistle wince wink yawn yell blink blush

        seufzt lacht lächelt grinst nickt winkt hustet zwinkert flüstert murmelt
        kichert gähnt schnaubt knurrt brummt stöhnt weint verbeugt räuspert
        runzelt zögert starrt schluckt schmunzelt zuckt schüttelt

        soupire rit sourit hoche tousse chuchote murmure grogne hausse ricane
        pleure bâille salue hésite gémit grimace rigole

        suspira ríe sonríe asiente tose susurra murmura gruñe bosteza guiña
        llora saluda titubea carraspea

        sospira ride sorride annuisce tossisce sussurra mormora sogghigna
        sbadiglia piange saluta esita grugnisce ammicca

        ri sorri acena tosse sussurra resmunga boceja pisca chora cumprimenta
        hesita

        zucht lacht glimlacht knikt hoest fluistert mompelt grijnst geeuwt
        zwaait knipoogt bromt buigt aarzelt

        wzdycha śmieje uśmiecha kiwa kaszle szepcze mruczy chichocze ziewa macha
        mruga płacze kłania

        вздыхает смеётся смеется улыбается кивает кашляет шепчет бормочет
        хихикает зевает машет подмигивает плачет кланяется

        suckar skrattar ler nickar hostar viskar muttrar gäspar vinkar blinkar
        sukker smiler nikker hoster hvisker ler

        αναστενάζει γελάει χαμογελά γνέφει βήχει ψιθυρίζει
        """,
    )
)
# Words that are stressed, also by writers without capitals: without them the sentence
# says the opposite, or nothing.
_STRESSED: Final = frozenset(
    re.findall(
        r"\S+",
        """
        no not never nothing nobody none don't doesn't can't won't always all every
        only very really you your i he she they we it this that now please yes
        nicht nie niemals nichts niemand kein keine immer nur sehr du ich
        pas jamais rien personne toujours nunca nada nadie siempre mai niente nessuno
        sempre ninguém nooit niet nigdy nic никогда не ничего
        """,
    )
)
_ENDINGS: Final = ("s", "es", "ing", "ed", "d")


def stage_directions(text: str, begin: int = 0) -> dict[int, int]:
    """Return where each stage direction in ``text`` begins and ends, with its marks.

    Args:
      text: a sentence as it was written.
      begin: where its words begin, after the sign of a list or the like.
    """
    found: dict[int, int] = {}
    opened: dict[str, int] = {}
    behind = begin  # the end of the last stage direction
    for run in _RUN.finditer(text, begin):
        mark, start, end = run[0][0], run.start(), run.end()
        if end - start not in (1, 3):
            continue
        left, right = (
            text[start - 1 : start] if start > begin else "",
            text[end : end + 1],
        )
        if left == "\\" or (mark == "_" and left.isalnum() and right.isalnum()):
            continue
        at = opened.get(mark)
        if at is not None and left and not left.isspace():
            del opened[mark]
            if _is_act(text, behind, at, end):
                found[at] = behind = end
        elif end - start == 1 and right and not right.isspace() and not left.isalnum():
            opened[mark] = start
    return found


def opens_aside(text: str) -> bool:
    """Return True if ``text`` begins with a phrase in single marks that has no end yet,
    so that its sentences belong together."""
    mark = text[:1]
    if mark not in ("*", "_") or text[1:2] in ("", " ", "\t", mark):
        return False
    at = text.find(mark, 1)
    while at >= 0:
        size = 1
        while text[at + size : at + size + 1] == mark:
            size += 1
        if size != 2 and not text[at - 1].isspace():
            return False
        at = text.find(mark, at + size)
    return True


def _is_act(text: str, begin: int, start: int, end: int) -> bool:
    """Return True if the phrase from ``start`` to ``end`` is a stage direction.

    It is at the beginning if nothing but spaces and quotation marks is before it, from
    ``begin`` on.
    """
    phrase = text[start:end].strip("*_ ")
    if not any(map(str.isalnum, phrase)):
        return False
    if phrase[0] in "([":
        return True
    inner = text[start + 1] + text[end - 2]
    outer = text[max(begin, start - 1) : start] + text[end : end + 1]
    if not inner.strip("*_") or "*" in outer or "_" in outer:
        return False  # marks in marks are emphasis
    if phrase[0] in _QUOTES or phrase[-1] in _NOT_SPOKEN_SO:
        return False
    before = (
        text[max(begin, start - _WINDOW) : start].rstrip().rstrip(_QUOTES + "*_([ ")
    )
    after = text[end : end + _WINDOW].lstrip().lstrip(_QUOTES + ")]")
    paused = before.endswith(("...", "…"))
    act = _tells_an_act(phrase)
    if before and (paused or before[-1] not in _STOPS):
        apart = paused or before[-1] in _PAUSES or not after
        in_brackets = text[start - 1] == "(" and text[end : end + 1] == ")"
        return act and (apart or in_brackets)
    if act or phrase[0].islower():
        return act or phrase.casefold().rstrip(".,") not in _STRESSED
    if phrase[0] >= _WIDE:  # no capitals: a space or the end makes it stand alone
        return not after or text[end].isspace()
    if len(phrase.split(None, 2)) < 2:  # "*Never.* Go away."
        return False
    return (
        not after
        or after[0].isupper()
        or after[0] in _BEGINS
        or (after[0] in _STOPS and not after.strip(_STOPS))
    )


def _tells_an_act(phrase: str) -> bool:
    """Return True if the first word that is no adverb, or the last one, is an act."""
    words = [word.strip(".,…").casefold() for word in phrase.split(None, 6)[:6]]
    first = next((word for word in words if not word.endswith("ly")), "")
    return _is_a_verb_of_acts(first) or (
        len(words) > 1
        and words[0] in ("se", "si", "il", "er", "sie", "he", "she")
        and _is_a_verb_of_acts(words[1])
    )


def _is_a_verb_of_acts(word: str) -> bool:
    if word in _ACTS:
        return True
    for ending in _ENDINGS:
        stem = word.removesuffix(ending)
        if stem != word and (stem in _ACTS or f"{stem}e" in _ACTS):
            return True
    return len(word) > 4 and word[-4:-3] == word[-5:-4] and word[:-4] in _ACTS
