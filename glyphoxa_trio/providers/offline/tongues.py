"""Other languages: German in plain English words, and an excuse for the others."""

from __future__ import annotations

import re
from typing import Final

from .utterance import DULL

# Words of a language, or its letters.
_LANGUAGES: Final = {
    "ja": r"[\u3040-\u30ff\u4e00-\u9fff]",
    "de": r"\w*[äöüß]\w*|\b(?:\d*w\d+|ich|du|der|das|ist|und|wer|wo|wie|nicht|sind|bist"
    r"|eine?[nmrs]?|kannst|mir|deine?|meine?n?|hallo|guten?|tag|abend|morgen|bitte|danke"
    r"|gibt|es|kommst?|was|kostet|bedeutet|heisst|auf|zeig|lies|moin|geht|servus|wirt|bier"
    r"|habe|hast|gesagt|noch(?:mal)?|wieder|ja|nein|den|dem|im|von|mit|wird|soll|nacht"
    r"|schreibe?|merk|wuerf\w+|erstelle|starte|beende|frage?|orakel|zum|wetter)\b",
    "es": r"[¿¡]|\b(?:el|los|las|que|qué|quién|cómo|dónde|donde|eres|está|es|hola|una?"
    r"|con|buenos|días|por|favor|gracias|tú|sabes|puedes|de|te|mi|cuánto)\b",
    "fr": r"\b(?:je|tu|il|la|les|est|qui|où|comment|bonjour|vous|êtes|quelle|une?|des"
    r"|moi|merci|salut|quoi|peux|dans|s'il|plaît)\b",
}
_FOREIGN: Final = {
    "ja": "すみません、{name}です。英語で話してください。",
    "es": "Perdona, soy {name} y hablo poco tu lengua. Prueba en inglés.",
    "fr": "Pardon, je suis {name} et je parle mal votre langue. Essayez en anglais.",
}
_ENGLISH: Final = DULL | {"is", "who", "hello", "roll", "the", "what", "me", "you"}
# English, and what Germans say for it.
_GERMAN: Final = r"""
hello = guten (?:tag|abend|morgen)\b|hallo\b|moin\b|servus\b|grüß (?:gott|dich)
goodbye = tsch(?:ü|ue)(?:ss|ß)\b|auf wiedersehen|lebt? wohl|gute nacht|bis bald
thanks = (?:vielen |schönen )?danke?\b(?: schön)?
my name is~ = (?:ich (?:heiße|heisse|bin)|mein name ist) (?=[A-Z])
who are you = wie hei(?:ß|ss)t du|wer bist du|wer seid ihr|(?:wie ist )?dein name
who am I = wer bin ich|wie hei(?:ß|ss)e ich
how are you = wie geht(?: es|'s)?\b(?: dir| euch)?
what can you do = was kannst du(?: alles| tun)?|hilfe\b|was kann ich (?:tun|fragen)
where are we = wo (?:sind wir|bin ich)(?: hier)?
what did I just say = was (?:habe? ich|sagte ich)(?: \w+){0,2}? gesagt
what does \1 mean = was (?:bedeutet|hei(?:ß|ss)t|macht|tut) (?:d\w\w )?([^?.!]+)
how much do I owe = (?:was|wie ?viel) schulde ich(?: dir| euch)?
how much does \1 owe = (?:was|wie ?viel) schuldet (\w+)(?: dir)?
tell me about~ = was weißt du (?:über|von) (?:d\w\w )?
tell me about~ = erzähle? (?:mir |uns )?(?:et)?(?:was )?(?:über|vo[nm]) (?:d\w\w )?
how does \1 work = wie funktioniere?n?t? (?:d\w\w |eine? )?([^?.!]+)
what is = was ist\b
who is = wer ist\b
where is = wo ist\b
again = noch ?(?:mal|einmal)\b.*
roll = (?:w(?:ü|ue)rf(?:le|el|elt|eln)|wirf)\b
d = (?:einen?|1) w(?=\d)
open = (?:er)?öffne\b
write~ = schreibe?\b
read = lies\b
show = zeige?\b(?: mir)?
ask the~ = frage?\b (?:das|die|den) (?=orakel)
create~ = anlegen|erstelle|neue? (?=kampagne|spieler)
start = (?:starte|beginne)\b
end = beende\b
oracle = orakel\b
campaign = kampagne\b
session = sitzung\b
player = spieler(?:in)?\b
called = namens\b
on my tab = auf meine?n? (?:deckel|rechnung|zettel)
tab = deckel\b
copper = kupfer\b
weather = wetter\b
advantage = vorteil\b
disadvantage = nachteil\b
will = (?:wird|werden?)\b
for = für\b
and = und\b
with = mit\b
please = bitte\b
a = eine?n?\b
the = (?:der|die|das|den|dem)\b
I = ich\b
"""
_REMEMBER: Final = re.compile(
    r"(?i)(?:bitte )?(?:merke? dir|denke? daran|vergiss nicht)[,: ]*(?:dass )?(.+)"
)
_IN_ENGLISH: Final = tuple(
    (re.compile(rf"(?i)\b(?:{german})"), english.replace("~", " "))
    for english, german in (x.split(" = ") for x in _GERMAN.strip().splitlines())
)


def language_of(text: str) -> str:
    """Return the language of a text, if it is one of a few; empty for English."""
    words = re.findall(r"\w+", text.lower())
    known = sum(word in _ENGLISH for word in words)
    found = {x: len(re.findall(p, text.lower())) for x, p in _LANGUAGES.items()}
    best = max(found, key=lambda x: found[x])
    least = min(1 if best == "de" else 2, len(words))
    return best if found[best] >= least and found[best] > known else ""


def in_english(text: str) -> str:
    """Return what a German text asks for, in English as far as that is known."""
    if found := _REMEMBER.match(text):  # the fact stays in German
        return f"remember that {found[1]}"
    for german, english in _IN_ENGLISH:
        text = german.sub(english, text)
    return " ".join(text.split())


def to_german(result: str) -> str:
    """Return what was rolled in German; another result stays as it is."""
    return re.sub(r"(\d+)d(\d+)(\S*) comes to", r"\1W\2\3 ergibt", result)


def excuse(language: str, name: str) -> str:
    """Return that a language is not spoken, in it; empty for those that are."""
    return _FOREIGN.get(language, "").format(name=name) if name else ""
