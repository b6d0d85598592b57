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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/harness"
)

const (
	namespace = "published"
	// prefix begins the names of published objects, tenantPrefix those of tenants.
	prefix, tenantPrefix = "published-", "tenant-"
	// timeout is for all objects to be everywhere.
	timeout = 30 * time.Minute
)

var (
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	rbac       = schema.GroupVersion{Group: "rbac.authorization.k8s.io", Version: "v1"}
	// published are the resources that take turns.
	published = []schema.GroupVersionResource{
		configMaps, {Version: "v1", Resource: "secrets"}, rbac.WithResource("roles"), rbac.WithResource("clusterroles"),
	}
)

// fromCache lists what the server has in its watch cache.
var fromCache = &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "0"}}

// clients reach the system space and, by metadata, all others.
type clients struct {
	config  *rest.Config
	typed   kubernetes.Interface
	system  dynamic.Interface
	all     metadata.Interface
	tenants harness.Tenants
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
	tenants, err := harness.NewTenants(config)
	if err != nil {
		return nil, err
	}
	all, err := metadata.NewForConfig(metadata.ConfigFor(harness.InSpace(config, string(tenant.All))))
	return &clients{config: config, typed: typed, system: system, all: all, tenants: tenants}, err
}

// createTenants creates tenants by several workers and waits until they are Ready.
func (c *clients) createTenants(ctx context.Context, first, last int) error {
	_, err := harness.Each(first, last, 16, func(i int) error {
		return c.tenants.CreateReady(ctx, tenantName(i), 10*time.Millisecond, timeout)
	})
	return err
}

func tenantName(i int) string { return fmt.Sprintf(tenantPrefix+"%05d", i) }

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

func ofCopies(selector string) metav1.ListOptions {
	selector = strings.TrimSuffix(tenant.PublishedCopyLabel+"="+tenant.PublishedCopy+","+selector, ",")
	return metav1.ListOptions{LabelSelector: selector, ResourceVersion: "0"}
}

// copies counts the copies that match a label selector, and sums up which
// versions of which objects they are.
func (c *clients) copies(ctx context.Context, selector string) (count int, versions uint64, err error) {
	for _, resource := range published {
		list, err := c.all.Resource(resource).List(ctx, ofCopies(selector))
		if err != nil {
			return 0, 0, err
		}
		count += len(list.Items)
		for _, o := range list.Items {
			hash := fnv.New64()
			fmt.Fprint(hash, o.UID, o.ResourceVersion)
			versions += hash.Sum64()
		}
	}
	return count, versions, nil
}

// await waits until all published objects say that they are in all spaces, and
// returns how long that took.
func (c *clients) await(ctx context.Context, count, spaces int) (time.Duration, error) {
	began := time.Now()
	err := poll(ctx, 250*time.Millisecond, func() (bool, error) {
		var reports v1alpha1.PublishedObjectList
		if err := c.tenants.List(ctx, &reports, fromCache); err != nil {
			return false, err
		}
		found := 0
		for _, report := range reports.Items {
			if int(report.Status.Copies) == spaces {
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
	options := ofCopies(selector)
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
	return wait.PollUntilContextTimeout(ctx, period, timeout, true, func(context.Context) (bool, error) { return done() })
}
