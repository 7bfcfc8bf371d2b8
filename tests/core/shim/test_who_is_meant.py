"""Whose container the kubelet means, when it asks for GPUs and names no pod."""

from dataclasses import replace

import pytest

from atoll.core.ledger import ContainerGrant, Grant, NodeMode, Owner, Part
from atoll.core.lifecycle import State
from atoll.core.request import Policy
from atoll.core.scope import Scope
from atoll.core.shim.identity import Chosen, Refused, Unsure, answer, judge
from atoll.core.shim.packing import packed
from atoll.core.shim.values import Guest, Known, Question

ALL = "abcdefgh"


def guest(name: str, *shares: str, admitted: bool = False, over: bool = False, noted: str | None = None) -> Guest:
    uuids = "".join(shares) if noted is None else noted
    counts = tuple(len(share) for share in shares) or (1,)
    return Guest(name, "ml", name, "1", name, counts, admitted, over, frozenset(uuids) if uuids else None)


def grant(name: str, *shares: str, policy: Policy = Policy.RESTRICTED, scope: Scope = Scope.NUMA_NODE) -> Grant:
    containers = tuple(ContainerGrant(f"c{n}", tuple(map(Part, share))) for n, share in enumerate(shares))
    count = sum(map(len, shares))
    owner = Owner("Pod", "ml", name, name)
    return Grant(owner, State.BINDING, count, containers, policy, (scope,), scope, NodeMode.COMMAND)


def known(*pods: tuple[Guest, Grant] | Guest, fresh: bool = False) -> Known:
    guests = tuple(pod if isinstance(pod, Guest) else pod[0] for pod in pods)
    return Known(guests, tuple(pod[1] for pod in pods if not isinstance(pod, Guest)), fresh=fresh)


def waits(name: str, *shares: str, scope: Scope = Scope.NUMA_NODE) -> tuple[Guest, Grant]:
    return guest(name, *shares), grant(name, *shares, scope=scope)


def question(size: int, available: str = ALL, must: str = "") -> Question:
    return Question(frozenset(available), frozenset(must), size)


def test_the_one_pod_that_waits_for_so_many_gets_what_it_was_granted():
    assert answer(known(waits("p", "ab"), waits("q", "c")), question(2)) == Chosen(
        frozenset("ab"), "p", frozenset("ab")
    )


def test_of_two_pods_by_one_rule_the_older_is_served_first_and_then_the_other():
    both = known(waits("p", "ab"), waits("q", "cd"))

    assert answer(both, question(2)) == Chosen(frozenset("ab"), "p", frozenset("ab"))
    served = replace(both, served=frozenset({("p", frozenset("ab"))}))
    assert answer(served, question(2, "cdefgh")) == Chosen(frozenset("cd"), "q", frozenset("cd"))


def test_of_two_pods_by_different_rules_nobody_gets_anything():
    both = known(waits("p", "ab"), waits("q", "cd", scope=Scope.NODE))

    assert isinstance(answer(both, question(2)), Unsure)
    assert isinstance(answer(replace(both, fresh=True), question(2)), Refused)


def test_a_pod_of_several_containers_changes_places_with_nobody():
    """Its GPUs must be right together."""
    both = known(waits("p", "ab", "cd"), waits("q", "ef"), fresh=True)

    assert isinstance(answer(both, question(2)), Refused)


def test_the_containers_of_one_pod_are_served_in_their_order():
    one = known(waits("p", "ab", "cd"))

    assert answer(one, question(2)) == Chosen(frozenset("ab"), "p", frozenset("ab"))
    after = replace(one, served=frozenset({("p", frozenset("ab"))}))
    assert answer(after, question(2, "cdefgh")) == Chosen(frozenset("cd"), "p", frozenset("cd"))


def test_what_an_init_container_left_is_included():
    assert answer(known(waits("p", "b", "cd")), question(3, must="b")) == Chosen(frozenset("bcd"), "p", frozenset("cd"))


def test_what_is_reused_whole_is_given_without_a_choice():
    assert answer(known(), question(2, must="ab")) == Chosen(frozenset("ab"))


@pytest.mark.parametrize("gone", [guest("p", "ab", over=True), guest("p", "ab", admitted=True)])
def test_a_pod_that_has_ended_or_was_let_in_already_is_not_meant(gone: Guest):
    assert isinstance(answer(known((gone, grant("p", "ab"))), question(2)), Unsure)


def test_a_pod_whose_annotation_names_other_gpus_makes_us_read_again():
    """Its grant was written anew, and we have not heard of it yet."""
    late = known((guest("p", "ab", noted="cd"), grant("p", "ab")))

    assert isinstance(answer(late, question(2)), Unsure)
    assert answer(replace(late, fresh=True), question(2)) == Chosen(frozenset("ab"), "p", frozenset("ab"))


def test_a_pod_that_nobody_granted_anything_is_read_about_first_and_then_spares_what_is_granted():
    one = known(waits("p", "abcd"), guest("s"))

    assert isinstance(answer(one, question(1)), Unsure)
    assert answer(replace(one, fresh=True), question(1)) == Chosen(frozenset("e"))


def test_a_stranger_gets_nothing_that_is_granted_or_kept_back():
    one = replace(known(waits("p", "abcd"), fresh=True), spared=frozenset("gh"))

    assert answer(one, question(2)) == Chosen(frozenset("ef"))
    assert isinstance(answer(one, question(3)), Refused)


def test_a_pod_whose_gpus_somebody_else_has_gets_no_others():
    one = known(waits("p", "ab"), fresh=True)

    refused = answer(one, question(2, "bcdefgh"))

    assert isinstance(refused, Refused)
    assert "ml/p was granted a" in refused.why


def test_a_kubelet_that_has_lost_its_checkpoint_is_told_again_who_runs_with_what():
    ran = [(guest(name, share, admitted=True), grant(name, share)) for name, share in (("p", "ab"), ("q", "cd"))]

    assert isinstance(answer(known(*ran), question(2)), Unsure)
    assert answer(known(*ran, fresh=True), question(2)) == Chosen(frozenset("ab"), "p", frozenset("ab"))
    assert answer(known(*ran, fresh=True), question(2, "cdefgh")) == Chosen(frozenset("cd"), "q", frozenset("cd"))


def test_a_pod_that_was_taken_for_another_which_is_gone_still_gets_its_share():
    one = replace(known(waits("p", "ab")), served=frozenset({("p", frozenset("ab"))}))

    assert isinstance(answer(one, question(2)), Unsure)
    assert answer(replace(one, fresh=True), question(2)) == Chosen(frozenset("ab"), "p", frozenset("ab"))


def test_a_pod_that_was_not_served_comes_before_one_that_was():
    both = known(waits("p", "ab"), waits("q", "cd", scope=Scope.NODE), fresh=True)

    served = replace(both, served=frozenset({("p", frozenset("ab"))}))

    assert answer(served, question(2)) == Chosen(frozenset("cd"), "q", frozenset("cd"))


def test_an_unreadable_ledger_gives_nobody_anything():
    assert isinstance(answer(replace(known(), unreadable="edited by hand", fresh=True), question(1)), Refused)


@pytest.mark.parametrize("asked", [question(9), question(1, must="ab"), Question(frozenset("a"), frozenset("b"), 1)])
def test_a_question_that_makes_no_sense_is_refused(asked: Question):
    assert isinstance(answer(known(), asked), Refused)


def test_what_was_answered_may_be_allocated():
    last = Chosen(frozenset("ab"), "p", frozenset("ab"))
    assert judge(known(waits("p", "ab")), frozenset("ab"), last) is last


def test_what_the_kubelet_settled_on_without_asking_may_be_allocated_where_it_was_granted():
    assert judge(known(waits("p", "ab")), frozenset("ab"), None) == Chosen(frozenset("ab"), "p", frozenset("ab"))


def test_what_the_kubelet_settled_on_is_refused_where_a_pod_may_be_meant_that_was_granted_others():
    one = known(waits("p", "ab"))

    assert isinstance(judge(one, frozenset("cd"), None), Unsure)
    assert isinstance(judge(replace(one, fresh=True), frozenset("cd"), None), Refused)


def test_a_stranger_may_not_be_allocated_what_is_granted():
    one = known(waits("p", "ab"), fresh=True)

    assert isinstance(judge(one, frozenset("a"), None), Refused)
    assert judge(one, frozenset("c"), None) == Chosen(frozenset("c"))


def test_what_an_earlier_container_of_the_pod_left_may_be_allocated():
    one = replace(known(waits("p", "abcd")), served=frozenset({("p", frozenset("abcd"))}))

    assert judge(one, frozenset("bc"), None) == Chosen(frozenset("bc"))


def test_what_an_earlier_container_left_may_be_allocated_though_it_was_served_as_a_twin_that_is_gone_since():
    served = frozenset({("q", frozenset("cd"))})
    one = replace(known(waits("p", "ab"), fresh=True), served=served | {("p", frozenset("ab"))})
    gone = replace(one, grants=(*one.grants, grant("q", "cd")))
    another = replace(one, grants=(*one.grants, grant("q", "cd", scope=Scope.NODE)))

    assert judge(gone, frozenset("cd"), None) == Chosen(frozenset("cd"))
    assert isinstance(judge(another, frozenset("cd"), None), Refused)


@pytest.mark.parametrize(
    ("free", "count", "given"),
    [("abefgh", 2, "ab"), ("abefgh", 3, "efg"), ("abefgh", 5, "abefg"), ("aefg", 1, "a")],
    ids=["the fullest with room", "one that has room", "the fullest first", "one"],
)
def test_a_stranger_breaks_the_island_that_is_broken_most(free: str, count: int, given: str):
    numa = {uuid: (ALL.index(uuid) // 4,) for uuid in ALL}

    assert packed(frozenset(free), count, numa) == frozenset(given)


def moved(name: str, decided: str, *candidates: str) -> tuple[Guest, Grant]:
    """A pod that may get any of the candidates, as the Topology Manager has it."""
    granted = replace(grant(name, decided), candidates=tuple(tuple(each) for each in candidates))
    return guest(name, decided), granted


def test_where_hints_are_kept_a_pod_gets_what_was_decided_or_the_first_candidate_that_is_to_be_had():
    one = known(moved("p", "ef", "ab", "ac", "ef"))

    assert answer(one, question(2)) == Chosen(frozenset("ef"), "p", frozenset("ef"))
    assert answer(one, question(2, "abcd")) == Chosen(frozenset("ab"), "p", frozenset("ef"))
    assert answer(one, question(2, "acd")) == Chosen(frozenset("ac"), "p", frozenset("ef"))


def test_where_no_candidate_is_to_be_had_nobody_gets_anything():
    one = known(moved("p", "ef", "ab", "ef"), fresh=True)

    assert isinstance(answer(one, question(2, "bcd")), Refused)


def test_a_candidate_that_the_kubelet_settled_on_unasked_is_the_pod_s():
    one = known(moved("p", "ef", "ab", "ef"))

    assert judge(one, frozenset("ab"), None) == Chosen(frozenset("ab"), "p", frozenset("ef"))
    assert isinstance(judge(replace(one, fresh=True), frozenset("cd"), None), Refused)


def test_a_stranger_gets_nothing_that_is_a_candidate_of_another():
    one = known(moved("p", "ef", "ab", "ef"), guest("s", "x"), fresh=True)

    assert answer(one, question(1)) == Chosen(frozenset("c"))
    assert isinstance(judge(one, frozenset("a"), None), Refused)


def test_a_candidate_with_a_quarantined_gpu_is_the_last_choice():
    one = replace(known(moved("p", "ef", "ab", "ac")), spared=frozenset("b"))

    assert answer(one, question(2, "abcd")) == Chosen(frozenset("ac"), "p", frozenset("ef"))
    assert answer(one, question(2, "abd")) == Chosen(frozenset("ab"), "p", frozenset("ef"))


def test_that_the_topology_manager_offers_none_of_the_candidates_is_said_so():
    found = answer(known(moved("p", "ef", "ab", "ef"), fresh=True), question(2, "cdgh"))

    assert found == Refused("ml/p was granted e, f, which is not offered by the Topology Manager")


def test_a_pod_for_which_a_stranger_was_taken_gets_nothing_rather_than_what_is_left():
    """The stranger asked first, and for as many; the pod must not be taken for a stranger in its turn."""
    both = replace(known(waits("p", "ab"), guest("s", "", ""), fresh=True), served=frozenset({("p", frozenset("ab"))}))

    assert isinstance(answer(both, question(2, "cdefgh")), Refused)
    let_in = replace(both, guests=(replace(both.guests[0], admitted=True), both.guests[1]))
    assert isinstance(answer(let_in, question(2, "cdefgh")), Chosen)


def test_a_pod_whose_twin_took_its_gpus_and_is_gone_gets_what_the_twin_was_granted():
    one = replace(known(waits("p", "ab"), fresh=True), served=frozenset({("p", frozenset("ab"))}))
    gone = replace(one, grants=(*one.grants, grant("twin", "cd")))

    assert answer(gone, question(2, "cdefgh")) == Chosen(frozenset("cd"), "p", frozenset("ab"))
    other_rule = replace(one, grants=(*one.grants, grant("twin", "cd", scope=Scope.NODE)))
    assert isinstance(answer(other_rule, question(2, "cdefgh")), Refused)
