"""Metrics beside placements: what an exporter serves and what the query API answers."""

import json

import pytest

from atoll.adapters.formats.cluster.prometheus import read_json, read_metrics, recognises, recognises_json
from atoll.adapters.formats.read import UnknownFormatError, read_file
from atoll.adapters.formats.text.text import DumpFile, decode
from atoll.core.audit.picture import Metric
from atoll.core.errors import DumpError

EXPORTER = """\
# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-aa",Hostname="n1",pod="train-0",namespace="team"} 93
DCGM_FI_DEV_XID_ERRORS{gpu="0",UUID="GPU-aa"} 0
go_goroutines 12
node_load1 NaN
"""


def text(content: str):
    return decode(DumpFile("metrics.txt", content.encode()))


def test_the_samples_about_gpus_are_kept_with_their_labels() -> None:
    assert recognises(text(EXPORTER))
    metrics, refused = read_metrics(text(EXPORTER))
    assert not refused
    assert metrics == (
        Metric("DCGM_FI_DEV_GPU_UTIL", {"gpu": "0", "UUID": "GPU-aa", "Hostname": "n1", "pod": "train-0",
                                        "namespace": "team"}, 93.0),
        Metric("DCGM_FI_DEV_XID_ERRORS", {"gpu": "0", "UUID": "GPU-aa"}, 0.0),
    )  # fmt: skip


BAD = 'DCGM_FI_DEV_GPU_UTIL{gpu="0 93\n'


@pytest.mark.parametrize("bad", [BAD, "DCGM_FI_DEV_X\n", f'DCGM_FI_DEV_X{{a="{"x" * 20_000}"}} 1\n'])
def test_a_damaged_sample_is_refused_with_its_line_and_hides_no_other(bad: str) -> None:
    metrics, refused = read_metrics(text(EXPORTER + bad))

    assert [each.line for each in refused] == [7]
    assert metrics == read_metrics(text(EXPORTER))[0]
    assert recognises(text(bad + EXPORTER))


def test_metrics_of_which_no_line_can_be_used_are_refused() -> None:
    with pytest.raises(DumpError) as refused:
        read_metrics(text(BAD))

    assert refused.value.line == 1


def test_many_damaged_lines_are_told_once() -> None:
    metrics, refused = read_metrics(text(BAD * 1000 + EXPORTER))

    assert len(metrics) == 2
    assert len(refused) == 21
    assert refused[-1].found == "980 more damaged lines"


def test_metrics_are_found_by_content() -> None:
    sample = {"metric": {"__name__": "DCGM_A"}, "value": [1, "2"]}
    answer = json.dumps({"status": "success", "data": {"resultType": "vector", "result": [sample]}})

    assert [each.value for each in read_file(DumpFile("n1.log", EXPORTER.encode())).metrics] == [93.0, 0.0]
    assert read_file(DumpFile("a", answer.encode())).metrics == (Metric("DCGM_A", {}, 2.0),)
    with pytest.raises(UnknownFormatError):
        read_file(DumpFile("node.prom", b"# HELP node_load1 Load.\nnode_load1 3\n"))


def test_other_text_is_not_taken_for_metrics() -> None:
    assert not recognises(text("GPU0 GPU1\nGPU0 X NV1\n"))
    assert not recognises(text("Linux host 6.1\nnvidia_uvm 1234 0\n"))


def test_the_query_api_answers_vectors_and_ranges() -> None:
    vector = {"data": {"resultType": "vector", "result": [
        {"metric": {"__name__": "DCGM_FI_DEV_POWER_USAGE", "UUID": "GPU-aa"}, "value": [1.5, "300.5"]},
        {"metric": {"__name__": "up"}, "value": [1.5, "1"]},
        {"metric": {"__name__": "DCGM_FI_DEV_FB_USED"}, "value": [1.5, "NaN"]},
    ]}}  # fmt: skip
    matrix = {"data": {"resultType": "matrix", "result": [
        {"metric": {"__name__": "DCGM_FI_DEV_GPU_UTIL"}, "values": [[1, "3"], [2, "4"]]},
    ]}}  # fmt: skip

    assert recognises_json(vector)
    assert read_json(vector) == (Metric("DCGM_FI_DEV_POWER_USAGE", {"UUID": "GPU-aa"}, 300.5),)
    assert read_json(matrix) == (Metric("DCGM_FI_DEV_GPU_UTIL", {}, 4.0),)
