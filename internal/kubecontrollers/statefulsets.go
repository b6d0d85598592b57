package kubecontrollers

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	appslisters "k8s.io/client-go/listers/apps/v1"
	"k8s.io/kubernetes/pkg/controller/statefulset"
	"k8s.io/utils/ptr"

	"github.com/tenantry/tenantry/internal/tenant"
)

const (
	// maxReplicas and maxReplicaBytes are how many pods of a StatefulSet of a tenant's space
	// there are at most, and how large these are together.
	maxReplicas     = 10_000
	maxReplicaBytes = 128 << 20
	// podBytes is what a pod takes beside its template.
	podBytes = 4 << 10
)

func newStatefulSet(ctx context.Context, e *environment) (runner, error) {
	core, apps := e.informers.Core().V1(), e.informers.Apps().V1()
	return statefulset.NewStatefulSetController(ctx, core.Pods(), boundedStatefulSets{apps.StatefulSets()},
		core.PersistentVolumeClaims(), apps.ControllerRevisions(), e.client), nil
}

// boundedStatefulSets are StatefulSets for upstream's controller, which makes all pods of one
// in memory, those that are not there as well, each time that it looks at it.
type boundedStatefulSets struct {
	appsinformers.StatefulSetInformer
}

// Lister implements appsinformers.StatefulSetInformer.
func (s boundedStatefulSets) Lister() appslisters.StatefulSetLister {
	return boundedStatefulSetLister{s.StatefulSetInformer.Lister()}
}

type boundedStatefulSetLister struct{ appslisters.StatefulSetLister }

// StatefulSets implements appslisters.StatefulSetLister.
func (l boundedStatefulSetLister) StatefulSets(namespace string) appslisters.StatefulSetNamespaceLister {
	return boundedStatefulSetNamespaceLister{l.StatefulSetLister.StatefulSets(namespace)}
}

type boundedStatefulSetNamespaceLister struct {
	appslisters.StatefulSetNamespaceLister
}

// Get returns a StatefulSet with as many replicas as it can have.
func (l boundedStatefulSetNamespaceLister) Get(name string) (*appsv1.StatefulSet, error) {
	set, err := l.StatefulSetNamespaceLister.Get(name)
	if err != nil || set.Spec.Replicas == nil || !tenant.Flat(set.Namespace).Space().IsSpace() {
		return set, err
	}
	most := min(maxReplicas, int32(maxReplicaBytes/(podBytes+set.Spec.Template.Size())))
	if *set.Spec.Replicas <= most {
		return set, nil
	}
	bounded := *set
	bounded.Spec.Replicas = ptr.To(most)
	return &bounded, nil
}
