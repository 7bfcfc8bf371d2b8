"""The kubelet's own gRPC interfaces, compiled from the proto files that come with its Go modules."""

import importlib
import shutil
import sys
import tempfile
from functools import cache
from pathlib import Path
from types import ModuleType

from grpc_tools import protoc

from tests.realkube.binaries import binary


@cache
def interface(name: str) -> tuple[ModuleType, ModuleType]:
    """(messages, services) of "cri", "deviceplugin" or "podresources"."""
    folder = str(_compiled())
    if folder not in sys.path:
        sys.path.append(folder)
    return importlib.import_module(f"{name}_pb2"), importlib.import_module(f"{name}_pb2_grpc")


@cache
def _compiled() -> Path:
    source = binary("protos")
    done = source / "python"
    if not done.exists():
        work = Path(tempfile.mkdtemp(dir=source))
        files = [str(path) for path in sorted(source.glob("*.proto"))]
        code = protoc.main(["protoc", f"-I{source}", f"--python_out={work}", f"--grpc_python_out={work}", *files])
        if code:
            raise AssertionError(f"the interfaces in {source} do not compile")
        try:
            work.rename(done)
        except OSError:  # another test run was first
            shutil.rmtree(work)
    return done
