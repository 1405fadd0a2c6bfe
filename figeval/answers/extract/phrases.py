"""The words that announce or praise an answer: one table per role, one language per line.

Case does not matter.
"""

from __future__ import annotations

from figeval.answers.extract.words import phrases

# What is the answer, whatever stands before it.
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
    he תשובה
    hi उत्तर जवाब
    bn উত্তর
    th คำตอบ
    zh 答案
    ja 答え 正解 正答 回答
    ko 정답 답
""")

# What may be an option, or the answer if it is called the best.
NOUN = phrases(r"""
    en option choice alternative proverb saying moral lesson match fit pick selection candidate statement guess bet one
    en letter item
    de möglichkeit variante sprichwort
    nl optie
    sv alternativ
    fr proposition proverbe
    es opción refrán proverbio
    it opzione
    pt opção provérbio
    pl opcja przysłowie
    ru вариант пословица
    tr seçenek
    id pilihan
    hi विकल्प
    zh 选项 选择 谚语
    ja 選項 選択肢
    ko 보기 속담
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
    """,
    *("'s", "[:=–—-]", "->", "은", "는", "이", "dir"),
)

# What may stand between "is" and the answer without changing it.
FILLER = phrases(r"""
    en a an the that this it is to be my with of in in_fact about case number
    en clearly definitely probably likely certainly obviously simply just indeed then thus therefore really quite most
    en necessarily maybe perhaps possibly either both option choice letter answer proverb statement label match fit
    en think believe say choose pick select consider considered like
    de die der das eindeutig klar wohl also buchstabe
    fr la le les donc lettre l[ae]_lettre option_l[ae]
    es la el las opción letra
    it lo il opzione lettera
    pt opção
    pl opcja
    zh 选项 明显是 应该是 应该 应为 第
    ja 選項
""")

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
""")

FITS = phrases(r"""
    en fits matches works captures describes suits reflects summari[sz]es illustrates
    de passt
    fr correspond convient
    pt encaixa
""")
