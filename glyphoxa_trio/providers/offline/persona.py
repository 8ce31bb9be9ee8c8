"""Read who an NPC is from its prompt, and put it into the first person.

Only sentences that say who it is are taken. Secrets, rules and instructions about how
to speak are not for players, and are left out; so is what cannot be turned safely.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import attrs

from .utterance import words_in

_NAME: Final = re.compile(
    r"\b(?:[Yy]ou are|[Yy]ou're|[Nn]ame is|[Nn]ame:|called)\s+"
    r"(?P<name>[A-Z][\w'-]*(?: (?:(?:the|of|von|van|de|der|la|al) )*[A-Z][\w'-]*)*)"
)
_HEADING: Final = re.compile(
    r"^#*\s*\**(?P<title>[A-Z][\w ,']{1,70}?)\**:\**\s*(?P<rest>.*)$"
)
_ABOUT_ONESELF: Final = re.compile(
    r"(?i)^(?:who you are|personality|identity|role|background|occupation|job|backstory"
    r"|character|about you|description|profession|biography|persona)$"
)
_KNOWLEDGE: Final = re.compile(r"(?i)^(?:what you know about|knowledge)$")
_SCENE: Final = re.compile(r"(?i)^(?:the )?(?:scene|setting|situation|place)$")
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
    r"|in character|your answers?|words per|concise\w*|role-?play\w*)\b"
)
_ORDERS: Final = re.compile(
    r"(?i)^(?:speaks?|talks?|answers?|says?|uses?|keep (?:your|it|answers)|be|never"
    r"|always|avoid|stay|remember|greet|help|if|when|act|sound|begin|end|refuse|ask|call"
    r"|you (?:speak|talk|answer|say|use|never|always|will|can|may|greet|are to|help"
    r"|know that the player|are (?:talking|speaking))\b)\b"
)
_FRAME: Final = re.compile(
    r"(?i),? (?:a|an|the) (?:non-player )?(?:character|npc)(?: in| of)? .*?"
    r"(?:game|rpg|campaign|adventure|world)\b"
)
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+")
_MOST_SAID: Final = 220  # characters of one sentence
_IRREGULAR: Final = {"has": "have", "is": "am", "was": "was", "does": "do"}
_NO_NAMES: Final = words_in(
    "the a an one how what where who every all his her their your born raised"
    " trained sworn exiled cursed blessed"
)
_AFTER_A_VERB: Final = (
    "the|a|an|every|each|all|too|about|it|his|her|their|to|that|what|who|how|when|no"
    "|nothing|everything|everyone|any|from|up|out|with|for"
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
    traits: list[str] = []
    knowledge: list[str] = []
    scene: list[str] = []
    for title, sentence in _sentences(prompt):
        if _KNOWLEDGE.match(title):
            knowledge.append(_lowered(sentence.rstrip(".")))
        elif _SCENE.match(title):
            scene.append(sentence)
        else:
            said = first_person(sentence, name, bare=bool(title))
            traits.append(said.replace(f"I am {name}, ", "I am ", 1))
    return Persona(
        name=name,
        # The bare name is said when it is asked for.
        traits=tuple(dict.fromkeys(x for x in traits if x and x != f"I am {name}.")),
        knowledge=tuple(knowledge),
        scene=tuple(scene),
    )


def _sentences(prompt: str) -> Iterator[tuple[str, str]]:
    """Yield the sentences that may be spoken, each with the heading above it."""
    title: str | None = ""
    for paragraph in re.split(r"\n\s*\n", prompt):
        title = ""
        for line in paragraph.splitlines():
            line = line.strip()
            item = line.lstrip("-*• ") if line[:1] in "-*•" else ""
            if not item and (found := _HEADING.match(line)):
                title, line = found["title"].strip(), found["rest"]
                if not any(
                    x.match(title) for x in (_ABOUT_ONESELF, _KNOWLEDGE, _SCENE)
                ):
                    title = None
            if title is None:  # a section that is not for players
                if not item and not found:
                    break
                continue
            hidden = _HIDDEN_REST.search(line)
            shown = _HIDDEN_REST.sub("", item or line)
            for sentence in _SENTENCE.split(shown):
                if (one := sentence.strip()) and not _UNSPOKEN.search(_framed(one)):
                    yield title, one
            if hidden:
                break


def _framed(sentence: str) -> str:
    return _FRAME.sub("", sentence)


def first_person(sentence: str, name: str, *, bare: bool = True) -> str:
    """Return a sentence about the NPC as its own; empty if that is not safe.

    ``bare``: it may have no subject, as "A halfling who runs the inn" or "Runs it".
    """
    text = _framed(" ".join(sentence.split())).strip().rstrip(".!")
    if not text or len(text) > _MOST_SAID or _ORDERS.match(text):
        return ""
    first = re.match(r"(?:You are|You're|You were|You have|You) |Your name is ", text)
    if first:
        if first[0].startswith("Your"):
            return ""
        text = re.sub(r"^You(?:'re| are) ", "I am ", text)
        text = re.sub(r"^You were ", "I was ", text)
        text = re.sub(r"^You ", "I ", text)
        text = re.sub(r"\b(and|but|,) you are\b", r"\1 I am", text)
        text = re.sub(r"\b(and|but|,|which|that|what|where) you\b", r"\1 I", text)
        return _closed(_mine(text, "your", "you"))
    for subject in (name, name.partition(" ")[0], "He", "She", "They"):
        rest = text.removeprefix(f"{subject} ") if subject else text
        if rest != text and (said := _conjugated(rest)):
            others = {"She": ("her", "her"), "They": ("their", "them")}
            return _closed(_mine(f"I {said}", *others.get(subject, ("his", "him"))))
    if not bare:
        return ""
    if re.match(r"(?:An?|The|One of) ", text):
        return _closed(f"I am {_lowered(text)}")
    if re.match(r"(?:Born|Raised|Trained|Sworn|Exiled|Cursed|Blessed)\b", text):
        return _closed(f"I was {_lowered(text)}")
    parts = re.split(r",? and |, ", text)
    if len(parts) > 1 and all(re.fullmatch(r"[A-Za-z-]+", part) for part in parts):
        return _closed(f"I am {_lowered(text)}")
    said = _conjugated(text)
    return _closed(f"I {said}") if said else ""


def _conjugated(text: str) -> str:
    """Return "Keeps the inn and talks too much" as "keep the inn and talk too much"."""
    verb, _, rest = text.partition(" ")
    plain = _infinitive(verb.lower())
    if not plain or not rest:
        return ""
    rest = re.sub(
        rf"((?:, (?:and )?|\band )(?:never )?)(\w+s)(?= (?:{_AFTER_A_VERB})\b)",
        lambda found: found[1] + (_infinitive(found[2]) or found[2]),
        rest,
    )
    rest = re.sub(
        r"(, and )(\w+s)(?= \w)", lambda x: x[1] + (_infinitive(x[2]) or x[2]), rest
    )
    return f"{plain} {rest}"


def _infinitive(verb: str) -> str:
    """Return the verb of "he keeps"; empty if it is none."""
    if verb in _IRREGULAR:
        return _IRREGULAR[verb]
    if not verb.endswith("s") or verb.endswith(("ss", "us", "is")) or len(verb) < 4:
        return ""
    if verb.endswith("ies"):
        return f"{verb[:-3]}y"
    if verb.endswith(("shes", "ches", "xes", "sses", "zzes", "oes")):
        return verb[:-2]
    return verb[:-1]


def _mine(text: str, own: str, them: str) -> str:
    text = re.sub(rf"\b{own}(?= \w)", "my", text)
    return re.sub(rf"\b{them}\b", "me", text)


def _lowered(text: str) -> str:
    """Return a text with a small first letter, if its first word is no name."""
    first = text.partition(" ")[0]
    if first.lower() in _NO_NAMES or first.endswith(","):
        return text[:1].lower() + text[1:]
    return text


def _closed(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."
