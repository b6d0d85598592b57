package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
)

const (
	namespace = "published"
	// prefix begins the names of published objects, tenantPrefix those of tenants.
	prefix, tenantPrefix = "published-", "tenant-"
)

var (
	tenants    = v1alpha1.GroupVersion.WithResource("tenants")
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	rbac       = schema.GroupVersion{Group: "rbac.authorization.k8s.io", Version: "v1"}
	// published are the resources that take turns.
	published = []schema.GroupVersionResource{
		configMaps, {Version: "v1", Resource: "secrets"}, rbac.WithResource("roles"), rbac.WithResource("clusterroles"),
	}
)

// clients reach the system space and, by metadata, all others.
type clients struct {
	config *rest.Config
	typed  kubernetes.Interface
	system dynamic.Interface
	all    metadata.Interface
}

func newClients(config *rest.Config) (*clients, error) {
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	system, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	everywhere := rest.CopyConfig(config)
	everywhere.Host += tenant.All.Root()
	all, err := metadata.NewForConfig(metadata.ConfigFor(everywhere))
	return &clients{config: config, typed: typed, system: system, all: all}, err
}

// createTenants creates tenants by several workers and waits until they are Ready.
func (c *clients) createTenants(ctx context.Context, first, last int) error {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for i := first; i < last; i++ {
		group.Go(func() error {
			if err := c.createTenant(groupCtx, i); err != nil {
				return err
			}
			return poll(groupCtx, 10*time.Millisecond, func() (bool, error) {
				return c.isReady(groupCtx, tenantName(i))
			})
		})
	}
	return group.Wait()
}

func tenantName(i int) string { return fmt.Sprintf(tenantPrefix+"%05d", i) }

func (c *clients) createTenant(ctx context.Context, i int) error {
	t := &unstructured.Unstructured{}
	t.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("Tenant"))
	t.SetName(tenantName(i))
	_, err := c.system.Resource(tenants).Create(ctx, t, metav1.CreateOptions{})
	return err
}

func (c *clients) isReady(ctx context.Context, name string) (bool, error) {
	found, err := c.system.Resource(tenants).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return false, err
	}
	conditions, _, err := unstructured.NestedSlice(found.Object, "status", "conditions")
	for _, condition := range conditions {
		fields, _ := condition.(map[string]any)
		if fields["type"] == v1alpha1.ConditionReady && fields["status"] == string(metav1.ConditionTrue) {
			return true, err
		}
	}
	return false, err
}

// object is the i-th published object.
func object(i int) (schema.GroupVersionResource, *unstructured.Unstructured) {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetName(fmt.Sprintf(prefix+"%03d", i))
	o.SetNamespace(namespace)
	o.SetAnnotations(map[string]string{tenant.PublishedAnnotation: "true"})
	rules := []any{map[string]any{"apiGroups": []any{""}, "resources": []any{"pods"}, "verbs": []any{"get"}}}
	kinds := []schema.GroupVersionKind{{Version: "v1", Kind: "ConfigMap"}, {Version: "v1", Kind: "Secret"}, rbac.WithKind("Role"), rbac.WithKind("ClusterRole")}
	switch o.SetGroupVersionKind(kinds[i%4]); i % 4 {
	case 0:
		o.Object["data"] = map[string]any{"text": strings.Repeat("x", 500)}
	case 1:
		o.Object["stringData"] = map[string]any{"text": strings.Repeat("x", 500)}
	case 2:
		o.Object["rules"] = rules
	case 3:
		o.Object["rules"] = rules
		o.SetNamespace("")
	}
	return published[i%4], o
}

// each does something with each published object.
func (c *clients) each(count int, do func(client dynamic.ResourceInterface, o *unstructured.Unstructured) error) error {
	for i := range count {
		resource, o := object(i)
		if err := do(c.at(resource, o), o); err != nil {
			return fmt.Errorf("%s %q: %w", resource.Resource, o.GetName(), err)
		}
	}
	return nil
}

// at returns the client of an object of the system space.
func (c *clients) at(resource schema.GroupVersionResource, o *unstructured.Unstructured) dynamic.ResourceInterface {
	if o.GetNamespace() == "" {
		return c.system.Resource(resource)
	}
	return c.system.Resource(resource).Namespace(o.GetNamespace())
}

// edit gives all published objects a label, and with it the copies.
func (c *clients) edit(ctx context.Context, count int, label string) error {
	patch := fmt.Appendf(nil, `{"metadata": {"labels": {"edition": %q}}}`, label)
	return c.each(count, func(client dynamic.ResourceInterface, o *unstructured.Unstructured) error {
		_, err := client.Patch(ctx, o.GetName(), types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
}

// copies counts the copies that match a label selector, and sums up which
// versions of which objects they are.
func (c *clients) copies(ctx context.Context, selector string) (count int, versions uint64, err error) {
	if selector != "" {
		selector = "," + selector
	}
	for _, resource := range published {
		list, err := c.all.Resource(resource).List(ctx, metav1.ListOptions{
			LabelSelector: tenant.PublishedCopyLabel + "=" + tenant.PublishedCopy + selector, ResourceVersion: "0",
		})
		if err != nil {
			return 0, 0, err
		}
		count += len(list.Items)
		if err := meta.EachListItem(list, func(o runtime.Object) error {
			accessor, err := meta.Accessor(o)
			if err != nil {
				return err
			}
			hash := fnv.New64()
			fmt.Fprint(hash, accessor.GetUID(), accessor.GetResourceVersion())
			versions += hash.Sum64()
			return nil
		}); err != nil {
			return 0, 0, err
		}
	}
	return count, versions, nil
}

// await waits until all published objects say that they are in all spaces, and
// returns how long that took.
func (c *clients) await(ctx context.Context, count, spaces int) (time.Duration, error) {
	began := time.Now()
	reports := c.system.Resource(v1alpha1.GroupVersion.WithResource("publishedobjects"))
	err := poll(ctx, 250*time.Millisecond, func() (bool, error) {
		list, err := reports.List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return false, err
		}
		found := 0
		for _, item := range list.Items {
			if copies, _, err := unstructured.NestedInt64(item.Object, "status", "copies"); err == nil && copies == int64(spaces) {
				found++
			}
		}
		return found == count, nil
	})
	return time.Since(began), err
}

// awaitCopies waits until a number of copies match a label selector. It watches,
// because to list them all again and again would keep the server busy.
func (c *clients) awaitCopies(ctx context.Context, want int, selector string) (time.Duration, error) {
	began := time.Now()
	if selector != "" {
		selector = "," + selector
	}
	options := metav1.ListOptions{LabelSelector: tenant.PublishedCopyLabel + "=" + tenant.PublishedCopy + selector, ResourceVersion: "0"}
	var count, listed atomic.Int64
	group, groupCtx := errgroup.WithContext(ctx)
	for _, resource := range published {
		group.Go(func() error { return follow(groupCtx, c.all.Resource(resource), options, &count, &listed) })
	}
	group.Go(func() error {
		err := poll(groupCtx, 10*time.Millisecond, func() (bool, error) {
			return listed.Load() >= int64(len(published)) && count.Load() == int64(want), nil
		})
		if err == nil {
			err = errDone
		}
		return err
	})
	if err := group.Wait(); !errors.Is(err, errDone) {
		return 0, err
	}
	return time.Since(began), nil
}

var errDone = errors.New("done")

// follow counts the objects of a resource, and how often it has listed them, until
// ctx ends. A watch that cannot keep
// up is ended by the server and begins anew.
func follow(ctx context.Context, client metadata.Getter, options metav1.ListOptions, count, listed *atomic.Int64) error {
	for ctx.Err() == nil {
		list, err := client.List(ctx, options)
		if err != nil {
			return err
		}
		there := int64(len(list.Items))
		count.Add(there)
		listed.Add(1)
		since := options
		since.ResourceVersion = list.ResourceVersion
		watcher, err := client.Watch(ctx, since)
		if err != nil {
			return err
		}
		for event := range watcher.ResultChan() {
			change := map[watch.EventType]int64{watch.Added: 1, watch.Deleted: -1}[event.Type]
			there += change
			count.Add(change)
		}
		count.Add(-there)
	}
	return ctx.Err()
}

func poll(ctx context.Context, period time.Duration, done func() (bool, error)) error {
	return wait.PollUntilContextTimeout(ctx, period, 30*time.Minute, true, func(context.Context) (bool, error) { return done() })
}
