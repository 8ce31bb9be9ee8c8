"""Phrases that ask for STANDARD: the past, lore, places, rules, quests. Data.

Those of the past stand apart: a reference to the past is also a reason to look into
what was said before.
"""

from __future__ import annotations

from typing import Final

from .phrases import lines_of

# These count wherever they occur. "who is" does not: it is among the questions, because
# "who is there" asks for nothing that has to be looked up.
PAST_KEYWORDS: Final = ("remember", "last time")
STANDARD_KEYWORDS: Final = (
    *PAST_KEYWORDS,
    "rules",
    "quest",
    "tell me about",
)


PAST_PATTERNS: Final = lines_of(
    """
recall
remind me|of
recap
summary|summarise
forget .. who|what|where|when|why|how|which|name
last|previous|other session|night|week|month|year|day|evening|game|summer|winter|\
spring|autumn|adventure|visit|meeting|encounter|fight|battle|chapter
yesterday
earlier|previously|formerly
ago
back =then|when|in
in the past|old
used to
once upon|before
before the|we|you
long time|since
leave|stop|finish off
where .. be we =last
catch|bring|get me up
fill me in
up to speed
happen|become of|to|with|at|in|when|after|before|there|between|during
whatever|what|who =happened|=became
the night|day|time|year|winter|summer|battle|war|week .. <past>
the|that|those|this .. i|we|you|he|she|they <past>
did|didn t .. we|he|she|they|the|anyone|anybody|anything|someone|somebody|everyone
did i|you .. already|ever|promise|tell|say|mention|give|find|know|hear|see|\
meet .. about|of|from|who|what|the|him|her|anyone|anything|a|us|me
=was|=were there|he|she|they|we|it|you .. here|before|supposed|with|a|an|the|any|in|at
be|have i|we|you|they already
already <past>
have|has we|you|he|she|they|anyone|i .. ever|before|already|met|seen|heard
have|has we|you|he|she|they|anyone|i been .. to|there|across|through
been .. before
you =said|=told|=promised|=mentioned|=warned|=spoke|=talked|=gave
=said|=told|=mentioned|=promised|=spoke|=talked .. something|about|us|that|a|the
name of
what =was that .. about
what .. name .. that|of
when .. first|last <past>
last i|we =heard|=saw|=knew|=checked
where .. =was|=were
anything|something .. happen
thought .. was|were|had|would|did
do|have i|we .. still
have i|we .. left
happen while
unfinished
what .. =learned|=agreed
what|anything|something did ... =say|=tell|=mention|=promise
"""
)
STANDARD_PATTERNS: Final = (
    *PAST_PATTERNS,
    *lines_of(
        """
# lore
why|what|how|where .. be|do .. =called|=named|=spelled|=known
what .. have|need|left|supposed .. to do|get|find|bring|deliver|collect
be he|she|it|they|that|this|these|the .. true|dangerous|real|cursed|magical|related|\
member|allied|enemy
night|day|morning|evening|time|hour of|when|that
i|we|you|they|he|she never <past>
in charge of
wizard|man|woman|person|someone|somebody|anyone|people|guy|dwarf|elf|lord|lady|witch|\
merchant|priest|knight|stranger|place|town|village|inn|creature =called|=named|=known
tell me|more|them ... about|of
tell|ask|show|teach|remind me .. who|what|where|when|why|how|which|whether|if
know|wonder|idea|clue|=unsure|understand if|who|whether|where|when|why|how|which
tell|talk|say|speak|know|hear|learn|information|anything|something|info|read|ask|\
question .. about|regarding|concerning
know .. anyone|anybody|someone|somebody|man|woman|person|wizard|way|place
=know|=heard|=learned|=read|thought of
hear .. of|about|from
ever hear|see|meet|visit|been|fight|read
mean .. anything|something to
explain
describe
clarify
definition
curious|interested|interest about|if|whether|in|to
from|to|with|by|of who|whom|which
speak|talk|sing to me .. of|about
enlighten|educate|inform|brief|update me|them
refresh|jog .. memory
these days
what|which kind|sort|type of
enquire|inquire|seek
about that|this job|business|thing|matter|deal|offer
goal
idea|wonder|clue what
how much .. do .. heal|restore|damage|weigh|hurt|deal|carry|lift
identify|recognise
the deal|story|situation|matter|problem|trouble .. with|behind
nearest|closest
point|direct|guide us|me .. to|toward|towards
information about|on
legend|prophecy|myth|lore|folklore|history|origin
rumour ... about|of
meaning of
the truth about|of
word on
look .. for =a|=an|=the .. man|woman|person|place|shop|temple|healer|smith|wizard|\
called|named

# places
in|to|from|at|of|up|down|over|out far|distant|remote|northern|southern|eastern|western
far|distant|remote north|south|east|west|land|kingdom|country|city|shore|realm|place|\
corner
the road|way|route|path|pass|journey|distance|trail to|from|through
road|path|trail .. lead|go
beyond|across the mountain|sea|border|river|hill|forest|desert|wall|ocean|pass|wood
any|what .. word|news|tiding from|of|about
how ... get|travel|ride|sail|walk to|there|into|out
far|distance|journey|day to
direction to|for

# rules
rule
look .. up
according to
be|are|am|is i|we|he|she|they|it .. allowed|able|permitted|entitled|supposed
saving throw
difference between

# quests
mission|bounty|objective|errand|contract|assignment|commission|task
reward .. for|on
job|work for|going|available
supposed to
hire .. us|me|you
report to
next .. objective|step|goal|clue|lead
any .. lead|clue|suspect|progress|objective|sighting|sign
missing|lost|stolen|vanished child|girl|boy|person|people|caravan|man|woman|villager|\
merchant|prince|princess|heir
"""
    ),
)
STANDARD_UNLESS: Final = lines_of(
    """
i|we order|pay|buy
the .. you|i|we =ordered|=asked|=wanted|=bought|=paid|=drank|=ate
you =said it|you
what you =said
back in .. minute|moment|second|bit|hour
before the|we|you go|leave|close|drink|eat|start|begin|get|do
before you|we know|get|can
i|we forget|forgot my
=your|=my name
already paid|ordered|had|ate|drunk|eaten|said
know .. song|joke|story|tune|trick|game
know how .. feel|that|much|to|lucky
know what|why|who|where|how .. mean|say|talk|do|want|like|think
know who|what you|i be
tell me what|how|why|where|when .. you|i .. want|think|need|see|feel|like|hurt|help|do|\
look|mean
tell me .. about you|yourself|it|your
explain yourself
say something|that|it
think of
think about
talk about
no|bad|good idea
long time no
what she =said
be|m not sure
what i .. say
way to go
hide behind
i be supposed to
on my|the way
get to .. bed|work|sleep|the point|know
up to you|me
ready to
see you
it be .. past|old
in the .. back
get up
"""
)
