"""To which gang a pod belongs, in the words of whoever made it."""

from collections.abc import Mapping
from sys import intern

from atoll.adapters.kube.names import NAME_MAX
from atoll.core.asking import GANG_SIZE, GANG_SIZE_MAX, count_in
from atoll.core.facts import Gang

ASKED_FOR = (
    ("scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io/min-available"),
    ("pod-group.scheduling.sigs.k8s.io", "pod-group.scheduling.sigs.k8s.io/min-available"),
    ("pod-group.scheduling.sigs.k8s.io/name", "pod-group.scheduling.sigs.k8s.io/min-available"),
    ("kueue.x-k8s.io/pod-group-name", "kueue.x-k8s.io/pod-group-total-count"),
    ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-min-member"),
    ("scheduling.volcano.sh/group-name", "scheduling.volcano.sh/group-min-member"),
)
"""(name of the group, its size): labels or annotations of the coscheduling plugin, of Kueue and of Volcano."""

LWS, LWS_GROUP, LWS_SIZE = (f"leaderworkerset.sigs.k8s.io/{what}" for what in ("name", "group-index", "size"))
JOBSET = "jobset.sigs.k8s.io/jobset-name"


def gang_of(labels: Mapping[str, str], annotations: Mapping[str, str]) -> Gang | None:
    """None where the pod is placed by itself. A JobSet is a gang only where its size is told."""

    def said(key: str) -> str:
        return (labels.get(key) or annotations.get(key, ""))[:NAME_MAX]

    own = _count(said(GANG_SIZE))
    wrong = bool(said(GANG_SIZE)) and not own  # then nobody's word counts, and the pod is told so
    for key, counted in ASKED_FOR:
        if name := said(key):
            return Gang(intern(name), 0 if wrong else own or _count(said(counted)), maker=counted)
    if name := said(LWS):
        size = 0 if wrong else own or _count(said(LWS_SIZE))
        alone = size == 1 or not (size or wrong or said(LWS_SIZE))
        return None if alone else Gang(intern(f"{name}/{said(LWS_GROUP)}"), size, maker=LWS)
    if (name := said(JOBSET)) and (own or wrong):
        return Gang(intern(name), own, maker=JOBSET)
    return None


def _count(text: str) -> int:
    return min(count_in(text, GANG_SIZE_MAX), GANG_SIZE_MAX)
