package quota

import (
	"context"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	quota "k8s.io/apiserver/pkg/quota/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/objects"
	"github.com/tenantry/tenantry/internal/server/serializer"
	"github.com/tenantry/tenantry/internal/server/storage"
	"github.com/tenantry/tenantry/internal/tenant"
)

// measure counts what a space holds. What is a number of objects or bytes is read
// off etcd's keys; the rest is added up by upstream's evaluators.
type measure struct {
	evaluators quota.Registry
	ranges     *storage.Ranges
	ignored    map[schema.GroupResource]struct{}
}

// of returns what the space of n uses of everything that has a limit.
func (m *measure) of(ctx context.Context, n tenant.Name, limits corev1.ResourceList) (corev1.ResourceList, error) {
	used := make(corev1.ResourceList, len(limits))
	others := make(corev1.ResourceList, len(limits))
	for name := range limits {
		amount, isCount, err := m.inKeys(ctx, n, name)
		if err != nil {
			return nil, err
		}
		if !isCount {
			others[name] = limits[name]
		}
		used[name] = amount
	}
	if len(others) == 0 {
		return used, nil
	}
	sums, err := quota.CalculateUsage(string(n), nil, others, m.evaluators, nil)
	if err != nil {
		return nil, fmt.Errorf("adding up what tenant %q uses: %w", n, err)
	}
	maps.Copy(used, sums)
	return used, nil
}

// inKeys returns what is counted in keys, and whether name is.
func (m *measure) inKeys(ctx context.Context, n tenant.Name, name corev1.ResourceName) (resource.Quantity, bool, error) {
	if name == v1alpha1.ResourceStoredBytes {
		_, bytes, err := m.ranges.Stored(ctx, n, m.isCharged)
		return *resource.NewQuantity(bytes, resource.BinarySI), true, err
	}
	counted, ok := countedBy(name)
	if !ok {
		return resource.Quantity{Format: resource.DecimalSI}, false, nil
	}
	if _, ignored := m.ignored[counted]; ignored {
		return resource.Quantity{Format: resource.DecimalSI}, true, nil
	}
	count, err := m.ranges.CountOf(ctx, n, counted)
	return *resource.NewQuantity(count, resource.DecimalSI), true, err
}

// isCharged reports whether the object at a key below that of its tenant counts:
// all do that would be charged.
func (m *measure) isCharged(resource schema.GroupResource, key string) bool {
	_, ignored := m.ignored[resource]
	return !ignored && (resource != quotaResource || key != metav1.NamespaceDefault+"/"+v1alpha1.TenantQuota)
}

// uncountedCustom returns the custom resources that a quota of a namespace limits and
// nobody has counted yet: upstream's controller knows none that a space defines.
func uncountedCustom(q *corev1.ResourceQuota) map[corev1.ResourceName]schema.GroupResource {
	uncounted := map[corev1.ResourceName]schema.GroupResource{}
	for name := range q.Status.Hard {
		counted, ok := countedBy(name)
		if _, known := q.Status.Used[name]; known || !ok || legacyscheme.Scheme.IsGroupRegistered(counted.Group) {
			continue
		}
		uncounted[name] = counted
	}
	return uncounted
}

// countedBy returns the resource whose objects a limit counts, all of them.
func countedBy(name corev1.ResourceName) (schema.GroupResource, bool) {
	if counted, ok := strings.CutPrefix(string(name), "count/"); ok {
		return schema.ParseGroupResource(counted), true
	}
	switch name {
	case corev1.ResourceConfigMaps, corev1.ResourceSecrets, corev1.ResourceReplicationControllers, corev1.ResourceQuotas:
		return corev1.Resource(string(name)), true
	default:
		return schema.GroupResource{}, false
	}
}

// newClient returns the client that lists the objects of spaces.
func newClient(loopback *rest.Config) (rest.Interface, error) {
	config := rest.CopyConfig(loopback)
	config.ContentType, config.QPS, config.RateLimiter = runtime.ContentTypeProtobuf, -1, nil
	client, err := coreclient.NewForConfig(config) // paths are absolute
	if err != nil {
		return nil, fmt.Errorf("creating the client of quotas: %w", err)
	}
	return client.RESTClient(), nil
}

// lister lists the objects of a resource for upstream's evaluators, which take the tenant
// for a namespace.
type lister struct {
	client   rest.Interface
	ranges   *storage.Ranges
	resource schema.GroupVersionResource
	tenant   tenant.Name // whose objects are listed
}

var _ cache.GenericLister = lister{}

// ByNamespace implements cache.GenericLister.
func (l lister) ByNamespace(n string) cache.GenericNamespaceLister {
	l.tenant = tenant.Name(n)
	return l
}

// Get implements cache.GenericLister. No evaluator asks for one object.
func (l lister) Get(name string) (runtime.Object, error) {
	return nil, fmt.Errorf("reading %s %q of tenant %q is not implemented", l.resource.Resource, name, l.tenant)
}

// List implements cache.GenericLister. Nothing is counted for all tenants.
func (l lister) List(labels.Selector) ([]runtime.Object, error) {
	if !l.tenant.IsSpace() {
		return nil, fmt.Errorf("listing %s of no tenant", l.resource.Resource)
	}
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	// Most spaces have nothing of most resources. To list what is not there means to
	// wait until the watch cache knows that there is nothing.
	if has, err := l.ranges.Has(ctx, l.tenant, l.resource.GroupResource()); err != nil || !has {
		return nil, err
	}
	path := l.tenant.Root() + serializer.RootOf(l.resource.GroupVersion()) + "/" + l.resource.Resource
	list, err := l.client.Get().AbsPath(path).Do(ctx).Get()
	if err != nil {
		return nil, fmt.Errorf("listing %s of tenant %q: %w", l.resource.Resource, l.tenant, err)
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return nil, err
	}
	stored := items[:0]
	for _, item := range items {
		accessor, err := meta.Accessor(item)
		if err != nil {
			return nil, err
		}
		if storage.IsService(objects.Ref{Resource: l.resource.GroupResource(), Namespace: accessor.GetNamespace(), Name: accessor.GetName()}) {
			continue // it is not charged for
		}
		flat, err := flatten(l.tenant, item)
		if err != nil {
			return nil, err
		}
		stored = append(stored, flat)
	}
	return stored, nil
}
