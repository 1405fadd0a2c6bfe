"""Regular expressions for the words with which replies announce, praise, deny and join answers.

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
    am መልስ\w?
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

IS = phrases(
    r"""
    en is was are be seems remains becomes stays
    de ist lautet wäre
    sv är er
    fr est serait
    es es sería
    it è sarebbe
    pt é seria
    ro este
    pl to jest
    cs je
    fi on
    ru это является
    el είναι
    id adalah ialah yaitu
    ar هي هو
    fa است
    hi है
    th คือ
    zh 是 为
    ja は が
    vi là
    bg е
    uk є
    hy է
    sw ni
    yo ni
    he היא הוא הינה
    ur ہے
    bn হল হলো হচ্ছে
    mr आहे
    gu છે
    pa ਹੈ
    lo ແມ່ນ
    km គឺ
    my မှာ
    """,
    *("'s", "[:=–—-]", "->", "은", "는", "이", "dir"),
)


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


# ---- words between clauses, which deny, correct, join or give reasons ------------------------------------------------

BUT = phrases(r"""
    en but but_rather but_instead
    de sondern
    fr mais
    es sino
    it ma
    pt mas
    pl lecz
    ru но а
    zh 而是
    ja だが
""")

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

# Words that deny the option after them.
NOT = phrases(
    r"""
    en not cannot never nor neither rather_than instead_of unlike except
    en exclud\w+ eliminat\w+ reject\w* rul\w+_out discard\w*
    de nicht keine? weder noch
    fr pas (?<!tọ́\s)(?<!dáhùn\s)(?<!jibu\s)(?<!sahihi\s)ni
    pt não
    pl nie ani
    ru не ни
    tr değil
    zh 不是 并非 不选 不能选
    ja よりも
    el δεν όχι
    vi không_phải
    id bukan
    ar ليس ليست
    he לא אינה אינו
    th ไม่ใช่
    lo ບໍ່ແມ່ນ
    km មិនមែន
    """,
    "n't",
)

# Words that deny the option before them.
WRONG = phrases(
    r"""
    en not cannot can't won't incorrect wrong false irrelevant unrelated off out eliminated excluded too less
    de nicht falsch
    fr incorrecte? faux fausse
    es incorrecta falsa
    it sbagliat[ao]
    pt errad[ao]
    pl nie
    ru не неверн\w+ неправильн\w+
    tr yanlış
    zh 错误 不对 不正确 不符
    ja 違う 間違い
    el λάθος
    vi sai
    id salah
    ar خطأ
    he שגויה שגוי
    ur نہیں غلط
    fa نیست نادرست
    am አይደለም
    hi नहीं गलत ग़लत
    mr नाही चूक
    bn নয় ভুল
    gu નથી ખોટો
    pa ਨਹੀਂ ਗਲਤ
    ta அல்ல இல்லை தவறு
    te కాదు తప్పు
    kn ಅಲ್ಲ ತಪ್ಪು
    ml അല്ല തെറ്റ്
    si නොවේ වැරදි
    th ผิด
    my မဟုတ်
    ja ではな じゃな
    ko (?:은|는|이|가)?\s*아[니닙] (?:은|는|이|가)?\s*틀
    """,
    "n't",
)

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
""")

AND = phrases(
    r"""
    en and or
    de und oder
    nl en of
    sv och eller
    fr et ou
    es y o
    it e o
    pl i lub
    ru и или
    tr ve veya
    """,
    *(",", "/", "&", r"\+", "和", "或", "与", "や", "か", "と", "또는", "와", "과"),
)


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
    de die der das eindeutig klar wohl also buchstabe
    fr la le les donc lettre l[ae]_lettre option_l[ae]
    es la el las opción letra
    it lo il opzione lettera
    pt opção
    pl opcja
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
