"""Where sockets of device plugins may lie, and whose they are."""

import os
import socket
from pathlib import Path

import pytest

from atoll.adapters.device_plugin.sockets import PATH_MAX, SocketError, private_folder, trusted, within


def test_a_missing_folder_is_made_for_us_alone(tmp_path: Path) -> None:
    made = private_folder(tmp_path / "a" / "device-plugins")

    assert made.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_folder_in_which_others_may_write_is_refused(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(mode)

    with pytest.raises(SocketError, match="whoever can write there can give GPUs to whomever he likes"):
        private_folder(tmp_path)


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(SocketError, match="file"):
        private_folder(tmp_path / "file")


@pytest.mark.parametrize("name", ["", ".", "..", "../kubelet.sock", "/run/x.sock", "a/b", "a\0b"])
def test_a_name_that_leads_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(SocketError, match="is no name of a socket"):
        within(tmp_path, name)


def test_a_path_that_the_kernel_does_not_take_is_refused_before_it_is_tried(tmp_path: Path) -> None:
    folder = tmp_path / ("f" * PATH_MAX)

    with pytest.raises(SocketError, match=f"that of a socket may have {PATH_MAX}"):
        within(folder, "kubelet.sock")


def test_only_a_socket_that_is_really_there_is_trusted(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "plugin.sock"))
        (tmp_path / "link.sock").symlink_to(tmp_path / "plugin.sock")
        (tmp_path / "file.sock").touch()

        assert trusted(tmp_path / "plugin.sock") == tmp_path / "plugin.sock"
        for name in ("link.sock", "file.sock", "none.sock"):
            with pytest.raises(SocketError):
                trusted(tmp_path / name)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a socket away")
def test_a_socket_of_another_user_is_not_trusted(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "plugin.sock"))
        os.chown(tmp_path / "plugin.sock", 4711, 4711)

        with pytest.raises(SocketError, match="made by user 4711"):
            trusted(tmp_path / "plugin.sock")
