package tenant

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
)

const (
	// AdminBinding is the ClusterRoleBinding of the tenant's administrators.
	AdminBinding = "tenantry:admins"

	serviceAccountName = "default"
)

// childrenCache is a cache of what the controller keeps in all spaces.
type childrenCache struct{ cache.Cache }

// newChildrenCache returns a cache of what the controller keeps in all spaces.
// Names are flattened, because the cache of controller-runtime knows no
// tenants; what the controller does not compare is left out.
func newChildrenCache(config *rest.Config) (*childrenCache, error) {
	all := rest.CopyConfig(config)
	all.Host += tenant.All.Root()
	all.ContentType = runtime.ContentTypeProtobuf
	names, err := labels.NewRequirement(corev1.LabelMetadataName, "in", tenant.Namespaces)
	if err != nil {
		return nil, err
	}
	inDefault := func(name string) fields.Selector {
		return fields.Set{"metadata.namespace": metav1.NamespaceDefault, "metadata.name": name}.AsSelector()
	}
	children, err := cache.New(all, cache.Options{
		Scheme:      clientgoscheme.Scheme,
		Mapper:      childMapper(),
		NewInformer: newInformer,
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Namespace{}:          {Label: labels.NewSelector().Add(*names)},
			&corev1.ServiceAccount{}:     {Field: inDefault(serviceAccountName)},
			&corev1.ResourceQuota{}:      {Field: inDefault(v1alpha1.TenantQuota)},
			&rbacv1.ClusterRoleBinding{}: {Field: fields.OneTermEqualSelector("metadata.name", AdminBinding)},
		},
	})
	return &childrenCache{children}, err
}

// childMapper maps the kinds of the cache without asking the server.
func childMapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Namespace"), meta.RESTScopeRoot)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("ServiceAccount"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("ResourceQuota"), meta.RESTScopeNamespace)
	mapper.Add(rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"), meta.RESTScopeRoot)
	return mapper
}

// newInformer trims objects as they arrive. A transform would be too late:
// reflectors compute keys before, by which equal names of two spaces are one.
func newInformer(source toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
	withContext := toolscache.ToListerWatcherWithContext(source)
	trimmed := &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := withContext.ListWithContext(ctx, options)
			if err != nil {
				return nil, err
			}
			return list, meta.EachListItem(list, trim)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			events, err := withContext.WatchWithContext(ctx, options)
			if err != nil {
				return nil, err
			}
			return watch.Filter(events, trimEvent), nil
		},
	}
	return toolscache.NewSharedIndexInformer(trimmed, example, resync, indexers)
}

func trimEvent(event watch.Event) (watch.Event, bool) {
	if event.Type == watch.Error || event.Type == watch.Bookmark {
		return event, true
	}
	if err := trim(event.Object); err != nil {
		status := apierrors.NewInternalError(err).Status()
		return watch.Event{Type: watch.Error, Object: &status}, true
	}
	return event, true
}

// trim flattens an object's name and keeps what the controller compares.
func trim(obj runtime.Object) error {
	object, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	n := tenant.Name(object.GetAnnotations()[tenant.Annotation])
	if n == "" {
		return fmt.Errorf("object %s/%s carries no tenant", object.GetNamespace(), object.GetName())
	}
	slim := metav1.ObjectMeta{
		Name:              object.GetName(),
		UID:               object.GetUID(),
		ResourceVersion:   object.GetResourceVersion(),
		DeletionTimestamp: object.GetDeletionTimestamp(),
	}
	if object.GetNamespace() == "" {
		slim.Name = tenant.Flatten(n, slim.Name).String()
	} else {
		slim.Namespace = tenant.Flatten(n, object.GetNamespace()).String()
	}
	switch o := obj.(type) {
	case *corev1.Namespace:
		*o = corev1.Namespace{ObjectMeta: slim}
	case *corev1.ServiceAccount:
		*o = corev1.ServiceAccount{ObjectMeta: slim}
	case *corev1.ResourceQuota:
		*o = corev1.ResourceQuota{ObjectMeta: slim, Spec: o.Spec, Status: o.Status}
	case *rbacv1.ClusterRoleBinding:
		*o = rbacv1.ClusterRoleBinding{ObjectMeta: slim, RoleRef: o.RoleRef, Subjects: o.Subjects}
	default:
		return fmt.Errorf("unexpected object %T", obj)
	}
	return nil
}

// tenantOf maps a child to its Tenant.
func tenantOf(child client.Object) string {
	return string(tenant.Flat(cmp.Or(child.GetNamespace(), child.GetName())).Space())
}
