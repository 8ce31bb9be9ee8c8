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
from .report import closed, cut, joined
from .sayings import SOCIAL, UNKNOWN, WORLDLY, Wording
from .utterance import DULL, STATES, ParsedUtterance, bare, stems, with_article

_KNOWN: Final = "(What you know of this moment:"
_NOBODY: Final = {
    *("player", "user", "you", "guest", "human", "caller", "client", "spieler", "me")
}
_MY_NAME: Final = re.compile(
    r"(?i)\b(?:my name is|my name's|the name's|call me|i(?: am|'m) called|mein name ist"
    r"|ich hei(?:ß|ss)e) (?P<who>[a-z][\w'-]+)"
    r"|^(?:\w+[,.!]* ){0,3}(?:i'm|i am|ich bin) (?P<who2>(?-i:[A-Z])[\w'-]+)(?:\W*$|,)"
)
_STATEMENT: Final = re.compile(
    r"(?i)(?:i|we|my|our|remember|(?:\w+ ){1,3}(?:is|are))\b"
)
_OWN_WORDS: Final = re.compile(
    r"\byou (?:just )?(?:said?|say|tell|told)|yourself|\b(?:say|repeat) (?:that|it)\b"
)
_WISHED: Final = re.compile(r"(?i)\b(?:like|want|need|have|get|buy|me|us) (.+)")
_ORDER: Final = re.compile(r"(?i)^(?:please )?(?:remember|note)(?: this| that)?:? ")
# What is asked for; who only speaks of it is heard.
_ASKED_FOR: Final = ("price", "trade", "where", "weather", "time", "opinion", "self")
_MOST_WORDS: Final = 120  # of an utterance that can be followed
_MOST_TOLD: Final = 3  # things at once


@attrs.frozen(kw_only=True)
class CharacterTalk:
    """One NPC at one point of a conversation.

    ``before`` are the messages before the utterance, ``tools`` those that are shown.
    """

    persona: Persona
    wording: Wording
    speaker: str
    before: Sequence[Message]
    text: str = ""
    language: str = ""
    tools: Sequence[ToolSpec] = ()

    def social(self, said: ParsedUtterance) -> str:
        """Return the answer to what is said to a person; empty for other words."""
        if not said.text.strip():
            return self.answer("empty")
        if who := _name_in(said.text):
            return self.answer("myname", who=who)
        kinds = (kind for kind, one in SOCIAL.items() if one.search(said.plain))
        kind = next(kinds, "")
        return self.answer(kind) if kind else ""

    def otherwise(self, said: ParsedUtterance, lacking: FittingTool | None) -> str:
        """Return an answer to anything else; ``lacking`` is a tool without a value."""
        if lacking:
            return self._lacks(lacking)
        if self.language:
            return self.answer("unknown")
        if len(said.text.split()) > _MOST_WORDS:
            return self.answer("long")
        about = said.rest(frozenset())
        if said.is_question and (told := self.told(about, whole=True)):
            return self.answer("told", told=told)
        if said.asked and self.known(said.asked):
            return self.about(said.asked, said)
        states = STATES.match(said.text) and not said.is_question
        for kind, pattern in WORLDLY.items():
            if pattern.search(said.plain) and not (states and kind in _ASKED_FOR):
                return self.answer(kind)
        if topic := said.asked or (said.text.strip(" .!?") if said.is_phrase else ""):
            return self.about(topic, said)
        return self._anything(said, about)

    def _lacks(self, lacking: FittingTool) -> str:
        missing = [*lacking.missing]
        choices = [str(x).replace("_", " ") for x in lacking.missing[missing[0]]]
        if len(choices) > 1:
            return self.answer("which", choices=joined(choices, last="or"))
        if words_of(missing[0]) & PERSON_NAMES:
            return self.answer("inwhosename")
        names = joined([x.replace("_", " ") for x in missing])
        return self.answer("missing", missing=names)

    def _anything(self, said: ParsedUtterance, topic: str) -> str:
        if said.is_nonsense and not said.is_question:
            return self.answer("number" if said.numbers else "nonsense")
        for kind, pattern in UNKNOWN.items():
            if pattern.search(said.plain) and (topic or kind != "wish"):
                wished = _WISHED.search(said.expanded)
                about = bare(wished[1]) if wished else with_article(topic, said.text)
                return self.answer(kind, topic=cut(about or topic))
        return self.answer("heard")

    def just_now(self, said: ParsedUtterance) -> str:
        """Return what was said last, or first, in this conversation."""
        lines = [x for x in self.before if x.content and x.content[0] != "("]
        mine = [x.content for x in lines if x.role == "user"]
        own = [x.content for x in lines if x.role == "assistant"]
        if _OWN_WORDS.search(said.plain):
            return own[-1] if own else self.answer("forgotten")
        if re.search(r"\bask", said.plain):
            mine = [x for x in mine if ParsedUtterance(x).is_question] or mine
        if not mine:
            return self.answer("forgotten")
        first = re.search(r"\b(?:first|beginning|start)\b", said.plain)
        return self.answer("told", told=f'"{cut(mine[0 if first else -1])}"')

    def about(self, topic: str, said: ParsedUtterance, *, asked: bool = False) -> str:
        """Return what is known of a topic, or that nothing is.

        ``asked``: it is asked for what was said earlier; without a topic, for all.
        """
        if topic and (known := self.known(topic)):
            return self.answer("known", known=closed(known))
        if told := self.told(topic):
            return self.answer("told", told=told)
        kind = ("forgotten" if topic else "stranger") if asked else "unknown"
        if not asked and re.search(r"\b(?:get|go|way|road|far)\b", said.plain):
            kind = "way"
        if topic and re.search(rf"\byour {re.escape(topic)}", said.text, re.IGNORECASE):
            kind = "self"
        return self.answer(kind, topic=with_article(topic, said.text))

    def told(self, topic: str, *, whole: bool = False) -> str:
        """Return what this speaker said of a topic, in quotes; empty if nothing.

        ``whole``: all words of the topic must be in it. Without a topic it is the last
        that was told.
        """
        about = stems(topic)
        found: list[str] = []
        for one in reversed(self.before):
            others = bool(self.speaker) and one.name != self.speaker
            if one.role != "user" or others or one.content.startswith("("):
                continue
            line = ParsedUtterance(one.content)
            told = _ORDER.match(line.text) or not line.is_polite
            if line.is_question or line.asked or not told:
                continue
            common = about & stems(line.text)
            if common and len(common) * (1 if whole else 2) >= len(about):
                return f'"{cut(_ORDER.sub("", line.text.strip()))}"'
            if not about and not whole and _STATEMENT.match(line.text):
                found.append(f'"{cut(_ORDER.sub("", line.text.strip()))}"')
        return joined(found[:_MOST_TOLD][::-1])

    def known(self, topic: str) -> str:
        """Return what the prompt tells of a topic, in the NPC's own words."""
        about = stems(topic)
        aside = self.before[-1].content if self.before else ""
        moment = [
            _to_oneself(line[2:].rstrip(")"))
            for line in aside.partition(_KNOWN)[2].splitlines()
            if line.startswith("- ")
        ]
        lines = [*moment, *self.persona.scene, *self.persona.traits]
        return next((x for x in lines if about & stems(x)), "")

    def answer(self, kind: str, **more: str) -> str:
        """Return an answer of a kind, which was not given yet if there is one left."""
        persona, told_name = self.persona, self._told_name()
        if self.language and kind not in ("myname", "told", "noted"):
            kind = self.language
        you = more.get("who") or self.person
        values = {
            "name": persona.name if kind == "who" else persona.first_name,
            "you": f", {you}" if you else "",
            "speaker": "" if told_name else self.person,
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
        nobody = self.speaker.lower() in {*_NOBODY, self.persona.name.lower()}
        return self._told_name() or ("" if nobody else self.speaker)

    def _told_name(self) -> str:
        mine = [
            x.content
            for x in self.before
            if x.role == "user" and (not self.speaker or x.name == self.speaker)
        ]
        names = (_name_in(x) for x in reversed(mine))
        return next((x for x in names if x), "")

    def _greeting(self) -> str:
        """Return the NPC's own greeting, with which the conversation began."""
        first = next((x for x in self.before if x.role in ("user", "assistant")), None)
        return first.content if first and first.role == "assistant" else ""

    def _abilities(self) -> str:
        """Return what the tools are for, as a list of verbs; three of them in turn."""
        said = [*dict.fromkeys(x for tool in self.tools if (x := _ability(tool)))]
        at = self.wording.turn % len(said) if said else 0
        return joined([*said[at:], *said[:at]][:3], last="or")


def _name_in(text: str) -> str:
    """Return the name that a line gives its speaker."""
    found = _MY_NAME.search(text)
    who = (found["who"] or found["who2"]) if found else ""
    return "" if who.lower() in DULL else who[:1].upper() + who[1:]


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
