//go:build !kubernetes_v1_34 && !kubernetes_v1_36

package main

import (
	"context"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/config"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
)

type numaNode = cadvisorapi.Node

// managers are the kubelet's own, as the newest version has them.
type managers struct {
	topology topologymanager.Manager
	devices  *devicemanager.ManagerImpl
}

func newManagers(ctx context.Context, told request, beside *others, active func() []*v1.Pod) (made managers, err error) {
	logger := klog.FromContext(ctx)
	if made.topology, err = topologymanager.NewManager(logger, told.Numa, told.Policy, told.Scope, told.Options); err != nil {
		return made, err
	}
	if made.devices, err = devicemanager.NewManagerImpl(logger, told.Numa, made.topology); err != nil {
		return made, err
	}
	made.topology.AddHintProvider(logger, made.devices)
	made.topology.AddHintProvider(logger, beside)
	ready := config.NewSourcesReady(func(sets.Set[string]) bool { return true })
	return made, made.devices.Start(logger, active, ready, containermap.NewContainerMap(), sets.New[string]())
}

func (m managers) connect(ctx context.Context, client *plugin) error {
	return m.devices.PluginConnected(ctx, string(gpu), client)
}

func (m managers) list(ctx context.Context, devices *pluginapi.ListAndWatchResponse) {
	m.devices.PluginListAndWatchReceiver(klog.FromContext(ctx), string(gpu), devices)
}

func (m managers) admit(ctx context.Context, pod *v1.Pod) lifecycle.PodAdmitResult {
	return m.topology.Admit(ctx, &lifecycle.PodAdmitAttributes{Pod: pod, Operation: lifecycle.AddOperation})
}

func (m managers) stop(ctx context.Context) {
	m.devices.Stop(klog.FromContext(ctx))
}

func (o *others) GetTopologyHints(klog.Logger, *v1.Pod, *v1.Container, lifecycle.Operation) map[string][]topologymanager.TopologyHint {
	return o.told()
}

func (o *others) GetPodTopologyHints(klog.Logger, *v1.Pod, lifecycle.Operation) map[string][]topologymanager.TopologyHint {
	return o.told()
}

func (o *others) AllocatePod(klog.Logger, *v1.Pod, lifecycle.Operation) error { return nil }

func (o *others) Allocate(context.Context, *v1.Pod, *v1.Container, lifecycle.Operation) error {
	return nil
}
