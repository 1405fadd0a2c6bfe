"""The words between clauses, which deny, correct, join or give reasons: one table per role, one language per line.

Case does not matter.
"""

from __future__ import annotations

from figeval.answers.extract.words import phrases

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

# What announces that the answer changes.
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

# What denies the option that follows.
NOT = phrases(
    r"""
    en not cannot never nor neither rather_than instead_of unlike except
    en exclud\w+ eliminat\w+ reject\w* rul\w+_out discard\w*
    de nicht keine? weder noch
    fr pas ni
    pt não
    pl nie ani
    ru не ни
    tr değil
    zh 不是 并非 不选 不能选
    ja よりも
    """,
    "n't",
)

# What denies the option before it.
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
""")

# What may follow a letter that is also a word ("A because …"), other than the noun of an article.
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
