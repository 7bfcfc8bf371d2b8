"""From annotations to a request; every doubtful word is refused in one line."""

from dataclasses import replace

import pytest

from atoll.core.asking import Defaults, request_of
from atoll.core.assess import class_of
from atoll.core.interchange import awaited_for, confusable
from atoll.core.request import (
    CONTAINERS_MAX,
    ContainerAsk,
    ContainerKind,
    GpuRequest,
    InvalidRequest,
    PodAsk,
    Policy,
    ServiceClass,
    fresh_counts,
    waiting_for_a_domain,
)
from atoll.core.scope import DEFAULT_SCOPES, Scope


def ask(*gpus: int, **annotations: str) -> PodAsk:
    words = {f"atoll.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    return PodAsk(tuple(ContainerAsk(f"c{n}", count) for n, count in enumerate(gpus)), words)


def valid(pod: PodAsk, defaults: Defaults | None = None) -> GpuRequest:
    request = request_of(pod, defaults) if defaults else request_of(pod)
    assert isinstance(request, GpuRequest), request
    return request


def test_a_pod_without_gpus_asks_for_nothing_whatever_it_is_annotated_with():
    assert request_of(ask(0, policy="nonsense")) is None
    assert request_of(PodAsk((), {})) is None


@pytest.mark.parametrize("value", ["0", "-1", "abc", "1.5", "65536", "000008", "٣", ""])
def test_a_size_of_a_gang_that_is_no_number_is_refused(value: str):
    found = request_of(ask(2, gang_size=value))

    assert isinstance(found, InvalidRequest)
    assert found.message.startswith("atoll.dev/gang-size: found ")


def test_the_size_of_a_gang_bears_on_nothing_else():
    assert request_of(ask(2, gang_size="16")) == request_of(ask(2))


def test_the_default_goes_by_size():
    assert valid(ask(3)).policy is Policy.PREFERRED
    assert valid(ask(4)).policy is Policy.RESTRICTED
    assert valid(ask(2, 2)).policy is Policy.RESTRICTED
    assert valid(ask(4)).scopes == DEFAULT_SCOPES
    assert valid(ask(2), Defaults(restricted_from=2, scopes=(Scope.NODE,))).policy is Policy.RESTRICTED
    assert valid(ask(2), Defaults(restricted_from=2, scopes=(Scope.NODE,))).scopes == (Scope.NODE,)


def test_the_size_of_a_pod_is_its_peak_with_init_reuse():
    containers = (ContainerAsk("warm", 4, ContainerKind.INIT), ContainerAsk("main", 2))

    assert fresh_counts(containers) == (4, 0)
    assert valid(PodAsk(containers, {})).policy is Policy.RESTRICTED


def test_words_are_read():
    request = valid(ask(1, policy="Restricted", scope="PCIeSwitch, NUMANode", service_class="batch"))

    assert request.policy is Policy.RESTRICTED
    assert request.scopes == (Scope.PCIE_SWITCH, Scope.NUMA_NODE)
    assert request.service_class is ServiceClass.BATCH


def test_latency_is_restricted():
    assert valid(ask(1, service_class="latency")).policy is Policy.RESTRICTED
    assert isinstance(request_of(ask(1, service_class="latency", policy="Preferred")), InvalidRequest)


def test_a_named_partition_implies_its_scope():
    assert valid(ask(2, partition="left")).scopes == (Scope.PARTITION,)
    assert valid(ask(2, partition="left", scope="Partition")).partition == "left"
    assert valid(ask(2, scope="Partition,NUMANode")).partition is None


def test_containers_judged_alone_have_their_own_default():
    request = valid(ask(4, 1, per_container="true"))

    assert request.container_policies == (Policy.RESTRICTED, Policy.PREFERRED)
    assert valid(ask(4, 1, per_container="true", policy="Preferred")).container_policies == (Policy.PREFERRED,) * 2
    assert valid(ask(4, 1, per_container="false")).container_policies == ()


def test_what_atoll_itself_writes_is_not_read():
    pod = ask(4, allocation='{"v":1,"containers":{"c0":["GPU-stolen"]}', unheard_of="x")

    assert request_of(pod) == request_of(ask(4))


@pytest.mark.parametrize(
    ("annotations", "said"),
    [
        ({"policy": "restricted"}, "did you mean Restricted?"),
        ({"policy": "Best-Effort"}, "legal are Restricted, Preferred"),
        ({"policy": ""}, "empty"),
        ({"scope": "  "}, "empty"),
        ({"scope": "numa"}, "did you mean NUMANode?"),
        ({"scope": "NUMANode,"}, 'found ""'),
        ({"scope": "NUMANode,NUMANode"}, "twice"),
        ({"scope": "Socket,NUMANode"}, '"NUMANode,Socket"'),
        ({"scope": "NUMANode,NVLink"}, '"NVLink,NUMANode"'),
        ({"scope": "Node," * 100}, "at most 256"),
        ({"partition": ""}, "empty"),
        ({"partition": "p" * 300}, "300 characters"),
        ({"partition": "left", "scope": "NUMANode"}, "implies"),
        ({"partition": "left", "scope": "Partition,NUMANode"}, "implies"),
        ({"per_container": "True"}, '"true", "false"'),
        ({"per_container": "1"}, '"true", "false"'),
        ({"service_class": "gold"}, "shared, latency, batch"),
    ],
)
def test_a_wrong_word_is_refused_with_what_was_found_and_what_is_legal(annotations: dict[str, str], said: str):
    refused = request_of(ask(4, **annotations))

    assert isinstance(refused, InvalidRequest)
    assert said in refused.message
    assert "\n" not in refused.message
    assert len(refused.message) < 400


def test_untrusted_text_is_bounded_and_printable():
    refused = request_of(ask(4, policy="\x1b[31m" + "A" * 200))

    assert isinstance(refused, InvalidRequest)
    assert refused.message.isprintable()
    assert len(refused.message) < 200


def test_a_pod_of_more_containers_than_a_ledger_holds_is_refused():
    most = PodAsk(tuple(ContainerAsk(f"c{n}", 1, ContainerKind.INIT) for n in range(CONTAINERS_MAX)), {})
    beyond = PodAsk((*most.containers, ContainerAsk("main", 1)), {})

    assert valid(most).gpus == 1
    assert request_of(beyond) == InvalidRequest("257 containers ask for GPUs, at most 256 can; join some")


def test_a_patient_pod_changes_places_with_those_that_are_promised_as_much_as_it_is() -> None:
    """Else the shim, which goes by what grants say, would answer nobody."""
    patient = waiting_for_a_domain(replace(valid(ask(1)), degrade_after_s=60))
    strict, loose = (valid(ask(1, policy=word)) for word in ("Restricted", "Preferred"))
    mine = awaited_for(class_of(patient), enforced=True)

    assert confusable(mine, awaited_for(class_of(strict), enforced=True))
    assert not confusable(mine, awaited_for(class_of(loose), enforced=True))
