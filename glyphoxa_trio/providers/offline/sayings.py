"""The kinds of what newcomers say, and several answers of an NPC to each.

A kind is a name, patterns of what is said (one of the lines has to be found in the
plain words), and after ``=`` the answers, with ``/`` between them. In an answer
``{name}``, ``{you}``, ``{trait}`` and so on stand for what is known; one with a gap is
not used.
"""

from __future__ import annotations

import re
import string
import zlib
from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from .utterance import DULL

# Said to a person: no tool is looked for.
_SOCIAL: Final = r"""
break: \b(?:ignore|forget|disregard)\b.{0,30}\b(?:instruction|prompt|rule)|your prompt
  system prompt|\b(?:leave|out of|break) (?:your )?character|\bact as\b|\byou are now\b
  \bin character\b|\byou (?:\w+ ){0,3}(?:ai|\w*bot|human|real|machine|npc|program|gpt)\b
  \bpretend (?:to be|you)\b|language model|\bchatgpt\b|\bturing\b
  = I am who I am{you}. {trait} / {name} I am, and {name} I stay. Ask me of this world.
  / I am what you see{you}, no more and no less.
whoami: \bwho am i\b(?! (?:talk|speak))|\bwhat is my name\b
  \bknow (?:my name|who i am)\b
  = You are {told_name}, or so you told me. / {told_name}. I do not forget a name.
  / You are {speaker}. / {speaker}, if I heard it rightly.
  / You have not told me your name yet.
name: \byour (?:\w+ )?name\b|^name\W*$|\b(?:i|we|they|people) call you\b
  = I am {name}. / {name} is my name{you}. / My name matters little.
age: \bhow old are you\b|\byour age\b|\bwere you born\b
  = Old enough to know better{you}. / I stopped counting the years{you}.
who: \bwho (?:are|is|might) (?:you|u|this|there)\b|\bwhat are you\W*$|\babout yourself\b
  \bwho am i (?:talk|speak)\w+|\bwho (?:owns|runs|keeps) (?:this|the place)\b
  \b(?:introduce|describe) (?:yourself|you|your life)\b
  \byour (?:story|past|background)\b
  \b(?:me|us|more|little) about you\W*$
  = I am {name}. {trait} / {trait} They call me {name}.
  / One who listens, and answers if I can.
how: \bhow (?:are|is) (?:you|it going|things|life|business)\b
  \bhow (?:is|was) your\b|\bhow (?:is|was) the (?:day|night|evening|morning)\W*$
  \bare you (?:ok|okay|well|alright|fine)\b|\bhow do you (?:feel|do)\b|^and you\W*$
  ^what(?: i)?s up\b|^sup\b
  = Well enough{you}, thank you. And you? / I cannot complain. {trait}
help: \bwhat (?:can|could|should|may|do) (?:i|we) (?:ask|do|say|talk|type)\b
  \bhelp me\W*$|\bwhat (?:else )?can you\b|\bcan you help\b|\bwhat are you able\b
  \bhow (?:can|do) i (?:play|start|talk|use)\b|\bwhat you can do\b
  \b(?:your|which|what) (?:tools?|abilities|powers|skills|functions|commands|features)\b
  ^(?:help|commands|options|tools|menu|how does (?:this|it) work)\W*$
  = Ask me, and I can {can}. / I can {can}. Or ask me who I am.
  / Ask me about {scope}. And I can {can}. / Ask me about {scope}, or about myself.
  / Ask me who I am, or tell me something to remember.
mayask: \b(?:may|can|could) i (?:ask|trouble|have a word|talk to|speak)\b.{0,30}$
  ^i have a (?:question|request)\b.{0,10}$|\b(?:got|have) a (?:minute|moment|second)
  = Ask away{you}. / Of course{you}. What is it? / Go on, I am listening.
thanks: ^(?:\w+,? ){0,2}(?:thanks?(?: you)?|thx|ty|cheers|much obliged)\b[^?]*$
  = You are welcome{you}. / Gladly. / Think nothing of it. / Any time{you}.
goodbye: ^(?:\w+,? ){0,2}i (?:\w+ ){1,3}(?:go|going|leav\w+|be off)(?: now)?\W*$
  ^(?:\w+,? ){0,2}(?:good ?bye|bye|farewell|see y\w+|good ?night|cya)\b[^?]{0,30}$
  = Farewell{you}. / Safe roads{you}. / Until we meet again. / Go well, and come back.
greeting: ^(?:oh,? )?(?:hi+|hello+|hey+|hiya|ho|oi|yo|ahoy)\b(?:.{0,9}\?|[^?]{0,40})$
  ^(?:hail|greetings|salutations|well met|howdy)\b[^?]{0,40}$
  ^(?:good )?(?:morning|morrow|day|evening|afternoon|eve)\b[^?]{0,40}$
  ^(?:is |are )?you (?:here|there|home|awake)|\bany(?:one|body) (?:here|there|home)\b
  = Well met{you}. {greeting} / Hello{you}. I am {name}; what can I do for you?
  / Good to see you{you}. {trait} / Greetings{you}. / A good day to you{you}.
insult: \byour?\b.{0,30}\b(?:idiot|stupid|fool|ugly|moron|dumb|old (?:man|hag)|fat)\b
  \byour?\b.{0,30}\b(?:liar|fraud|coward|useless|boring|no help|suck|smell|stink|worst)
  ^(?:you )?(?:idiot|stupid|fool|moron|liar|coward|scum|bastard|jerk)\W*$
  \b(?:hate|damn|screw|fuck) you\b|\bshut (?:up|your|it)\b|^(?:fuck|shit|crap)\b
  = I have been called worse{you}. / Words. I let them pass.
  / Mind your tongue. I am {name}, and no one's footstool.
  / Say that again when you are calmer.
praise: \byou (?:are|look) (?:\w+ ){0,2}(?:great|nice|kind|best|good|wise)\b[^?]*$
  \byou are (?:\w+ ){0,2}(?:amazing|wonderful|funny|clever|awesome|cool|right)\b[^?]*$
  ^(?:well done|good|nice|great|lovely|awesome|cool|wow|amazing)\b[^?]{0,30}$
  ^i (?:\w+ )?(?:like|love|trust) (?:you|this place|your)\b|\bgood one\W*$
  ^(?:ha(?:ha)*|he(?:he)+|lol|rofl|lmao|:\)|xd)(?:\W|$)[^?]{0,25}$
  = You are kind{you}. / Ah, you flatter me. / I am glad that it pleases you.
yes: ^(?:yes|yeah|yep|aye|sure|of course|indeed|ok(?:ay)?|fine|agreed)\b[^?]{0,20}$
  ^(?:i am )?(?:so |very |really )?sorry\b|\bi apologi[sz]e\b|^my apologies
  = Good. Then go on{you}. / So be it. / No harm done. What shall it be?
heard: ^(?:hm+|uh+|um+|oh|ah|well|really|interesting|maybe|perhaps|i see)\W*$
unclear: \bi do not (?:understand|get it|follow)\b|\bwhat do you mean\b
  ^(?:what|huh|pardon|sorry|hm+)\?+$
  ^(?:(?:and|or) )?(?:the |that )?other (?:one|two)s?\W*$
  = Ask me once more{you}, in other words. / Name what you mean{you}, and I shall try.
no: ^(?:stop|be quiet|quiet|silence)(?: talking| it| that)?\W*$|^never ?mind\b
  ^(?:no|nope|nah|nay|never|not really|no way|not now|forget it)\b[^?]{0,20}$
  = As you like{you}. / Then not. / Very well. Something else?
"""

# Said of the world or the trade: if no tool fits.
_WORLDLY: Final = r"""
forget: ^(?:please |you (?:can|may) )?forget\b
  = Then I never heard it{you}. / It is forgotten, as far as I am able.
story: \btell (?:me|us) something\b|\b(?:story|tale|legend|song|sing|poem)\b
  \bjokes?\b|\bmake me laugh\b|\bsomething funny\b|\briddle\b
  = A troll walks into a mill. The mill had it coming.
  / The only tale I know well is my own. {trait}
  / I knew a good one, and it walked off with my purse.
sums: \d.*(?:[+*/x]|times|plus|minus|divided).*\d|\bmath\b|\bhomework\b
  = Sums I leave to the merchants{you}.
  / Numbers? I count on my fingers, and no further.
price: \bhow much (?:is|are|for|does|do|would)\b|\bcosts?\b|\bprices?\b|\bexpensive\b
  \bcheap\b
  = Less than you fear, and more than you hope{you}. / We shall agree on a price{you}.
  / A fair price, and not a copper more.
self: \bwhat do you (?:do|know|teach|make)\b|\bfor a living\b|\bwhat is it you do\b
  \byour (?:job|trade|work|role|profession)\b
  = {trait} And I can {can}. / {trait} Ask me about {scope}. / {trait}
  / That I keep to myself{you}.
trade: \bwhat (?:can|have) you (?:got|have)\b|\bwhat do you (?:sell|have|offer|serve)\b
  \bgot (?:any|some)\b|\b(?:to|can i|some|any) (?:drink|eat|buy|sell)\b|\bmenu\b
  \bon tap\b
  \bdo you (?:sell|have|buy|serve)\b|\b(?:wares|goods)\b|\bfor sale\b
  ^(?:you )?got \w+\?|\ba (?:room|bed)\b|\b(?:sleep|stay) (?:here|tonight)\b
  = What I have is what you see{you}. / That can be found here{you}, I should think.
  / We shall see what there is{you}. {trait}
where: \bwhere (?:are (?:we|you)|am i|is this)\b(?! going)|\babout this place\b
  \bwhat (?:\w+ )?(?:place|town|city|inn|land) is this\b|\bwhat is this place\b
  \bwhere do you (?:live|work|come)\b
  = {scene} / You are with {name}. {trait} / Where you find me{you}. {trait}
weather: \bweather\b|\bis it (?:going to )?(?:cold|warm|hot|rain|snow)
  = {scene} / I have not looked outside for a while{you}.
time: \bwhat (?:time|hour|day|date|year)\b|\bhow late\b|\bthe time\b|\bwhat is today
  = Late enough for good talk{you}. The rest I do not count.
news: \bnews\b|\brumou?rs?\b|\bgossip\b|\bwhat is (?:new|happening|going on)
  \bany(?:thing)? (?:new|interesting|happening)\b|\bwhat happened\b|\bquests?\b
  \b(?:any|some|a|find|need|for) (?:work|jobs?)\b|\badventures?\b
  = Little that I would swear to. {trait} / It is quiet. Too quiet, some say.
  / I have heard nothing new{you}. You are the one who travels.
hit: \b(?:is|was|did|does|do) .{0,12}\b(?:hit|miss|succeed|success|fail|enough|good)\b
  = That depends on what you had to reach{you}. Tell me the number.
  / Only the one who set the mark can tell you.
fight: ^(?!(?:can|do|does|how|what|when|is)\b).*\b(?:attack|fight|kill|stab|punch|shoot
  |strike|initiative|steal|rob|draw my)\b
  = Easy{you}. Not here, and not with me. / Put that away before someone gets hurt.
secret: \bsecrets?\b|\bhid(?:e|ing|den)\b
  = If I had secrets, I would not tell them on the first asking.
  / Earn my trust first{you}.
opinion: \b(?:do|would) you (?:\w+ )?(?:like|love|think|believe|prefer|enjoy|want)\b
  \bfavou?rite\b|\btrust\b|\bbetter\b|\bshould (?:i|we)\b|\bwhat would you\b
  |\byour opinion\b
  = I have my own thoughts on that, and keep them for old friends{you}.
  / Ask three people, and you will hear four answers{you}. / I would sleep on it{you}.
feeling: \bi (?:am|feel) (?:\w+ ){0,2}(?:sad|lonely|tired|hungry|thirsty|lost|bored)\b
  \bi (?:am|feel) (?:\w+ ){0,2}(?:scared|afraid|cold|wounded|angry|ill|sick|hurt)\b
  \b(?:marry|kiss|date) me\b|\bflirt\b|\blove you\b
  = I hear you{you}. Rest here a while. / That passes. Stay, and talk with me.
"""

# Of which nothing is known, in this order.
_UNKNOWN: Final = r"""
why: \bwhy\b.*\?|^why\b
  = Why? I have often wondered myself. / Ask me what, and I may know. Why is harder.
  / There is a reason for most things. I do not know this one.
number: \bhow (?:many|much|far|long|old)\b
  = I have not counted{you}. / More than you think, and fewer than they say.
self: ^(?:do|are|can|have|did|were|will|would|what|how|where|who)\b.*\b(?:you|your)\b
question: ^(?:wh|how).*\?|^(?:wh(?:o|at|ere|en|ich)|how)\b
  = That I cannot tell you{you}. / A good question. I have no answer to it.
  / I do not know. {trait} / Ask me about {scope}; that I do know.
whether: \?|^(?:is|are|was|were|do|does|did|has|have|am|should|shall|will|could)\b
  = Perhaps{you}. I would not swear to it. / I could not say, yes or no.
  / Who knows? {trait}
wish: ^(?:give|bring|get|fetch|pour|serve|hand|sell|an?|one|two|some|another)\b
  \bi (?:would like|want|need)\b(?! to)|\b(?:can|could|may) (?:i|we) (?:have|get|buy)\b
  = {Topic}? I shall see what I can do{you}. / {Topic}, is it? A moment{you}.
  / {Topic}... if it is to be had, you shall have it.
heard: ^(?:i|we|he|she|they|it|the|my|our|there|you|this|that|\w+')\b
  = I hear you{you}. / Is that so? Go on{you}. / Hm. {trait} / Tell me more.
  / So you say. What do you want to know? / I will think about that.
noted: ^(?:write|note|jot|record|mark|put)\b.{0,9}\b(?:that|down)
  = I shall keep that in mind. / I will not forget it{you}. / Noted{you}.
order: ^[a-z]{3}
  = That is beyond me{you}. But I can {can}. / That I cannot do{you}.
  / Not I. {trait}
"""

# What no pattern finds.
_OTHERS: Final = r"""
myname: = Well met, {who}. / {who}. A good name; I am {name}.
  / {who}, then. I shall call you that.
empty: = I did not hear you. / Yes? Speak up. / You were about to say something?
nonsense: = I did not catch that{you}. Say it again? / Those are no words that I know.
long: = That was a great deal at once{you}. What first?
known: = {known} / As far as I know: {known} / What I know is this: {known}
told: = You told me: {told} / I do remember. You said: {told}
unknown: = Of {topic} I know nothing{you}. / {Topic}? I have heard nothing of that.
  / I cannot tell you about {topic}. Ask me about {scope}.
  / {Topic}... no, that means nothing to me. {trait}
  / I wish I knew more about {topic} myself.
way: = The way to {topic}? I do not know it{you}.
  / I could not show you the way to {topic}. {trait}
  / I have never been to {topic}. Ask someone who travels.
stranger: = We have only just met{you}. / I know your voice{you}, and little more.
forgotten: = Of {topic} you have told me nothing that I remember.
  / Nothing of that comes back to me. / I remember nothing of that.
  / {Topic}? It is gone from my mind.
missing: = And the {missing}? Say it, and I shall.
  / Tell me the {missing} as well{you}, and it is done.
which: = Which one{you}: {choices}? / There is {choices}. Name one, and I shall.
inwhosename: = In whose name{you}? / Tell me a name first, and I shall.
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
de: = Sei gegrüßt{you}. Ich bin {name}; frag mich lieber auf Englisch.
  / {name} ist mein Name{you}. Auf Deutsch verstehe ich nur die Würfel.
  / Davon verstehe ich nichts{you}. Frag mich auf Englisch.
es: = Saludos{you}. Soy {name} y hablo poco tu lengua. Prueba en inglés.
  / Perdona{you}, soy {name}; en inglés te entiendo mejor.
fr: = Salutations{you}. Je suis {name} et je parle mal votre langue; essayez en anglais.
  / Pardon{you}, je suis {name}. Je vous comprends mieux en anglais.
ja: = すみません、{name}です。英語で話してください。 / {name}です。英語でお願いします。
"""
# What tells that a line asks the NPC's last question for no more than a value.
ASKS_FOR_MORE: Final = re.compile(
    r"^(?:And the .+\? Say it|Tell me the .+ as well|Which one|There is .+ Name one"
    r"|In whose name|Tell me a name)"
)
# Letters and words of a language.
_LANGUAGES: Final = {
    language: re.compile(rf"[{letters}]|\b(?:{words.replace(' ', '|')})\b")
    for language, letters, words in re.findall(
        r"(\w\w) (\S+) (.+)",
        r"""
ja \u3040-\u30ff\u4e00-\u9fff \u3040
de äöüß hallo guten servus moin danke bitte tsch\w+ ich du der das ist und wer wo wie \
was nicht sind bist eine?[nmrs]? kannst mir dir deine?\w? meine?\w? gibt kostet auf \
zeig geht habe? hast noch ja nein den dem von mit zum dass bedeutet heisst kann will \
sagst merke?
es ¿¡ñáíóú hola gracias buen[oa]s el los las que donde eres es una? con por favor \
sabes puedes de mi tienes para la dime
fr êèçù bonjour bonsoir merci salut je tu il la les est qui comment vous quelle? une? \
des moi peux dans pour du de le avez pas
""".replace("\\\n", ""),
    )
}


def language_of(text: str) -> str:
    """Return the language of a text, if it is one of a few; empty for English."""
    low = text.lower()
    found = {x: len(one.findall(low)) for x, one in _LANGUAGES.items()}
    best = max(found, key=lambda x: found[x])
    english = sum(word in DULL for word in re.findall(r"\w+", low))
    return best if found[best] > english else ""


def _read(table: str) -> tuple[dict[str, re.Pattern[str]], dict[str, list[str]]]:
    """Return the patterns and the answers of a table, by kind."""
    patterns: dict[str, re.Pattern[str]] = {}
    answers: dict[str, list[str]] = {}
    for entry in re.split(r"\n(?=\w)", table.strip()):
        head, _, said = entry.partition("= ")
        kind, _, pattern = head.partition(":")
        if said:  # another table may have the same answers
            answers[kind] = [" ".join(one.split()) for one in said.split(" / ")]
        lines = re.sub(r"\n\s*\|", "|", pattern).split("\n")
        lines = [line.strip() for line in lines if line.strip()]
        patterns[kind] = re.compile("|".join(lines), re.IGNORECASE)
    return patterns, answers


SOCIAL, _social = _read(_SOCIAL)
WORLDLY, _worldly = _read(_WORLDLY)
UNKNOWN, _unknown = _read(_UNKNOWN)
_ANSWERS: Final = {**_social, **_worldly, **_unknown, **_read(_OTHERS)[1]}
# An answer of these kinds that tells something comes before one that does not.
_TELLING: Final = ("whoami", "name", "who", "help", "where", "weather", "self")
_FORMATTER: Final = string.Formatter()


@attrs.frozen(kw_only=True)
class Wording:
    """The wording of an NPC: the same conversation gives the same.

    ``said`` is what the NPC has said, ``turn`` the number of utterances to it.
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
