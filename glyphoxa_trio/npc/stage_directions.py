"""Tell stage directions, which are not spoken, from speech, which is. Pure.

Models write both in single asterisks or underscores: ``*waves* Come in!`` has a stage
direction, ``I *never* lie.`` has emphasis, and ``*Welcome to the inn.*`` is said. A
phrase in such marks is a stage direction

* if it is in brackets: ``*(sighs)*``;
* if it begins a sentence with a small letter: ``*sighs* fine``; or, in a script without
  capitals, if it has no full stop and a space and more follow: ``*微笑* 你好``;
* if it begins a sentence and tells an act: ``*Bartok looks up.*``, ``*He nods.*``;
* if it tells an act behind a pause or at the very end: ``Well, *shrugs* perhaps.``

A phrase in round or black brackets is one if it tells an act in the same places. In all
other cases a phrase is said, since a player misses more if an answer is not heard than
if a stage direction is: so it is if it begins with *I*, *you* or a greeting, or asks.

An act is told by a word of a table, by *he* or *she* with a verb, and, behind a name or
a noun, by the ending of a verb in the third person.
"""

# ruff: noqa: RUF001  (signs and letters of other alphabets are meant)

from __future__ import annotations

import re
from typing import Final

MARKS: Final = "*_＊"
BRACKETS: Final = {"(": ")", "（": "）", "【": "】"}
_RUN: Final = re.compile(r"\*+|_+|＊+|[()（）【】]")
_A_FEW: Final = 12  # characters of a phrase in a script without capitals
_WINDOW: Final = 40  # characters beside a phrase that decide
_STOPS: Final = ".!?…。！？؟।۔։;"
_PAUSES: Final = ",;:-–—…)،、，）"
_QUOTES: Final = "\"'“”„‟«»‹›‘’‚「」『』"
_AROUND: Final = f"{MARKS}([（【)]）】 "
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
# and what he or she does in other languages, and how.
_ACTS: Final = _words(
    """
    quietly softly gently loudly warily grimly dryly coldly wryly sternly nervously

    seufzt lacht lächelt grinst nickt winkt hustet zwinkert flüstert murmelt kichert
    gähnt schnaubt knurrt brummt stöhnt weint verbeugt räuspert runzelt zögert starrt
    schluckt schmunzelt zuckt schüttelt lächelnd seufzend lachend grinsend flüsternd
    nickend zwinkernd hebt lehnt beugt wischt poliert schiebt

    soupire rit sourit hoche tousse chuchote murmure grogne hausse ricane pleure bâille
    salue hésite gémit grimace rigole frappe lève fronce essuie souriant soupirant riant

    suspira ríe sonríe asiente tose susurra murmura gruñe bosteza guiña llora saluda
    titubea carraspea golpea levanta encoge sonriendo suspirando riendo susurrando

    sospira ride sorride annuisce tossisce sussurra mormora sogghigna sbadiglia piange
    saluta esita grugnisce ammicca alza scuote batte sorridendo sospirando ridendo

    ri sorri acena tosse sussurra resmunga boceja pisca chora cumprimenta hesita ergue
    balança sorrindo suspirando rindo

    zucht lacht glimlacht knikt hoest fluistert mompelt grijnst geeuwt zwaait knipoogt
    bromt buigt aarzelt kijkt slaat glimlachend zuchtend

    wzdycha śmieje uśmiecha kiwa kaszle szepcze mruczy chichocze ziewa macha mruga
    płacze kłania unosi wzrusza marszczy uderza

    вздыхает смеётся смеется улыбается кивает кашляет шепчет бормочет хихикает зевает
    машет подмигивает плачет кланяется качает пожимает смотрит хмурится усмехается
    улыбаясь вздыхая смеясь кивая шёпотом

    suckar skrattar ler nickar hostar viskar muttrar gäspar vinkar blinkar sukker smiler
    nikker hoster hvisker ler

    αναστενάζει γελάει γελά χαμογελά χαμογελάει γνέφει βήχει ψιθυρίζει
    """
)
# The same in scripts without capitals, as parts of words.
_PARTS_OF_ACTS: Final = re.compile(
    "笑|点头|點頭|摇头|搖頭|摇了摇|叹|嘆|耸|聳|挥手|揮手|鞠躬|咳嗽|皱眉|皺眉|眨|低声|低聲|轻声|輕聲"
    "|小声|压低|壓低|沉默|停顿|停頓|看着|看著|看向|看了|望着|望向|盯着|转身|轉身|俯身|凑近|靠近"
    "|环顾|環顧|拍了|拍拍|拍着|拍桌|擦|抬头|抬起|低头|举起|放下|哼|哭|哈欠|指着|指向|若有所思"
    "|うなず|うなづ|頷|ため息|溜息|肩をすくめ|囁|ささや|手を振|お辞儀|首を|ウィンク|ウインク|咳"
    "|眉を|にやり|にっこり|目を細|見つめ|見上げ|見回|腕を組|腕組み|黙り|指を?差|ながら$"
    "|고개|끄덕|미소|웃으|웃는|웃음|웃고|한숨|속삭|으쓱|윙크|손짓|손을|쳐다보|바라보|기침|찡그"
    "|숙이|숙인|눈썹|닦으|닦는|닦고|(?:하|으|이|리|키|치|지|보)며$"
    "|يبتسم|تبتسم|مبتسم|يضحك|تضحك|ضاحك|يومئ|تومئ|يهز|تهز|يتنهد|تتنهد|متنهد|يهمس|تهمس|هامس"
    "|ينظر|تنظر|يقترب|تقترب|ينحني|تنحني|يسعل|تسعل|يغمز|تغمز|يمسح|تمسح|يرفع|ترفع|يشير|تشير"
    "|מחייך|מחייכ|צוחק|נאנח|מהנהן|מהנהנ|לוחש|בכתפי|מביט|מסתכל|קורץ|קורצ|משתעל|רוכן|יושב"
    "|רוכנ|בראש[וה]|מנגב|מוזג|מצביע|لبخند|آه می|سر تکان|مسکرا|ہنس|سر ہلا|آہ بھر"
    "|मुस्कु|हँस|हंस|सिर हिला|आह भर|फुसफुसा|खाँस|कंधे|आँख मार|झुक"
    "|(?:ता|ती) (?:है|हुआ|हुई)$|ते (?:हैं|हुए)$"
    "|ยิ้ม|หัวเราะ|พยักหน้า|ส่ายหน้า|ส่ายหัว|ถอนหายใจ|กระซิบ|ยักไหล่|โค้ง|โบกมือ|ขยิบตา|มองไป"
    "|หันไป|หันมา|ยกแก้ว|วางแก้ว|กอดอก|ขมวดคิ้ว|เงียบไป|เอนตัว|ញញឹម|ပြုံး|ຍິ້ມ"
)
_THEY: Final = _words(
    """
    he she it they er elle il él ella lui lei ele ela eles hij zij ze ona oni он она они
    αυτός αυτή
    """
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
    jij jou jouw jullie ja mój moja my ty cię wy я мне меня мой моя мы нас ты тебя тебе
    вы вас вам εγώ μου εμείς εσύ σου εσείς σας
    """
)
_PERSONS_IN_OTHERS: Final = re.compile(
    "[我你您咱]|请|欢迎|歡迎|谢谢|再见|早上好|晚上好|晚安|私|俺|僕|あなた|お前|ようこそ|ください|です|ます"
    "|습니|세요|십시오|니다$|나는|내가|당신|저는|أنا|أنت|مرحب|أهل|سلام|شكر|אני|אתה|אתם|לך|לכם|שלום"
    "|ברוכ|תודה|मैं|मेर|आप|तुम|हम |नमस्ते|स्वागत|धन्यवाद|ผม|ฉัน|คุณ|ท่าน|ครับ|ค่ะ|สวัสดี|ยินดี|ขอ"
)
# Behind these is a statement, and no act.
_STATES: Final = _words(
    """
    is are was were be been will would can cannot could must shall should may might has
    have had do does did isn't aren't wasn't won't can't don't didn't it's he's she's
    that's there's ist sind war waren wird werden hat haben kann muss soll will darf
    heißt est sont était avait ont peut doit faut y sera está están son era estaba hay
    han ha puede debe è sono può deve é são tem pode zijn is was heeft kan moet zal
    wordt jest są był była może musi ma είναι был была было были есть должен
    """
)
# A phrase that begins with these is said: a greeting, an order, what is stressed.
_SPEECH_BEGINS: Final = _words(
    """
    welcome hello hi hail greetings good well thanks thank please farewell goodbye
    goodnight cheers sorry no not never nothing nobody none no-one yes aye always come
    take bring go give send get let keep leave listen mind beware stay stop wait watch
    find ask tell buy fear remember beware what who where when why how this that these
    those here there if don't doesn't can't won't all every only very really now two
    three four five six ten many some

    willkommen hallo guten gute danke bitte nein nicht nie niemals nichts niemand kein
    keine immer nur sehr komm kommt seid hier das dies wer wenn
    bienvenue bonjour bonsoir merci non pas jamais rien personne toujours
    bienvenido bienvenidos hola buenas buenos gracias no nunca nada nadie siempre
    benvenuto benvenuti ciao buongiorno buonasera grazie mai niente nessuno sempre
    bem-vindo bem-vindos olá boa obrigado não ninguém welkom goedenavond dank nooit niet
    witaj witajcie dzień dobry nigdy nic dziękuję добро здравствуй здравствуйте привет
    спасибо никогда не ничего нет да καλώς γεια ποτέ όχι
    अभी कभी नहीं हाँ बहुत सच لا نعم كل أبدا أبدًا حقا حقًا لن لم לא כן אף אל באמת תמיד רק
    정말 절대 절대로 아니 네 꼭 결코 本当 絶対 絶対に 決して はい いいえ
    真的 绝对 绝不 从不 不 是 จริงๆ ไม่
    """
)
# A name or a noun with its verb: "Bartok looks", "The old dwarf slams", "Der Wirt
# hebt", "Старик смотрит". What follows tells an English verb from a plural.
_NARRATIVE: Final = re.compile(
    r"(?:[^\W\d_][\w'’-]*\s){1,4}?(?:(?<!\bthe\s)(?<!\ba\s)(?<!\bof\s)"
    r"(?!lead|li[ev]|cost|belong|need|know|mean|say|open|close|end|begin|work|remain)"
    r"[a-z]{2,}[a-rtv-z]s(?=[.,…!]*$|\s(?:up|down|an?|the|his|her|their|its|at|to|into"
    r"|over|around|back|away|forward|towards?|through|across|you|\w+ly)\b)"
    r"|(?!nicht|mit|gut|seit|dort|erst|jetzt|acht|fast|niet|het|dat|wat|kost|bleib|beginn"
    r"|lieg|wohn|komm|gibt|führ|gehör|brauch|recht|nacht|echt|selbst|sonst|weit|bereit)"
    r"[a-zäöüß]{3,}t(?=\s(?:d|s?ein|sich|ihr|z|auf|an|ab|hin|her|mit|nach|in|een|op|naar)"
    r"|[.,…!]*$)|(?!леж|стои|жив|наход|вед)[а-яё]{3,}[еиёаяую]т(?:ся)?(?!\w)|[α-ωά-ώ]{3,}(?:ει|άει|εται)(?!\w))"
)
_SILENCES: Final = ("pause", "silence", "beat")
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
    opened = {inside: begin} if inside else {}
    behind = begin  # the end of the last stage direction
    for run in _RUN.finditer(text, begin):
        mark, start, end = run[0][0], run.start(), run.end()
        left = text[start - 1 : start] if start > begin else ""
        right = text[end : end + 1]
        if left == "\\":
            continue
        if mark in BRACKETS:
            opened.setdefault(BRACKETS[mark], start)
            continue
        closes = mark not in MARKS or (
            end - start in (1, 3)
            and not left.isspace()
            and not (mark == "_" and left.isalnum() and right.isalnum())
        )
        at = opened.get(mark)
        if closes and left and at is not None:
            del opened[mark]
            if mark == inside:
                inside = ""
                if not _is_said(_phrase(text[at:end])):
                    found[at] = behind = end
            elif _is_direction(text, behind, at, end):
                found[at] = behind = end
        elif mark in MARKS and end - start == 1 and right and not right.isspace():
            if mark == inside:
                inside = ""  # it was forgotten
            if not left.isalnum() or _DENSE.match(left):
                opened[mark] = start
    for mark, at in opened.items():
        if (mark == inside or not _before(text, behind, at)) and _tells_an_act(
            _phrase(text[at:]), strict=mark not in MARKS
        ):
            found[at] = len(text)
            return found, mark
    return found, inside


def _phrase(text: str) -> str:
    return text.strip(_AROUND)


def _before(text: str, begin: int, start: int) -> str:
    """Return what stands before a phrase in its sentence; empty if it begins it."""
    before = text[max(begin, start - _WINDOW) : start].rstrip()
    before = before.rstrip(f"{_QUOTES}{_AROUND}")
    ended = before[-1:] in _STOPS and not before.endswith(("...", "…"))
    return "" if ended else before


def _is_direction(text: str, begin: int, start: int, end: int) -> bool:
    """Return True if the phrase from ``start`` to ``end`` is a stage direction."""
    phrase = _phrase(text[start:end])
    if not any(map(str.isalpha, phrase)):
        return False
    bracket = text[start] not in MARKS
    if not bracket:
        inner = text[start + 1], text[end - 2]
        if inner[0] in BRACKETS or inner[0] == "[":
            return True
        outer = text[max(begin, start - 1) : start] + text[end : end + 1]
        if set(outer) & set(MARKS) or not {*inner} - {*MARKS}:
            return False  # marks in marks are emphasis
    if phrase[0] in _QUOTES or phrase[-1] in _SPEECH_ENDS or _is_title(phrase):
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
        return apart and _tells_an_act(phrase, strict=True)
    if _tells_an_act(phrase, strict=bracket):
        return True
    if bracket or _is_said(phrase):
        return False
    if phrase[0].islower():
        return True
    # Without capitals: a sentence by itself may be what is to be heard.
    apart = not _DENSE.match(text, end) if after else len(phrase) <= _A_FEW
    return apart and not phrase[0].isupper() and not set(phrase) & set(_STOPS)


def _is_title(phrase: str) -> bool:
    """Return True for the name of a ship, an inn or a book: "The Laughing Mermaid"."""
    words = _WORD.findall(phrase[:200])
    long = [word for word in words[1:] if len(word) > len("from")]
    return bool(long) and all(word[0].isupper() for word in (words[0], *long))


def _is_said(phrase: str) -> bool:
    """Return True if a phrase that tells no act is certainly not a stage direction."""
    words = [x.casefold() for x in _WORD.findall(phrase[:200])]
    return bool(
        phrase[-1:] in "!！"
        or (words and words[0].rstrip(",;:") in _SPEECH_BEGINS)
        or _PERSONS.intersection(words[:1] if phrase[0].islower() else words)
        or _PERSONS_IN_OTHERS.search(phrase)
    )


def _tells_an_act(phrase: str, *, strict: bool = False) -> bool:
    """Return True if a phrase tells what somebody does, mostly in the third person.

    ``strict``: only by words of the table.
    """
    if _PARTS_OF_ACTS.search(phrase):
        return not _PERSONS_IN_OTHERS.match(phrase)
    if _HE_IN_OTHERS.match(phrase):
        return not strict
    found = _WORD.findall(phrase[:200])[:7]
    words = [x.casefold() for x in found]
    while words[1:] and (words[0].endswith("ly") or words[0] in ("then", "and")):
        del words[0], found[0]
    if not words or words[0] in _PERSONS or words[0].rstrip(",;:") in _SPEECH_BEGINS:
        return False
    if words[-1] in _SILENCES and len(words) in (2, 3):
        return True
    if words[0] in _VERBS:
        # With a capital, and more words, it is an order: "Bow before the king."
        return len(words) == 1 or (found[0].islower() and not strict)
    if _is_act(words[0]):
        return True
    they = words[0] in _THEY and len(words) > 1
    last = (4 if strict else len(words)) if found[0][0].isupper() or they else 2
    for word in words[1:last]:
        if word in _STATES:
            return False
        if _is_act(word.rstrip(",")):
            return True
    if strict or _STATES.intersection(words):
        return False
    return they or _NARRATIVE.match(phrase) is not None


def _is_act(word: str) -> bool:
    """Return True for the verb of an act in the third person or as a participle."""
    if word in _ACTS:
        return True
    for ending in _ENDINGS:
        stem = word.removesuffix(ending)
        if stem != word and (stem in _VERBS or f"{stem}e" in _VERBS):
            return True
    return len(word) > 4 and word[-4:-3] == word[-5:-4] and word[:-4] in _VERBS
