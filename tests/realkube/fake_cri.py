"""A container runtime without containers: everything that a kubelet asks of one is remembered and said to have worked.

Each kubelet needs one of its own; two on one socket would kill each other's pods.
"""

import threading
import time
import uuid
from collections.abc import Callable
from concurrent import futures
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from tests.realkube.protos import interface

cri, services = interface("cri")


@dataclass
class Sandbox:
    config: Any
    handler: str
    made: int
    ready: bool = True


@dataclass
class Container:
    sandbox: str
    config: Any
    made: int
    state: int
    started: int = 0
    finished: int = 0

    def environment(self) -> dict[str, str]:
        return {each.key: each.value.decode() for each in self.config.envs}


@dataclass
class FakeCri:
    """The state, and a server on a Unix socket.

    Attributes:
        containers: by id, also those that have ended. stuck: UIDs of pods whose containers cannot be stopped.
    """

    socket: Path
    sandboxes: dict[str, Sandbox] = field(default_factory=dict)
    containers: dict[str, Container] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)
    stuck: set[str] = field(default_factory=set)

    def start(self) -> None:
        self._server = grpc.server(futures.ThreadPoolExecutor(8))
        services.add_RuntimeServiceServicer_to_server(_Runtime(self), self._server)
        services.add_ImageServiceServicer_to_server(_Images(), self._server)
        self._server.add_insecure_port(f"unix://{self.socket}")
        self._server.start()

    def stop(self) -> None:
        self._server.stop(None)

    def running(self) -> dict[tuple[str, str], dict[str, str]]:
        """(pod UID, container name) -> environment, of the containers that run."""
        with self.lock:
            return {
                (self.sandboxes[each.sandbox].config.metadata.uid, each.config.metadata.name): each.environment()
                for each in self.containers.values()
                if each.state == cri.CONTAINER_RUNNING and each.sandbox in self.sandboxes
            }

    def log_of(self, container: Container) -> Path:
        """Never empty: a kubelet that removes a container removes every file that begins with the path of its log."""
        folder: str = self.sandboxes[container.sandbox].config.log_directory
        path: str = container.config.log_path
        return Path(folder) / path

    def end(self, pod_uid: str) -> None:
        """Let a pod's containers come to their end, as if their work were done."""
        with self.lock:
            for each in self.containers.values():
                if self.sandboxes[each.sandbox].config.metadata.uid == pod_uid:
                    _finish(each)

    def end_all(self) -> None:
        """The machine goes down, and every process with it."""
        with self.lock:
            for each in self.containers.values():
                _finish(each)
            for sandbox in self.sandboxes.values():
                sandbox.ready = False


def _finish(container: Container) -> None:
    container.state, container.finished = cri.CONTAINER_EXITED, container.finished or time.time_ns()


def _wanted(filtered: Any, identity: str, state: int, config: Any) -> bool:
    if filtered.id and filtered.id != identity:
        return False
    if filtered.HasField("state") and filtered.state.state != state:
        return False
    return all(config.labels.get(key) == value for key, value in filtered.label_selector.items())


def _locked(method: Callable[..., Any]) -> Callable[..., Any]:
    def call(self: "_Runtime", request: Any, context: Any) -> Any:
        with self.box.lock:
            return method(self, request, context)

    return call


class _Runtime(services.RuntimeServiceServicer):  # type: ignore[misc, name-defined]
    def __init__(self, box: FakeCri) -> None:
        self.box = box

    def Version(self, request: Any, context: Any) -> Any:
        return cri.VersionResponse(
            version="0.1.0", runtime_name="fake", runtime_version="2.2.0", runtime_api_version="v1"
        )

    def Status(self, request: Any, context: Any) -> Any:
        ready = [cri.RuntimeCondition(type=name, status=True) for name in ("RuntimeReady", "NetworkReady")]
        return cri.StatusResponse(status=cri.RuntimeStatus(conditions=ready))

    def RuntimeConfig(self, request: Any, context: Any) -> Any:
        return cri.RuntimeConfigResponse(linux=cri.LinuxRuntimeConfiguration(cgroup_driver=cri.CGROUPFS))

    def UpdateRuntimeConfig(self, request: Any, context: Any) -> Any:
        return cri.UpdateRuntimeConfigResponse()

    @_locked
    def RunPodSandbox(self, request: Any, context: Any) -> Any:
        identity = uuid.uuid4().hex
        self.box.sandboxes[identity] = Sandbox(request.config, request.runtime_handler, time.time_ns())
        return cri.RunPodSandboxResponse(pod_sandbox_id=identity)

    def _must_stop(self, sandbox: str, context: Any) -> None:
        found = self.box.sandboxes.get(sandbox)
        if found is not None and found.config.metadata.uid in self.box.stuck:
            context.abort(grpc.StatusCode.UNAVAILABLE, "a process of it hangs in the kernel")

    @_locked
    def StopPodSandbox(self, request: Any, context: Any) -> Any:
        self._must_stop(request.pod_sandbox_id, context)
        if request.pod_sandbox_id in self.box.sandboxes:
            self.box.sandboxes[request.pod_sandbox_id].ready = False
        for each in self.box.containers.values():
            if each.sandbox == request.pod_sandbox_id:
                _finish(each)
        return cri.StopPodSandboxResponse()

    @_locked
    def RemovePodSandbox(self, request: Any, context: Any) -> Any:
        box = self.box
        box.sandboxes.pop(request.pod_sandbox_id, None)
        box.containers = {key: one for key, one in box.containers.items() if one.sandbox != request.pod_sandbox_id}
        return cri.RemovePodSandboxResponse()

    @_locked
    def PodSandboxStatus(self, request: Any, context: Any) -> Any:
        found = self.box.sandboxes.get(request.pod_sandbox_id)
        if found is None:
            return context.abort(grpc.StatusCode.NOT_FOUND, "no such sandbox")
        return cri.PodSandboxStatusResponse(
            status=cri.PodSandboxStatus(
                id=request.pod_sandbox_id,
                metadata=found.config.metadata,
                state=_sandbox_state(found),
                created_at=found.made,
                network=cri.PodSandboxNetworkStatus(ip="10.1.0.1"),
                labels=found.config.labels,
                annotations=found.config.annotations,
                runtime_handler=found.handler,
            )
        )

    @_locked
    def ListPodSandbox(self, request: Any, context: Any) -> Any:
        items = [
            cri.PodSandbox(
                id=identity,
                metadata=each.config.metadata,
                state=_sandbox_state(each),
                created_at=each.made,
                labels=each.config.labels,
                annotations=each.config.annotations,
                runtime_handler=each.handler,
            )
            for identity, each in self.box.sandboxes.items()
            if _wanted(request.filter, identity, _sandbox_state(each), each.config)
        ]
        return cri.ListPodSandboxResponse(items=items)

    @_locked
    def CreateContainer(self, request: Any, context: Any) -> Any:
        identity = uuid.uuid4().hex
        made = Container(request.pod_sandbox_id, request.config, time.time_ns(), cri.CONTAINER_CREATED)
        self.box.containers[identity] = made
        return cri.CreateContainerResponse(container_id=identity)

    @_locked
    def StartContainer(self, request: Any, context: Any) -> Any:
        container = self.box.containers[request.container_id]
        container.state, container.started = cri.CONTAINER_RUNNING, time.time_ns()
        log = self.box.log_of(container)
        log.parent.mkdir(parents=True, exist_ok=True)
        log.touch()
        return cri.StartContainerResponse()

    @_locked
    def StopContainer(self, request: Any, context: Any) -> Any:
        if request.container_id in self.box.containers:
            self._must_stop(self.box.containers[request.container_id].sandbox, context)
            _finish(self.box.containers[request.container_id])
        return cri.StopContainerResponse()

    @_locked
    def RemoveContainer(self, request: Any, context: Any) -> Any:
        self.box.containers.pop(request.container_id, None)
        return cri.RemoveContainerResponse()

    def ReopenContainerLog(self, request: Any, context: Any) -> Any:
        return cri.ReopenContainerLogResponse()

    @_locked
    def ListContainers(self, request: Any, context: Any) -> Any:
        items = [
            cri.Container(
                id=identity,
                pod_sandbox_id=each.sandbox,
                metadata=each.config.metadata,
                image=each.config.image,
                image_ref=each.config.image.image,
                image_id=each.config.image.image,
                state=each.state,
                created_at=each.made,
                labels=each.config.labels,
                annotations=each.config.annotations,
            )
            for identity, each in self.box.containers.items()
            if request.filter.pod_sandbox_id in ("", each.sandbox)
            and _wanted(request.filter, identity, each.state, each.config)
        ]
        return cri.ListContainersResponse(containers=items)

    @_locked
    def ContainerStatus(self, request: Any, context: Any) -> Any:
        found = self.box.containers.get(request.container_id)
        if found is None:
            return context.abort(grpc.StatusCode.NOT_FOUND, "no such container")
        return cri.ContainerStatusResponse(
            status=cri.ContainerStatus(
                id=request.container_id,
                metadata=found.config.metadata,
                state=found.state,
                created_at=found.made,
                started_at=found.started,
                finished_at=found.finished,
                image=found.config.image,
                image_ref=found.config.image.image,
                image_id=found.config.image.image,
                reason="Completed" if found.state == cri.CONTAINER_EXITED else "",
                labels=found.config.labels,
                annotations=found.config.annotations,
                log_path=str(self.box.log_of(found)),
            )
        )


def _sandbox_state(sandbox: Sandbox) -> int:
    state: int = cri.SANDBOX_READY if sandbox.ready else cri.SANDBOX_NOTREADY
    return state


class _Images(services.ImageServiceServicer):  # type: ignore[misc, name-defined]
    """Every image is there."""

    def ImageStatus(self, request: Any, context: Any) -> Any:
        name = request.image.image
        return cri.ImageStatusResponse(image=cri.Image(id=name, repo_tags=[name], size=1, spec=request.image))

    def PullImage(self, request: Any, context: Any) -> Any:
        return cri.PullImageResponse(image_ref=request.image.image)

    def ListImages(self, request: Any, context: Any) -> Any:
        return cri.ListImagesResponse()

    def RemoveImage(self, request: Any, context: Any) -> Any:
        return cri.RemoveImageResponse()

    def ImageFsInfo(self, request: Any, context: Any) -> Any:
        used = cri.FilesystemUsage(
            timestamp=time.time_ns(),
            fs_id=cri.FilesystemIdentifier(mountpoint="/"),
            used_bytes=cri.UInt64Value(value=1),
            inodes_used=cri.UInt64Value(value=1),
        )
        return cri.ImageFsInfoResponse(image_filesystems=[used], container_filesystems=[used])
