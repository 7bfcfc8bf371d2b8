"""GPU metrics as Prometheus prints them: the text that an exporter serves, or the answer of the query API.

Only samples about GPUs are kept, the last of each series, since a scrape of a node holds thousands of others.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from atoll.adapters.formats.text.objects import at, list_at, mapping_at, text_at, text_of
from atoll.adapters.formats.text.text import DumpText
from atoll.core.audit.picture import Metric
from atoll.core.errors import DumpError, quoted

SAMPLES_MAX = 200_000
LINE_MAX = 16_384
REFUSED_MAX = 20
EXPECTED_LINE = 'NAME{label="value"} NUMBER'
EXPECTED = "metrics of the DCGM exporter or of another vendor's, as Prometheus prints them"
_GPU_METRIC = re.compile(r"(?:DCGM_|nvidia_|nv_|amd_|rocm_|gpu_|hami_|vgpu_|container_accelerator_)\w{1,200}")
_LABELLED = re.compile(_GPU_METRIC.pattern + r'\{\w{1,100}="')
_TYPED = re.compile(r"#\s+(?:HELP|TYPE)\s+\w")
_SAMPLE = re.compile(r"[a-zA-Z_:][\w:]{0,250}(?:\{|\s+[-+.\dNI])")
_HEAD_LINES = 50


def recognises(text: DumpText) -> bool:
    """Whether the text is an exporter's: comment lines of the format, samples with labels or from its first line on."""
    head = [line.strip() for line in text.lines[:_HEAD_LINES] if line.strip()]
    if any(_TYPED.match(line) or _LABELLED.match(line) for line in head):
        return True
    return all(_SAMPLE.match(line) for line in head[:3]) and any(_GPU_METRIC.match(line) for line in head)


def read_metrics(text: DumpText) -> tuple[tuple[Metric, ...], tuple[DumpError, ...]]:
    """The samples about GPUs, and the first of the lines about GPUs that are damaged.

    Raises:
        DumpError: there are such lines, and none can be used.
    """
    found: list[Metric] = []
    refused: list[DumpError] = []
    damaged = 0
    for number, line in enumerate(text.lines, 1):
        body = line.strip()
        if not _GPU_METRIC.match(body):
            continue
        if len(found) >= SAMPLES_MAX:
            refused.append(text.line_refusal(
                number, found=f"more than {SAMPLES_MAX:,} samples, and read no further",
                expected="the metrics of one exporter", remedy="Keep the lines that begin with DCGM_.",
            ))  # fmt: skip
            break
        samples = _of_line(body) if len(body) <= LINE_MAX else None
        if samples is not None:
            found += samples
            continue
        damaged += 1
        if damaged <= REFUSED_MAX:
            refused.append(text.line_refusal(number, found=quoted(body), expected=EXPECTED_LINE))
    if damaged > REFUSED_MAX:
        more = f"{damaged - REFUSED_MAX:,} more damaged lines"
        refused.append(text.line_refusal(1, found=more, expected=EXPECTED_LINE))
    if refused and not found:
        raise refused[0]
    return latest(found), tuple(refused)


def _of_line(line: str) -> list[Metric] | None:
    """None where the line is damaged."""
    # Imported here: it costs a tenth of a second, and few files are metrics.
    from prometheus_client.parser import text_string_to_metric_families  # noqa: PLC0415

    try:
        return [
            Metric(sample.name, dict(sample.labels), float(sample.value))
            for family in text_string_to_metric_families(line + "\n")
            for sample in family.samples
            if math.isfinite(sample.value)
        ]
    except Exception:  # the library raises whatever its hand-written parser stumbles over
        return None


def recognises_json(value: Any) -> bool:  # noqa: ANN401
    """Whether it is an answer of /api/v1/query or /api/v1/query_range."""
    return text_at(value, "data", "resultType") in {"vector", "matrix"}


def read_json(value: Any) -> tuple[Metric, ...]:  # noqa: ANN401
    """The samples about GPUs; of a range the last."""
    return latest(_series(list_at(value, "data", "result")[:SAMPLES_MAX]))


def _series(results: Iterable[Any]) -> Iterator[Metric]:
    for result in results:
        labels = {key: text_of(label) for key, label in mapping_at(result, "metric").items()}
        name = labels.pop("__name__", "")
        values = list_at(result, "values")
        pair = values[-1] if values else at(result, "value")
        number = _number(pair[1]) if isinstance(pair, (list, tuple)) and len(pair) == 2 else None
        if _GPU_METRIC.fullmatch(name) and number is not None:
            yield Metric(name, labels, number)


def _number(word: object) -> float | None:
    try:
        number = float(word) if isinstance(word, (str, int, float)) and len(str(word)) < 64 else math.nan
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def latest(metrics: Iterable[Metric]) -> tuple[Metric, ...]:
    """One sample per series: the last one given."""
    series: dict[tuple[str, tuple[tuple[str, str], ...]], Metric] = {}
    for metric in metrics:
        series[metric.name, _key(metric.labels)] = metric
    return tuple(series.values())


def _key(labels: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(labels.items()))
