"""Regular expressions for words for yes and no that are also parts of sentences, by where they stand as answers."""

from __future__ import annotations

from figeval.answers.patterns import phrases

NO_BEFORE = phrases(r"""
    es no
    ca no
    pt não
    pl nie
    cs ne
    sl ne
    hr ne
    sr не
    mk не
    bg не
    ru нет
    uk ні
    ro nu
    hu nem
    fi ei
    et ei
    lt ne
    sq jo
    vi không có
    id tidak
    tl hindi
    ar لا
    he לא
    fa نه
""")
"""Words for no before a verb ("no se sabe"), and the Vietnamese for yes: answers where a clause ends with them."""

NO_AFTER = phrases(r"""
    hi नहीं ना
    ne होइन छैन
    mr नाही नाहीत
    ur نہیں
    bn না নয়
    gu ના નથી
    pa ਨਹੀਂ
    or ନାହିଁ
    ta இல்லை
    te కాదు లేదు
    kn ಇಲ್ಲ ಅಲ್ಲ
    ml ഇല്ല അല്ല
    si නැත
    am አይደለም
    my မဟုတ်
    km ទេ
""")
"""Words for no after a verb ("বোঝা যায় না"): answers where a clause begins with them."""

YES_BETWEEN = phrases(r"""
    pl tak
    hr da
    sr да
    bg да
    uk так
    he כן
""")
"""Words for yes that also mean so or that: answers where a sentence begins or a clause ends with them."""
