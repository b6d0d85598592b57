package controlplane

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

// concurrency is the number of ControlPlanes that are reconciled at once.
const concurrency = 4

// Options configure the controller.
type Options struct {
	// Image is what servers run unless their ControlPlane says otherwise. It is of Version.
	Image string
	// Version is the one of Tenantry that the operator runs.
	Version string
	// Now returns the time. Nil is the machine's.
	Now func() time.Time
}

// Cached are the kinds that the controller makes and observes, each with the selector of
// what is the operator's. Nothing else of these kinds is kept in memory, but for the Secrets
// and ConfigMaps that people have labelled as those of a ControlPlane.
func Cached() map[client.Object]cache.ByObject {
	cached := map[client.Object]cache.ByObject{&corev1.Pod{}: {Label: managed}, &corev1.ConfigMap{}: {Label: forControlPlanes}}
	for _, kind := range children() {
		cached[kind] = cache.ByObject{Label: managed}
		if _, is := kind.(*corev1.Secret); is {
			cached[kind] = cache.ByObject{Label: forControlPlanes}
		}
	}
	return cached
}

// children are the kinds that the controller makes.
func children() []client.Object {
	return []client.Object{
		&corev1.ServiceAccount{}, &corev1.Service{}, &corev1.Secret{}, &appsv1.StatefulSet{}, &appsv1.Deployment{},
		&policyv1.PodDisruptionBudget{}, &networkingv1.NetworkPolicy{},
	}
}

// Setup adds the controller to the manager of a host cluster.
func Setup(mgr manager.Manager, opts Options) error {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	group, err := fileGroup(mgr.GetRESTMapper())
	if err != nil {
		return err
	}
	r := &Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: mgr.GetEventRecorder(FieldManager),
		Options: opts, fileGroup: group, now: opts.Now,
	}
	b := builder.ControllerManagedBy(mgr).
		Named("controlplane").
		For(&v1alpha1.ControlPlane{}, builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(ToControlPlane)).
		Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(ToControlPlane))
	for _, kind := range children() {
		b = b.Watches(kind, handler.EnqueueRequestsFromMapFunc(ToControlPlane))
	}
	b.WithOptions(controllerOptions())
	return b.Complete(r)
}

// ToControlPlane maps what has the label of a ControlPlane to the ControlPlane that it is of,
// but for what a Tenant asks for, which no ControlPlane depends on.
func ToControlPlane(_ context.Context, made client.Object) []reconcile.Request {
	name, tenant := made.GetLabels()[ofLabel], made.GetLabels()[TenantLabel]
	if name == "" || tenant != "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: made.GetNamespace(), Name: name}}}
}

// fileGroup returns the group that volumes of servers are given to, which is any. OpenShift
// has one for each namespace, and refuses others.
func fileGroup(mapper meta.RESTMapper) (*int64, error) {
	_, err := mapper.RESTMapping(schema.GroupKind{Group: "security.openshift.io", Kind: "SecurityContextConstraints"})
	switch {
	case err == nil:
		return nil, nil
	case meta.IsNoMatchError(err):
		return new(int64(65532)), nil
	default:
		return nil, fmt.Errorf("asking the host whether it is OpenShift: %w", err)
	}
}
