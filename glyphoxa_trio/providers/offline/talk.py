"""Answer in character, without a tool: from the persona, the memory, and the words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import attrs

from glyphoxa_trio.providers.llm import Message, ToolSpec
from glyphoxa_trio.tools.words import EMPTY

from .arguments import PERSON_NAMES, words_of
from .choosing import FittingTool
from .persona import Persona
from .recalling import FIRST
from .report import closed, cut, joined
from .sayings import SOCIAL, WORLDLY, Wording
from .tongues import excuse
from .utterance import DULL, ParsedUtterance, stems, with_article

_KNOWN: Final = "(What you know of this moment:"
_NOBODY: Final = {
    *("player", "user", "you", "guest", "human", "caller", "client", "spieler", "me")
}
_WISH: Final = re.compile(
    r"(?i)^(?:please )?(?:give|bring|get|fetch|pour|serve|hand|sell)\b|\bi(?:'d like|"
    r" would like| want| need)\b(?! to)|\b(?:can|could|may) (?:i|we) (?:have|get|buy)\b"
    r"|^(?:an?|one|two|some|another) "
)
_STATES: Final = re.compile(
    r"(?i)(?:i|we|he|she|they|it|the|my|our|there|you|an?|this|that)\b|\w+'"
)
_OF_ONESELF: Final = re.compile(
    r"(?i)\b(?:do|are|can|have|did|were|will|would) you\b|\byour\b"
)
_NOTE: Final = re.compile(
    r"(?i)(?:please )?(?:write|note|jot|record|mark|put)\b.{0,9}\b(?:that|down|:)"
)
_ORDER: Final = re.compile(r"(?i)^(?:please )?remember(?: this| that)?:? ")
_ASKS_NAME: Final = re.compile(r"In whose name|a name first")
_BARE_NAME: Final = re.compile(
    r"(?i)(?:(?:for|on|to|in|under|it's|that's|i'm|i am|my name is|the name of) )*"
    r"(?!no\b|yes\b)([a-z][\w'-]+(?: the \w+)?)\W*"
)
_MOST_WORDS: Final = 120  # of an utterance that can be followed


@attrs.frozen(kw_only=True)
class CharacterTalk:
    """Answers of one NPC at one point of a conversation.

    ``before`` are the messages before the utterance, ``tools`` those that are shown.
    """

    persona: Persona
    wording: Wording
    speaker: str
    before: Sequence[Message]
    text: str = ""
    tools: Sequence[ToolSpec] = ()

    def social(self, said: ParsedUtterance) -> str:
        """Return the answer to what is said to a person; empty for other words."""
        if not said.text.strip():
            return self.answer("empty")
        for kind, pattern in SOCIAL.items():
            if found := pattern.search(said.text.strip()):
                groups = found.groupdict()
                who = groups.get("who") or groups.get("who2") or ""
                if who.lower() not in DULL:
                    return self.answer(kind, who=who[:1].upper() + who[1:])
        return ""

    def worldly(self, said: ParsedUtterance, lacking: FittingTool | None) -> str:
        """Return an answer to anything else; ``lacking`` is a tool without a value."""
        text = said.text.strip()
        if foreign := excuse(self.wording.language, self.persona.first_name):
            return foreign
        choices = next(iter(lacking.missing.values()), []) if lacking else []
        if lacking:
            return self._lacks([*lacking.missing], choices)
        if len(text.split()) > _MOST_WORDS:
            return self.answer("long")
        if said.is_question and (told := self.told(said.rest(frozenset()), whole=True)):
            return self.answer("told", told=f'"{told}"')
        if said.asked and self._known(said.asked):
            return self.about(said.asked, said)
        for kind, pattern in WORLDLY.items():
            if pattern.search(text):
                return self.answer(kind)
        if said.asked:
            return self.about(said.asked, said)
        if said.is_question and _OF_ONESELF.search(text):
            return self.answer("self")
        return self._anything(said, text)

    def _lacks(self, missing: Sequence[str], choices: Sequence[object]) -> str:
        if len(choices) > 1:
            named = [str(x).replace("_", " ") for x in choices]
            return self.answer("which", choices=joined(named, last="or"))
        if words_of(missing[0]) & PERSON_NAMES:
            return self.answer("inwhosename")
        names = joined([x.replace("_", " ") for x in missing])
        return self.answer("missing", missing=names)

    def _anything(self, said: ParsedUtterance, text: str) -> str:
        words = re.findall(r"[a-z']+", text.lower())
        if not re.search(r"[aeiouy]", text, re.IGNORECASE):
            return self.answer("number" if re.search(r"\d", text) else "nonsense")
        if said.is_question:
            if "why" in words:
                return self.answer("why")
            if re.search(r"\bhow (?:many|much|far|long|old)\b", text, re.IGNORECASE):
                return self.answer("number")
            asks = re.match(r"(?:and |so |but )?(?:wh|how)", text, re.IGNORECASE)
            return self.answer("question" if asks else "whether")
        topic = said.rest(frozenset())
        if topic and _WISH.search(text):
            return self.answer("wish", topic=cut(with_article(topic, text)))
        if _STATES.match(text):
            return self.answer("heard")
        if _NOTE.match(text):
            return self.answer("noted")
        if len(words) < 5 and text.islower() and not DULL & {*words}:
            return self.answer("nonsense")
        return self.answer("order" if topic and words[0] not in DULL else "heard")

    def just_now(self, text: str) -> str:
        """Return what was said last, or first, in this conversation."""
        lines = [x for x in self.before if x.content and x.content[0] != "("]
        mine = [x.content for x in lines if x.role == "user"]
        own = [x.content for x in lines if x.role == "assistant"]
        if re.search(r"\byou (?:just )?(?:said?|say|tell|told)|yourself", text):
            return own[-1] if own else self.answer("forgotten")
        if not mine:
            return self.answer("forgotten")
        meant = mine[0 if FIRST.search(text) else -1]
        return self.answer("told", told=f'"{cut(meant)}"')

    def recalled(self, topic: str, said: ParsedUtterance) -> str:
        """Return what was told of a topic, or last."""
        if topic or not (told := self.told("")):
            return self.about(topic, said, asked=True)
        return self.answer("told", told=f'"{told}"')

    def about(self, topic: str, said: ParsedUtterance, *, asked: bool = False) -> str:
        """Return what is known of a topic, or that nothing is.

        ``asked``: it is asked for what was said earlier.
        """
        if known := self._known(topic):
            return self.answer("known", known=closed(known))
        if told := self.told(topic):
            return self.answer("told", told=f'"{told}"')
        to_go = re.search(r"(?i)\b(?:get|go|way|road|far)\b", said.text)
        kind = "forgotten" if asked else "way" if to_go else "unknown"
        if topic and re.search(rf"\byour {re.escape(topic)}", said.text, re.IGNORECASE):
            kind = "mine"
        return self.answer(kind, topic=with_article(topic, said.text))

    def told(self, topic: str, *, whole: bool = False) -> str:
        """Return what this speaker said of a topic, newest first; empty if nothing.

        ``whole``: all words of the topic must be in it. Without a topic it is the last
        thing that was told.
        """
        about = stems(topic)
        for one in reversed(self.before):
            line = ParsedUtterance(one.content)
            others = bool(self.speaker) and one.name != self.speaker
            if one.role != "user" or others or one.content.startswith("("):
                continue
            if line.is_question or line.is_polite or line.asked:
                continue
            common = about & stems(line.text)
            if (common and len(common) * (1 if whole else 2) >= len(about)) or (
                not about and not whole and len(line.text.split()) > 3
            ):
                return cut(_ORDER.sub("", line.text.strip()))
        return ""

    def _known(self, topic: str) -> str:
        """Return what the prompt tells of a topic, in the NPC's own words."""
        about = stems(topic)
        lines = [*map(_to_oneself, self._of_this_moment()), *self.persona.scene]
        return next((x for x in [*lines, *self.persona.traits] if about & stems(x)), "")

    def _of_this_moment(self) -> list[str]:
        aside = self.before[-1].content if self.before else ""
        lines = aside.partition(_KNOWN)[2].splitlines()
        return [line[2:].rstrip(")") for line in lines if line.startswith("- ")]

    def answer(self, kind: str, **more: str) -> str:
        """Return an answer of a kind, which was not given yet if there is one left."""
        persona, told_name = self.persona, self._told_name()
        speaker = "" if self._is_nobody() else self.speaker
        you = more.get("who") or told_name or speaker
        values = {
            "name": persona.name if kind == "who" else persona.first_name,
            "you": f", {you}" if you else "",
            "speaker": "" if told_name else speaker,
            "told_name": told_name,
            "trait": self.wording.pick(persona.traits),
            "scope": self.wording.pick(persona.knowledge),
            "scene": closed(" ".join(persona.scene[:2])) if persona.scene else "",
            "greeting": self._greeting(),
            "can": self._abilities(),
            **more,
        }
        topic = values.get("topic", "")
        values["Topic"] = topic[:1].upper() + topic[1:]
        return self.wording.answer(kind, values) or self.wording.answer("heard", values)

    @property
    def person(self) -> str:
        """The name of who speaks, if it is known: the one they gave comes first."""
        return self._told_name() or ("" if self._is_nobody() else self.speaker)

    def _is_nobody(self) -> bool:
        return self.speaker.lower() in {*_NOBODY, self.persona.name.lower()}

    def given_name(self, text: str, before: Sequence[Message]) -> str:
        """Return the name that a line gives, if the NPC has just asked for one."""
        asked = before and _ASKS_NAME.search(before[-1].content)
        found = asked and _BARE_NAME.fullmatch(text.strip())
        return str(found[1]) if found else ""

    def _told_name(self) -> str:
        lines = [
            *self.before,
            Message(role="user", content=self.text, name=self.speaker),
        ]
        for at, one in reversed([*enumerate(lines)]):
            mine = one.role == "user" and (not self.speaker or one.name == self.speaker)
            if mine and (given := self.given_name(one.content, lines[:at][-1:])):
                return given
            if at == len(self.before):
                continue
            if mine and (found := SOCIAL["myname"].search(one.content)):
                who = found["who"] or found["who2"] or ""
                if who.lower() not in DULL:
                    return who[:1].upper() + who[1:]
        return ""

    def _greeting(self) -> str:
        """Return the NPC's own greeting, with which the conversation began."""
        first = next((x for x in self.before if x.role in ("user", "assistant")), None)
        return first.content if first and first.role == "assistant" else ""

    def _abilities(self) -> str:
        """Return what the tools are for, as a list of verbs; three of them in turn."""
        said = [*dict.fromkeys(x for tool in self.tools if (x := _ability(tool)))]
        at = self.wording.turn % len(said) if said else 0
        return joined([*said[at:], *said[:at]][:3], last="or")


def _ability(tool: ToolSpec) -> str:
    """Return the beginning of a description, as "open a tab for a patron"."""
    ends = r"[.:;(\n]|, (?:who|which|so)| such as | and | as "
    first = re.split(ends, tool.description.strip())[0]
    words = first.split()
    if not 2 <= len(words) <= 9 or "," in first or {"you", "your"} & {*words}:
        return ""
    verb, rest = words[0].lower(), words[1:]
    if verb in EMPTY or verb.endswith("ing") or not verb.isalpha():
        return ""
    verb = "tell" if verb in ("returns", "return") else verb
    return " ".join([verb[:-1] if re.search(r"[^s]s$", verb) else verb, *rest])


def _to_oneself(line: str) -> str:
    """Return a line that tells an NPC something, as the NPC would say it."""
    line = re.sub(r"^You (?:know|suppose): |^About (?=[^:]+: )", "", line)
    line = re.sub(r" \((?:since|on) [^)]*\)$", "", line)
    line = re.sub(r"\bsaid to you: ", "told me: ", line)
    line = re.sub(r"\b[Yy]ou said(?: to [\w' -]+)?: ", "I said: ", line)
    whole = re.fullmatch("[\u201c](.*)[\u201d]", line)
    return whole[1] if whole else line.translate({0x201C: '"', 0x201D: '"'})
