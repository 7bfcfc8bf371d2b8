"""What can name a GPU and what cannot."""

import pytest

from atoll.core.evidence.identity import (
    is_masked,
    is_name,
    pci_address,
    plain_address,
    plain_uuid,
    repeated_uuids,
    shared_uuid,
    usable_uuids,
)
from atoll.core.evidence.reading import SeenGpu

A = "GPU-aaaaaaaa-1111-2222-3333-444444444444"


@pytest.mark.parametrize(
    "uuid",
    ["GPU-00000000-0000-0000-0000-000000000000", "GPU-XXXXXXXX-XXXX-XXXX-XXXX-XXXXXXXXXXXX", "GPU-1234xxxx-aaaa",
     "GPU-12345678-...", "GPU-12345678-…", "GPU-****", "[redacted]", "GPU-removed", "N/A", "", "GPU-",
     "MIG-00000000-0000-0000-0000-000000000000"],
)  # fmt: skip
def test_a_blanked_out_uuid_is_masked(uuid: str) -> None:
    assert is_masked(uuid)
    assert not is_name(uuid)


@pytest.mark.parametrize(
    "uuid", [A, "GPU-61a65011-6571-a6d2-5th8-66cbb6f7f9c3", "609288ee-d989-ba92-9de3-29a693c5b534"]
)
def test_a_uuid_is_a_name_whatever_its_letters(uuid: str) -> None:
    assert is_name(uuid)


@pytest.mark.parametrize("uuid", [None, "0", "npu1", "GPU-0"])
def test_a_number_of_a_list_is_no_name(uuid: str | None) -> None:
    assert not is_name(uuid)


def test_case_does_not_distinguish_uuids() -> None:
    assert plain_uuid(A.upper()) == A
    assert plain_uuid("gpu-" + A[4:]) == A
    assert plain_uuid("MIG-" + A[4:].upper()) == "MIG-" + A[4:]


@pytest.mark.parametrize("device_id", [A, f"{A}::3", f"{A}-1", f"{A}_12"])
def test_a_share_is_of_the_gpu_that_it_names(device_id: str) -> None:
    assert shared_uuid(device_id) == A


@pytest.mark.parametrize("device_id", ["nvidia0", "GPU-0", f"{A}-x", f"x{A}"])
def test_an_id_without_a_uuid_is_a_share_of_nothing(device_id: str) -> None:
    assert shared_uuid(device_id) is None


@pytest.mark.parametrize(
    ("printed", "address"),
    [
        ("00000000:3B:00.0", "0000:3b:00.0"),
        ("19:00.0", "0000:19:00.0"),
        ("0000:c1:1f.7", "0000:c1:1f.7"),
        ("10000:E1:00.0", "10000:e1:00.0"),
        ("0001A2B3:00:00.0", "1a2b3:00:00.0"),
        (" 0:05:00.0\n", "0000:05:00.0"),
    ],
)
def test_every_spelling_of_an_address_becomes_one(printed: str, address: str) -> None:
    assert pci_address(printed) == address


@pytest.mark.parametrize(
    "printed", ["", "N/A", "19:00", "0000:19:20.0", "0000:19:00.8", "0000:119:00.0", "000000000:19:00.0", "x19:00.0"]
)
def test_what_is_no_address_is_unknown(printed: str) -> None:
    assert pci_address(printed) is None
    assert plain_address(printed) == printed.strip().lower()


def test_a_uuid_at_two_addresses_is_repeated_and_at_one_it_is_not() -> None:
    twice = [SeenGpu("a", uuid=A, pci_address="0000:17:00.0"), SeenGpu("b", uuid=A, pci_address="0000:17:00.0")]
    apart = [SeenGpu("a", uuid=A, pci_address="0000:17:00.0"), SeenGpu("b", uuid=A, pci_address="0000:3b:00.0")]

    assert (usable_uuids(twice), repeated_uuids(twice)) == ((A, A), ())
    assert (usable_uuids(apart), repeated_uuids(apart)) == ((None, None), (A,))
