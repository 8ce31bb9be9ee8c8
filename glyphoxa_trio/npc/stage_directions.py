"""Tell stage directions, which are not spoken, from speech, which is. Pure.

Models write both in the same marks: ``*waves* Come in!`` has a stage direction, ``I
*never* lie.`` has emphasis, and ``*Welcome to the inn.*`` is said. No table has every
verb of every language, so the form of a phrase decides first:

* in asterisks, underscores, tildes or brackets, where a sentence begins, with a small
  letter and without a full stop, it is a stage direction: ``*se rasca la barba* No.``
  In a script without capitals it is one if a space and more follow: ``*微笑* 你好``.
  But one word in front of a small letter is said: ``*everyone* knows it``.
* With a capital, or behind a pause, or at the end, it is one only if its words tell an
  act: a verb of a table, *he* or *she* with a verb, a reflexive verb, a part of the
  body or what a host has in his hands, a name with its verb in the third person.
* What informs is said: roads, directions, times, prices, numbers, what somebody or
  something is, has or is called; and what speaks, begins with *I*, *you*, a greeting or
  an order, or asks. In the middle of a sentence a phrase is said.

When unsure: a player misses more if an answer is not heard than if a stage direction
is, so a whole sentence is said, and a phrase in small letters in front of one is not.
Of a mark that is never closed no more is left out than tells the act:
``*smiles I can help.``
"""

# ruff: noqa: RUF001  (signs and letters of other alphabets are meant)

from __future__ import annotations

import re
from typing import Final
from unicodedata import category

MARKS: Final = "*_＊~～〜"
BRACKETS: Final = dict(zip("(（[［【〔〈{<", ")）]］】〕〉}>", strict=True))
_CLOSING: Final = frozenset(BRACKETS.values())
_BOLD: Final = ("**", "***", "__", "___", "~~")
_TAGS: Final = {"<i>": "</i>", "<em>": "</em>"}
_RUN: Final = re.compile(
    r"\\?(?:\*+|_+)|＊+|[~～〜]+|(?<!:)::(?!:)|</?(?:i|em)>"
    r"|\(+|\)+|\[+|\]+|\{+|\}+|[（）［］【】〔〕〈〉<>]"
)
_A_FEW: Final = 12  # characters of a phrase in a script without capitals
# Where words without capitals go on behind an act.
_BEHIND_ACT: Final = re.compile(
    r"(?<=[며고다\u0e00-\u30ff\u3400-\u9fff])\s+|(?=[我您咱私俺僕]|[저나]는|내가|أنا|אני|मैं|ผม|ฉัน)"
)
_WINDOW: Final = 40  # characters beside a phrase that decide
_SHORT: Final = 4  # characters of a phrase in brackets
_LONG: Final = 200  # characters of a phrase that are looked at
_STOPS: Final = ".!?…。！？؟।۔։;"
_PAUSES: Final = ",;:-–—…)،、，）"
_QUOTED: Final = ("」", "』")
_QUOTES: Final = "\"'“”„‟«»‹›‘’‚「」『』"
_AROUND: Final = f"{MARKS}([（【)]）】{{}}\\ "
_SPEECH_ENDS: Final = "?:？؟："
# Scripts whose words have no spaces between them.
_DENSE: Final = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\U0003ffff]")
_WORD: Final = re.compile(r"[^\W\d_]+(?:[-'’][^\W\d_]+)*[,;:]?")


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\S+", text))


# What people do while they speak: English verbs, which are known with their endings,
_VERBS: Final = _words(
    """
    bow cackle chuckle clap cough cringe cry curtsey curtsy exhale frown gasp gesture
    giggle glare grimace grin groan growl grumble grunt gulp hesitate hiccup hiss hug
    hum inhale kneel laugh lean leer moan mumble murmur mutter nod pause point ponder
    pout salute scoff scowl scream shiver shout shrug shudder sigh smile smirk snarl
    sneer sneeze sniff snicker snore snort sob spit squint stammer stare stutter swallow
    sweat tremble wave whimper whisper whistle wince wink yawn yell blink blush look
    glance gaze peer turn raise lower lift slam wipe polish pour slide push pull step
    walk stand sit rise fold cross scratch stroke rub tap drum pat shake tilt beckon
    nudge pace sip place hand set shift straighten stretch stiffen flinch creak crackle
    flicker echo crouch clench narrow roll strum adjust tug clutch spread purse cock
    """
)
# and what he or she does in other languages: by these a direction is known with a
# capital and a full stop, and behind a pause.
_ACTS: Final = _words(
    """
    seufzt lacht lächelt grinst nickt winkt hustet zwinkert flüstert murmelt kichert
    hebt gähnt schnaubt knurrt brummt zögert frappe golpea soupire rit sourit hoche
    tousse chuchote murmure grogne hausse ricane hésite suspira ríe sonríe asiente tose
    susurra murmura gruñe bosteza guiña titubea sospira ride sorride annuisce tossisce
    mormora sogghigna esita sbadiglia ri sorri acena tosse resmunga boceja pisca hesita
    zucht glimlacht knikt hoest fluistert mompelt grijnst aarzelt kijkt wzdycha śmieje
    uśmiecha kiwa kaszle szepcze mruczy chichocze ziewa mruga вздыхает смеётся смеется
    улыбается кивает кашляет шепчет бормочет хмыкает зевает хмурится усмехается шёпотом
    suckar skrattar ler nickar hostar viskar muttrar sukker smiler nikker hvisker
    gülümser güler fısıldar αναστενάζει γελάει γελά χαμογελά χαμογελάει γνέφει ψιθυρίζει
    """
)
# The same in scripts without capitals, as parts of words.
_PARTS_OF_ACTS: Final = re.compile(
    "笑|[点點摇搖抬低]起?[头頭]|摇了摇|叹|嘆|耸|聳|[挥揮]手|鞠躬|咳|[皱皺]起?眉|眨|[低轻輕小][声聲]|[压壓]低"
    "|沉默|沈黙|침묵|停[顿頓]|[看望盯][着著向了]|[转轉俯]身|[凑靠]近|拍[了拍着桌]|擦|举起|放下|哼|哭|哈欠"
    "|指[着向]|うなず|うなづ|頷|ため息|溜息|肩をすくめ|囁|ささや|手を振|お辞儀|[首眉]を|ウ[ィイ]ンク|にやり"
    "|にっこり|目を細|見つめ|見[上回]|腕を?組|黙り|ながら$|고개|끄덕|미소|웃[으는음고]|한숨|속삭|으쓱|윙크"
    "|손[짓을]|쳐다보|바라보|기침|찡그|숙[이인]|눈썹|닦[으는고]|[하으이리키치지보]며$"
    "|[يت](?:بتسم|ضحك|ومئ|هز|تنهد|همس|نظر|قترب|نحني|سعل|غمز|مسح|رفع|شير)|مبتسم|ضاحك|متنهد|هامس"
    "|מחיי[ךכ]|צוחק|נאנח|מהנה[ןנ]|לוחש|בכתפי|מביט|מסתכל|קור[ץצ]|משתעל|רו[כך]|יושב|רוכנ"
    "|בראש[וה]|מנגב|מוזג|מצביע|لبخند|آه می|سر تکان|مسکرا|ہنس|سر ہلا|आह भर|खाँस|कंधे|झुक"
    "|मुस्कु|ह[ँं]स|सिर हिला|फुसफुसा|आँख मार|(?:ता|ती) (?:है|हुआ|हुई)$|ते (?:हैं|हुए)$"
    "|ยิ้ม|หัวเราะ|พยักหน้า|ส่ายหน้า|ส่ายหัว|ถอนหายใจ|กระซิบ|โค้ง|โบกมือ|ขยิบตา|มองไป|หันไป|หันมา"
    "|กอดอก|เงียบไป|เอนตัว|ញញឹម|ပြုံး|ຍິ້ມ"
)
# "Smiling", "lachend", "sonriendo", "улыбаясь", "uśmiechając się", "en riant".
_PARTICIPLE: Final = re.compile(
    r"(?!cuando|quando|während|tausend|dutzend|mando|bando)[a-zà-ÿ]{3,}(?:end|ando|endo)\b"
    r"|[а-яё]+(?:ясь|вшись)\b|[a-ząćęłńóśźż]{3,}ąc\b|en [a-zà-ÿ]{3,}ant\b"
)
_THEY: Final = _words(
    """
    he she it they er elle él ella lui lei ele ela eles hij zij ze ona oni он она они
    αυτός αυτή
    """
)
# "Il nano" is Italian, and no "he".
_IL: Final = re.compile(
    r"Il (?!pleut|neig|fait)(?:s[e'’] ?)?[^\W\d_]+[etda](?: (?:l[ae]s?|l['’]|une?|des"
    r"|du|sa|son|ses|sur|vers|en|dans|à|au|\w+ment)\b|[.,]|$)"
)
_STATES_IN_OTHERS: Final = re.compile(
    "[住是叫有在]|知道|认识|(?:て|で)い?る。?$|ある。?$|산다|있다|يسكن|يعيش"
    "|يملك|גר |रहत|อยู่|เป็น"
)
_HE_IN_OTHERS: Final = re.compile(
    "[他她它]|彼|그[는녀]|هو |هي |הוא |היא |वह |वो |เขา|เธอ"
)
# Who speaks, and who is spoken to.
_PERSONS: Final = _words(
    """
    i i'm i'll i've i'd me my mine we we're we'll us our you you're you'll your ich mir
    mich mein meine wir uns unser du dich dir dein deine ihr euch je j'ai moi mon ma mes
    nous notre tu toi te ton vous votre yo mi mis nosotros nuestro tú ti usted vosotros
    io mio mia noi nostro voi vostro eu meu minha nós nosso você vocês ik mij mijn wij
    jij jou jouw jullie ja mój moja ty cię wy я мне меня мой моя мы нас ты тебя тебе вы
    вас вам εγώ μου εμείς εσύ σου εσείς σας
    """
)
_PERSONS_IN_OTHERS: Final = re.compile(
    "[我您咱]|(?<![给給为為向朝对對着著])你|请|欢迎|歡迎|谢谢|再见|早上好|晚上好|晚安|私|俺|僕|あなた|お前|ようこそ|ください|です|ます"
    "|습니|세요|십시오|니다$|나는|내가|당신|저는|أنا|أنت|مرحب|أهل|سلام|شكر|אני|אתה|אתם|לך|לכם|שלום"
    "|ברוכ|תודה|मैं|मेर|आप|तुम|हम |नमस्ते|स्वागत|धन्यवाद|ผม|ฉัน|คุณ|ท่าน|ครับ|ค่ะ|สวัสดี|ยินดี|ขอ"
)
# Behind these is a statement, and no act.
_STATES: Final = _words(
    """
    is are was were be been will would can cannot could must shall should may might has
    have had do does did isn't aren't wasn't won't can't don't didn't it's he's she's
    that's there's ist sind war waren wird werden hat haben kann muss soll darf heißt
    est sont était avait ont peut doit faut sera está están era estaba hay han ha puede
    debe è sono può deve é são tem pode heeft kan moet zal wordt jest są był była może
    musi ma είναι был была было были есть должен lives works owns sells knows wants
    needs owes costs belongs means keeps hates loves buys pays guards grows hunts fits
    wohnt lebt arbeitet gehört kostet weiß braucht besitzt verkauft kennt endet spricht
    habite vit travaille coûte appartient sait veut vend possède vive trabaja cuesta
    pertenece sabe quiere vende posee conoce mora custa abita lavora costa appartiene
    vuole possiede woont leeft werkt kost weet verkoopt mieszka żyje pracuje kosztuje
    należy живёт живет работает стоит знает хочет спит принадлежит продаёт μένει ζει
    κοστίζει ξέρει θέλει
    """
)
# A phrase that begins with these is said: a greeting, an order, what is stressed.
_SPEECH_BEGINS: Final = _words(
    """
    welcome hello hi hail greetings good well thanks thank please farewell goodbye
    goodnight cheers sorry no not never nothing nobody none no-one yes aye always come
    take bring go give send get let keep leave listen mind beware stay stop wait watch
    find ask tell buy fear remember what who where when why how this that these those
    here there if don't doesn't can't won't all every only very really now two maybe
    perhaps three four five six ten many some willkommen hallo guten gute danke bitte
    nein nicht nie niemals nichts niemand kein keine immer nur sehr komm kommt seid
    hier dies wer wenn bienvenue bonjour bonsoir merci non pas jamais rien personne
    toujours bienvenido bienvenidos hola buenas buenos gracias nunca nada nadie
    siempre benvenuto benvenuti ciao buongiorno buonasera grazie mai niente nessuno
    sempre bem-vindo bem-vindos olá boa obrigado não ninguém welkom goedenavond dank
    nooit niet witaj witajcie dzień dobry nigdy nic dziękuję добро здравствуй
    здравствуйте привет спасибо никогда не ничего нет да καλώς γεια ποτέ όχι अभी कभी
    नहीं हाँ बहुत सच لا نعم كل أبدا أبدًا حقا حقًا لن لم לא כן אף אל באמת תמיד רק 정말
    절대 절대로 아니 네 꼭 결코 本当 絶対 絶対に 決して はい いいえ 真的 绝对 绝不
    从不 不 是 จริงๆ ไม่ see siehe voir véase vedi zie zob patrz см
    """
)
# A name or a noun with its verb: "Bartok looks", "The old dwarf slams", "Der Wirt
# hebt", "Старик смотрит", "El enano afila su hacha". What follows tells a verb of
# English from a plural, and a verb of Spanish or Italian from a noun.
_NARRATIVE: Final = re.compile(
    r"(?:[^\W\d_][\w'’-]*\s){1,4}?(?:(?<!\bthe\s)(?<!\ba\s)(?<!\bof\s)"
    r"(?!lead|li[ev]|cost|belong|need|know|mean|say|open|close|end|begin|work|remain)"
    r"(?!heal|cure|hang|flow|run|sell|own|guard|hold|keep|cross)"
    r"[a-z]{2,}[a-rtv-z]s(?=[.,…!]*$|\s(?:up|down|an?|the|his|her|their|its|at|to|into"
    r"|over|around|back|away|forward|towards?|through|across|silent|\w+ly)\b)"
    r"|(?!nicht|mit|gut|seit|dort|erst|jetzt|acht|fast|niet|het|dat|wat|kost|bleib|beginn"
    r"|lieg|wohn|komm|gibt|führ|gehör|brauch|recht|nacht|echt|selbst|sonst|weit|bereit"
    r"|häng|hang|steh|fließ|heil|öffne|schließ|verkauf)"
    r"[a-zäöüß]{3,}t(?=\s(?:d|s?ein|sich|ihr|z|auf|an|ab|hin(?!t)|her|mit|nach|über|in|een|op"
    r"|naar))|(?:(?:D[iea][ers]?|Eine?|Het)\s(?:[\w-]+\s){1,3}|[A-ZÄÖÜ][\w-]+\s)"
    r"(?!ist|hat|kann|muss|soll|wird|darf)[a-zäöüß]{3,}t(?=[.,…!]*$)"
    r"|[a-zà-ÿ]{2,}[aeêt]\s(?:su|suo|sua|sue|suoi|seu|seus|suas|sus|son|sa|ses|zijn)\s)"
    r"|[ADEOUHTIL]\w{0,3}[ \'](?:\w+\s)?(?:doors?|winds?|candles?|torch|fire|flame|Tür"
    r"|Wind|Kerze|Feuer|puerta|viento|fuego|porte|vent|feu|porta|vento|fuoco|fogo|deur|vuur)\s"
    r"(?!d[aeiou]|of|van|lead|führ)[a-zà-ÿß]{3,}"
    r"|(?!L[aeo]s?\b|Un|U[mn]a|El|Il|Es[ts]|Tou|Tod|Tut|Pour|Par|De)[A-ZÀ-Ý][a-zà-ÿ]+\s"
    r"(?!tou|tod|tutt|siempre|sempre|sobre|desde|entre|hasta|para|contra|verso|senza"
    r"|come|dove|ouvre|port|abre|apre|vend)"
    r"[a-zà-ÿ]{3,}[ae]\s(?:el|las?|los|un[aoe]?|l[eo]s?|il|i|gli|os?|as?|uma?|des)\s"
    r"|(?:[^\W\d_][\w'’-]*\s){0,4}?(?:"
    r"(?!леж|стои|жив|наход|вед|зов|счита|охраня|лечи|откры)[а-яёіїєґА-ЯЁ]{3,}[еиёаяуюіє]т"
    r"(?:ь?ся)?(?!\w)|(?!υπάρχ|πρέπ|κοστ|ξέρ|έχ|μέν)[α-ωά-ώ]{3,}(?:ει|άει|εται)(?!\w))",
)
# What somebody moves, or has in his hands who keeps an inn; of verbs that are also
# orders the person has to be seen.
_AT_HAND: Final = re.compile(
    r"(?<!\w)(?:(?:h(?:is|er)|their|\w+['’]s)\s(?:\w+\s)?(?:eye|head|hand|finger"
    r"|shoulder|arms|beard|chin|brow|lip|hair|mug|glass|fist|voice|face|gaze|throat)"
    r"|(?!häng|lieg|steh)\w+t\s(?:\w+\s){0,4}(?:Bart|Kopf|Kinn|Stirn|Hand|Händ|Auge"
    r"|Arme|Schulter|Lippe|Haar|Krug|Glas|Gläs|Becher|Tresen|Theke|Stimm|Faust)|(?:zijn"
    r"|haar|de|een)\s(?:baard|hoofd|hand|ogen|schouder|kroes|glas|glazen|toog)|barba"
    r"|cabe[zç]a|manos?\b|mani\b|mãos?\b|dedo|dita\b|ojos|occhi\b|olhos|h?ombro|spalle"
    r"|bra[zç]o|braccia|cejas|sopraccigli|sobrancelh|labbra|l[áa]bio|pu(?:ñ|gn|nh)o\b"
    r"|testa\b|queixo|mento\b|ceño|la fronte|pannan|vaso|jarra|bicchier|boccal|bancon"
    r"|copo|caneca|balcão|mostrador|barbe|tête|(?:l[ae]s?|sa|ses|une)\smains?|doigt"
    r"|yeux|épaule|sourcil|verres?\b|chope|comptoir|menton|hacia (?:adel|atr)"
    r"|en (?:avant|arri)|in avanti|mirada|vista\b|sguardo|regard\b|olhar|wzrok|взгляд"
    r"|para a frente|brod[ęzay]|głow|rę[kc]|dłon|palc|oczy|ramion|brwi|kuf[e]?l|kubk"
    r"|sakal|başını|el(?:ler)?ini|göz(?:ünü|lerini)|omu?z|kaşlar|barda[kğ]|huvud|hoved"
    r"|sk[äæ]gg|skjegg|parta|päätä|silmi|hlavou|bradě|szakáll|fejét|ochii|râu|janggut"
    r"|kepala|бород|голов|рук[иуаой]|глаз|плеч|бров|кружк|стакан|стойк|кулак|γένι"
    r"|κεφάλι|μάτι|ώμους|φρύδι|ποτήρι|(?:لحيت|رأس|عيني|كتفي|يدي?|حاجبي)ه(?!\w)|(?:זקנ"
    r"|מצח|ראש|עיני|כתפי|ידי?)[והי](?!\w))|胡[子须鬚]|鬍|目光|眼[睛神]|[双雙右左]手|嘴[角唇]|下巴|酒杯|杯子|柜台"
    r"|吧台|抹布|(?:ひげ|髭|顔|腕|手|目|頭|グラス|ジョッキ)[をにで].*[うくぐすつぶむるた]。?$|(?:미간|수염|눈|어깨|잔|머리|팔"
    r"|몸)[을를].*[다며고]\.?$|दाढ़ी|मूँछ|भौं|เครา|หนวด|คิ้ว|ไหล่|แก้ว"
)
# What is done to oneself. A group matches if it tells what something is, or where.
_REFLEXIVE: Final = re.compile(
    r"(?<!\w)(?:(?:s[ei]\s|s['’])(?P<called>ll?am|chiam|appel|trov|encuent|encont|hall"
    r"|vend|pued|pu[òe]|nece|dice|divi|exti|estend|bifur|trata|ils?\b)?"
    r"|(?P<lies>befind|lohn|teil|gabel|handel|erstreck|nazyw|znajd|bevind)?\w*\s"
    r"(?:sich|się|zich|sig)(?!\w)(?P<there>\s(?:befind|lohn|nazyw|znajd))?|\w+-se(?!\w))"
)
# Who speaks, as the subject.
_SPEAKERS: Final = _words(
    "i i'm i'll i've i'd ich je j'ai yo io eu ik ja я εγώ we wir nous noi nós wij my мы"
)
# With these begins a remark in brackets: "(unless it rains)".
_REMARK: Final = re.compile(
    r"(?:or|so|about|around|nearly|roughly|north|south|east|west|unless|until|though|because"
    r"|formerly|once|also|but|for the|oder|falls|wenn|weil|bis|etwa|aber|por|pero|ou"
    r"|mais|car|o|ma|per|als|of|want|lub|ale|если|или|но|потому|кроме)\b|s['’]il|如果|因为|大约|除非"
    r"|もし|たぶん|例えば|만약|아마|إذا|ربما|אם|अगर|शायद|ถ้า"
)
_ONE_WORD: Final = re.compile(r"(?P<hangul>[가-힣]+(?<![다며고서음기]))|[^\W\d_]+")
# With these begins what somebody or something does, in a stage direction of sentences.
_ARTICLES: Final = _words(
    "the a an der die das ein eine el la los las un una le les une il lo gli o os as um"
    " de het een his her their su sa son ses suo sua seine ihre zijn haar"
)
_TO_ME: Final = _SPEAKERS - {"i", "my"} | _words("me my mich mir mein moi mon mio мне")
_TO_YOU: Final = frozenset(("te", "ti", "dir", "dich", "cię", "тебе", "тебя"))
# Of these a statement tells, and not what somebody does now: roads, and when and where.
_INFORMS: Final = re.compile(
    r"(?:\S+\s){0,2}(?:road|path|trail|street|lane|bridge|river|stream|tunnel|stair|wall"
    r"|tower|key|potion|ferry|market|weg\b|straße|brücke|fluss|schlüssel|camino|puente"
    r"|río|llave|chemin|route|pont|rivière|strada|ponte|fiume|chiave|caminho|estrada"
    r"|brug|rivier|droga|most|rzeka|дорог|троп|мост|река)"
    r"|(?:tomorrow|today|here|mañana|hoy|aquí|ahora|domani|oggi|qui|demain|ici|morgen"
    r"|heute|hier|dort|jetzt|bald|amanhã|hoje|aqui|vandaag|jutro|dziś|tu|tutaj|завтра"
    r"|сегодня|здесь|там|yarın|bugün|αύριο|σήμερα|εδώ)\b"
    r"|.*?\b(?:north|south|east|west|left|right|dawn|dusk|noon|midnight|night|day|week"
    r"|year|gold|copper|silver|coin|norden|süden|osten|westen|links|rechts|nachts|abends"
    r"|morgens|mittag|mitternacht|kupfer|silber|norte|este\b|oeste|izquierda|derecha"
    r"|amanecer|medianoche|cobre|plata|moneda|nord|sud|ouest|ovest|gauche|droite|l'aube"
    r"|minuit|cuivre|sinistra|destra|l'alba|mezzanotte|rame\b|argent|sul\b|leste|direita"
    r"|esquerda|meia-noite|noorden|zuiden|oosten|północ|południ|wschod|zachod|lewo|prawo"
    r"|świcie|север|юг|восток|запад|закат|налев|направ|рассвет|полноч|монет)",
    re.IGNORECASE,
)
_SILENCES: Final = _words(
    "pause silence beat schweigen stille silencio silêncio silenzio пауза тишина cisza"
)
_ENDINGS: Final = ("s", "es", "ing", "ed", "d")


def stage_directions(
    text: str, begin: int = 0, inside: str = ""
) -> tuple[dict[int, int], str]:
    """Return where each stage direction in ``text`` begins and ends, with its marks.

    Args:
      text: a sentence as it was written.
      begin: where its words begin, after the sign of a list or the like.
      inside: the mark that ends a stage direction that began in an earlier sentence.

    Returns:
      The places, and the mark that ends the stage direction in which the text ends.
      Each sentence of it is told by its own words until then, so that nothing is lost
      if the mark is forgotten.
    """
    found: dict[int, int] = {}
    # Where what a mark ends begins, with and without its own mark.
    opened = {inside: (begin, begin)} if inside else {}
    behind = begin  # the end of the last stage direction
    for run in _RUN.finditer(text, begin):
        start, end = run.span()
        left = text[start - 1 : start] if start > begin else ""
        right = text[end : end + 1]
        mark = run[0].lstrip("\\")
        paired = mark[0] in _CLOSING or mark.startswith("</")
        if not paired and (mark[0] in BRACKETS or mark in _TAGS):
            if not (left == "]" and mark[0] == "("):  # no link
                close = _TAGS.get(mark) or BRACKETS[mark[0]]
                opened.setdefault(close, (start, end))
            continue
        if mark[0] in _CLOSING:
            mark = mark[0]
        elif mark[0] in MARKS:
            mark = mark[:3]
            if len(mark) == 3 and mark not in opened and not left.isspace():
                mark = mark[0]
        closes = paired or not (
            left.isspace() or (mark == "_" and left.isalnum() and right.isalnum())
        )
        if closes and left and mark in opened:
            at, words = opened.pop(mark)
            phrase = _phrase(text[words:start])
            if mark == inside:
                inside = ""
                if phrase and not _is_said(phrase):
                    found[at] = behind = end
            elif not (mark == "]" and right and right in "([:") and _is_direction(
                text, behind, at, end, phrase, mark
            ):
                found[at] = behind = end
        elif not paired and right and not right.isspace():
            if mark == inside:
                inside = ""  # it was forgotten
            if not left.isalnum() or _DENSE.match(left):
                opened[mark] = start, end
    for mark, (at, words) in opened.items():
        if mark not in _BOLD and (mark == inside or not _before(text, behind, at)):
            phrase = _phrase(text[words:])
            if _tells_an_act(phrase, strict=mark in _CLOSING) or (
                mark == inside and _goes_on(phrase)
            ):
                said = _speech_in(text, words)
                found[at] = said or len(text)
                return found, "" if said else mark
            if mark == inside:
                inside = ""  # it was forgotten
    return found, inside


def _phrase(text: str) -> str:
    return text.strip(_AROUND)


def _goes_on(phrase: str) -> bool:
    """Return True if a sentence that is no speech is a stage direction behind one."""
    words = _small(_WORD.findall(phrase[:_LONG]))
    told = _STATES.intersection(words) or _INFORMS.match(phrase[:_LONG])
    if told or _is_said(phrase):
        return False
    return not (_ARTICLES.isdisjoint(words[:1]) and _THEY.isdisjoint(words))


def _speech_in(text: str, begin: int) -> int:
    """Return where speech begins behind an act that has no closing mark, or 0."""
    near = text[begin : begin + _LONG].rstrip(_AROUND)
    if act := _PARTS_OF_ACTS.search(near):
        speech = _BEHIND_ACT.search(near)
        if speech or _PERSONS_IN_OTHERS.search(near):
            return begin + (speech or act).end()
        return 0
    words = list(_WORD.finditer(near))
    small = _small([x[0] for x in words])
    acts = near[:1].islower() or any(map(_is_act, small[:1]))  # so far
    for word, bare in list(zip(words, small, strict=True))[1:]:
        quoted = near[word.start() - 1] in _QUOTES
        begins = bare in _SPEECH_BEGINS or (acts and bare in _STATES)
        capital = word[0][0].isupper()
        if (
            quoted
            or bare.split("'")[0] in _SPEAKERS
            or (acts and (capital or begins))
            or (capital and begins)
        ):
            return begin + word.start() - quoted
        acts = acts and bare.endswith("ly")
    # Without a sign of where it begins, little is left out.
    told = near[:1].islower() and (near[-1:] in "!?" or _STATES.intersection(small[1:]))
    return begin + words[1].start() if told and words[1:] else 0


def _before(text: str, begin: int, start: int) -> str:
    """Return what stands before a phrase in its sentence; empty if it begins it."""
    before = text[max(begin, start - _WINDOW) : start].rstrip()
    if before.endswith(_QUOTED):
        return ""
    before = before.rstrip(f"{_QUOTES}{_AROUND}|\ufe0f")
    ended = before[-1:] in _STOPS and not before.endswith(("...", "…"))
    return "" if ended or category(before[-1:] or "\n") == "So" else before


def _is_direction(
    text: str, begin: int, start: int, end: int, phrase: str, mark: str
) -> bool:
    """Return True if the phrase from ``start`` to ``end`` is a stage direction."""
    if not any(map(str.isalpha, phrase)):
        return False
    bracket = mark in _CLOSING
    if mark == ">" and phrase.isascii():
        return False  # HTML
    if not bracket:
        if text[start + 1] in "([（【":
            return True
        outer = text[max(begin, start - 1) : start] + text[end : end + 1]
        if set(outer) & set(MARKS):
            return False  # marks in marks are emphasis
    told = phrase[-1] in _SPEECH_ENDS and not _is_act(phrase[:-1].casefold())
    if phrase[0] in _QUOTES or told or _is_title(phrase):
        return False
    after = text[end : end + _WINDOW].lstrip(f"{_QUOTES}{_AROUND}")
    if before := _before(text, begin, start):
        if bracket:  # "Ask Moira (she sits by the fire)." tells something
            apart = phrase.split(None, 1)[0].casefold() not in _THEY
        else:
            # "You must not *blink*." has a word of the sentence at its end.
            ended = text[end : end + 1].strip() and not after.strip(_STOPS)
            pauses = _PAUSES.replace(":", "") if ended else _PAUSES
            apart = before[-1] in pauses or not (ended or after)
            if before[-1] == ":" and phrase[0].isupper():
                apart = False  # "The letter says: *He knows.*"
        return apart and _tells_an_act(phrase, strict=True)
    if mark in _BOLD:
        alone = phrase[0].islower() and not after[:1].islower()
        return alone and _tells_an_act(phrase, strict=True)
    if _tells_an_act(phrase, strict=bracket):
        return True
    if _is_said(phrase) or phrase[0].isupper():
        return False
    if bracket and not after:
        return _AT_HAND.search(phrase[:_LONG]) is not None
    if bracket and after[:1].islower():
        return False  # "[the map] is here"
    word = _ONE_WORD.fullmatch(phrase)
    if word and not bracket and (after[:1].islower() or word["hangul"]):
        return False  # of a writer without capitals: "*everyone* knows"
    if phrase[0].islower():
        if bracket and (
            mark == "}"  # "{name}"
            or len(phrase) < _SHORT  # "(a) first"
            or set(phrase) & set(_STOPS)  # "(e.g. rope)"
            or _REMARK.match(phrase)
        ):
            return False
        # "*dragons*, you say?" has a word of the sentence at its beginning.
        return text[end : end + 1] not in (*",;-'’", "." if bracket else ",")
    # Without capitals: a sentence by itself may be what is to be heard.
    apart = not _DENSE.match(text, end) if after else len(phrase) <= _A_FEW
    apart = (apart or mark == "）") and not _REMARK.match(phrase)
    return apart and mark not in "]］】〕〉}" and not set(phrase) & set(_STOPS)


def _small(words: list[str]) -> list[str]:
    """Return the words in small letters, without commas."""
    # An "i" behind other words is the article of Italian.
    small = [x.casefold().rstrip(",;:") for x in words]
    return [x if words[at] != "i" or not at else "" for at, x in enumerate(small)]


def _is_title(phrase: str) -> bool:
    """Return True for the name of a ship, an inn or a book: "The Laughing Mermaid"."""
    words = _WORD.findall(phrase[:_LONG])
    long = [word for word in words[1:] if len(word) > len("from")]
    if words[-1:] and words[-1].casefold() in _SILENCES:
        return False
    return bool(long) and all(word[0].isupper() for word in (words[0], *long))


def _is_said(phrase: str) -> bool:
    """Return True if a phrase that tells no act is certainly not a stage direction."""
    words = _small(_WORD.findall(phrase[:_LONG]))
    return bool(
        phrase[-1:] in "!！"
        or phrase[:1].isnumeric()
        or any(map(str.isdecimal, phrase[:_LONG]))
        or (words and words[0] in _SPEECH_BEGINS)
        or (
            words
            and words[0] in _PERSONS
            and (words[0] not in _TO_YOU or not words[1:])
        )
        or (phrase[:1].isupper() and not _PERSONS.isdisjoint(_others(words)))
        or _STATES.intersection(words[1:4])
        or _PERSONS_IN_OTHERS.search(phrase)
    )


def _others(words: list[str]) -> list[str]:
    """Return the words, without whom *he* or *she* does something to."""
    they = not _THEY.isdisjoint(words[:1])
    return [x for x in words if not (they and x in _TO_YOU)]


def _tells_an_act(phrase: str, *, strict: bool = False) -> bool:
    """Return True if a phrase tells what somebody does, mostly in the third person.

    ``strict``: only by words of the table, or by a reflexive verb.
    """
    if _PARTS_OF_ACTS.search(phrase):
        return not _PERSONS_IN_OTHERS.match(phrase)
    if len(phrase) > 2 and _HE_IN_OTHERS.match(phrase):
        return not strict and not _STATES_IN_OTHERS.search(phrase)
    near = phrase[:_LONG]
    found = _WORD.findall(near)[:7]
    words = _small(found)
    while words[1:] and (words[0].endswith("ly") or words[0] in ("then", "and")):
        del words[0], found[0]
    if words and (
        (words[0] in _PERSONS and words[0] not in _TO_YOU) or words[0] in _SPEECH_BEGINS
    ):
        return False
    at_hand = _AT_HAND.search(near[:1].lower() + near[1:])
    if words:
        if words[-1] in _SILENCES and (
            len(words) in (2, 3) or words[0] in ("пауза", "stille")
        ):
            return True
        if words[0] in _VERBS:
            # With a capital, and more words, it is an order: "Bow before the king."
            return len(words) == 1 or (found[0].islower() and not strict)
        if _is_act(words[0]) or _PARTICIPLE.match(near):
            return True
    himself = _REFLEXIVE.search(near)
    if himself and himself.lastgroup:
        return False
    if near[:1].isupper() and not _TO_ME.isdisjoint(words):
        return False
    they = len(words) > 1 and (words[0] in _THEY or _IL.match(near) is not None)
    if they and words[0] in ("he", "she", "it"):
        # "He killed the king" informs.
        they = any(x.endswith(("s", "n't", "n’t")) for x in words[1:3])
    if not (they or at_hand) and _INFORMS.match(near):
        return False
    last = (4 if strict else len(words)) if near[:1].isupper() or they else 2
    for word in words[1:last]:
        if word in _STATES:
            return False
        if _is_act(word):
            return True
    if _STATES.intersection(words) or _is_said(phrase.rstrip("!！")):
        return False
    if himself and (at_hand or himself.start() or not himself[0].startswith("s")):
        return True
    if strict:
        return False
    if at_hand:
        return True
    told = _INFORMS.match(near) is not None
    return not told and (they or _NARRATIVE.match(near) is not None)


def _is_act(word: str) -> bool:
    """Return True for the verb of an act in the third person or as a participle."""
    if word in _ACTS:
        return True
    for ending in _ENDINGS:
        stem = word.removesuffix(ending)
        if stem != word and (stem in _VERBS or f"{stem}e" in _VERBS):
            return True
    return len(word) > 4 and word[-4:-3] == word[-5:-4] and word[:-4] in _VERBS
