"""Sockets of device plugins: where they lie, who may have made them, and how one calls through them."""

import fcntl
import hashlib
import os
import stat
from pathlib import Path

import grpc.aio

from atoll.core.errors import AtollError

KUBELET_SOCKET = "kubelet.sock"
LOCK = "atoll-shim.lock"
PATH_MAX = 107
"""Bytes of a socket's path that the kernel takes."""

OPTIONS = [("grpc.default_authority", "localhost"), ("grpc.use_local_subchannel_pool", 1)]


class SocketError(AtollError):
    """A folder or a socket that is not what it should be."""


def private_folder(path: Path) -> Path:
    """Make sure that nobody but us can put a socket there; made where it is missing.

    Raises:
        SocketError: it is somebody else's, or others may write there.
    """
    within(path, KUBELET_SOCKET)
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.lstat()
    except FileExistsError:
        raise SocketError(f"{path} is no folder; the shim needs one of its own there") from None
    except OSError as error:
        raise SocketError(f"{path}: {error.strerror}; the shim needs a folder of its own there") from error
    if not stat.S_ISDIR(found.st_mode):
        raise SocketError(f"{path} is no folder")
    if found.st_uid != os.geteuid() or found.st_mode & 0o022:
        mode = stat.S_IMODE(found.st_mode)
        raise SocketError(
            f"{path} belongs to user {found.st_uid} with mode {mode:04o}: whoever can write there can give GPUs to "
            f"whomever he likes; expected user {os.geteuid()}, and that nobody else may write there (chmod go-w)"
        )
    return path


def kubelet_folder(path: Path, private: Path) -> Path:
    """Make sure that a kubelet's folder of device plugins is one, and not the one where plugins are to find us.

    Raises:
        SocketError: it is not there, too long for our sockets, or the same one.
    """
    within(path, own_socket(""))
    if not path.is_dir():
        raise SocketError(f"{path} is no folder; it is the kubelet's, of device plugins: is it mounted from the host?")
    if path.samefile(private):
        raise SocketError(f"{path} and {private} are one folder: the shim would remove the kubelet's own socket")
    return path


def own_socket(resource: str) -> str:
    """The name of our socket for a resource, in the kubelet's folder."""
    return f"atoll-{hashlib.sha256(resource.encode()).hexdigest()[:12]}.sock"


class Turn:
    """Of one process at a time that serves a folder: a second one would lose its sockets when the first one ends."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / LOCK
        try:
            self._file = os.open(self.path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise SocketError(f"{self.path} cannot be made: {error.strerror}; is the folder writable?") from error

    def taken(self) -> bool:
        """Whether it is ours now, until this process ends."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True


def within(folder: Path, name: str) -> Path:
    """The path of a socket in a folder.

    Raises:
        SocketError: the name leads elsewhere, or the path is too long for the kernel.
    """
    if not name or name in {".", ".."} or "/" in name or "\0" in name:
        raise SocketError(f"{name[:80]!r} is no name of a socket in {folder}")
    path = folder / name
    length = len(os.fsencode(path))
    if length > PATH_MAX:
        raise SocketError(f"the path {path} has {length} bytes, and that of a socket may have {PATH_MAX}")
    return path


def trusted(path: Path) -> Path:
    """A socket that is there and was made by us or by root.

    Raises:
        SocketError: it is not.
    """
    try:
        found = path.lstat()
    except OSError as error:
        raise SocketError(f"{path}: {error.strerror}") from error
    if not stat.S_ISSOCK(found.st_mode):
        raise SocketError(f"{path} is no socket")
    if found.st_uid not in {0, os.geteuid()}:
        raise SocketError(f"{path} was made by user {found.st_uid}, and no device plugin runs as that")
    return path


def remove(path: Path) -> None:
    """Take away what an earlier life has left there."""
    path.unlink(missing_ok=True)


def ours_alone(path: Path) -> None:
    """Let nobody but us and root connect."""
    path.chmod(0o600)


def channel(path: Path) -> grpc.aio.Channel:
    return grpc.aio.insecure_channel(f"unix:{path}", options=OPTIONS)


def method(to: grpc.aio.Channel, name: str) -> grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]:
    """A method whose messages stay bytes."""
    return to.unary_unary(name)


def said(error: grpc.aio.AioRpcError) -> str:
    """What the other side said, in one bounded line."""
    words = " ".join((error.details() or "no answer").split())[:200]
    return f"{error.code().name}: {words}"
