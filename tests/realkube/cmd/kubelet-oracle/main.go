// kubelet-oracle drives the kubelet's real device manager and Topology Manager, without a kubelet around them.
//
// It reads one JSON request a line and answers each with one line. "node" makes new managers with devices of one
// resource; "admit" runs the admission of a pod; "remove" lets a pod go. The device plugin behind it prefers devices at
// random, sometimes too few, too many or unknown ones, and every question it is asked is part of the answer.
//
// What the managers are called with differs between versions of Kubernetes: one managers*.go is built in, by its tag.
//
// It writes below /var/lib/kubelet, so the caller gives it a mount namespace of its own.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"sort"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager/bitmask"
)

const gpu = v1.ResourceName("example.com/gpu")

type hint struct {
	Numa      []int `json:"numa"` // null = anywhere
	Preferred bool  `json:"preferred"`
}

type container struct {
	Name    string `json:"name"`
	Gpus    int64  `json:"gpus"`
	Init    bool   `json:"init"`
	Sidecar bool   `json:"sidecar"`
}

type request struct {
	Op string `json:"op"`

	// node
	Policy  string             `json:"policy"`
	Scope   string             `json:"scope"`
	Options map[string]string  `json:"options"`
	Numa    []numaNode         `json:"numa"`
	Devices map[string][]int64 `json:"devices"` // id -> NUMA nodes
	Seed    int64              `json:"seed"`

	// admit, remove
	Uid        string      `json:"uid"`
	Containers []container `json:"containers"`
	Hints      [][]hint    `json:"hints"` // of other providers, one resource each
}

type question struct {
	Available   []string `json:"available"`
	MustInclude []string `json:"mustInclude"`
	Size        int32    `json:"size"`
	Preferred   []string `json:"preferred"`
}

type answer struct {
	Error     string              `json:"error,omitempty"`
	Admitted  bool                `json:"admitted"`
	Reason    string              `json:"reason,omitempty"`
	Message   string              `json:"message,omitempty"`
	Devices   map[string][]string `json:"devices,omitempty"` // container -> ids
	Questions []question          `json:"questions,omitempty"`
}

// plugin is the device plugin, called without a socket in between.
type plugin struct {
	random    *rand.Rand
	questions []question
}

func (p *plugin) API() pluginapi.DevicePluginClient { return p }
func (p *plugin) Resource() string                  { return string(gpu) }
func (p *plugin) SocketPath() string                { return "oracle.sock" }

func (p *plugin) GetDevicePluginOptions(context.Context, *pluginapi.Empty, ...grpc.CallOption) (*pluginapi.DevicePluginOptions, error) {
	return &pluginapi.DevicePluginOptions{GetPreferredAllocationAvailable: true}, nil
}

func (p *plugin) ListAndWatch(context.Context, *pluginapi.Empty, ...grpc.CallOption) (grpc.ServerStreamingClient[pluginapi.ListAndWatchResponse], error) {
	return nil, fmt.Errorf("devices are told without a stream")
}

func (p *plugin) PreStartContainer(context.Context, *pluginapi.PreStartContainerRequest, ...grpc.CallOption) (*pluginapi.PreStartContainerResponse, error) {
	return &pluginapi.PreStartContainerResponse{}, nil
}

func (p *plugin) Allocate(context.Context, *pluginapi.AllocateRequest, ...grpc.CallOption) (*pluginapi.AllocateResponse, error) {
	return &pluginapi.AllocateResponse{ContainerResponses: []*pluginapi.ContainerAllocateResponse{{}}}, nil
}

func (p *plugin) GetPreferredAllocation(_ context.Context, in *pluginapi.PreferredAllocationRequest, _ ...grpc.CallOption) (*pluginapi.PreferredAllocationResponse, error) {
	asked := in.ContainerRequests[0]
	available, must := sorted(asked.AvailableDeviceIDs), sorted(asked.MustIncludeDeviceIDs)
	shuffled := append([]string{}, available...)
	p.random.Shuffle(len(shuffled), func(a, b int) { shuffled[a], shuffled[b] = shuffled[b], shuffled[a] })
	preferred := append([]string{}, must...)
	wanted := int(asked.AllocationSize)
	switch p.random.Intn(8) {
	case 0:
		wanted = p.random.Intn(wanted + 1)
	case 1:
		wanted++
	case 2:
		preferred = append(preferred, "no-such-device")
	}
	for _, id := range shuffled {
		if len(preferred) < wanted && !sets.New(preferred...).Has(id) {
			preferred = append(preferred, id)
		}
	}
	p.questions = append(p.questions, question{available, must, asked.AllocationSize, sorted(preferred)})
	return &pluginapi.PreferredAllocationResponse{
		ContainerResponses: []*pluginapi.ContainerPreferredAllocationResponse{{DeviceIDs: preferred}},
	}, nil
}

// others stands for the CPU and the memory manager: it has hints and takes nothing.
type others struct{ hints [][]hint }

func (o *others) told() map[string][]topologymanager.TopologyHint {
	found := map[string][]topologymanager.TopologyHint{}
	for number, hints := range o.hints {
		name := fmt.Sprintf("other-%d", number)
		found[name] = []topologymanager.TopologyHint{}
		for _, each := range hints {
			told := topologymanager.TopologyHint{Preferred: each.Preferred}
			if each.Numa != nil {
				told.NUMANodeAffinity, _ = bitmask.NewBitMask(each.Numa...)
			}
			found[name] = append(found[name], told)
		}
	}
	return found
}

type node struct {
	managers managers
	plugin   *plugin
	others   *others
	pods     map[string]*v1.Pod
}

func newNode(ctx context.Context, told request) (*node, error) {
	os.Remove("/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint")
	made := &node{
		plugin: &plugin{random: rand.New(rand.NewSource(told.Seed))},
		others: &others{},
		pods:   map[string]*v1.Pod{},
	}
	var err error
	if made.managers, err = newManagers(ctx, told, made.others, made.active); err != nil {
		return nil, err
	}
	if err := made.managers.connect(ctx, made.plugin); err != nil {
		return nil, err
	}
	list := &pluginapi.ListAndWatchResponse{}
	for id, nodes := range told.Devices {
		device := &pluginapi.Device{ID: id, Health: pluginapi.Healthy}
		if len(nodes) > 0 {
			device.Topology = &pluginapi.TopologyInfo{}
			for _, number := range nodes {
				device.Topology.Nodes = append(device.Topology.Nodes, &pluginapi.NUMANode{ID: number})
			}
		}
		list.Devices = append(list.Devices, device)
	}
	made.managers.list(ctx, list)
	return made, nil
}

func (n *node) active() []*v1.Pod {
	found := []*v1.Pod{}
	for _, pod := range n.pods {
		found = append(found, pod)
	}
	return found
}

func (n *node) admit(ctx context.Context, told request) answer {
	pod := podOf(told)
	n.others.hints, n.plugin.questions = told.Hints, nil
	n.pods[told.Uid] = pod
	result := n.managers.admit(ctx, pod)
	if !result.Admit {
		delete(n.pods, told.Uid)
		return answer{Reason: result.Reason, Message: result.Message, Questions: n.plugin.questions}
	}
	given := map[string][]string{}
	for _, each := range told.Containers {
		ids := []string{}
		for id := range n.managers.devices.GetDevices(told.Uid, each.Name)[string(gpu)] {
			ids = append(ids, id)
		}
		given[each.Name] = sorted(ids)
	}
	return answer{Admitted: true, Devices: given, Questions: n.plugin.questions}
}

func podOf(told request) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: told.Uid, Namespace: "oracle", UID: types.UID(told.Uid)}}
	always := v1.ContainerRestartPolicyAlways
	for _, each := range told.Containers {
		amount := v1.ResourceList{gpu: *resource.NewQuantity(each.Gpus, resource.DecimalSI)}
		made := v1.Container{Name: each.Name, Resources: v1.ResourceRequirements{Limits: amount, Requests: amount}}
		if each.Sidecar {
			made.RestartPolicy = &always
		}
		if each.Init || each.Sidecar {
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, made)
		} else {
			pod.Spec.Containers = append(pod.Spec.Containers, made)
		}
	}
	return pod
}

func sorted(ids []string) []string {
	found := append([]string{}, ids...)
	sort.Strings(found)
	return found
}

func main() {
	ctx := klog.NewContext(context.Background(), klog.Logger{})
	klog.LogToStderr(false)
	klog.SetOutput(nowhere{})
	lines, out := bufio.NewScanner(os.Stdin), json.NewEncoder(os.Stdout)
	lines.Buffer(make([]byte, 0, 1<<20), 1<<24)
	var here *node
	for lines.Scan() {
		var told request
		reply := answer{}
		if err := json.Unmarshal(lines.Bytes(), &told); err != nil {
			reply.Error = err.Error()
		} else if told.Op == "node" {
			if here != nil {
				here.managers.stop(ctx)
			}
			made, err := newNode(ctx, told)
			if err != nil {
				reply.Error = err.Error()
			}
			here = made
		} else if here == nil {
			reply.Error = "no node was made"
		} else if told.Op == "admit" {
			reply = here.admit(ctx, told)
		} else if told.Op == "remove" {
			delete(here.pods, told.Uid)
		} else {
			reply.Error = "unknown op " + told.Op
		}
		if err := out.Encode(reply); err != nil {
			return
		}
	}
}

type nowhere struct{}

func (nowhere) Write(line []byte) (int, error) { return len(line), nil }
