"""How a kubelet configures its Topology Manager, and with what it would refuse to start.

Source: Kubernetes v1.36.2, pkg/kubelet/cm/topologymanager (policy_options.go, topology_manager.go).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from atoll.models.kubelet.numa import NotStarted, NumaNodes, numa_nodes
from atoll.models.kubelet.topology_manager import TopologyManager, TopologyPolicy, TopologyScope

PREFER_CLOSEST = "prefer-closest-numa-nodes"
NODES_MAX = "max-allowable-numa-nodes"
USUAL_NODES_MAX = 8
STABLE = frozenset({PREFER_CLOSEST, NODES_MAX})
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})


@dataclass(frozen=True, slots=True)
class OptionLevels:
    """Options by maturity, and which levels the feature gates open. No release has had any below stable since 1.36."""

    stable: frozenset[str] = STABLE
    beta: frozenset[str] = frozenset()
    alpha: frozenset[str] = frozenset()
    beta_on: bool = True
    alpha_on: bool = False

    def refused(self, option: str) -> NotStarted | None:
        if option not in self.stable | self.beta | self.alpha:
            return NotStarted(f'unknown Topology Manager Policy option: "{option}"')
        if option in self.alpha and not self.alpha_on:
            return NotStarted(
                f'topology manager policy alpha-level options not enabled, but option "{option}" provided'
            )
        if option in self.beta and not self.beta_on:
            return NotStarted(f'topology manager policy beta-level options not enabled, but option "{option}" provided')
        return None


@dataclass(frozen=True, slots=True)
class PolicyOptions:
    prefer_closest: bool = False
    nodes_max: int = USUAL_NODES_MAX


def policy_options(given: Mapping[str, str], levels: OptionLevels = OptionLevels()) -> PolicyOptions | NotStarted:
    prefer_closest, nodes_max = False, USUAL_NODES_MAX
    for name, value in given.items():
        refused = levels.refused(name)
        if refused is not None:
            return refused
        if name == PREFER_CLOSEST:
            if value not in _TRUE | _FALSE:
                return NotStarted(
                    f'bad value for option "{name}": strconv.ParseBool: parsing "{value}": invalid syntax'
                )
            prefer_closest = value in _TRUE
        elif name == NODES_MAX:
            number = _whole(value)
            if number is None:
                return NotStarted(f'unable to convert policy option to integer "{name}": "{value}" is not one')
            if number < USUAL_NODES_MAX:
                return NotStarted(f'the minimum value of "{name}" should not be less than {USUAL_NODES_MAX}')
            nodes_max = number
        else:
            return NotStarted(f'unsupported topologymanager option: "{name}" ({value})')
    return PolicyOptions(prefer_closest, nodes_max)


def topology_manager(
    policy: str, scope: str, options: Mapping[str, str], nodes: Mapping[int, Sequence[int] | None]
) -> TopologyManager | NotStarted:
    """Args: nodes: NUMA node -> its distances, None where the machine tells none."""
    if policy == TopologyPolicy.NONE:
        return TopologyManager(TopologyPolicy.NONE, NumaNodes(tuple(nodes)))
    opted = policy_options(options)
    if isinstance(opted, NotStarted):
        return opted
    numa = numa_nodes(nodes, prefer_closest=opted.prefer_closest)
    if isinstance(numa, NotStarted):
        return NotStarted(f"cannot discover NUMA topology: {numa.why}")
    if len(numa.ids) > opted.nodes_max:
        return NotStarted(f"unsupported on machines with more than {opted.nodes_max} NUMA Nodes")
    if policy not in set(TopologyPolicy):
        return NotStarted(f'unknown policy: "{policy}"')
    if scope not in set(TopologyScope):
        return NotStarted(f'unknown scope: "{scope}"')
    return TopologyManager(TopologyPolicy(policy), numa, TopologyScope(scope), opted.prefer_closest)


def _whole(text: str) -> int | None:
    sign, digits = (text[0], text[1:]) if text[:1] in {"+", "-"} else ("", text)
    return int(sign + digits) if digits.isascii() and digits.isdigit() else None
