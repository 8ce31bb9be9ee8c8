"""Common words of English talk at a game table, which are no misheard names. Data.

"Will you sell ale?" names neither Willa nor Yael. The words are compared by their
stems, so "steal" stands for "stealing" and "steals" as well.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from glyphoxa_trio.memory.words import COMMON, words_of
from glyphoxa_trio.npc.stems import stem
from glyphoxa_trio.npc.words import STOP_WORDS, TITLES

_WORDS: Final = """
abbey abbot able about above absolute ac accept access accident accord account accuse
ache acrobatics across act action actual actually add address admit advance advantage
adventure advice affair afford afraid after afternoon against age ago agree agreement
ahead aid aim air alarm alchemist ale ales alike alive alley allow ally almost alone
along aloud already alright altar although amaze ambush amen amount amulet analyse
analysis ancient angel anger angry animal ankle announce annoy anomaly another answer
anxious anybody anyone anything anyway anywhere apart apologise apothecary apple
apprentice approach apron arcana archer archive area aren argue arm armory armour army
around arrange arrest arrive arrow art article artifact ash aside ask asleep assassin
assume athletics attack attempt attend attention attic attunement audience aunt avoid aw
await awake aware away awful axe aye baby bachelor back bacon bad bag bake baker bald
ball ballad band bandage bandit bang banish bank banner bar barbarian bard bare bargain
bark barkeep barmaid barn baron barrack barrel barricade bartender base basement basic
basically basilisk basket bath battle battlefield bay beach bead beam bean bear beard
beast beat beautiful beauty because become bed bee beef been beer before beg beggar
begin behave behind beholder believe bell belly belong beloved below belt bench bend
beneath benefit beside best bet betray better between beyond big bill bind bird birth
birthday bishop bit bite bitter black blacksmith blade blame blank blanket blast bleed
bless blind block blockade blood bloody blow blue bluff blunt board boast boat body bold
bolt bone bonus boo book boot border bore born borrow boss bother bottle bottom bounty
bow bowl box boy brain branch brave brawl bread break breakfast breath breathe brew
bribe brick bride bridge brief bright bring broad broke broken broom broth brother brow
brown brush bucket build bull bunch bundle burden burn burrow bury bush business busy
butcher butler butter button buy cage cake calculate call calm camp candle cannon cannot
cantrip cap cape capital captain capture car card care careful cargo carpet carriage
carry cart carve case cast castle cat catacomb catch cattle cause cave cavern ceiling
celebrate cell cellar centaur central century certain cha chain chainmail chair
challenge chamber champion chance change chant chaos chapel character charge charisma
charm chart chase chat cheap cheat check cheek cheer cheers cheese chest chicken chief
child children chin chip choice choose chop chronicle church cider circle citadel city
civil claim clan clap class clay clean clear cleric clerk clever cliff climb cloak clock
close cloth cloud clue coach coal coast coat code coffee coffin coin cold collapse
collar collect college colour comb combat come comfort command common companion company
compare compass compile complain complete compose comprehensive computer comrade con
concentration concern condition confess confuse congratulate connect connection consider
constable constitution consult contain content contest continue contract control
convince cook cool copper coppers copy corn corner corpse correct cost cottage cough
couldn council count country county couple courage course court cousin cover cow coward
crack craft crawl crazy creak cream create creature creep crew crime cripple crit
critical crook crop cross crossbow crow crowd crown cruel crumb crush cry crypt crystal
cult cunning cup cure curious curse curtain custom customer cut d10 d100 d12 d20 d4 d6
d8 dagger dam damage damn damp dance danger dare dark darkness darling dart dash
database date daughter dawn day dc dead deaf deal dear death debt deception decide deck
declare decode decoy deed deep deer defeat defend delay delicious deliver demand demon
den deny depart depend depth desert deserve desk desperate destroy detail detect devil
devise dex dexterity diamond dice didn die difference difficult dig dim dinner dinosaur
direction dirt dirty disadvantage disappear disarm discount discover discuss disease
disengage disguise dish dismiss distance distract disturb ditch dive divide divine dm
dnd dock dodge doesn dog dollar don donation done door double doubt dove down dozen drag
dragon dragonborn drain draw drawer dream dress drift drink drip drive drop drown druid
drum drunk dry duchess duck due duel duke dull dumb dump dungeon dunno dusk dust duty
dwarf dwarves dying each eager ear early earn earth ease east eastern easy eat echo edge
effect egg eight eighteen either elaborate elbow elder elemental elephant eleven elf
else elven elves em ember emperor empire empty end enemy energy engine enjoy enlighten
enough enquire enter entire entrance envy equal equipment erm escape especially estate
even evening event every everybody everyone everything everywhere evidence evil ew exact
examine example excellent except exchange excite excuse exhaust exist exit expect
expedition expensive experience expert explain explore explosion extra eye face fact
faction fade fail faint fair fairy faith fake fall false family famous fancy far
farewell farm farmer fashion fast fat fate father fault favour favourite fear feast
feather fee feed feel fellow female fence ferry fetch fever few field fiend fierce
fifteen fifty fight fighter figure fill filthy final find fine finger finish fire
fireball firm first fish fist fit five fix flag flail flame flank flash flask flat
flavour flee flesh flight flint flip float flock flood floor flour flow flower flute fly
fog fold folk folks follow food fool foot forbid force ford forest forge forget forgive
fork form formation fort fortress fortune forward foul four fourteen fox frame free
freeze fresh friend fright frog front frost frozen fruit fuel full fun funeral funny fur
furious furniture further future gain gallop gallow gamble game gang gap garden gargoyle
garlic gate gatehouse gather gaze gear gem general generate gentle gentleman ghost ghoul
giant giants gift gild gilded girl give glad glaive glance glass gleam glove glow glue
gm gnome goal goat goblin god going gold golden golds golem gone gonna good google goose
got gotta govern governor grab grace grain grand grapple grass grateful grave gray great
greatsword greed greedy green greet grey grief griffin grin grind grip groan gross
grotto ground group grove grow growl guard guess guest guide guild guildhall guilt
guilty guitar gut guy guys ha habit hadn hag haha hail hair halberd half halfling hall
ham hammer hand handle hang happen happy harbor harbour hard harm harp harpy harvest
hasn haste hat hate haul haunt haven hay hazard head heal healer health heap hear heart
heat heaven heavy hedge heel heh height heir heist hell hello helm helmet help herald
herb herd here hero herself hex hey hide high hill himself hire history hit hm hmm hold
hole holiday hollow holy home honest honestly honey honour hood hook hop hope horn
horrible horror horse host hot hound hour house howdy howl hp huge huh hullo human
humble hundred hungry hunt hunter hurry hurt husband hush hut hydra ice idea ideal
identify idiot idle ignore ill illusion illustrate image imagine immortal imp imply
important impossible impress inch indeed information inherit initiative injure ink inn
innkeeper inscription inside insight insist inspiration inspire instant instead insult
int intelligence intend interest internet intimidate into introduce invent investigate
invisible invite iron island isn itch item itself ivory jail jar javelin jaw jealous
jewel job join joke journey joy judge jug juice jump jungle jury just justice keen keep
kettle key keyboard kick kid kidnap kill killer kind kingdom kiss kitchen kite kitten
knee kneel knife knight knock knot know kobold labour lack lad ladder lads lady lagoon
lake lamb lame lamp land lane language lantern large lass last late lately laugh
laughter law lay lazy lead leader leaf leak lean leap learn leather leave ledger left
leg legend lemme lend less lesson let letter level liar library lich lick lid lie
lieutenant life lift light lightning like likely lime limit limp line link lion lip list
listen literally little live lively liver lizard ll load loaf loan local lock lodge log
lonely long longbow longsword look loose loot lord lose loss lost lot loud lousy love
lovely low loyal luck lucky lump lunch lung lure lurk lute mace mad mage magic magical
magistrate maid maiden mail main maintain make male man manage manner manor many map
mark market marry marsh mask mason master match mate matter maximum may maybe mayor maze
mead meal mean meat medal medicine meditate medium meet melee melt member memory men
mend mention mercenary merchant mercy mere merry mess message metal mic middle midnight
might mighty mile milk mill miller mimic mind mine mineshaft minotaur minute mirror
misery miss missile mission mist mistake mistress mix mmm moan mob mock modifier moment
monastery money monk monkey monster month mood moon moral morning mortal mother motion
motive mount mountain mouse mouth move much mud mug mule murder murmur muscle mushroom
music must mute mutter mutton myself mystery nah nail naked name narrow nasty nat nation
nature nay near nearby neat neck necklace need needle neighbour neither nephew nervous
nest net never new news next nice niece night nine nineteen noble nobody noise none
nonsense noon nope normal north northern nose note nothing notice notion now nowhere npc
number nun nunnery nurse nut oak oath oats obey object observe obvious occur ocean odd
offence offer office officer often ogre oi oil okay old once one onion ooh open opinion
optimal option orc order organ other ouch ought ourselves outline outpost outside oven
over owe owl owlbear own owner ox pace pack page pain paint pair palace paladin pale
palm pan panic pants paper parcel parch pardon parent park parry part partner party pass
passage passive password past patch path patience patrol pause paw pay peace peak pearl
peasant peculiar peek pen penalty penny people pepper perception perfect performance
perhaps permit person persuade persuasion pet petty phase phew phrase pick picture pie
piece pig pile pillar pillow pin pinch pint pints pipe pirate pistol pit pity place
plague plain plan plane plant plate platinum play player please pleasure plenty plot
plough pluck pocket poem poet point poison pole polish polite pond pony pool poor pop
porch pork port portal portion portrait position possibility possible post pot potato
potion pouch pound pour powder power practice praise pray prayer precious prefer prepare
present press pretend pretty prevent previous price pride priest prince princess print
prison prisoner private prize probable problem proficiency promise prone proof proper
property prophecy protect proud prove provoke public pull pump punch punish pup puppet
purchase pure purple purpose purse push put puzzle quarrel quarry quarter quarterstaff
queen quest question quick quiet quit quite quiver rabbit race rag rage raid rail rain
raise ram range ranger rank ransom rapier rare rat rate rather raven raw re reach
reaction read ready real realm reason recall recap receive recently recipe reckon
recognise red reference refill refresh refund refuse regard regret relax release relic
religion remain remark remember remind remove rent repair repeat reply report request
require rescue research resource respect rest restore result retreat return reveal
revenge review reward rib rich rid riddle ride rider right ring riot rip rise risk
ritual rival river road roam roar roast rob robe rock rod rogue roll roof room root rope
rose rot rotten rough round rounds route row royal rub rubbish rude rug ruin rule rum
rumble rumour run rune rush rust sack sacred sad saddle safe safer sage sail sailor
saint salt salute same sand sane sausage savage save saw say scale scan scar scare
scatter scene scent school scimitar scold score scout scrap scrape scratch scream screen
scribe scroll sea seal search seat second secret section see seed seek seem seize sell
send senior sense sentence separate sergeant serious seriously servant serve service
session set settle seven seventeen several severe sew shade shadow shaft shake shall
shame shape share sharp shave shed sheep sheet shelf shell shelter shepherd sheriff shh
shield shift shine ship shipment shirt shiver shock shoe shoot shop shore short shortbow
shortsword shot shoulder shouldn shout shove show shower shrine shrug shut shy sick side
siege sigh sight sign silence silent silk silly silver silvers similar simple simulate
sin sing single sink sip sire sister sit site situation six sixteen size skeleton sketch
skill skin skip skull sky slap slash slave slay sleep slice slide slight sling slip
slope slot slow sly small smart smash smell smile smite smith smoke smooth smuggler
snake snap sneak sneeze sniff snow soak soap social soft soil sold soldier solid solve
some somebody someone something sometimes somewhere son song soon sorcerer sore sorrow
sorry sort soul sound soup sour south southern space spare spark speak spear special
speech speed spell spend spice spider spike spill spin spine spirit spit spite splash
split spoil spoon sport spot spread spring spy squad square squeak squeeze squire stab
stable staff stage stair stake stand star stare start starve state station statue stay
steady steal stealth steam steel steep step stew steward stick stiff still sting stink
stir stock stomach stone stool stop store storm story stout str straight strange
stranger strategy straw stream street strength stretch strict strike string strip stroke
strong struggle stubborn study stuff stumble stupid style subject succeed such sudden
suffer sugar suggest suit sum summary summer summon sun supper supplier supply support
suppose sure surface surprise surrender surround survival survive suspect swallow swamp
swarm swear sweat sweep sweet swell swift swim swing switch sword system tab table tail
tailor take tale talk tall tame tank tap target task taste tavern tax tea teach team
tear tease teleport tell temper temple ten tend tense tent term terrain terrible
territory test thank theft themself themselves thick thief thieves thin thing think
third thirst thirsty thirteen thirty thorn thorough though thought thousand thread
threat threaten three throat throne through throw thumb thunder ticket tide tidy tie
tiefling tiger tight till timber time timeline tin tiny tip tired toast today toe
together token tomb tomorrow tongue tonight tool tooth top torch toss total touch tough
toward towel tower town toy trace track trade trail train traitor trajectory translate
trap travel treasure treat treaty tree tremble trial tribe trick trip troll troop trot
trouble true trunk trust truth try tub tumble tune tunnel turkey turn twelve twenty
twice twin twist two type ugh ugly uncle undead understand undo unfair unfortunate
unicorn unit unknown unless until unusual upset upstairs urge use used usual vague vain
valley value vampire vanish various vase vault ve vegetarian veil vein velvet verse
version very vessel vicious victim victory view village villain vine violent virtue
visible vision visit voice void volley volume vote vow wage wagon wait waitress wake
walk wall wander wanna want war ward warehouse warhammer warlock warm warn warrior wary
wash wasn waste watch water wave wax way weak wealth weapon wear weary weather web
website wedding week weep weigh weight weird welcome well weren werewolf west western
wet whatever wheat wheel whether while whip whisper whistle white whoa whole wicked wide
widow wife wild will willing win wind window wine wing wink winter wipe wire wis wisdom
wise wish wit witch within without witness wizard wolf woman won wonder wood wooden wool
word work world worm worry worse worship worst worth wouldn wound wow wraith wrap wrath
wreck wrestle wrist write wrong wyvern xp yard yawn yay yeah year yell yellow yep yes
yesterday yet yield yo young yourself zero zombie
"""


_STEMS: Final = (
    frozenset(map(stem, _WORDS.split()))
    | frozenset(map(stem, COMMON))
    | frozenset(map(stem, STOP_WORDS))
    | frozenset(map(stem, TITLES))
)


# "cheapest", "darkness"
_ENDINGS: Final = ("er", "est", "ness", "ful", "less", "ment", "ish", "y")


@lru_cache(maxsize=4096)
def is_common(word: str) -> bool:
    """Return True for a word that says nothing about a name: "ale", "the", "42".

    ``word`` is a single word as `memory.words.words_of` returns it.
    """
    if len(word) < 2 or word.isdigit() or stem(word) in _STEMS:
        return True
    return any(
        word.endswith(end) and stem(word[: -len(end)]) in _STEMS
        for end in _ENDINGS
        if len(word) > len(end) + 2
    )


def all_common(text: str) -> bool:
    """Return True if a text has only common words."""
    return all(map(is_common, words_of(text)))
