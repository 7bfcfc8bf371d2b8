"""The merge of node configurations: who is selected, and which field wins."""

import pytest

from atoll.core.config import DEFAULT_CONFIG, config_of
from atoll.core.facts import Enforcement, NamedPartition, NodeConfigObject, NodeFacts
from atoll.core.ledger import NodeMode
from atoll.core.selector import Requirement

NODE = NodeFacts("n1", "uid-1", 8, 8, labels=(("pool", "train"), ("zone", "a")))


def test_a_node_that_no_object_matches_is_shadow():
    other = NodeConfigObject("a", node_names=("n2",), enforcement=Enforcement.ENFORCE)

    assert config_of(NODE, [other]) == DEFAULT_CONFIG
    assert DEFAULT_CONFIG.enforcement is Enforcement.SHADOW


def test_an_object_without_selector_and_names_holds_for_every_node():
    assert config_of(NODE, [NodeConfigObject("a", enforcement=Enforcement.ENFORCE)]).enforcement is Enforcement.ENFORCE


def test_with_selector_and_names_either_is_enough():
    by_name = NodeConfigObject(
        "a", selector=(Requirement("pool", "In", ("batch",)),), node_names=("n1",), mode=NodeMode.COMMAND
    )
    by_label = NodeConfigObject(
        "a", selector=(Requirement("pool", "In", ("train",)),), node_names=("n2",), mode=NodeMode.COMMAND
    )

    assert config_of(NODE, [by_name]).mode is NodeMode.COMMAND
    assert config_of(NODE, [by_label]).mode is NodeMode.COMMAND


def test_names_alone_do_not_select_the_rest():
    empty_selector = NodeConfigObject("a", selector=(), node_names=("n2",), mode=NodeMode.DRA)

    assert config_of(NODE, [empty_selector]) == DEFAULT_CONFIG


def test_the_later_name_wins_per_field_and_leaves_the_others():
    first = NodeConfigObject("a", enforcement=Enforcement.ENFORCE, quarantine=("GPU-1",))
    second = NodeConfigObject("b", quarantine=("GPU-2",), partitions=(NamedPartition("left", ("GPU-3",)),))

    merged = config_of(NODE, [second, first])

    assert merged.enforcement is Enforcement.ENFORCE
    assert merged.quarantine == ("GPU-2",)
    assert merged.partitions == (NamedPartition("left", ("GPU-3",)),)


def test_an_empty_list_is_a_set_field_and_clears_the_earlier_one():
    first, second = NodeConfigObject("a", quarantine=("GPU-1",)), NodeConfigObject("b", quarantine=())

    assert config_of(NODE, [first, second]).quarantine == ()


@pytest.mark.parametrize(
    ("term", "holds"),
    [
        (Requirement("pool", "In", ("train", "batch")), True),
        (Requirement("rack", "In", ("r1",)), False),
        (Requirement("pool", "NotIn", ("train",)), False),
        (Requirement("rack", "NotIn", ("r1",)), True),
        (Requirement("pool", "Exists"), True),
        (Requirement("rack", "Exists"), False),
        (Requirement("rack", "DoesNotExist"), True),
        (Requirement("pool", "DoesNotExist"), False),
        (Requirement("pool", "Near", ("train",)), False),
    ],
)
def test_a_term_reads_labels_as_kubernetes_does(term: Requirement, holds: bool):
    merged = config_of(NODE, [NodeConfigObject("a", selector=(term,), enforcement=Enforcement.ENFORCE)])

    assert (merged.enforcement is Enforcement.ENFORCE) == holds
