package kubecontrollers

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestBelieves lets the controller come to counts of a quota whose versions are
// charged 5 pods.
func TestBelieves(t *testing.T) {
	const settle = time.Minute
	type counted struct {
		version, pods string
		after         time.Duration
		want          bool
	}
	for name, counts := range map[string][]counted{
		"once":                {{version: "1", pods: "4"}},
		"twice":               {{version: "1", pods: "4"}, {version: "1", pods: "4", after: settle, want: true}},
		"more, twice":         {{version: "1", pods: "6"}, {version: "1", pods: "6", after: settle, want: true}},
		"twice too soon":      {{version: "1", pods: "4"}, {version: "1", pods: "4", after: settle / 2}},
		"again and again":     {{version: "1", pods: "4"}, {version: "1", pods: "4", after: settle / 2}, {version: "1", pods: "4", after: settle / 2, want: true}},
		"another count":       {{version: "1", pods: "4"}, {version: "1", pods: "3", after: settle}},
		"charged in between":  {{version: "1", pods: "4"}, {version: "2", pods: "4", after: settle}},
		"and then no more so": {{version: "1", pods: "4"}, {version: "2", pods: "4", after: settle}, {version: "2", pods: "4", after: settle, want: true}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCarefulQuotas(nil, nil)
			c.settle = settle
			now := time.Now()
			for i, step := range counts {
				now = now.Add(step.after)
				base := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "acme|team", Name: "q", ResourceVersion: step.version}}
				base.Status.Used = corev1.ResourceList{"pods": resource.MustParse("5")}
				count := base.DeepCopy()
				count.Status.Used = corev1.ResourceList{"pods": resource.MustParse(step.pods)}
				if got := c.believes(base, count, now); got != step.want {
					t.Errorf("count %d is believed: %t", i, got)
				}
			}
		})
	}
}
