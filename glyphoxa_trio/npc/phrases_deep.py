"""Phrases that ask for DEEP. Data.

They ask for time to think, for everything that is known, a plan, pictures, or the web.
"""

from __future__ import annotations

from typing import Final

from .phrases import lines_of

# These count wherever they occur.
DEEP_KEYWORDS: Final = (
    "think carefully",
    "take your time",
    "deep search",
    "generate image",
    "generate an image",
    "search the web",
)

_TELL = "tell give explain describe show list say recount relate share reveal"
_THINK = "think consider ponder reflect contemplate meditate deliberate reason"
_STUDY = """
analyse investigate research examine evaluate decipher decode decrypt study assess
scrutinise inspect
"""
_MAKE = """
generate create make draw paint render sketch produce design show give do conjure depict
illustrate craft
"""
_IMAGE = """
image picture portrait illustration drawing painting sketch artwork photo photograph
"""

DEEP_PATTERNS: Final = lines_of(
    """
# time and thought
THINK .. careful|hard|thorough|proper|serious|deep|through|long
give ... thought|think
give it|this .. all
THINK .. before you =answer|=speak|=reply
THINK about this|that|it .. for
THINK it|this|that|them .. over|through|out
THINK over|through
=really|=properly THINK
put ... thought into
use all|every .. time|resource|mean|book|source
take all .. hour|day|time|week
time .. you =want|=need|=like
not|t =answer|=reply|=respond|=decide .. right|immediate|quick|yet|once
ponder|contemplate|meditate|deliberate
=consider what|who|how|why|whether|the|both
consider .. every|option|possibility|angle|careful|alternative|everything
weigh .. option|possibility|pro|risk|evidence|everything|choice
pro and con
reflect on
take your|all|plenty|more time
take some time to|and
take as long|much
take a moment|minute|while and|to think|consider|reflect|ponder
no|not|don|t|never .. rush|hurry
step by step
concentrate|focus .. and|try|hard
full|undivided attention
get it right
double check|=twice
check ... twice
try .. hard|best to remember|recall
remember|recall every
rack your brain

# all of it
everything .. know|about|on|happen|learn|said|see|remember|hear|find|concerning|\
regarding|mention|discover
all .. know .. about|of|on
all .. you|we|they|there =know
all there be to
all .. can about|on
ABOUT .. everything
everything there be
walk|talk|take|guide|run me .. through
lay|spell|list|write .. everything|all
TELL .. all of it
=tell|=say it all
as .. as possible|you =can
much|many .. as .. possible|you|can
ABOUT ... COMPLETE ... about|of|on|that|have|has|know|in|from|to|ever
STORY .. of .. entire|whole|full
all|every .. STORY .. on|about|of|you|we|in
whole thing .. to|for
every last|single .. thing|detail|word|name|clue|step|fact|bit|piece|one|scrap
no stone
every detail|clue|possibility|angle|option|connection|scrap|piece
full|whole|entire|complete|detailed|exhaustive|thorough|comprehensive .. STORY
thorough|fully|exhaustive|extensive|comprehensive|meticulous|systematic|painstaking|\
indepth
long|careful|detailed|considered .. answer|explanation|version
want|need|give ... proper|good|right|best .. answer|explanation
elaborate
detail
indepth
in depth|length
more depth
from .. beginning|start
start to finish
leave nothing|out
leave .. anything|nothing out
skip anything|nothing
not .. skip|omit anything
summary|summarise|overview|recap .. of .. all|whole|entire|everything|campaign|every
summarise|recap .. all|whole|entire|everything|campaign|every
the whole|entire|complete campaign
every|all .. possible|suspect|motive|option|evidence|scenario|clue|angle|possibility|\
detail
list|lay|write|put .. everything
consult|check|search|read|try|scan|review|scour .. every|all|past
simulate
calculate|compute|predict .. best|optimal|odd|chance|probability|exact
go|work|think over|through|back|down .. all|every|everything|whole|entire|slow|careful|\
step
sleep on it
long|hard .. look at
=look into
brainstorm
mull
deduce
hypothesis|hypothesise|theorise|extrapolate
make sense of
every|all|each .. name|clue|session|word|note|fact|event|evidence .. ever|have|has|had|\
was|were
deep dive|search|research|analysis|look|think|thought|investigation
look|dig|go|delve|think deeper|further
dig|delve deep
dig .. into|up|around|through|for
find|dig out|up .. all|everything|whatever
=investigate|=research|=analyse|=analyze|=examine|=evaluate|=decipher|=decode|=decrypt|\
=scrutinise|=scrutinize|=assess
analysis
search|go|look|comb|sift through .. all|every|everything|old|record|archive|library|\
note|ledger|book|memory
search .. memory|record|archive|library|everything|everywhere
thorough search|investigation|look
cross check|reference

# a plan, a riddle
plan .. heist|route|attack|ambush|escape|raid|expedition|campaign|journey|siege|battle|\
trip|assault|defence|defense|rescue
=let s .. plan
help us|me .. plan|strategise|figure|work|solve|understand|decide|puzzle|unravel|think
plan .. out
plan of attack|action|campaign
optimal|optimise
compile|catalogue|enumerate|tabulate|cross
list of all|every|everything
give|list|suggest|need|want ... idea|option|suggestion|alternative .. for|to|how|and
figure .. out
untangle|unravel|unpick|disentangle
translate
detailed|careful|foolproof|battle plan
devise|concoct|formulate|strategise|strategy
make|devise|develop|design|outline|work|come|draw|think .. up|out|with|us|me .. plan|\
strategy|scheme
need|want .. plan|strategy
best|optimal|wise .. strategy|course|tactic|approach|way .. action|against|\
to .. defeat|beat
=work|figure|puzzle|reason|sort out .. who|what|how|why|where|which|best|every|plan|\
the|a|an|our|their|his|riddle|code|cipher|mystery|connection
solve
crack|break|translate .. code|cipher|riddle|puzzle|whole|entire|inscription|text
piece|put|fit .. together
connect .. dot
bottom of
=compare
compare|comparison .. two|three|all|both|every|of|with|to
contrast
=write|=compose|=invent ... poem|ballad|epic|sonnet|saga|verse|ode|eulogy|speech|song|\
letter

# pictures
MAKE ... IMAGE
=see|=get|=have|=want|=like|=need|=love ... a|an|some IMAGE
another|new IMAGE
pull|bring|call|put|throw ... IMAGE .. of|on|up
pull|bring|call|throw .. up ... IMAGE
a|an|some IMAGE of
art of
MAKE ... art|token|avatar|map .. of|for
as an IMAGE
=draw|=paint|=sketch|=illustrate|=render|=depict me|us|the|a|an|it|this|what|him|her|\
them|how
IMAGE generation
visualise|illustrate|depict

# the web
search|check|browse|scour|look|surf|trawl|on|query .. web|net
web|internet|online search|research|page|site
from|on|off|over the web|net
reddit|youtube|forum|internet|online|google|wikipedia|website|webpage|wiki|url
open|follow .. link
fetch|read .. page|article
""",
    THINK=_THINK,
    TELL=_TELL,
    MAKE=_MAKE,
    IMAGE=_IMAGE,
    ABOUT="""tell explain describe list recount relate summarise recap recite compile
        report review outline enumerate catalogue""",
    COMPLETE="""everything every whole entire full complete comprehensive exhaustive
        thorough""",
    STORY="""story history account summary explanation report analysis tale lore
        background chronicle description truth picture briefing rundown
        timeline biography information info fact clue evidence data
        intelligence record version overview list breakdown""",
)
DEEP_UNLESS: Final = lines_of(
    """
work out fine|well|for|in|okay|alright
# actions of the player, and figures of speech
i|we|he|she|they THINK
want|need|go|have|try|like to THINK
i|we|he|she|they STUDY|draw|paint|dig|plan|study|make|show|give|search|check|look|go|\
read|try|use|focus|work
i|we|he|she|they ll|d|have|will|am THINK|draw|paint|dig|plan
=let me|us =think
draw .. sword|weapon|blade|bow|steel|arm|card|knife|dagger|axe|near|closer|attention|\
line|breath|blood|water|lot|straw|fire
make .. long|full story short
the picture =of|=on
look into .. eye
take .. time off
spare|skip me|us|the .. detail
minor|small detail
as .. soon|fast|quick|quiet as
that|this .. a|an IMAGE
whole thing off
think .. well|highly of
""",
    THINK=_THINK,
    STUDY=_STUDY,
)
