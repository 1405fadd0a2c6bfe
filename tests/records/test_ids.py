"""Sets of ids: the same answers as lists and dicts of texts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from figeval.records.ids import Ids, digest_of, digests_of, repeated

NAMES = st.lists(st.text(alphabet="ab\ud800é", max_size=3))


@given(NAMES, NAMES)
def test_a_set_knows_its_ids_and_their_first_places(names: list[str], digested: list[str]) -> None:
    names = list(dict.fromkeys(names))
    ids = Ids.of(names)
    assert len(ids) == len(names)
    assert {name: ids.number(name) for name in digested} == {
        name: names.index(name) if name in names else None for name in digested
    }
    first_indices = ids.first_places(digests_of(digested)).tolist()
    assert first_indices == [digested.index(name) if name in digested else -1 for name in names]


@given(NAMES)
def test_a_repetition_is_found(names: list[str]) -> None:
    again = repeated(digests_of(names))
    twice = {digest_of(name) for name in names if names.count(name) > 1}
    assert again in twice if twice else again is None


def test_a_digest_that_ends_in_nul_is_found_like_any_other() -> None:
    names = [str(number) for number in range(2_000)]
    (name, *_) = [name for name in names if digest_of(name).endswith(b"\0")]
    assert Ids.of(names).number(name) == int(name)
    assert Ids.of(other for other in names if other != name).number(name) is None
