package kubecontrollers

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	hostnames "github.com/tenantry/tenantry/internal/workloads/names"
)

// byHostNode indexes the pods that run on a host cluster by its nodes.
const byHostNode = "host-node"

// newHostNodes returns the nodes that the EndpointSlice controller is offered: it leaves out pods whose node it does
// not find, and those of a host cluster are in the system space a moment later than their pods at best. Until then pods
// on them have one with nothing but its name.
func newHostNodes(nodes coreinformers.NodeInformer, pods cache.SharedIndexInformer) (offered[corelisters.NodeLister], error) {
	if err := pods.AddIndexers(cache.Indexers{byHostNode: hostNodeOf}); err != nil {
		return offered[corelisters.NodeLister]{}, fmt.Errorf("indexing pods by nodes of a host cluster: %w", err)
	}
	return offered[corelisters.NodeLister]{nodes.Informer(), hostNodes{nodes.Lister(), pods.GetIndexer()}}, nil
}

func hostNodeOf(obj any) ([]string, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok || pod.Spec.NodeName == "" || pod.Annotations[hostnames.HostUIDAnnotation] == "" {
		return nil, nil
	}
	return []string{pod.Spec.NodeName}, nil
}

type hostNodes struct {
	corelisters.NodeLister
	pods cache.Indexer
}

// Get implements corelisters.NodeLister.
func (l hostNodes) Get(name string) (*corev1.Node, error) {
	node, err := l.NodeLister.Get(name)
	if !apierrors.IsNotFound(err) {
		return node, err
	}
	if on, indexErr := l.pods.IndexKeys(byHostNode, name); indexErr != nil || len(on) == 0 {
		return nil, err
	}
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, nil
}
