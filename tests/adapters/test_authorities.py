"""Bundles of CAs that several processes write, each for itself: what is added, what is kept, and what goes."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from atoll.adapters.authorities import merged, vouched_for
from atoll.adapters.certificates import CA_LIFE, RENEW_BEFORE, ensure_certificates

NOW = datetime(2026, 12, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def cas(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """a, the same renewed under its key, and b."""
    first, other = tmp_path_factory.mktemp("a"), tmp_path_factory.mktemp("b")
    a = made(first, NOW)
    return {"a": a, "renewed": made(first, NOW + CA_LIFE - RENEW_BEFORE), "b": made(other, NOW)}


def made(folder: Path, now: datetime) -> bytes:
    return ensure_certificates(folder, ("localhost",), now).ca.read_bytes()


def nobody(_: object) -> bool:
    return False


def everybody(_: object) -> bool:
    return True


def test_a_ca_that_is_missing_is_added_behind_those_that_are_there(cas: dict[str, bytes]) -> None:
    assert merged(b"", cas["a"], NOW, nobody) == cas["a"]
    assert merged(cas["b"], cas["a"], NOW, nobody) == cas["b"] + cas["a"]


def test_a_bundle_that_is_right_is_left_as_it_is_written(cas: dict[str, bytes]) -> None:
    written = b"# ours\n" + cas["b"] + b"\n" + cas["a"]

    assert merged(written, cas["a"], NOW, nobody) == written


def test_two_processes_that_know_different_cas_come_to_one_bundle(cas: dict[str, bytes]) -> None:
    found = merged(merged(b"", cas["a"], NOW, nobody), cas["b"], NOW, nobody)

    assert merged(found, cas["a"], NOW, nobody) == merged(found, cas["b"], NOW, nobody) == found


def test_a_ca_renewed_under_its_key_takes_the_place_of_the_one_before_and_never_the_other_way_round(
    cas: dict[str, bytes],
) -> None:
    assert merged(cas["a"], cas["renewed"], NOW, nobody) == cas["renewed"]
    assert merged(cas["renewed"], cas["a"], NOW, nobody) == cas["renewed"]


def test_what_is_superfluous_or_over_goes_and_our_own_never_does(cas: dict[str, bytes]) -> None:
    both = cas["b"] + cas["a"]

    assert merged(both, cas["a"], NOW, everybody) == cas["a"]
    assert merged(both, cas["renewed"], NOW + CA_LIFE + timedelta(days=1), nobody) == cas["renewed"]


def test_text_that_is_no_bundle_is_replaced(cas: dict[str, bytes]) -> None:
    assert merged(b"nobody's", cas["a"], NOW, nobody) == cas["a"]


def test_who_is_vouched_for(cas: dict[str, bytes]) -> None:
    assert vouched_for(cas["b"] + cas["a"], cas["a"])
    assert vouched_for(cas["renewed"], cas["a"])
    assert not vouched_for(cas["a"], cas["renewed"])
    assert not vouched_for(cas["b"], cas["a"])
    assert not vouched_for(b"", cas["a"])
    assert vouched_for(cas["a"], cas["b"] + cas["a"])
