package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/tenantry/tenantry/internal/workloads/names"
	"github.com/tenantry/tenantry/test/harness"
)

// appLabel is a label of all pods that are made, here and there.
const appLabel = "app"

// podNamespace is a namespace in which pods are made, of a space or of the host.
type podNamespace struct {
	client    kubernetes.Interface
	namespace string
}

func (p podNamespace) create(ctx context.Context, name string) (*corev1.Pod, error) {
	return p.client.CoreV1().Pods(p.namespace).Create(ctx, podOf(name), metav1.CreateOptions{})
}

func podOf(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{appLabel: "bench"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "app", Image: "registry.example/app:1", Env: []corev1.EnvVar{{Name: "MODE", Value: "bench"}},
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m"), corev1.ResourceMemory: resource.MustParse("1Mi")}},
		}}},
	}
}

// follow watches the pods of a namespace with a label, until ctx ends.
func (p podNamespace) follow(ctx context.Context, label string, report func(pod *corev1.Pod, gone bool)) error {
	pods := p.client.CoreV1().Pods(p.namespace)
	now, err := pods.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return err
	}
	return harness.Follow(ctx, now.ResourceVersion, func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		o.LabelSelector = label
		return pods.Watch(ctx, o)
	}, func(event watch.Event) {
		if pod, ok := event.Object.(*corev1.Pod); ok {
			report(pod, event.Type == watch.Deleted)
		}
	})
}

// moments are when something was seen of a pod.
type moments struct{ asked, answered, onHost, scheduled, runsOnHost, runs time.Time }

// record has the moments of pods, by their names.
type record struct {
	mu sync.Mutex
	of map[string]*moments
	// all is closed when as many pods run as were asked for.
	all  chan struct{}
	left int
}

func newRecord(count int) *record {
	return &record{of: map[string]*moments{}, all: make(chan struct{}), left: count}
}

// note notes when it is now, unless that was noted before.
func (r *record) note(name string, of func(*moments) *time.Time) (first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.of[name]
	if m == nil {
		m = &moments{}
		r.of[name] = m
	}
	if at := of(m); at.IsZero() {
		*at = time.Now()
		return true
	}
	return false
}

// inSpace notes what is seen of a pod where it was created.
func (r *record) inSpace(pod *corev1.Pod, gone bool) {
	if pod.Status.Phase == corev1.PodRunning && !gone && r.note(pod.Name, func(m *moments) *time.Time { return &m.runs }) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.left--; r.left == 0 {
			close(r.all)
		}
	}
}

// onHost notes what is seen of the host's pod.
func (r *record) onHost(pod *corev1.Pod, _ bool) {
	r.note(pod.Name, func(m *moments) *time.Time { return &m.onHost })
	if pod.Spec.NodeName != "" {
		r.note(pod.Name, func(m *moments) *time.Time { return &m.scheduled })
	}
	if pod.Status.Phase == corev1.PodRunning {
		r.note(pod.Name, func(m *moments) *time.Time { return &m.runsOnHost })
	}
}

// create creates a pod and notes that.
func (r *record) create(ctx context.Context, in podNamespace, name string) error {
	r.note(name, func(m *moments) *time.Time { return &m.asked })
	if _, err := in.create(ctx, name); err != nil {
		return fmt.Errorf("creating pod %s: %w", name, err)
	}
	r.note(name, func(m *moments) *time.Time { return &m.answered })
	return nil
}

// await waits until all pods are Running.
func (r *record) await(ctx context.Context) error {
	select {
	case <-r.all:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(runTimeout):
		r.mu.Lock()
		defer r.mu.Unlock()
		return fmt.Errorf("%d pods are not Running after %s", r.left, runTimeout)
	}
}

// between returns the times from one moment to another, of those pods that were asked for and have both.
func (r *record) between(from, to func(*moments) time.Time) []time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []time.Duration
	for _, m := range r.of {
		if a, b := from(m), to(m); !m.asked.IsZero() && !a.IsZero() && !b.IsZero() {
			all = append(all, b.Sub(a))
		}
	}
	return all
}

// follow records what happens in places and, if there is an everywhere, to all such pods of the host.
func (r *record) follow(ctx context.Context, places []podNamespace, everywhere *podNamespace) error {
	if everywhere != nil {
		if err := everywhere.follow(ctx, appLabel+"=bench", r.onHost); err != nil {
			return err
		}
	}
	_, err := harness.Each(0, len(places), 16, func(i int) error { return places[i].follow(ctx, "", r.inSpace) })
	return err
}

// empty deletes all pods of places and returns when they are gone, there and on the host of spaces.
func empty(ctx context.Context, places []podNamespace, everywhere podNamespace) error {
	gone := func(p podNamespace, label string) error {
		return harness.Until(ctx, runTimeout, "all pods are gone", func(ctx context.Context) error {
			left, err := p.client.CoreV1().Pods(p.namespace).List(ctx, metav1.ListOptions{Limit: 1, LabelSelector: label})
			if err == nil && len(left.Items) > 0 {
				err = fmt.Errorf("pod %s/%s is there", left.Items[0].Namespace, left.Items[0].Name)
			}
			return err
		})
	}
	if _, err := harness.Each(0, len(places), 4, func(i int) error {
		p := places[i]
		// A server ends a request after a minute, in which it deletes some thousands.
		if err := harness.Until(ctx, runTimeout, "all pods are deleted", func(ctx context.Context) error {
			return p.client.CoreV1().Pods(p.namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
		}); err != nil {
			return err
		}
		return gone(p, "")
	}); err != nil {
		return err
	}
	return gone(everywhere, names.InstallationLabel)
}
