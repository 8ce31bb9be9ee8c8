"""The words of a text and of a query, as the stores compare them. Pure.

Case, accents and points do not matter: "Éloïse" is ``eloise``. Scripts that are written
without spaces have no words that could be read off, so each short part counts: "黑塔的"
becomes ``黑 黑塔 塔 塔的 的``. What one writes with other parts around it is found by
those it has in common. Korean has spaces, and endings on its words; it is read like
these.
"""

from __future__ import annotations

import re
import time
import unicodedata
from collections.abc import Collection, Iterator
from typing import Final

from .errors import QueryRefused

MOST_QUERY: Final = 1000  # characters
MOST_WORDS: Final = 32  # words of a query that count
_WORD: Final = re.compile(r"[^\W_]+")
# English: a line that has only these in common with a query does not match.
_COMMON: Final = """
    a about an and are as at be been but by can did do does for from had has have he
    her him his how i if in is it its me my no not of on or our she so that the their
    them then there they this to us was we were what when where which who why will with
    you your"""
COMMON: Final = frozenset(_COMMON.split())

# Of other languages. Those that mean something in English are left out: "die", "war".
_OTHERS: Final = """
    der das des dem ein eine einen einem einer eines und ist sind nicht auf im mit von
    zu zum zur wo wer wie wann warum welche welcher sich ich er sie wir ihr hat habe
    le la les un une du et est sont dans sur que qui quoi ou dont avec au aux ce cette
    il elle nous vous je tu ne pas quand comment pourquoi
    el los las una y es son en de del con por para que donde quien cuando como se su lo
    o os um uma e do da dos das no na nos nas com onde quem quando
    gli uno di della dello dei che chi dove quando perche sono nel nella
    het een en van zijn waar wie wat wanneer met niet dat deze
    och ar ett av som var vem vad med det inte till pa og er hvor hvem hva hvad
    i w z na do sie jest to nie kto gdzie co kiedy jak ktory ktora pod
    kde kdo je se ve si
    hol van ki mi az egy es
    missa on kuka mika ja
    bir bu ve ile de da mi ne nerede kim icin
    и в на с не что кто где как когда это он она они мы вы я его ее из за по у к о от
    под над а но ли есть был была были який де хто що та і й у це
    ο η το οι τα του τησ των τον την και ειναι που ποιοσ τι σε στο στη στον στην για με
    ένα ενασ μια ενα δεν
    في من على الى عن ما ماذا اين هو هي هل متي كيف التي الذي هذا هذه ان كان كانت يا
    את של על הוא היא איפה מי מה זה זאת אני לא כן מתי איך היכן
    है हैं था थी थे का की के को में से पर ने और क्या कौन कहां कहाँ कब कैसे यह वह
    o dau la ai gi co cua va cac nhung mot trong nguoi khi nao cho
    di mana yang apa siapa dan itu ini ada
    کجاست است که را از در به این
    hvar hver hvenaer er og unde cine este pe cu wapi nani nini ni nasaan sino ang ng sa
    কোথায় কে কি এই ও எங்கே யார் என்ன სად ვინ რა არის და որտեղ ով է եւ
    """  # noqa: RUF001
# Parts of such words where there are no spaces.
_PARTS: Final = """
    的 了 在 是 有 和 与 不 我 你 您 他 她 它 们 這 这 那 哪 里 裡 什 么 麼 吗 嗎 呢 谁
    誰 吧 就 也 都 到 着 個 个 们 哪里 哪裡 什么 什麼 在哪 是谁 是誰 知道 你知 道吗 道嗎
    怎 样
    は の が を に で と も か ね よ な へ や
    何 どこ です ます すか ます でし した まし ょう しょ ある いる です には から まで
    なに だれ れで にい にあ こに こで あり りま はど こに にい いま ます かの こと って
    이 은 는 을 를 에 의 가 도 로 와 과 고 다 니 까 요 있 하 나 그 저 디 누 구 무 엇 어
    들 서 어디 디에 에서 니다 습니 입니 있습 습니다 에요 누구 있나 나요 까요 무엇
    ที ใน มี ได ไม จะ มา ไป ให และ อยู ยู ไห ไร ใค ค อะ ขอ เป นี นั ว่า กั
    ທີ ໃນ ມີ ໄດ ບໍ ຈະ ມາ ໄປ ໃຫ ແລ ຢູ ໃສ ນີ
    នៅ នៃ មាន ជា ទី ណា និ បា នេ
    သည မှာ ကို တွ သို လဲ နေ ၏ မှ
    """

# Letters that have no accent to remove, or that one writes in two ways.
_PLAIN: Final = {
    "ø": "o", "æ": "ae", "œ": "oe", "ł": "l", "đ": "d", "ð": "d", "þ": "th",
    "\u0131": "i", "\u0640": "", "\u0649": "\u064a", "\u06cc": "\u064a",
    "\u06a9": "\u0643", "\u0629": "\u0647",
}  # fmt: skip
# Marks that are not accents: they tell syllables of Japanese, Thai and Lao apart.
_KEPT_CLASSES: Final = (0, 8, 103, 118)

_HAN: Final = (
    "\u2e80-\u2fdf\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff"
)
_HIRAGANA: Final = "\u3041-\u309f"
_KATAKANA: Final = "\u30a0-\u30ff\u31f0-\u31ff\uff66-\uff9f"
_HANGUL: Final = "\u1100-\u11ff\ua960-\ua97f\uac00-\ud7ff"
# Thai and Lao, Burmese, Khmer, and smaller ones that are written in the same way.
_SYLLABIC: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u1950-\u19df\u1a20-\u1aaf\u1b00-\u1b7f"
    "\ua980-\ua9ff\uaa60-\uaadf"
)
_SECTION: Final = re.compile(
    f"(?P<han>[{_HAN}][{_HAN}\ufe00-\ufe0f]*)"
    f"|(?P<hiragana>[{_HIRAGANA}][{_HIRAGANA}\u30fc]*)"
    f"|(?P<katakana>[{_KATAKANA}][{_KATAKANA}\u3099\u309a]*)"
    f"|(?P<hangul>[{_HANGUL}]+)"
    f"|(?P<syllabic>[{_SYLLABIC}]+)"
    f"|(?P<spaced>[^{_HAN}{_HIRAGANA}{_KATAKANA}{_HANGUL}{_SYLLABIC}]+)"
)
_SPACELESS: Final = re.compile(f"[{_HAN}{_HIRAGANA}{_KATAKANA}{_HANGUL}{_SYLLABIC}]")
# A syllable of Hangul, composed or not; a consonant with the vowels around it, which
# Thai and Lao write as letters; or any other character with its marks.
_PART: Final = re.compile(
    "[\u1100-\u115f][\u1160-\u11a7]*[\u11a8-\u11ff]*|[\uac00-\ud7a3][\u11a8-\u11ff]*"
    "|[\u0e40-\u0e44\u0ec0-\u0ec4]?."
    "(?:[\u0e30-\u0e3a\u0e45-\u0e4e\u0eb0-\u0ebc\u0ec8-\u0ece"
    "\u102b-\u103e\u1056-\u1059\u105e-\u1060\u1062-\u1064\u1067-\u106d\u1071-\u1074"
    "\u1082-\u108d\u17b4-\u17d3\u17dd\u1a55-\u1a7f\u1b34-\u1b44\ua9b3-\ua9c0"
    "\u3099\u309a\uff9e\uff9f\ufe00-\ufe0f]|[\u1039\u17d2\ua9c0].)*"
)


class _Folding(dict[int, str]):
    """Table of what replaces each character of a decomposed and casefolded text."""

    def __missing__(self, code: int) -> str:
        self[code] = plain = self._of(chr(code))
        return plain

    def _of(self, letter: str) -> str:
        if letter in _PLAIN:
            return _PLAIN[letter]
        kind = unicodedata.category(letter)
        if kind[0] == "M":
            kept = unicodedata.combining(letter) in _KEPT_CLASSES and kind != "Me"
            return "" if not kept or "\ufe00" <= letter <= "\ufe0f" else letter
        if kind == "Cf":  # a soft hyphen, a joiner, a direction
            return ""
        if kind == "Nd":
            return str(unicodedata.decimal(letter))
        return letter if letter.isalnum() else " "


_FOLDING: Final = _Folding()


def plain_letters(text: str) -> str:
    """Return a text in small letters without accents, and with spaces between words."""
    # Mathematical letters have a small form only after they are decomposed, and small
    # forms may have to be decomposed again.
    plain = unicodedata.normalize("NFKD", text).casefold()
    plain = unicodedata.normalize("NFKD", plain)
    return unicodedata.normalize("NFC", plain.translate(_FOLDING))


# COMMON is for names as well, in which "la" and "van" are no reason to look away.
_SELDOM_TELLING: Final = COMMON.union(plain_letters(_OTHERS + _PARTS).split())


def words_of(text: str) -> list[str]:
    """Return the words of a text: casefolded, without accents, in order."""
    if text.isascii():
        return _WORD.findall(text.lower())
    plain = plain_letters(text)
    words = [x for x in plain.split() if x.isalnum() or any(map(str.isalnum, x))]
    if _SPACELESS.search(plain) is None:
        return words
    return [part for word in words for part in _parts_of(word)]


def parts_of(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield the parts by which names are found in a word, with their places in it.

    A part is a character of Chinese, a syllable of Korean or Thai, or else a word: one
    in the Latin script, or a foreign one that Japanese writes in katakana.
    """
    for section in _SECTION.finditer(text):
        if section.lastgroup in ("spaced", "katakana"):
            yield section.lastgroup, section.start(), section.end()
        else:
            for part in _PART.finditer(text, section.start(), section.end()):
                yield section.lastgroup or "", part.start(), part.end()


def has_no_spaces(text: str) -> bool:
    """Return True if a text has letters of a script without spaces, or of Korean."""
    return _SPACELESS.search(text) is not None


def is_korean(text: str) -> bool:
    """Return True if a text begins with a syllable of Hangul."""
    return "\uac00" <= text[:1] <= "\ud7a3"


def _parts_of(word: str) -> Iterator[str]:
    for section in _SECTION.finditer(word):
        sort, whole = section.lastgroup, section[0]
        if sort == "spaced":
            if any(map(str.isalnum, whole)):
                yield whole
            continue
        parts = _PART.findall(whole)
        if len(parts) == 1:
            yield whole
            continue
        for n, part in enumerate(parts):
            # Alone, a syllable of kana or a letter without a vowel tells nothing.
            if sort in ("han", "hangul") or (sort == "syllabic" and len(part) > 1):
                yield part
            if n + 1 < len(parts):
                yield part + parts[n + 1]


def words_in_line(text: str, corrected: str) -> list[str]:
    """Return the words of a line, and those of its correction that are new."""
    words = words_of(text)
    if corrected:
        said = set(words)
        words += [word for word in words_of(corrected) if word not in said]
    return words


def folded(name: str) -> str:
    """Return the words of a name as one text, by which names are compared."""
    return " ".join(words_of(name))


def words_in_query(query: str) -> tuple[list[str], list[str]]:
    """Return all different words of a query, and those that are not common.

    Raises:
      QueryRefused: there is no word in it, or it is longer than 1,000 characters.
    """
    if len(query) > MOST_QUERY:
        raise QueryRefused(f"the query has more than {MOST_QUERY} characters")
    words = list(dict.fromkeys(words_of(query)))
    if not words:
        raise QueryRefused("the query has no word in it; give one or more words")
    telling = [x for x in words if x not in _SELDOM_TELLING]
    return words[:MOST_WORDS], (telling or words)[:MOST_WORDS]


def evening_name(session: str, at: float, taken: Collection[str]) -> str:
    """Return an id for an evening of a session that is not among those ``taken``."""
    day = time.strftime("%Y-%m-%d", time.localtime(at))
    name, number = f"{session}-{day}", 1
    while name in taken:
        number += 1
        name = f"{session}-{day}-{number}"
    return name
