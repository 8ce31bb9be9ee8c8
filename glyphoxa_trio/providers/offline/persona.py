"""Read who an NPC is from its prompt, and put it into the first person.

Only sentences that say who it is are taken. Secrets, rules and instructions about how
to speak are not for players, and are left out; so is what cannot be turned safely.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import attrs

_NAME: Final = re.compile(
    r"\b(?:[Yy]ou are|[Yy]ou're|[Nn]ame is|[Nn]ame:|called)\s+"
    r"(?P<name>[A-Z][\w'-]*(?: (?:(?:the|of|von|van|de|der|la|al) )*[A-Z][\w'-]*)*)"
)
_HEADING: Final = re.compile(
    r"^#*\s*\**(?P<title>[A-Z][\w ,']{1,70}?)\**:\**\s*(?P<rest>.*)$"
)
# The sections that are for players, by what becomes of them.
_SECTIONS: Final = {
    "traits": r"who you are|personality|identity|role|background|occupation|job|persona"
    r"|backstory|character|about you|description|profession|biography",
    "knowledge": "what you know about|knowledge",
    "scene": "(?:the )?(?:scene|setting|situation|place)",
}
# From here on, the rest of the paragraph is not for players.
_HIDDEN_REST: Final = re.compile(
    r"(?is)\b(?:secrets?|hidden|private(?:ly)?|do not reveal|spoilers?|gm only|dm only"
    r"|instructions?|style|rules|notes?|important|output|format)\s*:.*"
)
_UNSPOKEN: Final = re.compile(
    r"(?i)\b(?:secret\w*|hidden|hid(?:es|ing)?|conceal\w*|lie[sd]?|lying|pretend\w*"
    r"|reveal\w*|password|disguise\w*|spy|spies|actually|in truth|in reality"
    r"|no ?(?:one|body) (?:knows|else|must|may)|never (?:tell|say|mention|speak)\w*"
    r"|covert\w*|betray\w*|traitor|murdere[rd]|plot\w*|only if|unless|must|should"
    r"|dm|gm|game master|do not|don't|always answer|respond\w*|repl(?:y|ies)"
    r"|markdown|markup|sentences?"
    r"|prompt|instruct\w*|assistant|language model|tools?|player characters?|format"
    r"|in character|npc|rpg|your answers?|words per|concise\w*|role-?play\w*)\b"
)
_ORDERS: Final = re.compile(
    r"(?i)^(?:speaks?|talks?|answers?|says?|uses?|keep (?:your|it|answers)|be|never"
    r"|always|avoid|stay|remember|greet|help|if|when|act|sound|begin|end|refuse|ask|call"
    r"|you (?:speak|talk|answer|say|use|never|always|will|can|may|greet|are to|help"
    r"|know that the player|are (?:talking|speaking))\b)\b"
)
_FRAME: Final = re.compile(
    r"(?i),? (?:a|an|the) (?:non-player )?(?:character|npc)(?: in| of)? .{0,60}?"
    r"(?:game|rpg|campaign|adventure|world)\b"
)
_MOST_SAID: Final = 220  # characters of one sentence
_IRREGULAR: Final = {"has": "have", "is": "am", "was": "was", "does": "do"}
_NO_NAMES: Final = re.compile(
    r"(?:The|An?|One|Born|Raised|Trained|Sworn|Exiled|Cursed|Blessed)\b|[A-Z][\w-]*,"
)
# A later verb of a sentence: "keeps the inn, and talks too much".
_MORE_VERBS: Final = re.compile(
    r"((?:, (?:and )?|\band )(?:never )?)(\w+s)(?= (?:the|an?|every|each|all|too|about"
    r"|it|his|her|their|to|that|what|who|how|when|no|nothing|every\w+|any|from|up|out"
    r"|with|for)\b)"
)


@attrs.frozen(kw_only=True)
class Persona:
    """An NPC as it may speak of itself.

    ``traits`` are sentences in the first person, ``knowledge`` what it is asked about,
    ``scene`` what is so around it.
    """

    name: str = ""
    traits: tuple[str, ...] = ()
    knowledge: tuple[str, ...] = ()
    scene: tuple[str, ...] = ()

    @property
    def first_name(self) -> str:
        return self.name.partition(" the ")[0].partition(" of ")[0]


def persona_of(prompt: str) -> Persona:
    """Return who a prompt introduces."""
    named = _NAME.search(prompt)
    name = named["name"] if named else ""
    found: dict[str, list[str]] = {kind: [] for kind in _SECTIONS}
    for kind, sentence in _sentences(prompt):
        if kind == "knowledge":
            sentence = _lowered(sentence.rstrip("."))
        elif kind != "scene":
            sentence = first_person(sentence, name, bare=bool(kind))
            sentence = sentence.replace(f"I am {name}, ", "I am ", 1)
        # The bare name is said when it is asked for.
        if sentence and sentence != f"I am {name}.":
            found[kind or "traits"].append(sentence)
    return Persona(name=name, **{x: tuple(dict.fromkeys(y)) for x, y in found.items()})


def _sentences(prompt: str) -> Iterator[tuple[str, str]]:
    """Yield the sentences that may be spoken, each with the kind of its section."""
    for paragraph in re.split(r"\n\s*\n", prompt):
        kind: str | None = ""
        for line in map(str.strip, paragraph.splitlines()):
            item = line.lstrip("-*• ") if line[:1] in "-*•" else ""
            if not item and (found := _HEADING.match(line)):
                title, line = found["title"].strip(), found["rest"]
                kinds = (x for x, of in _SECTIONS.items() if _is(of, title))
                kind = next(kinds, None)
            elif not item and kind is None:
                break
            if kind is None:  # a section that is not for players
                continue
            shown = _FRAME.sub("", _HIDDEN_REST.sub("", item or line))
            for sentence in re.split(r"(?<=[.!?])\s+", shown):
                if sentence and not _UNSPOKEN.search(sentence):
                    yield kind, sentence
            if _HIDDEN_REST.search(line):
                break


def _is(pattern: str, title: str) -> bool:
    return re.fullmatch(pattern, title, re.IGNORECASE) is not None


def first_person(sentence: str, name: str, *, bare: bool = True) -> str:
    """Return a sentence about the NPC as its own; empty if that is not safe.

    ``bare``: it may have no subject, as "A halfling who runs the inn" or "Runs it".
    """
    text = " ".join(sentence.split()).rstrip(".!")
    if not text or len(text) > _MOST_SAID or _ORDERS.match(text):
        return ""
    if re.match(r"You(?:'re)? ", text):
        text = re.sub(r"^You(?:'re| are) ", "I am ", text).replace("You ", "I ", 1)
        text = re.sub(r"\b(and|but|,) you are\b", r"\1 I am", text)
        text = re.sub(r"\b(and|but|,|which|that|what|where) you\b", r"\1 I", text)
        return _mine(text, "your", "you")
    subjects = (name, name.partition(" ")[0], "He", "She", "They")
    subject = next((x for x in subjects if x and text.startswith(f"{x} ")), "")
    if not subject and not bare:
        return ""
    if said := _conjugated(text.removeprefix(f"{subject} ") if subject else text):
        others = {"She": ("her", "her"), "They": ("their", "them")}
        return _mine(f"I {said}", *others.get(subject, ("his", "him")))
    if subject:
        return ""
    parts = re.split(r",? and |, ", text)
    if re.match(r"(?:An?|The|One of) ", text) or (
        len(parts) > 1 and all(re.fullmatch(r"[A-Za-z-]+", part) for part in parts)
    ):
        return f"I am {_lowered(text)}."
    return f"I was {_lowered(text)}." if _NO_NAMES.match(text) else ""


def _conjugated(text: str) -> str:
    """Return "Keeps the inn and talks too much" as "keep the inn and talk too much"."""
    verb, _, rest = text.partition(" ")
    plain = _infinitive(verb.lower())
    if not plain or not rest:
        return ""
    rest = _MORE_VERBS.sub(lambda x: x[1] + (_infinitive(x[2]) or x[2]), rest)
    return f"{plain} {rest}"


def _infinitive(verb: str) -> str:
    """Return the verb of "he keeps"; empty if it is none."""
    if verb in _IRREGULAR:
        return _IRREGULAR[verb]
    if not verb.endswith("s") or verb.endswith(("ss", "us", "is")) or len(verb) < 4:
        return ""
    if verb.endswith("ies"):
        return f"{verb[:-3]}y"
    return verb[: -2 if re.search(r"(?:sh|ch|x|ss|zz|o)es$", verb) else -1]


def _mine(text: str, own: str, them: str) -> str:
    """Return a sentence with "my" and "me" for these words."""
    text = re.sub(rf"\b{them}\b", "me", re.sub(rf"\b{own}(?= \w)", "my", text))
    return text if text.endswith("?") else f"{text}."


def _lowered(text: str) -> str:
    """Return a text with a small first letter, if its first word is no name."""
    return text[:1].lower() + text[1:] if _NO_NAMES.match(text) else text
