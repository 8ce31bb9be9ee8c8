"""The answers of the stand-in, without I/O: the same request gives the same events.

An utterance that only continues is first read as what it continues ("again", "and
prone?", the value that was asked for). Each part of it is then looked at alone. What is
said to a person is answered in character. What was said before is asked of the tools
of memory, anything else of the tool that fits, and if there is none, answered in words.
If there are results it tells them, and calls nothing more in that turn. If tools must
be searched for, it searches when the line of one of them fits, and then calls what it
finds. Once, at the start, it says that it is a stand-in.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

import attrs

from glyphoxa_trio.providers.llm import (
    CallReady,
    Finished,
    FinishReason,
    LLMEvent,
    LLMRequest,
    Message,
    TextChunk,
    ToolSpec,
)
from glyphoxa_trio.tools.outcome import ToolCall
from glyphoxa_trio.tools.search import SEARCH

from .arguments import KnownThings
from .character import CharacterTalk
from .choosing import FORBIDS, MOST_CALLS, candidates, clauses, findable, knowing
from .memory import ORDER, REMEMBER, just_now, plain_name, recalled, recalls, topic_of
from .persona import persona_of
from .report import report, sentence_of
from .sayings import ASKS_FOR_MORE, SOCIAL, WORLDLY, Wording, language_of
from .utterance import (
    DEEDS,
    STATES,
    STRAIGHT_QUOTES,
    ParsedUtterance,
    bare,
    corrected,
    stems,
    with_article,
)

CONFESSION: Final = "not a language model."
_MOST_HEARD: Final = 1000  # characters of an utterance
_MOST_BEFORE: Final = 30  # utterances that are surely remembered
_LOOKED_BACK: Final = 100  # messages in which it is looked for what was said
_CONTINUED: Final = 20  # messages that a line may go on from
# The heading under which NPCs are told of late results.
_ENDED: Final = "What went on by itself has ended:"
_OPENS: Final = "Now say only the first sentence of your answer"
_ASIDE: Final = "(What "  # the beginning of what is overheard and known
_LINE: Final = re.compile(r"^- (\S+) \([^)]*\)(?:: (.*))?$", re.MULTILINE)
_REFERS: Final = re.compile(
    r"(?i)\b(?P<before>is|are|was|do|does|did|to|of|about|from|on|onto|with|put|add|write|read|buy)"
    r" (?:it|that|this|there|they|them|he|him|she|her)\b"
    r"(?=\W*$| (?:do|mean|work|cost)\W*$| (?:from|on|onto|to|down)\b)"
)
_OF_TIME: Final = re.compile(r"\b(?:time|hour|day|date|late|cold|warm)\b")
_AGAIN: Final = re.compile(
    r"(?i)(?:(?:please|and|now|ok(?:ay)?|oh)[ ,]+)*"
    r"(?:(?P<rolled>re-?roll(?: (?:it|that|this|them))?)"
    r"|(?:(?:do|try|tell|give|(?P<roll>roll|throw)) )?(?:(?:me|it|that|this|us) )*"
    r"(?:(?:once |yet |same )?again|once more|one more(?: time)?"
    r"|another(?: (?:one|roll|time))?"
    r"|encore|nochmal|noch ?einmal|repeat))(?: please)?"
    r"(?P<more>(?:,? but)?,? (?:with|and add|plus|minus) .{1,25})?\W*"
)
_AND: Final = re.compile(
    r"(?i)(?:(?:and|or|but|so)\b,? )?(?:(?:what|how) about |and )(?P<topic>.{2,40}?)\W*"
)
_TO: Final = re.compile(r"(?i)^(?:to|in|at|for|of|on|with|from) ")
_COMPARES: Final = re.compile(
    r"(?i)(?:.*\bdifferences? between|compare) (?:the )?(.+?) (?:and|with|to) (.+?)\W*"
)
# Which of the choices that were told is taken.
_PLACES: Final = ("last", "first", "second", "third")
_ANY: Final = re.compile(
    r"(?i)\b(?:(first|second|third|last)|any\w*|you (?:pick|choose|decide)|surprise me"
    r"|what(?:ever|soever)|whichever|pick one|doesn't matter|don't care|random one)\b"
)
_LISTED: Final = re.compile(r"(?:Which one[^:]*: |There is )(?P<choices>[^.?]+)[.?]")
_IN_WORDS: Final = ("trade", "sums", "story", "opinion", "forget")
_VERBS: Final = stems(f"cast see find use have learn try visit {' '.join(DEEDS)}")


def respond(request: LLMRequest) -> list[LLMEvent]:
    """Return the events of one round."""
    return _Answering.of(request).events()


@attrs.frozen(slots=False)
class _Answering:
    """One round: the request, and the parts of it that are looked at."""

    request: LLMRequest
    before: Sequence[Message]
    turn: Sequence[Message]
    text: str
    character: CharacterTalk
    tools: tuple[ToolSpec, ...]
    known: KnownThings

    @classmethod
    def of(cls, request: LLMRequest) -> _Answering:
        """Return a round with its parts."""
        spoken = [at for at, one in enumerate(request.messages) if one.role == "user"]
        start = spoken[-1] if spoken else len(request.messages)
        before, turn = request.messages[:start], request.messages[start:]
        recent = before[-_LOOKED_BACK:]
        text = _heard(turn[0].content) if spoken else ""
        prompts = [one.content for one in request.messages if one.role == "system"]
        persona = persona_of(
            "\n\n".join(x for x in prompts if not x.startswith(_ENDED))
        )
        said = " ".join(one.content for one in recent if one.role == "assistant")
        tools = tuple(x for x in request.tools if x.name != SEARCH.name)
        character = CharacterTalk(
            persona=persona,
            wording=Wording(name=persona.name, said=said, turn=len(spoken)),
            speaker=turn[0].name if spoken else "",
            before=recent,
            language=language_of(text),
            tools=tools,
        )
        lines = [*recent[-_CONTINUED:], *turn[:1]]
        text = _continued(lines, persona.name) if spoken else ""
        known = KnownThings.of(recent)
        return cls(request, before, turn, text, character, tools, known)

    def events(self) -> list[LLMEvent]:
        calls_so_far = [call for one in self.turn for call in one.calls]
        searches = {call.id for call in calls_so_far if call.name == SEARCH.name}
        told = [x for x in self.turn if x.role != "tool" or x.call_id not in searches]
        if any(one.role == "tool" for one in told):
            return _speak([*self._news(), *self._results(told)])
        if not self.request.tools_forbidden:
            chosen = self._chosen(guess=False)
            if not chosen and not searches and self._is_findable():
                chosen = [(SEARCH.name, {"query": self.text})]
            else:
                chosen = self._chosen(guess=True)
            already = sum(len(one.calls) for one in self.request.messages)
            calls = [
                CallReady(ToolCall(f"offline_{number}", name, json.dumps(arguments)))
                for number, (name, arguments) in enumerate(chosen, start=already + 1)
            ]
            if calls:
                return [*calls, Finished(reason=FinishReason.TOOL_CALLS)]
        if any(_OPENS in one.content for one in self.before if one.role == "system"):
            return _speak([self.character.answer("wait")])
        words = " ".join(self._news() or self._in_words())
        for trait in self.character.persona.traits:  # two answers may have the same one
            begin, found, rest = words.partition(trait)
            words = begin + found + rest.replace(trait, "")
        return _speak([*self._confession(), words])

    # What was said

    @cached_property
    def _clauses(self) -> list[ParsedUtterance]:
        whole = FORBIDS.match(self.text)  # of all that follows, too
        parts = [self.text] if whole else clauses(self.text, self._is_request)
        parts = [x for x in parts if x.strip(" ,.!?")] or [self.text]
        return [self._said(x) for x in parts]

    def _said(self, text: str) -> ParsedUtterance:
        return ParsedUtterance(text, self.character.person)

    def _is_request(self, text: str) -> bool:
        said, plain = self._said(text), text.strip(" .!?,")
        # "And the fool?" only continues what was asked before.
        asks = said.asked or ParsedUtterance(plain).is_question
        return bool(
            plain and (asks or self.character.social(said) or self._calls(said))
        )

    def _calls(self, said: ParsedUtterance) -> list[tuple[str, dict[str, Any]]]:
        """Return the calls that one clause asks for."""
        if FORBIDS.match(said.text):
            return []
        if found := recalled(said.text, self.tools, self.character.speaker):
            return found
        if self._is_for_oneself(said):
            return []
        fitting = candidates(said, self._others, self.known)[:1]
        return [(x.name, x.arguments) for x in fitting if not x.missing]

    def _is_for_oneself(self, said: ParsedUtterance) -> bool:
        text = said.text
        return bool(self.character.social(said) or ORDER.search(text) or recalls(text))

    @cached_property
    def _others(self) -> list[ToolSpec]:
        """The tools without the one that remembers."""
        return [x for x in self.tools if plain_name(x.name) != REMEMBER]

    def _chosen(self, *, guess: bool) -> list[tuple[str, dict[str, Any]]]:
        """Return tools and arguments for all requests, in order, each once.

        ``guess``: a clause for which no tool is meant is put to those that may know.
        """
        chosen: list[tuple[str, dict[str, Any]]] = []
        for said in self._clauses:
            found = self._calls(said)
            if guess and not found and self._may_be_known(said):
                found = [(x.name, x.arguments) for x in knowing(said, self._others)]
            chosen += [one for one in found if one not in chosen]
        return chosen[:MOST_CALLS]

    def _may_be_known(self, said: ParsedUtterance) -> bool:
        """Return whether a tool that searches may know more than the NPC itself."""
        if self._is_for_oneself(said) or self.character.language or self._lacking(said):
            return False
        kinds = _IN_WORDS if said.asked or said.is_phrase else WORLDLY
        if any(WORLDLY[kind].search(said.plain) for kind in kinds):
            return False
        own = re.match(r"(?:who|where|when|which|what (?:\w+ )?(?:my|i))\b", said.plain)
        return not (own and self.character.told(said.rest(frozenset()), whole=True))

    def _lacking(self, said: ParsedUtterance) -> Any:
        """Return the tool that is meant, if it lacks a value that can be asked for."""
        fitting = candidates(said, self._others, self.known)
        lacking = (x for x in fitting if x.missing and x.is_sure)
        return None if said.plain.startswith("why") else next(lacking, None)

    def _is_findable(self) -> bool:
        """Return whether a tool that is only listed in a line may be meant."""
        if all(tool.name != SEARCH.name for tool in self.request.tools):
            return False
        told = [x.content for x in self.request.messages if x.role == "system"]
        lines = [
            ToolSpec(name=found[1], description=found[2] or "", parameters={})
            for found in _LINE.finditer("\n".join(told))
        ]
        return findable(ParsedUtterance(self.text, self.character.speaker), lines)

    # Answers

    def _in_words(self) -> list[str]:
        """Return an answer for each clause, without tools; two at most."""
        answers = [self._answer(said) for said in self._clauses]
        return [x for x in dict.fromkeys(answers) if x][:2]

    def _answer(self, said: ParsedUtterance) -> str:
        if FORBIDS.match(said.text):
            return self.character.answer("no")
        if answer := self.character.social(said):
            return answer
        if ORDER.search(said.text):
            return self.character.answer("noted")
        if just_now(said.text):
            return self.character.just_now(said)
        if recalls(said.text):
            return self.character.about(topic_of(said.text), said, asked=True)
        return self.character.otherwise(said, self._lacking(said))

    def _results(self, told: Sequence[Message]) -> list[str]:
        """Return what is said of the results, and of the clauses without a call."""
        results = report(told, self._said(self.text), self.character.wording)
        if not results:
            asks = any(
                x.is_question or x.asked or x.is_phrase or recalls(x.text)
                for x in self._clauses
            )
            said = self._in_words() if asks else [self.character.answer("forgotten")]
            return [*self._confession(), *said]
        spoken = (self.character.social(said) for said in self._clauses)
        return [*[x for x in spoken if x][:1], *results]

    def _news(self) -> list[str]:
        """Return sentences about the calls that ended since the last turn."""
        lines: list[str] = []
        for one in reversed(self.before):
            if one.role == "system" and one.content.startswith(_ENDED):
                lines = one.content.splitlines()[1:]
            if one.role not in ("system", "user"):
                break
        return [
            sentence_of(name, content, self.character.wording)
            for name, _, content in (line.partition(": ") for line in lines)
        ]

    def _confession(self) -> list[str]:
        """Return that this is a stand-in, before the first words that are its own."""
        users = [
            at
            for at, x in enumerate(self.before)
            if x.role == "user" and not x.content.startswith(_ASIDE)
        ]
        # A greeting, and what only tells results, are not its own words. After many
        # turns the first ones may be forgotten, so then nothing can be said of them.
        own = len(users) > _MOST_BEFORE or any(
            x.content
            and (CONFESSION in x.content or self.before[at - 1].role != "tool")
            for at, x in enumerate(self.before)
            if x.role == "assistant" and users and at > users[0]
        )
        name = self.character.persona.first_name
        whose = f" for {name}" if name else ""
        return [] if own else [f"I am the offline stand-in{whose}, {CONFESSION}"]


def _heard(text: str) -> str:
    return text[:_MOST_HEARD].translate(STRAIGHT_QUOTES).replace("\0", " ")


def _continued(messages: Sequence[Message], name: str) -> str:
    """Return the last of these lines as what it continues, if it continues one.

    ``name`` is the NPC's: that it is called by it is no part of what is said.
    """
    called = re.compile(rf"(?:{'|'.join(map(re.escape, name.split()))}), (?=\w)")
    lines: list[str] = []
    answer = ""
    for one in messages:
        if one.role == "assistant" and one.content:
            answer = one.content
        elif one.role == "user" and not one.content.startswith("("):
            text = called.sub("", corrected(_heard(one.content)), count=1)
            lines.append(_going_on(text, lines, answer))
            answer = ""
    return lines[-1] if lines else ""


def _going_on(text: str, lines: Sequence[str], answer: str) -> str:
    """Return a line as what it means after these lines and the last answer."""
    if found := _COMPARES.fullmatch(text):
        return f"what does {found[1]} mean? what does {found[2]} mean?"
    if not lines or not text.strip():
        return text
    last, said = lines[-1], ParsedUtterance(text)
    asked = answer.rpartition(CONFESSION)[2].strip()
    if (which := _ANY.search(text)) and (listed := _LISTED.match(asked)):
        choices = re.split(", | or ", listed["choices"])
        at = _PLACES.index((which[1] or "first").lower())
        return f"{last.rstrip('.!?')} {choices[min(at, len(choices)) - 1]}"
    if ASKS_FOR_MORE.match(asked):
        other = said.is_question or STATES.match(text)
        answers = len(text.split()) < 6 and not other
        if answers and not any(x.search(said.plain) for x in SOCIAL.values()):
            return f"{last.rstrip('.!?')} {text}"
    if found := _AGAIN.fullmatch(text.strip()):
        one = ParsedUtterance(last)  # "is it a hit?" is not what is done again
        if found["rolled"] or found["roll"] or (one.is_question and not one.asked):
            earlier = map(ParsedUtterance, reversed(lines))
            last = next((x.text for x in earlier if x.rolls or x.dice), last)
        return f"{last.rstrip('.! ')}{found['more']}" if found["more"] else last
    if found := _AND.fullmatch(text.strip()):
        of_last, topic = ParsedUtterance(last), bare(_TO.sub("", found["topic"]))
        old = of_last.asked or of_last.subject
        if topic and old and old in last and not said.asks_in_words:
            return last.replace(old, topic)
    if not said.asked and _REFERS.search(text) and not _OF_TIME.search(text):
        for line in reversed(lines if said.is_question else lines[-1:]):
            one = ParsedUtterance(line)
            about = one.asked or ("" if said.is_question else one.rest(_VERBS))
            about = re.sub("^an? ", "the ", with_article(about, line))
            if about and (it := _REFERS.search(text)):
                return f"{text[: it.start()]}{it['before']} {about}{text[it.end() :]}"
    return text


def _speak(sentences: Sequence[str]) -> list[LLMEvent]:
    """Return the events of a spoken text."""
    words = " ".join(sentences).split()
    pieces = [word if at == 0 else f" {word}" for at, word in enumerate(words)]
    return [*map(TextChunk, pieces), Finished()]
