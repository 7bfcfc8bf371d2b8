"""An extender that refuses every node, and remembers the pods that a scheduler asked it about."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

Json = dict[str, Any]


class RefusingExtender:
    """A server on a free loopback port. Use as a context manager. Attributes: asked: the pods, oldest call first."""

    def __init__(self) -> None:
        self.asked: list[Json] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, name="refusing-extender")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def config(self) -> Json:
        """Its entry in a KubeSchedulerConfiguration, with the settings of our own."""
        return {
            "urlPrefix": f"http://127.0.0.1:{self._server.server_port}",
            "filterVerb": "filter",
            "nodeCacheCapable": True,
            "ignorable": False,
            "managedResources": [{"name": "nvidia.com/gpu", "ignoredByScheduler": False}],
        }

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        asked = self.asked

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                asked.append(question["Pod"])
                answer = {"NodeNames": [], "FailedNodes": dict.fromkeys(question["NodeNames"], "refused by a test")}
                body = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        return Handler
