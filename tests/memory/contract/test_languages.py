"""What was said is found in any language, in each store.

Each row has what was said, a question about it, and another line, which is never the
first answer to that question.
"""

# ruff: noqa: RUF001
from __future__ import annotations

import unicodedata

import pytest

from glyphoxa_trio.memory.knowledge import Entity, EntityKind, Fact
from glyphoxa_trio.memory.visibility import GAME_MASTER
from tests.memory.conftest import OpenStore

from .test_transcripts import BARROW, claimed, found, said

LANGUAGES = {
    "Chinese": ("王冠藏在黑塔的井底。", "王冠在哪里？", "你知道今天晚上有雨吗？"),
    "Chinese, a dragon": ("一条红龙睡在山里。", "龙在哪里?", "他在哪里买了这个面包？"),
    "Japanese": (
        "盗賊は古い井戸の底に王冠を隠した。",
        "王冠はどこに隠されていますか？",
        "宿屋の主人はどこにいますか？",
    ),
    "Japanese, kana": (
        "つばめ亭のアリアはドラゴンを見た。",
        "ﾄﾞﾗｺﾞﾝを見たのは誰？",
        "港で誰かが魚を売っている。",
    ),
    "Korean": (
        "왕관은 검은 탑 아래에 숨겨져 있습니다.",
        "왕관이 어디에 있나요?",
        "여관은 강 옆에 있습니다.",
    ),
    "Thai": (
        "โจรซ่อนมงกุฎไว้ใต้หอคอยดำ",
        "มงกุฎอยู่ที่ไหน",
        "พ่อค้าขายปลาอยู่ที่ตลาด",
    ),
    "Lao": ("ໂຈນເຊື່ອງມົງກຸດໄວ້ໃນປ່າ", "ມົງກຸດຢູ່ໃສ", "ພໍ່ຄ້າຂາຍປາຢູ່ຕະຫຼາດ"),
    "Khmer": ("ចោរលាក់មកុដនៅក្នុងប្រាសាទ", "មកុដនៅឯណា", "អ្នកលក់ត្រីនៅផ្សារ"),
    "Burmese": (
        "သူခိုးက သရဖူကို ရဲတိုက်မှာ ဝှက်ထားတယ်",
        "သရဖူ ဘယ်မှာလဲ",
        "ငါးရောင်းသူက ဈေးမှာ ရှိတယ်",
    ),
    "German": (
        "Der Drachentöter ließ sein Schwert im Burgverlies.",
        "WO IST DER DRACHENTÖTER?",
        "Der Wirt ist der Bruder der Bäckerin.",
    ),
    "Turkish": (
        "Işık taşı, Irmak köyünde saklı.",
        "IŞIK TAŞI nerede?",
        "Bu gece hancı nerede uyuyor?",
    ),
    "Greek": (
        "Ο Οδυσσέας έκρυψε τον θησαυρό στο πηγάδι.",
        "Πού είναι ο ΘΗΣΑΥΡΌς του ΟΔΥΣΣΈΑΣ;",
        "Ο πανδοχέας είναι ο αδελφός του ψαρά.",
    ),
    "Arabic": (
        "أَخْفَى اللِّصُّ التَّاجَ فِي القَلْعَة",
        "أين التاج؟",
        "أين هو صاحب الحانة في هذه الليلة",
    ),
    "Hebrew": ("הַכֶּתֶר מֻסְתָּר בַּמִּגְדָּל", "איפה הכתר?", "איפה הוא בעל הפונדק"),
    "Hindi": (
        "चोर ने मुकुट किले में छिपाया है।",
        "मुकुट कहाँ है?",
        "व्यापारी बाज़ार में है, और वह कहाँ है?",
    ),
    "Russian": (
        "Ёж спрятал корону под мёртвым деревом.",
        "Где корона под мертвым деревом?",
        "Где он и где она под дождём?",
    ),
    "Vietnamese": (
        "Tên trộm giấu vương miện trong giếng.",
        "VƯƠNG MIỆN ở đâu?",
        "Người bán cá đang ở đâu trong chợ?",
    ),
    "Polish": (
        "Złodziej ukrył koronę w studni pod wieżą.",
        "ZLODZIEJ jest gdzie?",
        "Gdzie jest karczmarz i kto to jest?",
    ),
    "French": (
        "L’épée d’Éloïse dort sous la forêt.",
        "Où est l'epee de la forêt ?",
        "Qui est le frère de la boulangère ?",
    ),
    "Spanish": (
        "El ladrón escondió la corona en el pozo.",
        "¿Dónde está la corona del ladrón?",
        "La posada está en la plaza, ¿dónde está él?",
    ),
    "Icelandic": ("Þjófurinn faldi kórónuna.", "Hvar er KÓRÓNUNA?", "Hvar er hann?"),
    "Persian": ("دزد تاج را در می‌خانه گذاشت", "تاج میخانه کجاست؟", "او در این شهر است"),
    "English, wide": ("The vault opens at ４２ bells.", "vault 42", "The inn is old."),
}


@pytest.mark.parametrize("language", LANGUAGES)
async def test_what_was_said_in_a_language_is_found(
    open_store: OpenStore, language: str
) -> None:
    line, question, other = LANGUAGES[language]
    async with open_store() as store:
        claim = await claimed(store)
        await store.journal.append(claim, [said(line, 1.0), said(other, 2.0)])
        for form in ("NFC", "NFD"):
            asked = unicodedata.normalize(form, question)
            assert (await found(store, asked))[:1] == [line], form
        assert await found(store, line, limit=1) == [line]
        fact = Fact(text=unicodedata.normalize("NFD", line))
        await store.graph.put(BARROW, facts=[fact, Fact(text=other)])
        best = await store.graph.facts(BARROW, GAME_MASTER, question, limit=1)
        assert [x.fact.text for x in best] == [fact.text]


async def test_an_entity_is_found_by_its_name_and_parts_of_it(
    open_store: OpenStore,
) -> None:
    async with open_store() as store:
        names = ["黑塔之主", "黑塔", "검은 탑", "ドラゴン", "โจรดำ", "Łódź"]
        entities = [
            Entity(id=f"e{n}", kind=EntityKind.LORE, name=x)
            for n, x in enumerate(names)
        ]
        await store.graph.put(BARROW, entities=entities)
        for name, ids in {
            "黑塔": ["e1", "e0"],
            "之主": ["e0"],
            "검은": ["e2"],
            "ﾄﾞﾗｺﾞﾝ": ["e3"],
            "โจร": ["e4"],
            "lodz": ["e5"],
        }.items():
            answer = await store.graph.entities(BARROW, GAME_MASTER, name=name)
            assert [x.id for x in answer] == ids, name
            found_ = await store.graph.identity(BARROW, GAME_MASTER, names[1])
            assert found_.entity.id == "e1"


async def test_a_passage_of_a_long_line_without_spaces_has_the_word(
    open_store: OpenStore,
) -> None:
    async with open_store() as store:
        line = "山" * 300 + "黑塔" + "水" * 300
        await store.journal.append(await claimed(store), [said(line)])
        answer = await store.transcripts.search(BARROW, GAME_MASTER, "黑塔")
        assert "黑塔" in answer.lines[0].snippet
