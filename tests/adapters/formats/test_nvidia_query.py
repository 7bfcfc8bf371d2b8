"""`nvidia-smi -q` as text and as XML: one meaning, two spellings."""

import pytest

from atoll.adapters.formats.nvidia_smi import query_text, query_xml
from atoll.adapters.formats.text.text import DumpFile, DumpText, decode
from atoll.core.errors import DumpError
from atoll.core.evidence.reading import MigDevice, Reading, SeenGpu
from atoll.core.topology import Health

UUID = "GPU-0a0a0a0a-1111-2222-3333-44444444000{}"


def text_of(content: str) -> DumpText:
    return decode(DumpFile("q", content.encode()))


def log(*gpus: str, attached: int | None = None) -> str:
    count = len(gpus) if attached is None else attached
    return (
        "\n==============NVSMI LOG==============\n\nTimestamp   : Mon Jan  5 10:00:00 2026\n"
        "Driver Version   : 570.10.01\nCUDA Version   : 12.8\n\n"
        f"Attached GPUs   : {count}\n" + "\n".join(gpus)
    )


def block(number: int = 0, **changed: str) -> str:
    shown = {
        "bus": f"00000000:{number + 1:02X}:00.0",
        "uuid": UUID.format(number),
        "minor": str(number),
        "serial": f"16500{number}",
    } | changed
    return f"""GPU {shown["bus"]}
    Product Name       : NVIDIA H100 80GB HBM3
    MIG Mode
        Current        : Enabled
        Pending        : Disabled
    MIG Device
        Index          : 0
        GPU Instance ID        : 2
        Compute Instance ID    : 1
        Device Attributes
            Shared
                Index  : 9
        FB Memory Usage
            Total      : 9984 MiB
    Serial Number      : {shown["serial"]}
    GPU UUID           : {shown["uuid"]}
    Minor Number       : {shown["minor"]}
    Module ID          : 3
    GPU Virtualization Mode
        Virtualization Mode    : None
        Host VGPU Mode         : N/A
    PCI
        Bus Id         : 00000000:{number + 1:02X}:00.0
        GPU Link Info
            PCIe Generation
                Max    : 5
    FB Memory Usage
        Total          : 81559 MiB
        Used           : 3 MiB
    BAR1 Memory Usage
        Total          : 131072 MiB
    Fabric
        State          : Completed
        Status         : Success
    Processes
        GPU instance ID        : N/A
        Process ID             : 4711
            Name               : /bin/x: y
"""


FACTS = SeenGpu(
    name="00000000:01:00.0",
    index=0,
    uuid=UUID.format(0),
    serial="165000",
    pci_address="0000:01:00.0",
    minor=0,
    module_id=3,
    model="NVIDIA H100 80GB HBM3",
    memory_mib=81559,
    mig="Enabled",
    mig_devices=(MigDevice(0, gpu_instance=2, compute_instance=1),),
    virtualization="None",
    fabric="Completed",
)

XML = f"""<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
  <driver_version>570.10.01</driver_version>
  <cuda_version>12.8</cuda_version>
  <attached_gpus>1</attached_gpus>
  <gpu id="00000000:01:00.0">
    <product_name>NVIDIA H100 80GB HBM3</product_name>
    <mig_mode><current_mig>Enabled</current_mig><pending_mig>Disabled</pending_mig></mig_mode>
    <mig_devices>
      <mig_device>
        <index>0</index><gpu_instance_id>2</gpu_instance_id><compute_instance_id>1</compute_instance_id>
        <fb_memory_usage><total>9984 MiB</total></fb_memory_usage>
      </mig_device>
    </mig_devices>
    <serial>165000</serial>
    <uuid>{UUID.format(0)}</uuid>
    <minor_number>0</minor_number>
    <gpu_module_id>3</gpu_module_id>
    <gpu_virtualization_mode><virtualization_mode>None</virtualization_mode></gpu_virtualization_mode>
    <pci><pci_bus_id>00000000:01:00.0</pci_bus_id></pci>
    <fb_memory_usage><total>81559 MiB</total></fb_memory_usage>
    <fabric><state>Completed</state></fabric>
  </gpu>
</nvidia_smi_log>
"""


def read(content: str) -> Reading:
    (reading,) = query_text.read(text_of(content))
    return reading


def gpus(content: str) -> tuple[SeenGpu, ...]:
    return read(content).gpus or ()


def codes(content: str) -> list[str]:
    return [remark.code for remark in read(content).remarks]


def test_a_block_gives_every_field_of_a_gpu() -> None:
    reading = read(log(block()))

    assert reading.gpus == (FACTS,)
    assert dict(reading.versions) == {"driver": "570.10.01", "cuda": "12.8"}
    assert reading.remarks == ()
    assert reading.links is None


def test_text_and_xml_say_the_same() -> None:
    (reading,) = query_xml.read(text_of(XML))

    assert reading.gpus == (FACTS,)
    assert (reading.versions, reading.extras) == (read(log(block())).versions, {"attached_gpus": 1})


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "\n\n\n" + text.replace("\n", "\r\n"),
        lambda text: text.replace("    ", "\t"),
        lambda text: "".join("        " + line for line in text.splitlines(keepends=True)),
        lambda text: "\n".join(line.strip() for line in text.splitlines()),
        lambda text: "root@n1:~# nvidia-smi -q\n" + text + "\nroot@n1:~# exit\n",
        lambda text: text.partition("GPU 0000")[1] + text.partition("GPU 0000")[2],
    ],
    ids=["CRLF", "tabs", "indented as a whole", "indentation lost", "prompts", "head cut"],
)
def test_a_paste_is_read_whatever_its_white_space(damage) -> None:  # type: ignore[no-untyped-def]
    assert gpus(damage(log(block()))) == (FACTS,)


def test_xml_is_found_between_prompts() -> None:
    content = "root@n1:~# ixsmi -q -x\n" + XML.replace("nvidia_smi_log", "ixsmi_log") + "root@n1:~# "

    assert query_xml.recognises(text_of(content))
    assert query_xml.read(text_of(content))[0].gpus == (FACTS,)


def test_two_answers_in_one_file_are_two_readings() -> None:
    text = text_of("# idle\n" + log(block()) + "\n##########\n# load\n" + log(block()))
    xml = text_of(XML + "\n$ again\n" + XML)

    assert [reading.gpus for reading in query_text.read(text)] == [(FACTS,)] * 2
    assert [reading.gpus for reading in query_xml.read(xml)] == [(FACTS,)] * 2
    assert query_xml.read(xml)[1].source.line == len(XML.splitlines()) + 5


def test_the_log_of_iluvatar_is_read_too() -> None:
    content = log(block()).replace("NVSMI", "IXSMI").replace("Attached GPUs", "Attached GPU device count")

    assert read(content).extras == {"attached_gpus": 1}


def test_deprecated_versions_are_read_without_the_notice() -> None:
    content = log(block()).replace("570.10.01", "610.62 [Deprecated; use KMD Version instead]")

    assert dict(read(content).versions)["driver"] == "610.62"


@pytest.mark.parametrize("word", ["N/A", "[N/A]", "[Not Supported]", "Unknown Error", "[Insufficient Permissions]", ""])
def test_what_the_tool_cannot_tell_is_unknown(word: str) -> None:
    (gpu,) = gpus(log(block(uuid=word, minor=word, serial=word)))

    assert (gpu.uuid, gpu.minor, gpu.serial) == (None, None, None)


def test_fewer_gpus_than_attached_are_an_incomplete_inventory_without_positions() -> None:
    content = log(block(3), attached=8)

    assert codes(content) == ["IncompleteInventory"]
    assert [gpu.index for gpu in gpus(content)] == [None]


def test_more_gpus_than_attached_contradict_the_count() -> None:
    assert codes(log(block(0), block(1), attached=1)) == ["Inconsistent"]


def test_a_masked_uuid_and_serial_are_no_identity() -> None:
    zeros = "GPU-00000000-0000-0000-0000-000000000000"
    content = log(block(0, uuid=zeros, serial="0000000000000"), block(1, uuid=zeros, serial="REDACTED"))

    assert codes(content) == ["MaskedUUID", "MaskedUUID", "RepeatedUUID"]
    assert [(gpu.uuid, gpu.serial) for gpu in gpus(content)] == [(zeros, None)] * 2


def test_a_uuid_with_letters_beyond_f_is_kept_and_remarked() -> None:
    odd = "GPU-0a0a0a0a-1111-2222-5th8-444444440000"

    assert codes(log(block(uuid=odd))) == ["MalformedUUID"]
    assert gpus(log(block(uuid=odd)))[0].uuid == odd


def test_gpus_at_one_address_are_remarked() -> None:
    assert codes(log(block(0), block(1, bus="00000000:01:00.0"))) == ["Inconsistent", "SharedAddress"]


def test_a_lost_gpu_is_lost() -> None:
    content = log(block().replace("81559 MiB", "[GPU is lost]"))

    assert gpus(content)[0].health is Health.LOST
    assert codes(content) == ["NotSupported"]


def test_no_gpus_are_none_and_missing_blocks_are_a_cut_file() -> None:
    assert read(log(attached=0)).gpus == ()
    with pytest.raises(DumpError, match="2 attached GPUs and none of them"):
        read(log(attached=2))


REFUSED = {
    "a MIG device twice": log(block().replace("    Serial", "    MIG Device\n        Index : 0\n    Serial")),
    "a MIG device without an index": log(block().replace("Index          : 0", "Index          : N/A")),
    "too many GPUs": log(*(block(n) for n in range(65))),
    "too many answers": log(block()) * 65,
    "too many MIG devices": log("GPU 0000:01:00.0\n" + "    MIG Device\n" * 65),
}


@pytest.mark.parametrize("content", REFUSED.values(), ids=REFUSED.keys())
def test_an_impossible_answer_is_refused_with_its_line(content: str) -> None:
    with pytest.raises(DumpError) as refused:
        query_text.read(text_of(content))

    assert refused.value.line > 1


def test_cut_xml_is_refused() -> None:
    with pytest.raises(DumpError, match="truncated"):
        query_xml.read(text_of(XML[:-40]))
    with pytest.raises(DumpError, match="more than 64"):
        query_xml.read(text_of(XML * 66))


def test_other_text_is_not_recognised() -> None:
    other = text_of("GPU 0: NVIDIA H100 (UUID: x)\n=====\n<log>\n")

    assert not query_text.recognises(other)
    assert not query_xml.recognises(other)
    assert query_text.read(other) == query_xml.read(other) == ()
