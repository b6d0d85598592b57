package sync

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/names"
)

// nodeLabels are the labels of the host's nodes that the system space has: where they are, and what runs on them.
var nodeLabels = []string{corev1.LabelHostname, corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelOSStable, corev1.LabelArchStable}

// shownNode returns what the system space has of a node of the host. Spaces have nothing of it.
func shownNode(host *corev1.Node) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: host.Name, Labels: labelsOf(host), Annotations: map[string]string{names.HostUIDAnnotation: string(host.UID)},
	}}
	for _, c := range host.Status.Conditions {
		if c.Type == corev1.NodeReady {
			node.Status.Conditions = []corev1.NodeCondition{{Type: c.Type, Status: c.Status, LastTransitionTime: c.LastTransitionTime}}
		}
	}
	return node
}

// labelsOf returns the labels of a node of the host that others see.
func labelsOf(host *corev1.Node) map[string]string {
	labels := map[string]string{}
	for _, key := range nodeLabels {
		if value, ok := host.Labels[key]; ok {
			labels[key] = value
		}
	}
	return labels
}

// nodeChanged has a node looked at, whichever side it is of.
func (s *syncer) nodeChanged(obj any) {
	if name := obj.(*corev1.Node).Name; tenant.Flat(name).Space() == tenant.System {
		s.queue.Add(item{kind: nodeItem, tenant: tenant.System, name: name})
	}
}

// syncNode makes a node of the system space what the host's is. One that somebody else has made is left alone.
func (s *syncer) syncNode(ctx context.Context, i item) error {
	host, err := cached[corev1.Node](s.hostNodes, i.name)
	if err != nil {
		return err
	}
	node, err := orNil(s.nodes.Get(i.name))
	if err != nil {
		return err
	}
	switch {
	case node != nil && node.Annotations[names.HostUIDAnnotation] == "":
		return nil
	case host == nil:
		return s.removeNode(ctx, node)
	}
	wanted := shownNode(host)
	switch {
	case node == nil:
		made, err := s.spaces.CoreV1().Nodes().Create(ctx, wanted, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil // of which there will be an event
		}
		if err != nil {
			return fmt.Errorf("showing a node of the host: %w", err)
		}
		node = made
	case node.Annotations[names.HostUIDAnnotation] != wanted.Annotations[names.HostUIDAnnotation]:
		return s.removeNode(ctx, node) // its end brings the new one
	}
	return s.updateNode(ctx, node, wanted)
}

// updateNode makes the labels and the status of a node of the system space those of the host's.
func (s *syncer) updateNode(ctx context.Context, node, wanted *corev1.Node) error {
	if !maps.Equal(labelsOf(node), wanted.Labels) {
		changed := node.DeepCopy()
		for _, key := range nodeLabels {
			delete(changed.Labels, key)
		}
		if changed.Labels == nil {
			changed.Labels = map[string]string{}
		}
		maps.Copy(changed.Labels, wanted.Labels)
		var err error
		if node, err = s.spaces.CoreV1().Nodes().Update(ctx, changed, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("changing a node of the host: %w", err)
		}
	}
	if equality.Semantic.DeepEqual(node.Status.Conditions, wanted.Status.Conditions) {
		return nil
	}
	changed := node.DeepCopy()
	changed.Status.Conditions = wanted.Status.Conditions
	if _, err := s.spaces.CoreV1().Nodes().UpdateStatus(ctx, changed, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("writing the status of a node of the host: %w", err)
	}
	return nil
}

// removeNode deletes a node of the system space that the host has no more.
func (s *syncer) removeNode(ctx context.Context, node *corev1.Node) error {
	if node == nil || node.DeletionTimestamp != nil {
		return nil
	}
	return deleteOne(ctx, s.spaces.CoreV1().Nodes(), "a node that the host has no more", node, nil)
}
