"""Versions as the field prints them, and ranges of them."""

from itertools import pairwise

import pytest

from atoll.core.audit.versions import Version, parse_version, within


@pytest.mark.parametrize(
    ("text", "release", "vendor"),
    [
        ("v1.29.3", (1, 29, 3), ""),
        ("v1.29.3-eks-a18cd3a", (1, 29, 3), "-eks-a18cd3a"),
        ("v1.28.9-gke.1289000", (1, 28, 9), "-gke.1289000"),
        ("v1.30.1+k3s1", (1, 30, 1), "+k3s1"),
        ("535.161.08", (535, 161, 8), ""),
        ("v0.20.0-ubi9", (0, 20, 0), "-ubi9"),
        ("1.17.8-1", (1, 17, 8), "-1"),
        ("nvcr.io/nvidia/k8s-device-plugin:v0.17.1@sha256:32e1bdf5", (0, 17, 1), ""),
        ("registry:5000/nvidia/gpu-operator:v24.9.0-ubi8", (24, 9, 0), "-ubi8"),
        (" 12.4 ", (12, 4), ""),
    ],
)
def test_a_version_is_read_out_of_what_surrounds_it(text, release, vendor):
    assert parse_version(text) == Version(release, vendor=vendor)


@pytest.mark.parametrize(
    "text",
    ["", "v", "latest", "master", "sha256:32e1bdf5", "main-3f2a", "20240101", "9" * 5000, "nvcr.io/nvidia/driver"],
)
def test_what_names_no_version_is_unknown(text):
    assert parse_version(text) is None


def test_pre_releases_come_in_order_before_their_release():
    order = ["1.37.0-alpha.1", "1.37.0-alpha.2", "1.37.0-beta.0", "1.37.0-rc.1", "1.37.0~rc2", "1.37.0"]
    for earlier, later in pairwise(order):
        assert within(parse_version(earlier), "", later) is True
        assert within(parse_version(later), "", earlier) is False


def test_a_range_has_its_first_version_and_not_its_last():
    assert within(parse_version("570.124.06"), "570.124.06", "570.172.08") is True
    assert within(parse_version("570.172.07"), "570.124.06", "570.172.08") is True
    assert within(parse_version("570.172.08"), "570.124.06", "570.172.08") is False
    assert within(parse_version("570.124.05"), "570.124.06", "570.172.08") is False


def test_numbers_count_as_numbers():
    assert within(parse_version("v1.9.0"), "", "1.10") is True
    assert within(parse_version("0.20.0"), "0.3", "") is True


def test_a_release_line_lies_in_a_range_only_if_all_of_it_does():
    line = parse_version("1.29+")
    assert within(line, "1.29.0", "1.30.0") is True
    assert within(line, "1.29.2", "") is None
    assert within(line, "", "1.29.0") is False
    assert within(parse_version("535-5.15.0-1023-aws-ubuntu22.04"), "535.0", "535.309.01") is None
    assert within(parse_version("535-5.15.0-1023-aws-ubuntu22.04"), "580.0", "580.159.03") is False


def test_an_unknown_version_lies_only_in_the_range_without_ends():
    assert within(None, "", "") is True
    assert within(None, "1.0", "") is None
    assert within(None, "", "1.0") is None


def test_a_bound_that_is_no_version_is_a_bug():
    with pytest.raises(ValueError, match="'soon' is no version"):
        within(parse_version("1.0"), "", "soon")
