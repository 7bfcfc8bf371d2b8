"""`atoll topology show --kubeconfig`: a cluster that answers over HTTP, with a node that it knows well and one not."""

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from atoll.adapters.catalogue import load
from atoll.adapters.kube.codec_inventory import gpu_node_json
from atoll.cli.app import main
from atoll.core.facts import Inventory, Source

MACHINE = load("hgx-h100", "n1")


def node(name: str) -> dict[str, object]:
    return {
        "metadata": {"name": name, "uid": f"uid-{name}"},
        "status": {"capacity": {"nvidia.com/gpu": "8"}, "allocatable": {"nvidia.com/gpu": "8"}},
    }


ANSWERS: dict[str, object] = {
    "/version": {"gitVersion": "v1.37.2"},
    "/api/v1/nodes": {"items": [node("n1"), node("n2")]},
    "/apis/atoll.dev/v1alpha1/gpunodes": {
        "items": [json.loads(gpu_node_json(Inventory("n1", "uid-n1", Source.PUBLISHED, MACHINE)))]
    },
}


class Handler(BaseHTTPRequestHandler):
    """Answers the lists above; everything else is not installed."""

    def do_GET(self) -> None:
        found = ANSWERS.get(self.path.partition("?")[0])
        body = json.dumps(found or {"kind": "Status", "message": "not found"}).encode()
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[Path]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    file = tmp_path / "kubeconfig"
    file.write_text(
        json.dumps(
            {
                "apiVersion": "v1", "kind": "Config", "current-context": "c",
                "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "users": [{"name": "u", "user": {}}],
            }
        )
    )  # fmt: skip
    yield file
    server.shutdown()
    server.server_close()
    thread.join()


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["atoll", "topology", "show", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def test_a_cluster_is_a_list_of_its_nodes(
    monkeypatch: pytest.MonkeyPatch, kubeconfig: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(monkeypatch, "--kubeconfig", str(kubeconfig), "-o", "json")

    document = json.loads(capsys.readouterr().out)
    assert (code, document["kind"]) == (0, "NodeTopologyList")
    assert [(item["name"], item["gpusKnown"], len(item["devices"])) for item in document["items"]] == [
        ("n1", True, 8),
        ("n2", False, 0),
    ]


def test_one_node_is_drawn_alone(
    monkeypatch: pytest.MonkeyPatch, kubeconfig: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(monkeypatch, "--kubeconfig", str(kubeconfig), "--node", "n1")

    printed = capsys.readouterr().out
    assert (code, "NUMANode    {0-3} {4-7}" in printed, "from GPUNode" in printed) == (0, True, True)


def test_a_node_that_is_not_there_is_told(
    monkeypatch: pytest.MonkeyPatch, kubeconfig: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(monkeypatch, "--kubeconfig", str(kubeconfig), "--node", "n3")

    assert code == 1
    assert 'no node "n3" with GPUs in this cluster; there are: n1, n2' in capsys.readouterr().err


def test_a_cluster_and_files_are_one_too_many(
    monkeypatch: pytest.MonkeyPatch, kubeconfig: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "--kubeconfig", str(kubeconfig), "topo.txt") == 2
    assert "give one of them" in " ".join(capsys.readouterr().err.replace("│", " ").split())
