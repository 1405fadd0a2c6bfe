"""Regular expressions for the words with which replies deny an option, by where they stand.

Most languages deny an option with a word before it ("not A"), many with one after it (Turkish "A değil"), and some with
either. A word may also deny what is said of the option: "A is not right", "A doğru değil". As in
`figeval.answers.phrases`, there is one table per role, with one line per language.

A word that affirms in one language what it denies in another ("si": Swahili "not", Spanish "if") is listed with what
stands around it.
"""

from __future__ import annotations

from figeval.answers.patterns import phrases

NOT = phrases(
    r"""
    en not(?!_only\b) cannot never
    de nicht(?!_nur\b) keine?
    nl niet(?!_alleen\b) geen
    sv inte(?!_bara\b)
    da ikke
    nn ikkje
    is ekki
    af nie
    yi נישט ניט
    fr pas(?!_seulement\b) ne(?=_\w+_pas\b) n'\w+_pas(?!_seulement\b) non(?!-)
    it non(?!-|_sol[oa]\b)
    es no_es no_son no_era no_fue no_sería no_puede_ser no_la no_el no_corresponde no_encaja
    pt não(?!_(?:só|apenas)\b)
    ca no_és no_era no_seria
    ro nu(?=_(?:este|e|sunt|se|core\w+|potriv\w+)\b) nu(?=[^.!?\n]{1,80}\bci\b) (?<=,\s)nu
    pl nie(?!_tylko\b)
    cs není nejsou nikoli
    hr nije nisu
    ru не(?!_(?:только|просто)\b)
    sr није нису
    lv nav nevis
    lt nėra
    el δεν όχι
    fi ei ei_ole eivät
    et mitte
    hu nem
    eu ez_da ez_dira
    sq nuk
    mt mhux mhix mhijiex
    hy ոչ_թե ոչ
    ka არ_არის არა
    ar و?ليست?(?!_فقط)
    he ו?לא(?!_רק\b) אינה אינו איננו איננה
    fa نه(?!_تنها\b)
    ckb نەک
    th ไม่ใช่
    lo ບໍ່ແມ່ນ
    km មិនមែន
    vi không_phải chẳng_phải
    id bukan(?!_(?:hanya|saja|cuma)\b) bukanlah
    jv dudu
    tl hindi(?!_is\b)
    mg tsy
    sw sio siyo
    rw ntabwo(?:_ari)?
    yo k[iì]\s*[ií]_[sṣ]e
    ig abụghị bụghị
    zu hhayi akuyona akusiyo ayisiyo asiyona
    so ma_aha
    zh 不是(?![^。.!?\n]{1,40}就是) 并非 並非 而非 唔係
    """,
    "n't",
)
"""Negations that deny the option after them or, if none follows, the one before them: "B, not A", "A does not fit"."""

NOT_BEFORE = phrases(r"""
    en neither nor rather_than instead_of unlike except exclud\w+ eliminat\w+ reject\w* rul\w+_out discard\w*
    de weder noch statt anstatt anstelle_von
    nl noch in_plaats_van
    sv istället_för snarare_än i_stället_för
    da i_stedet_for snarere_end
    fr ni(?=[^.!?\n]{1,80}\bni\b) (?<=[^\w\s,.:\u0300-\u036f]\s)ni (?<=[^\w\s,.:\u0300-\u036f],\s)ni
    fr plutôt_qu\w+ au_lieu_d\w+ sauf hormis
    fr ne_(?:pense|crois)_pas_que_(?:ce_)?soit exclu(?:s|t|re|ons|ez|ant) élimin\w+ rejet\w* écart\w+
    es en_lugar_del? en_vez_del? excepto salvo no_creo_que_sea excluy\w+ excluir descart\w+
    pt em_vez_d\w+ nem exceto excluindo descart\w+ elimin\w+
    ca en_lloc_d\w+
    it invece_di piuttosto_che né tranne non_credo_che_sia esclud\w+ scart\w+
    ro în_loc_de
    pl ani zamiast wyklucz\w+ odrzuc\w+
    cs ani namísto
    hr ne
    lt ne
    ru ни вместо исключ\w+ отверг\w+
    uk ні замість
    el αντί_για ούτε
    sl (?<=odgovor\s)ni
    tr ne
    fi eikä
    eu ez(?=[^.!?\n]{1,80}\bbaizik) (?<=,\s)ez(?!\s+az?\b)
    sq jo(?=[^.!?\n]{1,80}\bpor\b) (?<=,\s)jo
    cy nid
    ga ní_hé ní(?=[^.!?\n]{1,80}\b(?:ach|an_freagra)) (?<=,\s)ní
    sw (?<![^\w,.]\s)si
    ha ba(?=[^.!?\n]{1,80}\bba\b)
    ht se_pa
    su lain
    tg на(?=[^.!?\n]{1,80}\bбалки) (?<=,\s)на
    ar لا ولا
    ur نہ_کہ نہ(?!_صرف\b)
    hi न_कि
    tl mali_ang hindi_ang
    zh 不(?:应该?|應該?|能|可|该|會|会)?[选選] 排除 (?<![对對相])比起?
""")
"""Words that deny only the option after them, or prefer another one to it."""

NOT_AFTER = phrases(r"""
    tr değil\w* yerine
    az deyil\w*
    tk däl\w*
    uz emas\w*
    kk емес\w*
    ky эмес\w*
    tt түгел\w*
    ug ئەمەس\w*
    mn биш
    hy չէ չեն
    fa نیست نیستند نمی\S*
    tg нест
    ckb نییە
    ur نہیں
    sd ناهي نه
    hi नहीं नही की_बजाय के_बजाय
    mr नाही नव्हे नसून
    ne होइन हैन
    bn নয় নহে না(?=,)
    as নহয়
    gu નથી નહીં નહિ
    pa ਨਹੀਂ
    or ନୁହେଁ ନାହିଁ
    ta அல்ல இல்லை சரியல்ல பதிலல்ல விடையல்ல
    te కాదు సరికాదు
    kn ಅಲ್ಲ ಸರಿಯಲ್ಲ ಉತ್ತರವಲ್ಲ
    ml അല്ല ശരിയല്ല ഉത്തരമല്ല
    si නොවේ නෙවෙයි නොව
    my မဟုတ်
    bo མ་རེད མིན
    am አይደለም ሳይሆን
    ti ኣይኮነን ዘይኮነስ ዘይኮነ
    om miti
    ja ではな(?!い[かでだ]) じゃな(?!い[かでだ]) (?:では|じゃ)ありません(?!か) くな[いく] よりも? でなく
    ko 아[니닙님] 아닌(?![가지]) 보다
""")
"""Negations that deny the option before them, or what is said of it: "A değil", "A doğru değil"."""

WRONG = phrases(
    r"""
    en can't won't incorrect wrong false irrelevant unrelated off out eliminated excluded too less
    de falsch inkorrekt unpassend
    nl fout onjuist verkeerd
    sv fel felaktigt?
    da forkert feil galt?
    is rangt röng
    fr incorrecte? inexacte? faux fausse
    es incorrect[ao] fals[ao] errónea erróneo equivocad[ao]
    it sbagliat[ao] errat[ao] scorrett[ao] falso
    pt errad[ao] incorret[ao]
    ca incorrecte
    ro greșită? incorectă?
    pl błędn\w+ niepoprawn\w+ nieprawidłow\w+
    cs špatn\w+ nesprávn\w+ chybn\w+
    sl napač\w+ ni_pravil\w+ ni_točn\w+
    hr pogrešn\w+ netočn\w+ netačn\w+
    lv nepareiz\w+ aplam\w+
    lt neteising\w+ klaiding\w+
    ru неверн\w+ неправильн\w+ ошибочн\w+
    uk неправильн\w+ невірн\w+ хибн\w+ помилков\w+
    be няправільн\w+
    bg грешн\w+ грешен неправил\w+ погрешн\w+
    fi väärin väärä
    et (?<=on\s)vale
    hu helytelen hibás téves rossz
    tr yanlış\w*
    az səhv\w*
    uz noto['ʻ]g['ʻ]ri\w*
    kk қате
    ky туура_эмес
    mn буруу
    el λάθος λανθασμέν\w+ εσφαλμέν\w+
    eu okerra?
    sq gabim pasaktë
    cy anghywir
    hy սխալ\w*
    ka არასწორ\w+ მცდარ\w+
    sw si_sahihi si_jibu si_sawa
    yo kò_tọ kọ(?=\u0301?(?:_ni\b|\s*[.,;]|\Z))
    ig ezighi
    ha ba_daidai
    eo malĝusta
    vi sai không(?!_(?:phải|chỉ|những)\b) chưa
    id salah tidak(?!_hanya\b) keliru
    tl ay_mali
    ar خطأ خاطئ\w* غير
    he שגויה שגוי
    ur غلط
    fa نادرست غلط اشتباه
    tg нодуруст хато
    ckb هەڵە\w*
    ku şaş
    am ስህተት
    ti ጌጋ
    hi गलत ग़लत
    mr चूक चुकीचे
    bn ভুল
    gu ખોટો ખોટું
    pa ਗਲਤ ਗ਼ਲਤ
    or ଭୁଲ
    ta தவறு தவறானது
    te తప్పు
    kn ತಪ್ಪು
    ml തെറ്റ് തെറ്റാണ്
    si වැරදි වැරදියි
    th ผิด ไม่(?!ใช่|เพียง|แค่|เท่า)
    lo ຜິດ ບໍ່(?!ແມ່ນ)
    km ខុស មិន(?!មែន)
    my မှား မမှန်
    bo ནོར་(?:འདུག|པ|སོང|རེད)
    zh 错误?(?!不了) 錯誤?(?!不了) 不(?![是选選仅僅但只过過错錯失愧]|会有?错|會有?錯) 并不 並不 唔啱
    ja 違う 違い(?!な[いく]|ありま) 間違(?!いな[いく]|いありま) 誤り 不正解 不適切 ありえな ありえませ 除
    ko 틀(?!림없) 오답 잘못 제외 될_수_없 [맞옳]지\s*않 적절하지\s*않 올바르지\s*않
    """,
    *("n't", "[❌✗✘]"),
)
"""What is said of options that are denied: "A is wrong", "A and B are out"."""

RIGHT = phrases(r"""
    tr doğru uygun en_uygun az düzgün doğru uz to['ʻ]g['ʻ]ri kk дұрыс ky туура tt дөрес mn зөв
    hy ճիշտ ka სწორი fa درست صحیح tg дуруст ur درست صحیح ڈھیک ps سم hi सही उचित mr बरोबर योग्य ne सही ठीक
    bn সঠিক as শুদ্ধ gu સાચો સાચું સાચી pa ਸਹੀ or ଠିକ୍ ta சரி சரியான சரியானது te సరైన సరైనది kn ಸರಿ ಸರಿಯಾದ
    ml ശരി ശരിയായ si නිවැරදි am ትክክል ትክክለኛ\w* ti ቅኑዕ my မှန် bo འགྲིག
    ja 正し 正解 適切 最適 ko 올바른 맞는 옳은 가장_\w+
""")
"""Words for right that stand between an option and a negation after it: "A doğru değil"."""

BUT = phrases(r"""
    en but but_rather but_instead
    de sondern
    nl maar
    sv utan
    da men
    is heldur
    fr mais
    es sino
    ca sinó
    gl senón
    it ma bensì
    pt mas
    ro ci
    pl lecz ale
    cs ale nýbrž
    sl ampak temveč
    hr nego već
    ru но а
    uk але
    sr него већ
    mk туку
    lv bet
    el αλλά
    fi vaan
    et vaid
    hu hanem
    eu baizik(?:_eta)?
    cy ond
    ga ach
    sq por
    mt iżda
    eo sed
    hy այլ
    ka არამედ
    ar بل وإنما
    he אלא
    fa بلکه
    ur بلکہ
    hi बल्कि
    bn বরং
    as বৰং
    mr तर
    ne बरु
    gu પણ
    pa ਸਗੋਂ
    or ବରଂ
    ta ஆனால் மாறாக
    kn ಬದಲಿಗೆ
    ml മറിച്ച്
    th แต่
    lo ແຕ່
    vi mà
    id melainkan tetapi
    tl kundi
    sw bali
    rw ahubwo
    yo bí_kò_ṣe
    zu kodwa
    ig kama
    zh 而是
    ja だが
""")
"""Words with which the answer follows what is denied: "not A but B"."""
