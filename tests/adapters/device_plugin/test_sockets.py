"""Where sockets of device plugins may lie, and whose they are."""

import os
import socket
from pathlib import Path

import pytest

from atoll.adapters.device_plugin.sockets import (
    LOCK,
    PATH_MAX,
    SocketError,
    Turn,
    kubelet_folder,
    private_folder,
    trusted,
    within,
)


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


def test_a_kubelet_s_folder_must_be_there_and_be_another_one(tmp_path: Path) -> None:
    private, link = tmp_path / "p", tmp_path / "link"
    private.mkdir()
    link.symlink_to(private)

    with pytest.raises(SocketError, match="is it mounted from the host"):
        kubelet_folder(tmp_path / "missing", private)
    with pytest.raises(SocketError, match="are one folder"):
        kubelet_folder(link, private)
    with pytest.raises(SocketError, match="and that of a socket may have 107"):
        kubelet_folder(tmp_path / ("y" * 100), private)


def test_a_folder_without_room_for_a_socket_s_name_is_not_even_made(tmp_path: Path) -> None:
    with pytest.raises(SocketError, match="and that of a socket may have 107"):
        private_folder(tmp_path / ("y" * 100))
    assert not list(tmp_path.iterdir())


def test_one_process_at_a_time_serves_a_folder(tmp_path: Path) -> None:
    """It ends with its process: here, with another open file."""
    first, second = Turn(tmp_path), Turn(tmp_path)

    assert first.taken()
    assert not second.taken()
    os.close(first._file)
    assert second.taken()


def test_a_folder_in_which_nothing_can_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / LOCK).mkdir()

    with pytest.raises(SocketError, match="cannot be made"):
        Turn(tmp_path)
