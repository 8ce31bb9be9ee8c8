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
  \b(?:are|r) (?:you|u) (?:an? )?(?:ai|robot|bot|human|real|machine|npc|program|gpt)\b
  \bpretend (?:to be|you)\b|language model
  = I am who I am{you}. {trait} / {name} I am, and {name} I stay. Ask me of this world.
whoami: \bwho am i\b(?! (?:talk|speak))|\bwhat(?:'s| is|s) my name\b
  \bknow (?:my name|who i am|me)\b
  = You are {told_name}, or so you told me. / {told_name}. I do not forget a name.
  / You are {speaker}. / {speaker}, if I heard it rightly.
  / You have not told me your name yet.
myname: \b(?:(?:my|the) name(?: is|'s)|call me|i(?: a|')m called) (?P<who>[a-z][\w'-]+)
  ^(?:\w+[,. ]+){0,3}i(?:'m| am|ch bin|ch hei\w+) (?P<who2>(?-i:[A-Z])[\w'-]+)(?:\W*$|,)
  = Well met, {who}. / {who}. A good name; I am {name}.
  / {who}, then. I shall call you that.
name: \b(?:what(?:'s| is|s) )?your (?:\w+ )?name\b|^name\?$
  \bwhat (?:do|should|can|may|shall) (?:i|we|they|people) call you\b
  = I am {name}. / {name} is my name{you}. / My name matters little.
who: \bwho(?:'re| are|s|'s) (?:you|u|this|there)\b|\bwhat are you\b
  \bwho am i (?:talk|speak)\w+|\bwho (?:might|may) you be\b|\byour (?:story|past)\b
  \b(?:about|introduce|describe) (?:yourself|you|your life)\W*$
  = I am {name}. {trait} / {trait} They call me {name}.
  / One who listens, and answers if I can.
how: \bhow(?:'s| are| is|'re) (?:you|u|it going|things|life|business|your day)\b
  ^what'?s up\b|^and you\W*$|\bhow(?:'s| is| was) (?:your|the) (?:day|night|evening)
  \bare you (?:ok|okay|well|alright)\b|\bhow do you (?:feel|do)\b
  = Well enough{you}, thank you. And you? / I cannot complain. {trait}
help: \bwhat (?:can|could|should|may|do) (?:i|we) (?:ask|do|say|talk|type)\b
  \bhelp me\W*$|\bwhat can you (?:do|help|tell)|\b(?:how )?can you help
  \bhow (?:can|do) i (?:play|start|talk|use)|\bwhat (?:are you able|else can)\b
  ^(?:help|commands|options|menu|how does (?:this|it) work)\W*$
  = Ask me, and I can {can}. / I can {can}. Or ask me who I am.
  / Ask me about {scope}. And I can {can}. / Ask me about {scope}, or about myself.
  / Ask me who I am, or tell me something to remember.
mayask: \b(?:may|can|could) i (?:ask|trouble|have a word|talk to|speak)\b.{0,30}$
  ^i have a (?:question|request)\b.{0,10}$|\b(?:got|have) a (?:minute|moment|second)
  = Ask away{you}. / Of course{you}. What is it? / Go on, I am listening.
thanks: ^(?:\w+,? )?(?:many )?(?:thank(?:s| you)|thx|ty|cheers|much obliged)\b[^?]*$
  = You are welcome{you}. / Gladly. / Think nothing of it. / Any time{you}.
goodbye: ^(?:\w+,? ){0,2}i(?:'m|'ll| \w+){1,2} (?:go|going|leav\w+|be off)\W*$
  ^(?:\w+,? ){0,2}(?:good ?bye|bye|farewell|see y\w+|good ?night|cya)\b[^?]{0,30}$
  = Farewell{you}. / Safe roads{you}. / Until we meet again. / Go well, and come back.
greeting: ^(?:oh,? )?(?:hi+|hello+|hey+|hiya|ho|oi|yo|ahoy)\b(?:.{0,9}\?|[^?]{0,40})$
  ^(?:hail|greetings|salutations|well met|howdy)\b[^?]{0,40}$
  ^(?:good )?(?:morning|morrow|day|evening|afternoon|eve)\b[^?]{0,40}$
  ^(?:is |are )?(?:you|any(?:one|body)|some\w+) (?:here|there|home|awake)\b
  = Well met{you}. {greeting} / Hello{you}. I am {name}; what can I do for you?
  / Good to see you{you}. {trait} / Greetings{you}. / A good day to you{you}.
insult: \b(?:you|your|you're)\b.{0,25}\b(?:idiot|stupid|fool|ugly|moron|dumb|old man)\b
  \b(?:you|your|you're)\b.{0,25}\b(?:liar|coward|useless|boring|no help|suck|smell)\b
  ^(?:you )?(?:idiot|stupid|fool|moron|liar|coward|scum|bastard|jerk)\W*$
  \b(?:hate|damn|screw|fuck) you\b|\bshut up\b|^(?:fuck|shit|crap)\b
  = I have been called worse{you}. / Words. I let them pass.
  / Mind your tongue. I am {name}, and no one's footstool.
  / Say that again when you are calmer.
praise: \byou(?:'re| are| look) (?:\w+ ){0,2}(?:great|nice|kind|best|good|wise)\b[^?]*$
  \byou(?:'re| are) (?:\w+ ){0,2}(?:wonderful|amazing|funny|clever|awesome|cool)\b[^?]*$
  ^(?:well done|good|nice|great|awesome|cool|wow|amazing|good job)\b[^?]{0,12}$
  ^i (?:\w+ )?(?:like|love|trust) (?:you|this place|your)\b|\bgood one\W*$
  ^(?:ha(?:ha)*|he(?:he)+|lol|rofl|lmao|:\)|xd)(?:\W|$)[^?]{0,25}$
  = You are kind{you}. / Ah, you flatter me. / I am glad that it pleases you.
yes: ^(?:yes|yeah|yep|aye|sure|of course|indeed|ok(?:ay)?|fine|agreed)\b[^?]{0,20}$
  ^(?:i(?:'m| am) )?(?:so |very |really )?sorry\b|\bi apologi[sz]e\b|^my apologies
  = Good. Then go on{you}. / So be it. / No harm done. What shall it be?
unclear: \bi (?:don't|do not) (?:understand|get it|follow)\b|\bwhat do you mean\b
  ^(?:what|huh|pardon|sorry|hm+)\?+$
  = Ask me once more{you}, in other words. / Then ask me something simpler{you}.
no: ^(?:stop|be quiet|quiet|silence)(?: talking| it| that)?\W*$|^never ?mind\b
  ^(?:no|nope|nah|nay|never|not really|no way|not now|forget it)\b[^?]{0,20}$
  = As you like{you}. / Then not. / Very well. Something else?
"""

# Said of the world or the trade: if no tool fits.
_WORLDLY: Final = r"""
story: \btell (?:me|us) something\b|\b(?:story|tale|legend|song|sing|poem)\b
  \bjokes?\b|\bmake me laugh\b|\bsomething funny\b|\briddle\b
  = A troll walks into a mill. The mill had it coming.
  / The only tale I know well is my own. {trait}
  / I knew a good one, and it walked off with my purse.
trade: \bwhat (?:do|can|have) you (?:sell|got|have|offer|do|serve|make|teach|know\W*$)
  \bgot (?:any|some)|\b(?:to|can i|some|any) (?:drink|eat|buy|sell)\b|\bmenu\b
  \bdo you (?:sell|have|work|buy|serve)\b|\b(?:wares|goods)\b|\bfor a living\b
  \bwhat(?:'s| is) (?:for sale|your (?:job|trade|work|role))|\bwhat is it you do\b
  ^(?:you )?got \w+\?|\bwhat.{0,30} you (?:have|got|serve|sell)\b
  = {trait} And I can {can}. / What I can do for you is this: {can}.
  / {trait} Ask me about {scope}. / {trait} / What I have is what you see{you}.
where: \bwhere (?:are (?:we|you)|am i|is this)\b(?! going)|\babout this place\b
  \bwhat (?:\w+ )?(?:place|town|city|inn|land) is this\b|\bwhat(?:'s| is) this place\b
  \bwhere do you (?:live|work|come)\b
  = {scene} / You are with {name}. {trait} / Where you find me{you}. {trait}
weather: \bweather\b|\b(?:rain|snow)(?:s|ing)?\b|\bis it (?:cold|warm|hot)\b
  = {scene} / I have not looked outside for a while{you}.
time: \bwhat (?:time|hour|day|date|year)\b|\bhow late\b|\bthe time\b
  \bwhat(?:'s| is) today
  = Late enough for good talk{you}. The rest I do not count.
news: \bnews\b|\brumou?rs?\b|\bgossip\b|\bwhat(?:'s| is) (?:new|happening|going on)
  \bany(?:thing)? (?:new|interesting|happening)\b|\bwhat happened\b|\bquests?\b
  \b(?:any|some|a|find|need) (?:work|jobs?)\b|\badventures?\b
  = Little that I would swear to. {trait} / It is quiet. Too quiet, some say.
  / I have heard nothing new{you}. You are the one who travels.
hit: \b(?:is|was|did|does|do) .{0,12}\b(?:hit|miss|succeed|success|pass|fail|enough)\b
  = That depends on what you had to reach{you}. Tell me the number.
  / Only the one who set the mark can tell you.
fight: \b(?:attack|fight|kill|stab|punch|draw my|shoot|strike|initiative|steal|rob)\b
  = Easy{you}. Not here, and not with me. / Put that away before someone gets hurt.
secret: \bsecrets?\b|\bhid(?:e|ing|den)\b
  = If I had secrets, I would not tell them on the first asking.
  / Earn my trust first{you}.
feeling: \bi(?:'m| am| feel) (?:\w+ ){0,2}(?:sad|lonely|tired|hungry|thirsty|lost)\b
  \bi(?:'m| am| feel) (?:\w+ ){0,2}(?:scared|afraid|bored|hurt|cold|wounded|angry)\b
  \b(?:marry|kiss|date) me\b|\bflirt\b|\blove you\b
  = I hear you{you}. Rest here a while. / That passes. Stay, and talk with me.
"""

# What no pattern finds.
_OTHERS: Final = r"""
empty: = I did not hear you. / Yes? Speak up. / You were about to say something?
nonsense: = I did not catch that{you}. Say it again? / Those are no words that I know.
long: = That was a great deal at once{you}. What first?
known: = {known} / As far as I know: {known} / What I know is this: {known}
told: = You told me: {told} / I do remember. You said: {told}
noted: = I shall keep that in mind. / I will not forget it{you}. / Noted{you}.
unknown: = Of {topic} I know nothing{you}. / {Topic}? I have heard nothing of that.
  / I cannot tell you about {topic}. Ask me about {scope}.
  / {Topic}... no, that means nothing to me. {trait}
  / I wish I knew more about {topic} myself.
mine: = I never gave it much thought{you}. / That I keep to myself{you}.
way: = The way to {topic}? I do not know it{you}.
  / I could not show you the way to {topic}. {trait}
  / I have never been to {topic}. Ask someone who travels.
forgotten: = Of {topic} you have told me nothing that I remember.
  / Nothing of that comes back to me. / I remember nothing of that.
  / {Topic}? It is gone from my mind.
missing: = And the {missing}? Say it with the rest, and I shall.
  / Tell me the {missing} as well{you}, and it is done.
which: = Which one{you}: {choices}? / There is {choices}. Name one, and I shall.
inwhosename: = In whose name{you}? / Tell me a name first, and I shall.
why: = Why? I have often wondered myself. / Ask me what, and I may know. Why is harder.
  / There is a reason for most things. I do not know this one.
number: = I have not counted{you}. / More than you think, and fewer than they say.
whether: = Perhaps{you}. I would not swear to it. / I could not say, yes or no.
  / Who knows? {trait}
question: = That I cannot tell you{you}. / A good question. I have no answer to it.
  / I do not know. {trait} / Ask me about {scope}; that I do know.
self: = I? {trait} / Of myself I say only this: {trait} / That I keep to myself{you}.
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

# The same in German.
_IN_GERMAN: Final = r"""
greeting: = Seid gegrüßt{you}. / Willkommen{you}. Ich bin {name}. Was darf es sein?
who: = Ich bin {name}. Mehr musst du nicht wissen. / {name} ist mein Name{you}.
myname: = Sei gegrüßt, {who}. / {who}, ein guter Name. Ich bin {name}.
whoami: = Du bist {told_name}. / Du bist {speaker}. / Deinen Namen kenne ich noch nicht.
how: = Gut genug{you}, danke. Und dir? / Ich kann nicht klagen.
help: = Frag mich etwas, lass mich würfeln, oder sag mir, was ich mir merken soll.
thanks: = Gern geschehen{you}. / Nichts zu danken.
goodbye: = Leb wohl{you}. / Gute Reise{you}. / Bis bald.
where: = Du bist bei {name}. / Hier, bei mir.
noted: = Das merke ich mir. / Ich vergesse es nicht{you}.
told: = Du hast gesagt: {told}
no: = Wie du willst{you}. / Dann eben nicht.
unknown: = Davon weiß ich nichts{you}. / Davon habe ich nie gehört.
missing: = Dazu muss ich noch mehr wissen{you}. Sag es im Ganzen.
question: = Das kann ich dir nicht sagen{you}. / Eine gute Frage. Ich weiß es nicht.
wish: = Kommt sofort{you}. / Ich sehe, was ich tun kann{you}.
order: = Das kann ich nicht{you}. / Dazu fehlt mir das Können.
heard: = Ich höre dich{you}. / So, so. Erzähl weiter. / Darüber denke ich nach.
done: = Es ist getan. / So, das wäre erledigt.
nothing: = Da ist nichts zu finden. / Nichts, leider.
failed: = Das ging nicht. / Ich habe es versucht, es ging nicht.
"""
_LIKE: Final = {
    **dict.fromkeys(("number", "whether", "why", "mine", "way", "secret"), "question"),
    **dict.fromkeys(("late", "broken", "denied", "stopped"), "failed"),
    "which": "missing",
    "inwhosename": "missing",
    "self": "question",
    "name": "who",
    "break": "who",
    "known": "unknown",
    "trade": "help",
    "mayask": "greeting",
    "weather": "question",
    "time": "question",
    "news": "unknown",
    "forgotten": "unknown",
}
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
_GERMAN: Final = _read(_IN_GERMAN)[1]
# An answer of these kinds that tells something comes before one that does not.
_TELLING: Final = [
    "whoami",
    "name",
    "who",
    "help",
    "trade",
    "where",
    "weather",
    "time",
    "self",
]


@attrs.frozen(kw_only=True)
class Wording:
    """The wording of an NPC: the same conversation gives the same.

    ``said`` is what the NPC has said, ``turn`` the number of utterances to it,
    ``language`` that of the last one.
    """

    name: str = ""
    said: str = ""
    turn: int = 0
    language: str = ""

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
        answers = _ANSWERS[kind]
        if self.language == "de":
            answers = _GERMAN.get(kind) or _GERMAN[_LIKE.get(kind, "heard")]
        gaps = {
            text: {x for _, x, _, _ in _FORMATTER.parse(text) if x} - {"you"}
            for text in answers
        }
        fitting = [x for x, names in gaps.items() if all(map(values.get, names))]
        if kind in _TELLING and any(gaps[text] for text in fitting):
            fitting = [text for text in fitting if gaps[text]]
        given = {"you": "", **values}
        return self.pick([str(text.format(**given)) for text in fitting])
