"""Questions that ask for STANDARD, and those that need no slower tier. Data."""

from __future__ import annotations

from typing import Final

from .phrases import lines_of

_WH = "who what where when why how which"
_AUX = "be do can could will would should might must have has had may"

# A question asks for STANDARD, unless it is about the speakers or the moment.
QUESTIONS: Final = lines_of(
    """
^ WH
WH AUX
^ does|did|do|don|didn|doesn
^ is|are|was|were|isn|wasn|aren|weren
^ can|could|might|would|should|will|must
^ has|have|had a|an|the|all|every|any
^ has|have|had|will|would|could|might anyone|anybody|someone|somebody|they|he|she|\
anything
=whose
and|but|so what|who|where|when|why|how|which AUX
""",
    WH=_WH,
    AUX=_AUX,
)
EVERYDAY: Final = lines_of(
    """
# about the speakers and this moment: a character can answer these itself
who be you|i|me|it|there|next|first|up|ready|hungry|thirsty|paying|drinking|in|coming|\
with|asking|counting|laughing|winning|joking|talking|buying|knocking|game|driving|\
cooking|serving|left
who|what|where|how|why the hell|devil|heck
who do you think $
who do you think you
who go there
who care|want|know|need|ask|like|fancy|let|say|else
who turn|go|round|drink|shout|fault|idea|seat|side|glass
who be this|it $
who ll|will|would|can .. stop|care|pay|help|join|come|believe
who <past> my
anyone|anybody|somebody|someone .. want|need|fancy|got|hungry
who do i|we .. pay|talk|speak|have|owe
where =are|=re|=is|=s you|my|your|everyone|everybody|we|i|our
where be he|she|they $
where be the LOCAL
where can|=do|should|could|shall|may i|we|you|one .. put|sit|sleep|pay|sign|wash|leave|\
hang|stand|park|tie|stable|rest|eat|drink|begin|start|want|stay|come|live|keep
where do you .. from|think|get|learn|buy
where to
what =is|=s|=are|=re|=am you|your|we|i|our
what =is|=s|=re|=are my|wrong|up|next|so|cooking|good|better|it|all
what be it|that|this|those|these $
what be that|this smell|noise|sound|face|look|supposed|all|stain|mean|in|on
what be the NEAR
what be your|my|our name
what be the damage $
what be in|on the LOCAL
what be in|on|for it|there|here|this|that|dinner|supper|breakfast|lunch|tap|offer|sale|\
menu|me|you
what be go on $
what be go on here|there $
what be happening $
what be happening here|there $
what happened $
what happened here|there $
what =do|=does|=did it|that|this .. cost|taste|matter|mean|smell|look|feel
what =do you|ye
what =do|=does i|we|one .. roll|add|owe|think|mean|want|need|recommend|suggest|sell|\
like|call|serve|offer|charge|reckon|drink|eat|got|see|hear|feel|smell|do|say|get|make|\
take|look|expect|care|fancy|prefer|get|wear|keep
what did you say|call|mean $
what did you just
where do everyone|everybody|he|she|they|it go $
why don t you|we|i
why the long
what =are friends
what did i|you .. just|do $
what have you|we|i .. got|here|done|to
what can|may|could i|we .. get|do|bring|offer|have|help|say|see|give|order|buy
what will|would a|the .. LOCAL
what will|would|ll|d|shall|should|might|must it|you|i|that
what should|shall we
what about|if|now|then|else|a|an|ever|brings|say|kind
what =a|=an
so what
what $
what =then
what like|of
what took|brought|brings|made you|us|me
why be|do|would|should|will|can|must|don|aren|have|won|can you|i|we|me|us
why =is|=s|=does it|that|this|he|she
why not|so|me|us|bother|thank|yes
when =do|=are|will|should|shall you|we|i
when can|could you|we|i .. leave|go|eat|start|begin|come|have
when be|do|will breakfast|dinner|supper|lunch|it
when be|do|will the LOCAL
how be you|it|your|i|that|we|business|life|thing|everyone|everybody|was
how =is|=s|=are the|your|my
how =was|=were your|the|my .. day|night|trip|journey|ride|sleep|food|meal|show|road|\
walk|bath|bed|room|swim|date
how .. =is|=are it|this|that|you|they $
what seem
WH i|we|you|they|he|she|it|ye
when the|a|my|your|our|his|their
what nonsense|rubbish|fun|luck|joy|madness|cheek|rot|nerve
which be why|good|fine|nice|bad|great
how =do|=does|did you|ye .. do|feel|like|want|sleep|take|know|think
how =do|=does|did i|we|it|that|he|she|they .. look|seem|sound|feel|taste|go|smell|pay|\
fit
how can|could|may|might|will|would|should i|we|you
how come you|i|we
how about|dare|much|nice|kind|lovely|sweet|rude|exciting|awful|cute|charming|\
thoughtful|convenient|wonderful|strange|odd|sad|interesting|so|else|now
how many .. room|bed|drink|ale|beer|mug|pint|coin|silver|gold|copper|finger|night|of
how long have|be|will|can you|i|we
how have you|thing|everything|it
how =old|=long|=far|=tall|=strong|=big|=fast be you
how =sure|=hard|=bad|=good|=late|=drunk|=tired|=hungry be|can
which one|of .. you|us|mine|yours
which one $
which be you|my|your|mine|better|it|faster|cheaper

do|does|did|don|didn|doesn t you|i|it|that|this|me|us|be
do|does|did you|it|that|this|me|us|not|your|come|as|what|whatever|my|something|hurry
do|did|didn|don i|we .. look|know|smell|owe|sound|hit|see|have|miss|win|make|say|hear|\
ask|stutter|deal|understand
don t|be|even|move|touch|go|worry|stop|let|make|look|try|you|say|shoot|tell|know|forget
do i|we need|get|have to .. roll|go
do .. pass|hit|work $
=are|=re they
did he|she|they|we .. hit|miss|hurt|fall|just|make|fail|land|die|win
be you|we|i|it|this|that|those|these|my|your|our|everything|everyone|everybody|anyone|\
anybody|someone|something|anything|all|one|t
be he|she|they .. dead|hurt|ok|alright|alive|awake|breathing|asleep|with|coming|gone|\
safe|here|bleeding|drunk|always|there|mad|angry
be the LOCAL
be the .. LOCAL .. open|free|ready|taken|closed|clean|warm|cold|hot|fresh|good
be there .. LOCAL|anything|something|problem|room|space|left|discount|time|chance|\
trouble|more
be quiet|careful|silent|nice|good|still|right|gone|honest|quick|back|reasonable|kind|\
patient|brave|polite
can|could|may|might|would|should|will|must|have|had the LOCAL
have the LOCAL|special|usual
can|could|may|might|will|would|should|must|shall you|i|we|it|he|she|that|this|they|\
someone|somebody|anyone|one|me|not|be|do|as|have|love|like|go|use|eat
have a|an|some|mercy|fun|faith|another|no|it|at|your|my|you|to
would the|a|an .. like|care|want
""",
    WH=_WH,
    LOCAL="""loo toilet privy bathroom latrine jakes door exit kitchen bar stair cellar
        food beer ale drink menu bill waiter cat dog fire bed table seat
        chair stew soup bread fish pie meat chicken cake sausage cheese
        cook bard waitress barmaid music song lady gentleman meal wine
        mead water coast innkeeper owner bath room stable hearth""",
    NEAR="""matter problem price cost plan time special catch deal point rush use
        weather soup stew food hurry total fuss word bet score occasion
        verdict harm hold worst best cheapest strongest rent rate tab bill
        menu trouble holdup joke fun situation idea""",
)
