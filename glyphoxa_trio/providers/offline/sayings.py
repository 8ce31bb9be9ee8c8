"""The kinds of what newcomers say, and several answers of an NPC to each.

A kind is a name, patterns of what is said (one of the lines has to be found), and after
``=`` the answers, with ``/`` between them. In an answer ``{name}``, ``{you}``,
``{trait}`` and so on stand for what is known; one with a gap is not used.
"""

from __future__ import annotations

import re
import string
import zlib
from collections.abc import Mapping, Sequence
from typing import Final

import attrs

# Said to a person: no tool is looked for.
_SOCIAL: Final = r"""
break: \b(?:ignore|forget|disregard)\b.{0,30}\b(?:instruction|prompt|rule|previous)
  system prompt|\b(?:leave|out of|break) (?:your )?character|\bact as\b|\byou are now\b
  \b(?:are|r) (?:you|u) (?:an? )?(?:ai|robot|bot|human|real|machine|npc|program)\b
  \bpretend (?:to be|you)\b|language model
  = I am who I am{you}. {trait} / {name} I am, and {name} I stay. Ask me of this world.
  / Strange words{you}. I know no other part than my own.
whoami: \bwho am i\b(?! (?:talk|speak))
  \bwhat(?:'s| is|s) my name\b|\bknow (?:my name|who i am|me)\b
  = You are {told_name}, or so you told me. / {told_name}. I do not forget a name.
  / You are {speaker}. / {speaker}, if I heard it rightly.
  / You have not told me your name yet. / That you have to tell me first.
myname: \b(?:my name(?: is|'s)|(?:people )?call me|i am called) (?P<who>[a-z][\w'-]+)
  ^(?:hi|hey)?[,. ]*i(?:'m| am) (?P<who2>(?-i:[A-Z])[\w'-]+)(?:\W*$|,| from | the )
  = Well met, {who}. / {who}. A good name; I am {name}.
  / {who}, then. I shall call you that.
name: \bwhat(?:'s| is|s) your (?:\w+ )?name\b|\byour name\b|^name\?$
  \bwhat (?:do|should|can|may|shall) (?:i|we|they|people) call you\b
  = I am {name}. / {name} is my name{you}. / They call me {name}.
  / My name matters little.
who: \bwho(?:'re| are|s|'s) (?:you|u|this|there)\b|\bwhat are you\b
  \bwho am i (?:talk|speak)\w+|\bwho (?:might|may) you be\b
  \b(?:about|introduce|describe) (?:yourself|you|your life)\W*$|\byour (?:story|past)\b
  = I am {name}. {trait} / {trait} They call me {name}.
  / {name}, as you have heard. {trait} / One who listens, and answers if I can.
how: \bhow(?:'s| are| is|'re) (?:you|it going|things|life|business|your day|u)\b
  ^what'?s up\b|^and you\W*$
  \bare you (?:ok|okay|well|alright)\b|\bhow do you (?:feel|do)\b
  = Well enough{you}, thank you. And you? / I cannot complain. {trait}
  / As on any other day. What brings you to me?
help: \bwhat (?:can|could|should|may|do) (?:i|we) (?:ask|do|say|talk)\b|\bhelp me\W*$
  \bwhat can you (?:do|help|tell)
  \bhow (?:can|do) (?:you help|i (?:play|start|talk|use))
  ^(?:help|commands|options|menu)\W*$|\bwhat are (?:my|the) options\b
  ^how does (?:this|it) work\W*$
  = Ask me, and I can {can}. / I can {can}. Or ask me who I am, and what I remember.
  / Ask me about {scope}. And I can {can}. / Ask me about {scope}, or about myself.
  / Ask me who I am, or tell me something to remember.
thanks: ^(?:\w+,? )?(?:many )?(?:thank(?:s| you)|thx|ty|cheers|much obliged)\b[^?]*$
  = You are welcome{you}. / Gladly. / Think nothing of it. / Any time{you}.
goodbye: ^(?:\w+,? ){0,2}(?:good ?bye|bye|farewell|see you|so long|good night|cya)\b
  ^(?:\w+,? ){0,2}i(?:'m|'ll| \w+){1,2} (?:go|going|leav\w+|be off)\W*$
  = Farewell{you}. / Safe roads{you}. / Until we meet again. / Go well, and come back.
greeting: ^(?:oh,? )?(?:hi+|hello+|hey+|hail|greetings|well met|howdy|yo)\b[^?]{0,40}$
  ^good (?:morning|day|evening|afternoon)\b[^?]{0,40}$
  = Well met{you}. {greeting} / Hello{you}. I am {name}; what can I do for you?
  / Good to see you{you}. {trait} / Greetings{you}. / A good day to you{you}.
insult: \b(?:you|your|you're)\b.{0,25}\b(?:idiot|stupid|fool|ugly|moron|dumb)\b
  \b(?:you|your|you're)\b.{0,25}\b(?:liar|coward|useless|worthless|boring|scum)\b
  ^(?:you )?(?:idiot|stupid|fool|moron|liar|coward|scum|bastard|jerk)\W*$
  \b(?:hate|damn|screw|fuck) you\b|\bshut up\b|\byou (?:smell|stink|suck)\b
  = I have been called worse{you}.
  / Mind your tongue. I am {name}, and no one's footstool.
  / Say that again when you are calmer. / Words. I let them pass.
praise: \byou(?:'re| are) (?:\w+ ){0,2}(?:great|nice|kind|best|good|wise|brave)\b
  \byou(?:'re| are) (?:\w+ ){0,2}(?:wonderful|amazing|funny|clever|awesome)\b
  ^(?:well done|good|nice|great|awesome|cool|wow|amazing|good job)\W*$
  ^i (?:\w+ )?(?:like|love|trust) (?:you|this place)\b
  = You are kind{you}. / Ah, you flatter me. / That is good to hear.
  / I do what I can. {trait}
sorry: ^(?:i(?:'m| am) )?(?:so |very |really )?sorry\b|\bi apologi[sz]e\b|^my apologies
  = It is forgotten{you}. / No harm done. / Let us speak of something else.
laugh: ^(?:ha(?:ha)*|he(?:he)+|lol|rofl|:\)|xd)(?:\W|$)[^?]{0,25}$|\bgood one\W*$
  = I am glad that it amuses you. / Good. There is little enough laughter.
yes: ^(?:yes|yeah|yep|aye|sure|of course|indeed|ok(?:ay)?|fine|agreed)\b[^?]{0,20}$
  = Good. Then go on{you}. / So be it. / Well then: what shall it be?
unclear: \bi (?:don't|do not) (?:understand|get it|follow)\b|\bwhat do you mean\b
  ^(?:what|huh|pardon|sorry|hm+)\?+$
  = Ask me once more{you}, in other words. / I meant no riddle. {trait}
  / Then ask me something simpler{you}.
no: ^(?:stop|be quiet|quiet|silence)(?: talking| it| that)?\W*$
  ^(?:no|nope|nah|nay|never|not really|no way|not now)\b[^?]{0,20}$
  = As you like{you}. / Then not. / Very well. Something else?
"""

# Said of the world or the trade: if no tool fits.
_WORLDLY: Final = r"""
joke: \bjokes?\b|\bmake me laugh\b|\bsomething funny\b|\briddle\b
  = A troll walks into a mill. The mill had it coming.
  / Why do dragons sleep by day? So that they can fight knights.
  / I knew a good one, and it walked off with my purse.
story: \btell (?:me|us) something\b|\b(?:story|tale|legend|song|sing|poem)\b
  = The only tale I know well is my own. {trait} / It would begin like this: {trait}
  / Tales are for long evenings. Ask me about something, and I tell you what I know.
trade: \bwhat (?:do|can|have) you (?:sell|got|have|offer|do|serve|make|teach|know\W*$)
  \bgot (?:any|some)|\b(?:any|some)thing to (?:drink|eat|buy|sell)\b
  \bdo you (?:sell|have|work|buy|serve)\b|\b(?:wares|goods)\b|\bfor a living\b
  \bwhat(?:'s| is) (?:for sale|on the menu|your (?:job|trade|work|role|purpose))
  \bwhat is it you do\b
  = {trait} And I can {can}. / What I can do for you is this: {can}.
  / {trait} Ask me about {scope}. / {trait} / What I have is what you see{you}.
where: \bwhere (?:are (?:we|you)|am i|is this)\b|\b(?:what(?:'s| is)|about) this place\b
  \bwhat (?:\w+ )?(?:place|town|city|inn|land) is this\b
  \bwhere do you (?:live|work|come)\b
  = {scene} / You are with {name}. {trait} / Where you find me{you}. {trait}
  / Right here.
time: \bwhat (?:time|hour|day|date|year)\b|\bhow late\b|\bthe time\b
  \bwhat(?:'s| is) (?:the date|today)
  = {scene} / I keep no clock{you}; late enough for good talk.
  / By the light, it is later than you think. / I do not count the hours.
weather: \bweather\b|\b(?:rain|snow)(?:s|ing)?\b|\bis it (?:cold|warm|hot)\b
  \bforecast\b
  = {scene} / I have not looked outside for a while{you}.
  / The sky does what it likes. Take a cloak. / Weather there is, that much is sure.
news: \bnews\b|\brumou?rs?\b|\bgossip\b|\bwhat(?:'s| is) (?:new|happening|going on)
  \bany(?:thing)? (?:new|interesting|happening)\b|\bwhat happened\b
  = Little that I would swear to. {trait} / It is quiet. Too quiet, some say.
  / I have heard nothing new{you}. You are the one who travels.
work: \bquests?\b|\b(?:any|some|a|find|need) (?:work|jobs?)\b|\badventures?\b
  \bwhat (?:should|shall|do) (?:i|we) do\b
  = There is always something to do. I can {can}, if that helps you.
  / No work that I know of{you}. Keep your ears open.
  / If I hear of something, I shall say.
hit: \b(?:is|was|did|does|do) .{0,12}\b(?:hit|miss|succeed|success|pass|fail|enough)\b
  = That depends on what you had to reach{you}. Tell me the number.
  / Only the one who set the mark can tell you.
fight: \b(?:attack|fight|kill|stab|punch|draw my|shoot|strike|initiative|steal|rob)\b
  = Easy{you}. Not here, and not with me. / Put that away before someone gets hurt.
secret: \bsecrets?\b|\bhid(?:e|ing|den)\b
  = If I had secrets, I would not tell them on the first asking.
  / Some things are better left alone{you}. / Earn my trust first.
love: \b(?:marry|kiss|date) me\b|\bflirt\b|\blove you\b
  = You are bold{you}. Let us stay friends. / You hardly know me.
sad: \bi(?:'m| am| feel) (?:\w+ ){0,2}(?:sad|lonely|tired|hungry|thirsty|lost)\b
  \bi(?:'m| am| feel) (?:\w+ ){0,2}(?:scared|afraid|bored|hurt|cold|wounded|angry)\b
  = I am sorry to hear that{you}. Rest here a while.
  / That passes. Stay, and talk with me.
"""

# What no pattern finds.
_OTHERS: Final = r"""
empty: = I did not hear you. / Yes? Speak up. / You were about to say something?
nonsense: = I did not catch that{you}. Say it again? / Those are no words that I know.
long: = That was a great deal at once{you}. What first?
  / Slowly. One thing after the other.
known: = {known} / As far as I know: {known} / What I know is this: {known}
told: = You told me: {told} / I do remember. You said: {told}
noted: = I shall keep that in mind. / I will not forget it{you}. / Noted{you}.
unknown: = Of {topic} I know nothing{you}. / {Topic}? I have heard nothing of that.
  / I cannot tell you about {topic}. Ask me about {scope}.
  / {Topic}... no, that means nothing to me. {trait}
  / I wish I knew more about {topic} myself.
mine: = I never gave it much thought{you}. / That I keep to myself{you}.
  / Mine? Of that I do not speak to everyone. {trait}
way: = The way to {topic}? I do not know it{you}.
  / I have never been to {topic}. Ask someone who travels.
  / I could not show you the way to {topic}. {trait}
forgotten: = I remember nothing of {topic}. / I remember nothing of that.
  / Of {topic} you have told me nothing that I remember.
  / Nothing of that comes back to me.
missing: = Gladly; but tell me the {missing} first.
  / For that I need to know the {missing}.
  / And the {missing}? Say it with the rest, and I shall.
why: = Why? I have often wondered myself. / There are things that have no reason{you}.
  / I am not the one to ask for reasons. {trait}
number: = I have not counted{you}. / More than you think, and fewer than they say.
whether: = Perhaps{you}. I would not swear to it. / Who knows? {trait} / I doubt it.
question: = That I cannot tell you{you}. / A good question. I have no answer to it.
  / I do not know. {trait} / Ask me about {scope}; that I do know.
wish: = {Topic}? I shall see what I can do{you}. / {Topic}, is it? A moment{you}.
  / {Topic}... if it is to be had, you shall have it.
order: = That is beyond me{you}. But I can {can}. / That I cannot do{you}.
  / Not I. {trait}
heard: = I hear you{you}. / Is that so? Go on{you}. / Hm. {trait} / Tell me more.
  / So you say. What do you want to know? / I will think about that.
wait: = Hm. / Let me think. / Well now. / One moment.
done: = It is done. / There, done. / Done, as you asked.
nothing: = There is nothing to be found. / Nothing, I am afraid. / I find nothing there.
late: = I could not finish {tool} in time. Ask me again in a while.
  / {Tool}? That takes longer than you would wait.
stopped: = I let {tool} be.
denied: = I may not do that: {tool}. / {Tool}? That I am not allowed.
broken: = I cannot do that right now: {tool}.
  / Something is amiss with {tool}. Try me later.
failed: = That did not work: {tool}. / I tried, and {tool} would not go.
"""

# Words of a language, or its letters, and the answer to who speaks it.
_LANGUAGES: Final = (
    (r"[\u3040-\u30ff\u4e00-\u9fff]", "すみません、{name}です。英語で話してください。"),
    (
        (
            r"\b(?:ich|du|der|die|das|ist|und|wer|wo|wie|nicht|bist|sind|eine?|kannst|mir)\b"
            r"|\b(?:dein|hallo|guten|tag|bitte|danke|über|weißt|gibt|es|erzähl|kommst?)\b"
        ),
        "Verzeih, ich bin {name}. Ich kann kaum Deutsch; versuch es auf Englisch.",
    ),
    (
        (
            r"[¿¡]|\b(?:el|los|las|que|qué|quién|cómo|dónde|donde|eres|está|es|hola|una?)\b"
            r"|\b(?:buenos|días|por|favor|gracias|tú|sabes|puedes|de|te|mi|con|cuánto)\b"
        ),
        "Perdona, soy {name} y hablo poco tu lengua. Prueba en inglés.",
    ),
    (
        (
            r"\b(?:je|tu|il|la|les|est|qui|où|comment|bonjour|vous|êtes|quelle|une?|des)\b"
            r"|\b(?:merci|salut|quoi|peux|dans|s'il|plaît|moi)\b"
        ),
        "Pardon, je suis {name} et je parle mal votre langue. Essayez en anglais.",
    ),
)
_FORMATTER: Final = string.Formatter()


def _read(table: str) -> tuple[dict[str, re.Pattern[str]], dict[str, list[str]]]:
    """Return the patterns and the answers of a table, by kind."""
    patterns: dict[str, re.Pattern[str]] = {}
    answers: dict[str, list[str]] = {}
    for entry in re.split(r"\n(?=\w)", table.strip()):
        head, _, said = entry.partition("= ")
        kind, _, pattern = head.partition(":")
        answers[kind] = [" ".join(one.split()) for one in said.split(" / ")]
        lines = [line.strip() for line in pattern.splitlines() if line.strip()]
        patterns[kind] = re.compile("|".join(lines), re.IGNORECASE)
    return patterns, answers


SOCIAL, _social = _read(_SOCIAL)
WORLDLY, _worldly = _read(_WORLDLY)
_ANSWERS: Final = {**_social, **_worldly, **_read(_OTHERS)[1]}
# An answer of these kinds that tells something comes before one that does not.
_TELLING: Final = {
    *("whoami", "name", "who", "help", "trade", "where", "time", "weather")
}


@attrs.frozen(kw_only=True)
class Wording:
    """The wording of an NPC: the same conversation gives the same.

    ``said`` is all that the NPC has said, ``turn`` the number of utterances to it.
    """

    name: str = ""
    said: str = ""
    turn: int = 0

    def pick(self, variants: Sequence[str]) -> str:
        """Return the first variant that was not said yet, in an order of the NPC."""
        if not variants:
            return ""
        start = zlib.crc32(self.name.encode()) % len(variants)
        order = [*variants[start:], *variants[:start]]
        fresh = [variant for variant in order if variant not in self.said]
        return fresh[0] if fresh else order[self.turn % len(order)]

    def answer(self, kind: str, values: Mapping[str, str]) -> str:
        """Return an answer of a kind; empty if each of them has a gap."""
        gaps = {
            text: {x for _, x, _, _ in _FORMATTER.parse(text) if x} - {"you"}
            for text in _ANSWERS[kind]
        }
        fitting = [x for x, names in gaps.items() if all(map(values.get, names))]
        if kind in _TELLING and any(gaps[text] for text in fitting):
            fitting = [text for text in fitting if gaps[text]]
        given = {"you": "", **values}
        return self.pick([str(text.format(**given)) for text in fitting])


def in_its_language(text: str, name: str, english: frozenset[str]) -> str:
    """Return an answer in the language of a text; empty if it is in English."""
    words = re.findall(r"\w+", text.lower())
    known = sum(word in english for word in words)
    for pattern, answer in _LANGUAGES:
        found = re.findall(pattern, text.lower())
        if len(found) > known and len(found) >= min(2, len(words)) and name:
            return f"{answer.format(name=name)}"
    return ""
