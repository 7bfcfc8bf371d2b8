//go:build kubernetes_v1_34

package main

import (
	"context"

	cadvisorapi "github.com/google/cadvisor/info/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/config"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
)

type numaNode = cadvisorapi.Node

// managers are the kubelet's own, as v1.34 has them.
type managers struct {
	topology topologymanager.Manager
	devices  *devicemanager.ManagerImpl
}

func newManagers(_ context.Context, told request, beside *others, active func() []*v1.Pod) (made managers, err error) {
	if made.topology, err = topologymanager.NewManager(told.Numa, told.Policy, told.Scope, told.Options); err != nil {
		return made, err
	}
	if made.devices, err = devicemanager.NewManagerImpl(told.Numa, made.topology); err != nil {
		return made, err
	}
	made.topology.AddHintProvider(made.devices)
	made.topology.AddHintProvider(beside)
	ready := config.NewSourcesReady(func(sets.Set[string]) bool { return true })
	return made, made.devices.Start(active, ready, containermap.NewContainerMap(), sets.New[string]())
}

func (m managers) connect(_ context.Context, client *plugin) error {
	return m.devices.PluginConnected(string(gpu), client)
}

func (m managers) list(_ context.Context, devices *pluginapi.ListAndWatchResponse) {
	m.devices.PluginListAndWatchReceiver(string(gpu), devices)
}

func (m managers) admit(_ context.Context, pod *v1.Pod) lifecycle.PodAdmitResult {
	return m.topology.Admit(&lifecycle.PodAdmitAttributes{Pod: pod})
}

func (m managers) stop(_ context.Context) {
	m.devices.Stop()
}

func (o *others) GetTopologyHints(*v1.Pod, *v1.Container) map[string][]topologymanager.TopologyHint {
	return o.told()
}

func (o *others) GetPodTopologyHints(*v1.Pod) map[string][]topologymanager.TopologyHint {
	return o.told()
}

func (o *others) Allocate(*v1.Pod, *v1.Container) error { return nil }
