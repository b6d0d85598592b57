package eviction

import (
	"context"
	"fmt"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	policyclient "k8s.io/client-go/kubernetes/typed/policy/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/apis/core"
	podstore "k8s.io/kubernetes/pkg/registry/core/pod/storage"
)

// REST is the storage of pods/eviction.
type REST struct {
	// EvictionREST is upstream's, for its metadata only.
	*podstore.EvictionREST
	options generic.RESTOptions
	budgets policyclient.PodDisruptionBudgetsGetter
}

var (
	_ rest.NamedCreater             = &REST{}
	_ rest.GroupVersionKindProvider = &REST{}
	_ rest.GroupVersionAcceptor     = &REST{}
)

// Wrap replaces upstream's storage of pods/eviction, if it is in storages. options are
// those with which the pods are stored. budgets acts in the space of its calls' context.
func Wrap(storages map[string]rest.Storage, options generic.RESTOptionsGetter, budgets policyclient.PodDisruptionBudgetsGetter) error {
	upstream, ok := storages["pods/eviction"].(*podstore.EvictionREST)
	if !ok {
		if storages["pods/eviction"] == nil {
			return nil
		}
		return fmt.Errorf("unexpected storage of pods/eviction: %T", storages["pods/eviction"])
	}
	pods, ok := storages["pods"].(*podstore.REST)
	if !ok {
		return fmt.Errorf("unexpected storage of pods: %T", storages["pods"])
	}
	shared, err := options.GetRESTOptions(core.Resource("pods"), &core.Pod{})
	if err != nil {
		return fmt.Errorf("reading the storage options of pods: %w", err)
	}
	shared.Decorator = existing(pods.Storage.Storage)
	shared.CountMetricPollPeriod = 0 // counted already
	storages["pods/eviction"] = &REST{EvictionREST: upstream, options: shared, budgets: budgets}
	return nil
}

// existing returns a decorator that returns s, so that storage that is built with it has no
// watch cache and no goroutines of its own.
func existing(s storage.Interface) generic.StorageDecorator {
	return func(*storagebackend.ConfigForResource, string, func(runtime.Object) (string, error), func() runtime.Object, func() runtime.Object,
		storage.AttrFunc, storage.IndexerFuncs, *cache.Indexers) (storage.Interface, factory.DestroyFunc, error) {
		return s, func() {}, nil
	}
}

// Create evicts a pod.
func (r *REST) Create(ctx context.Context, name string, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	bound, err := r.bind(ctx)
	if err != nil {
		return nil, err
	}
	return bound.Create(ctx, name, obj, validate, options)
}

// bind returns upstream's storage for one request.
func (r *REST) bind(ctx context.Context) (*podstore.EvictionREST, error) {
	pods, err := podstore.NewStorage(r.options, nil, nil, budgets{r.budgets, ctx}, nil)
	if err != nil {
		return nil, fmt.Errorf("preparing the eviction: %w", err)
	}
	return pods.Eviction, nil
}

// budgets are the PodDisruptionBudgets in the context of one request.
type budgets struct {
	policyclient.PodDisruptionBudgetsGetter
	ctx context.Context
}

// PodDisruptionBudgets implements policyclient.PodDisruptionBudgetsGetter.
func (b budgets) PodDisruptionBudgets(namespace string) policyclient.PodDisruptionBudgetInterface {
	return inRequest{client: b.PodDisruptionBudgetsGetter.PodDisruptionBudgets(namespace), ctx: b.ctx}
}

// inRequest implements the methods that evictions need, in the context of their request. The
// rest of the interface is nil.
type inRequest struct {
	policyclient.PodDisruptionBudgetInterface
	client policyclient.PodDisruptionBudgetInterface
	ctx    context.Context
}

// List implements policyclient.PodDisruptionBudgetInterface.
func (r inRequest) List(_ context.Context, options metav1.ListOptions) (*policyv1.PodDisruptionBudgetList, error) {
	return r.client.List(r.ctx, options)
}

// Get implements policyclient.PodDisruptionBudgetInterface.
func (r inRequest) Get(_ context.Context, name string, options metav1.GetOptions) (*policyv1.PodDisruptionBudget, error) {
	return r.client.Get(r.ctx, name, options)
}

// UpdateStatus implements policyclient.PodDisruptionBudgetInterface.
func (r inRequest) UpdateStatus(_ context.Context, budget *policyv1.PodDisruptionBudget, options metav1.UpdateOptions) (*policyv1.PodDisruptionBudget, error) {
	return r.client.UpdateStatus(r.ctx, budget, options)
}
