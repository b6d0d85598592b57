package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/test/harness"
)

// clients reach Tenants, and spaces.
type clients struct {
	config  *rest.Config
	tenants harness.Tenants
}

func newClients(config *rest.Config) (*clients, error) {
	tenants, err := harness.NewTenants(config)
	return &clients{config: config, tenants: tenants}, err
}

func tenantName(i int) string { return fmt.Sprintf("tenant-%05d", i) }

func (c *clients) create(ctx context.Context, name string) error {
	return c.tenants.Create(ctx, name, v1alpha1.TenantSpec{})
}

// follow watches all tenants and reports each that is Ready, and each that is
// gone, once.
func (c *clients) follow(ctx context.Context, report func(name string, gone bool)) error {
	// A watch that begins with ten thousand events may be closed as too slow.
	now := &v1alpha1.TenantList{}
	if err := c.tenants.List(ctx, now, client.Limit(1)); err != nil {
		return err
	}
	ready := map[string]bool{}
	return harness.Follow(ctx, now.ResourceVersion, func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		return c.tenants.Watch(ctx, &v1alpha1.TenantList{}, &client.ListOptions{Raw: &o})
	}, func(event watch.Event) {
		t, ok := event.Object.(*v1alpha1.Tenant)
		switch {
		case !ok:
		case event.Type == watch.Deleted:
			delete(ready, t.Name)
			report(t.Name, true)
		case !ready[t.Name] && meta.IsStatusConditionTrue(t.Status.Conditions, v1alpha1.ConditionReady):
			ready[t.Name] = true
			report(t.Name, false)
		}
	})
}

// run is how long things took that were started by several workers and have
// ended when a watch says so.
type run struct {
	elapsed   time.Duration
	latencies []time.Duration
}

// each starts something for the tenants from first to last, by several workers,
// and waits for all to be Ready or gone.
func (c *clients) each(ctx context.Context, first, last, workers int, gone bool, start func(ctx context.Context, name string) error) (run, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(map[string]chan struct{}, last-first+1)
	for i := first; i <= last; i++ {
		done[tenantName(i)] = make(chan struct{})
	}
	if err := c.follow(ctx, func(name string, isGone bool) {
		if ended := done[name]; ended != nil && isGone == gone {
			close(ended)
		}
	}); err != nil {
		return run{}, err
	}
	began := time.Now()
	latencies, err := harness.Each(first, last+1, workers, func(i int) error {
		name := tenantName(i)
		if err := start(ctx, name); err != nil {
			return err
		}
		select {
		case <-done[name]:
			return nil
		case <-time.After(5 * time.Minute):
			return fmt.Errorf("tenant %s has not come to its end", name)
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	return run{elapsed: time.Since(began), latencies: latencies}, err
}

// space returns a client for the space of a tenant.
func (c *clients) space(name string) (kubernetes.Interface, error) {
	config := harness.InSpace(c.config, name)
	config.ContentType = runtime.ContentTypeProtobuf
	return kubernetes.NewForConfig(config)
}

const listed = 500

// fill puts config maps into the default namespace of a space.
func (c *clients) fill(ctx context.Context, name string) error {
	space, err := c.space(name)
	if err != nil {
		return err
	}
	for i := range listed {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("listed-%03d", i)}, Data: map[string]string{"k": "v"}}
		if _, err := space.CoreV1().ConfigMaps("default").Create(ctx, object, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// list returns the median latency of lists in a space.
func (c *clients) list(ctx context.Context, name string, times int) (time.Duration, error) {
	space, err := c.space(name)
	if err != nil {
		return 0, err
	}
	latencies, err := harness.Each(0, times, 1, func(int) error {
		objects, err := space.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{})
		if err == nil && len(objects.Items) < listed {
			err = fmt.Errorf("listed %d objects of %d", len(objects.Items), listed)
		}
		return err
	})
	return harness.Median(latencies), err
}
