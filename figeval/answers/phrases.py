"""Regular expressions for the words with which replies announce, praise and join answers.

There is one table per role, with one line per language; case does not matter. The nouns that a task uses for its
options ("proverb") are not in the tables: they come from the task (`Nouns`).
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from figeval.answers.patterns import phrases

# ---- words that announce or praise an answer -------------------------------------------------------------------------

# Nouns for the answer itself.
ANSWER = phrases(r"""
    en answer ans solution label relation relationship verdict conclusion prediction classification judge?ment output
    de antwort lösung
    nl antwoord
    sv svar svaret
    fr réponse reponse
    es respuesta
    it risposta
    pt resposta
    ro răspuns răspunsul
    pl odpowied[źz]
    cs odpověď
    ru ответ
    uk відповідь
    el απάντηση
    fi vastaus
    hu válasz
    tr cevap yanıt
    vi đáp_án câu_trả_lời
    id jawaban jawabannya
    ar الإجابة الاجابة إجابة الجواب جواب
    fa پاسخ
    he ה?תשובה
    hi उत्तर जवाब
    bn উত্তর
    th คำตอบ
    zh 答案
    ja 答え 正解 正答 回答
    ko 정답 답
    bg отговор
    sr одговор
    hy պատասխան\w*
    ka პასუხი\w?
    am መል[ስሱ]\w?
    yo ìdáhùn
    sw jibu
    ur جواب
    mr उत्तर
    gu જવાબ ઉત્તર
    pa ਜਵਾਬ ਉੱਤਰ
    ta பதில் விடை
    te సమాధానం జవాబు
    kn ಉತ್ತರ
    ml ഉത്തരം
    si පිළිතුර උත්තරය
    lo ຄຳຕອບ
    km ចម្លើយ
    my အဖြေ
""")


BEST = phrases(r"""
    en best correct right final closest strongest most_\w+ better only my
    de richtige beste
    nl juiste beste
    sv rätt
    fr bonne meilleure? correcte?
    es correcta? mejor
    it corretta migliore
    pt correta melhor
    pl prawidłow[ay] poprawn[ay]
    ru правильн\w+ верн\w+ лучш\w+
    tr doğru
    hi सही
    zh 正确 正確 最佳 最合适的?
    ja 正しい
    ko 올바른 가장_\w+
""")

_IS = r"""
    en is was are be seems remains becomes stays
    de ist lautet wäre
    sv är er
    fr est serait
    es es sería
    it è sarebbe
    pt é seria
    ca és
    ro este
    pl to jest
    cs je
    fi on
    lv ir
    sq është
    eo estas
    ru это является
    el είναι
    hr je
    sr је
    id adalah ialah yaitu
    ar هي هو
    fa است
    hi है
    th คือ เป็น
    zh 是 为
    ja は が
    vi là
    bg е
    uk є
    hy է
    ka არის
    sw ni
    yo ni
    he היא הוא הינה
    yi איז
    ur ہے
    bn হল হলো হচ্ছে
    mr आहे
    gu છે
    pa ਹੈ
    lo ແມ່ນ
    km គឺ ជា
    my မှာ
"""
IS = phrases(_IS, *("'s", "[:=–—-]", "->", "은", "는", "이", "dir"))
IS_WORD = phrases(_IS)
"""Forms of "to be", without the signs that stand for it."""


CHOOSE = phrases(r"""
    en choose chose pick picked select selected go_with going_with go_for opt_for vote_for settle_on say guess prefer
    en lean_towards? leaning_towards? lean_to (?:would|'d|will|'ll)_answer
    de wähle nehme
    nl kies
    sv väljer
    fr choisis choisirais
    es elijo escojo elegiría
    it scelgo sceglierei
    pt escolho escolheria
    pl wybieram wybrał\w+
    ru выбираю выбрал\w*
    tr seçiyorum seçerdim
    id memilih pilih
    vi chọn
    zh 选择?了? 選擇? 应选
""")

# The copula of languages in which it follows the answer.
COPULA = phrases(r"""
    ur ہے ہیں
    fa است
    am ነው
    hi है हैं
    mr आहे
    gu છે
    pa ਹੈ
    ta ஆகும்
    te అవుతుంది
    kn ಆಗಿದೆ ಆಗಿರುತ್ತದೆ
    ml ആണ് ആകുന്നു
    si වේ
    my ဖြစ်သည် ဖြစ်ပါတယ်
    ko 입니다 이에요 예요
    ja です である
""")

HENCE = phrases(
    r"""
    en so thus hence therefore consequently leaves leaves_us_with leaves_me_with leaving leaving_us_with
    de daher deshalb somit folglich
    fr donc ainsi
    es entonces así_que por_tanto por_lo_tanto
    it quindi dunque perciò
    pt portanto logo então
    pl więc zatem
    ru поэтому значит следовательно итак
    tr dolayısıyla
    ar لذلك إذن
    hi इसलिए
    zh 所以 因此 故选?
    ja したがって よって
    ko 따라서 그러므로
    """,
    *("[=-]+>", "→", "⇒", "∴"),
)

ITS = phrases(r"""
    en it's it_is that's that_is this_is must_be would_be should_be has_to_be it_was it'd_be
    de es_ist
    fr c'est
    it è
    ru это_?
    tr bu_?
""")

GOOD = phrases(r"""
    en answer correct right best closest closer strongest stronger most more winner better perfect ideal apt fitting
    de richtig beste
    fr correcte? bonne meilleure?
    es correcta mejor
    it corretta giusta migliore
    pt correta melhor
    pl prawidłow\w+ poprawn\w+ najleps\w+
    ru правильн\w+ верн\w+ верен лучш\w+
    tr doğru doğrudur en_uygun
    ar الصحيح
    hi सही
    zh 正确 正確 最合适 最符合
    ja 正しい 正解 最も 正答
    ko 맞 정답 옳
    el σωστή σωστό
    he נכונה נכון
    ur صحیح درست
    fa درست صحیح
    bn সঠিক
    mr बरोबर
    gu સાચો સાચું
    pa ਸਹੀ
    ta சரி சரியானது
    te సరైనది
    kn ಸರಿ
    ml ശരി
    th ถูก เหมาะ
""")

FITS = phrases(r"""
    en fits matches works captures describes suits reflects summari[sz]es illustrates
    de passt
    fr correspond convient
    pt encaixa
""")


# ---- words between clauses, which correct, join or give reasons ------------------------------------------------------

# Words that announce a change of answer.
REVISION = phrases(r"""
    en wait actually correction on_second_thoughts? (?:up)?on_reflection scratch_that my_mistake sorry i_mean or_rather
    en hmm hm let_me_re\w+ reconsidering make_that
    de moment korrektur vielmehr
    fr en_fait attends
    es mejor_dicho espera
    it anzi aspetta
    pt aliás espera na_verdade
    pl właściwie
    ru нет точнее погодите
    tr aslında
    zh 不对 不,? 等等
    ja 更正 いや 待って 訂正
    ko 아니
""")

REASON = phrases(r"""
    en because since as for given due_to
    de weil denn da
    nl omdat want
    sv eftersom
    fr car parce_que? puisque
    es porque ya_que
    it perch[ée] poich[ée]
    pt porque pois
    pl ponieważ bo
    ru потому так_как
    tr çünkü
    id karena
    vi vì
    ar لأن
    hi क्योंकि
    zh 因为 因為
    ja なぜなら
    bn কারণ
    mr कारण
    gu કારણ_કે
    pa ਕਿਉਂਕਿ
    ta ஏனெனில்
    te ఎందుకంటే
    kn ಏಕೆಂದರೆ
    ml കാരണം
    ur کیونکہ
    fa زیرا چون
    he כי
    el γιατί επειδή
    fi koska
    hu mert
    cs protože
    uk бо
    tl dahil
    th เพราะ
    lo ເພາະ
    km ព្រោះ
""")

# Words that may follow a letter that is also a word ("A because …"); after an article, a noun would follow.
CONNECTOR = phrases(r"""
    en because since as for here if when unless is isn't was are and or but nor would does doesn't also instead over
    en fits matches captures describes seems refers talks speaks says relates reflects applies illustrates conveys
    en suggests works shows explains expresses represents corresponds aligns highlights emphasi[sz]es
    de weil denn ist und oder passt
    fr car parce est et ou
    es porque es y o
    it perch[ée] è e
    pt porque é
    pl ponieważ bo jest lub
    ru потому и или
    tr çünkü ve veya
    hi है और या
    sv är
    da er
    pt está
    ca és
    ro este
    cs je
    lv ir
    fi on_oikein on_väärin
    et on_õige on_vale
    eu zuzena okerra
    cy yn
    sq është
    eo estas
    sw ni
    en rather_than
    es en_lugar_del? en_vez_del?
    fr plutôt convient correspond
    lt teising\w+
    hu helyes
    tr doğru\w*
    az düzgün\w*
    uz to'g'ri
    ku rast
    om dha
    vi đúng là chứ vì hợp
    id benar betul bener karena
""")

_AND = r"""
    en and or
    de und oder
    nl en of
    sv och eller
    fr et ou
    es y (?<!,\s)o
    it e
    pl i lub
    ru и или
    tr ve veya
    el και ή
    hu és vagy
    fi ja tai
    ar و أو
    he או
    fa و یا
    ur اور یا
    hi और या
    bn এবং বা
    th และ หรือ
    vi và hoặc
    id dan atau
"""
_AND_MARKS = ("/", "&", r"\+", "和", "或", "与", "與", "や", "か", "と", "も", "또는", "와", "과")

AND = phrases(_AND, ",", *_AND_MARKS)
AND_WORD = phrases(_AND, *_AND_MARKS)
"""Words for "and", without the comma."""


# ---- words for an option, to which a task adds its own ---------------------------------------------------------------

_NOUN = r"""
    en option choice alternative match fit pick selection candidate statement guess bet one
    en letter item
    de möglichkeit variante
    nl optie
    sv alternativ
    fr proposition
    es opción
    it opzione
    pt opção
    pl opcja
    ru вариант
    tr seçenek
    id pilihan
    hi विकल्प
    el επιλογή
    ar خيار الخيار
    fa گزینه
    he אפשרות האפשרות
    bn বিকল্প
    mr पर्याय
    gu વિકલ્પ
    ta விருப்பம்
    th ตัวเลือก ข้อ
    zh 选项 选择
    ja 選項 選択肢
    ko 보기
"""

_FILLER = r"""
    en a an the that this it is to be my with of in in_fact about case number
    en clearly definitely probably likely certainly obviously simply just indeed then thus therefore really quite most
    en necessarily maybe perhaps possibly either both option choice letter answer statement label match fit
    en think believe say choose pick select consider considered like
    de die der das eindeutig klar wohl also buchstabe antwort
    fr la le les donc lettre l[ae]_lettre option_l[ae]
    es la el las opción letra
    it lo il opzione lettera
    pt opção
    pl opcja
    hu az
    el το τα η ο την τον τη
    zh 选项 明显是 应该是 应该 应为 第
    ja 選項
"""


class Nouns(NamedTuple):
    """Nouns that a task uses for its options ("proverb") and, besides "answer", for the right one ("moral").

    The first noun for an option is the one that the prompt uses.
    """

    option: tuple[str, ...] = ()
    answer: tuple[str, ...] = ()


NO_NOUNS = Nouns()


@cache
def noun(nouns: Nouns) -> str:
    """Return a pattern of the nouns for an option, or for the answer if it is called the best."""
    return phrases(_NOUN, words=(*nouns.option, *nouns.answer))


@cache
def filler(nouns: Nouns) -> str:
    """Return a pattern of the words that may stand between "is" and the answer without changing the meaning."""
    return phrases(_FILLER, words=nouns.option[:1])
