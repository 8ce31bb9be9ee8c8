"""Words with a full stop that is not the end of a sentence, in many languages. Data.

A form is written here as it is written in a sentence; at the beginning of one its first
letter may be a capital. English, German, French, Spanish, Italian, Portuguese, Dutch,
Polish, Czech, the Scandinavian languages, Turkish, Russian, Ukrainian, Greek, Hindi.
Words that are also ordinary words, such as Italian "on.", are left out, or count only
before a number.
"""

# ruff: noqa: RUF001  (letters of other alphabets are meant)

from __future__ import annotations

import re
from typing import Final


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\S+", text))


# A sentence never ends behind these.
ABBREVIATIONS: Final = _words(
    """
    Mr Mrs Ms Mx Dr Prof St Ste Rev Hon Capt Cpt Lt Sgt Cpl Pvt Gen Col Maj Cmdr Adm
    Gov Pres Sen Rep Supt Messrs Mt Ft vs cf viz approx esp incl dept e.g i.e

    Hr Hrn Fr Frl bzw ca ggf vgl evtl inkl exkl zzgl sog Hrsg Dipl Ing Mag Hl hl St
    insb allg geb gest verh mind urspr einschl ausschl z.B d.h u.U z.T i.d.R s.o s.u
    o.ä i.A n.Chr v.Chr bspw engl dt

    Mme Mlle Mgr av apr env p.ex c.-à-d éd ibid Cie

    Sr Sra Srta Sres Dra Ud Uds Vd Vds Excmo Excma Ilmo p.ej aprox EE avda admón
    dcha izda Lic Gral

    Sig Sigg sig sigg sig.ra sig.na sig.ri Sig.ra Sig.na Dott Dott.ssa dott dott.ssa
    Avv avv Arch Prof.ssa Geom Rag egr gent On.le Mons p.es es. cfr

    Sra Srs Profa Exmo Exma Eng Arq V.Exa

    dhr mevr mw drs mr bijv bv d.w.z m.b.t i.v.m i.p.v o.a t.a.v resp excl jl

    np tzn tj inż mgr hab ul św zob nt tzw m.in wg prof dr ks płk gen

    např tzv tj resp Ing Mgr Bc sv ul pí mj

    bl.a t.ex f.eks bl.a t.o.m s.k dvs d.v.s

    Sn Av Doç örn bkz

    д ул см им св проф акад доц т.е напр ред тов гр пр-т п.п

    κ κα κος π.χ δηλ Αγ Δρ βλ Καθ λ.χ

    kb ún dl dna Sdr Bpk Jl TP dn

    डॉ श्री प्रो सुश्री कु
    """
)
# Behind these no sentence ends if a number follows.
NUMBERED: Final = _words(
    """
    ft кв Jan Feb Mar Apr Jun Jul Aug Sept Sep Oct Nov Dec janv févr
    no nos nr nrs n num núm nº n° p pp pg art arts ch chap sec sect fig figs vol
    vols eq min max tel Nr Nrn S gem Abs Art Kap Bd Bde Abb Tab Ziff Hs Str Tel Jg Aufl
    pág págs pag pagg séc sec cap capp lib tít blz hfd nrs str godz ok poz rozdz čís
    kl sid sida bls гл рис ок стр табл вып № αρ σελ κεφ άρθ
    """
)
# A sentence may end behind these: it does if a capital follows.
CLOSING: Final = _words(
    """
    etc usw ecc enz osv atd apod itd itp stb jne vb dgl u.a u.ä u.v.m u.s.w e.v.a
    т.д т.п др κ.λπ κ.ά κλπ m.m o.s.v
    """
)
# So it does behind these, and behind letters with full stops such as "p.m.", if a word
# follows that mostly begins a sentence.
ENDING: Final = _words(
    "Jr Sr Jnr Snr Inc Ltd Corp Co Bros Esq jr sr Chr Jh Jhd Mio Mrd"
)

STARTERS: Final = _words(
    """
    The This That These Those It He She We You They There Then But And So If When
    What Where Who Why How No Yes A An In On At My Your His Her Our Their Now Please
    Let After Before Come Go Bring Take Do Don't It's I'm I'll We'll You'll He's
    She's That's I

    Der Die Das Er Sie Es Wir Ihr Ich Du Dann Aber Und Wenn Was Wer Wo Wie Da Dort
    Nun Jetzt Danach Ein Eine Mein Dein Sein Kein Ja Nein Bitte Komm

    Le La Les Il Elle Nous Vous Ils Elles Je Tu On Mais Et Puis Alors Un Une C'est
    Ce Cette Mon Ma Oui Non

    El Los Las Ella Nosotros Yo Tú Pero Y Luego Entonces Una Es Sí Mi Su

    Lo Gli Lui Lei Noi Voi Io Ma Poi E Allora Uno Sono Sì Mio

    O Os As Ele Ela Nós Eu Mas Depois Um Uma Sim Não Meu

    De Het Een Hij Zij Wij Ik Jij Maar En Toen Dan Nu Ja Nee

    To Ten Ta On Ona My Ja Ty Ale I Potem Tak Nie

    Он Она Мы Вы Они Я Ты Но И Потом Это Да Нет

    Ο Η Το Οι Τα Εγώ Εσύ Αλλά Και Μετά Ναι Όχι
    """
)
# Behind these a number with a full stop is an ordinal, as in "am 3. Mai".
BEFORE_ORDINALS: Final = _words(
    """
    am der die das den dem des im ins vom zum zur beim bis ab seit dieser diese
    dieses jeder jede jedes sein seine seinen seinem seiner ihr ihre ihren mein
    meine meinen unser unsere heute morgen gestern Montag Dienstag Mittwoch
    Donnerstag Freitag Samstag Sonntag nach vor den det dne dnia od do
    """
)
# In front of these it is one as well.
AFTER_ORDINALS: Final = _words(
    """
    Januar Jänner Februar Feber März April Mai Juni Juli August September Oktober
    November Dezember Jan Feb Apr Jun Jul Aug Sept Sep Okt Nov Dez Jahrhundert
    Jahrhunderts Jh Weltkrieg Weltkriegs Stock Stockwerk Etage Kapitel Klasse Platz
    Tag Woche Mal Jahrestag Geburtstag
    """
)
