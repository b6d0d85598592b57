package spacepolicy

import (
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/held"
)

// TestPreparePod checks what is noted on a pod whenever it is written, whatever the writer says of that.
func TestPreparePod(t *testing.T) {
	type change = func(*core.Pod)
	asks := func(cpu string) change {
		return func(p *core.Pod) { p.Spec.Containers[0].Resources, p.Generation = requesting(cpu), p.Generation+1 }
	}
	asksItself := func(cpu string) change {
		return func(p *core.Pod) { p.Spec.Resources, p.Generation = new(requesting(cpu)), p.Generation+1 }
	}
	first := func(cpu string) change {
		return func(p *core.Pod) { p.Spec.InitContainers = []core.Container{{Name: "i", Resources: requesting(cpu)}} }
	}
	says := func(note string) change {
		return func(p *core.Pod) { p.Annotations = map[string]string{"a": "b", held.Annotation: note} }
	}
	observed := func(p *core.Pod) { p.Status.ObservedGeneration = p.Generation }
	deferred := func(p *core.Pod) {
		observed(p)
		p.Status.Conditions = []core.PodCondition{{Type: core.PodConditionType(corev1.PodResizePending), Status: core.ConditionTrue, Reason: corev1.PodReasonDeferred}}
	}
	none := func(p *core.Pod) { p.Annotations = nil }
	gated := func(p *core.Pod) { p.Spec.SchedulingGates = []core.PodSchedulingGate{{Name: "g"}} }
	nothing := func(*core.Pod) {}
	for name, tc := range map[string]struct {
		space   tenant.Name
		before  change
		changes []change
		want    map[string]string // the processors that are noted
		last    int64             // the generation that is noted
	}{
		"more":                          {changes: []change{asks("3")}},
		"less":                          {changes: []change{asks("1")}, want: map[string]string{"c0": "2"}, last: 2},
		"less of the pod":               {before: asksItself("4"), changes: []change{asksItself("3")}, want: map[string]string{"": "4", "c0": "2"}, last: 3},
		"less of an init container":     {before: first("4"), changes: []change{first("3")}, want: map[string]string{"i": "4", "c0": "2"}, last: 1},
		"less twice":                    {changes: []change{asks("1"), asks("500m")}, want: map[string]string{"c0": "2"}, last: 3},
		"less, more, less":              {changes: []change{asks("1"), asks("5"), asks("1")}, want: map[string]string{"c0": "5"}, last: 4},
		"less, and more again":          {changes: []change{asks("1"), asks("2")}, want: map[string]string{"c0": "2"}, last: 2},
		"less that the host sees":       {changes: []change{asks("1"), observed}, last: 2},
		"less of what waits":            {before: deferred, changes: []change{asks("1")}, want: map[string]string{"c0": "2"}, last: 2},
		"less that still waits":         {changes: []change{asks("1"), deferred}, want: map[string]string{"c0": "2"}, last: 2},
		"less of what is observed":      {before: observed, changes: []change{asks("1")}, want: map[string]string{"c0": "2"}, last: 2},
		"less of a gated pod":           {before: gated, changes: []change{asks("1")}},
		"less in the system space":      {space: tenant.System, changes: []change{asks("1")}},
		"a note that is taken away":     {changes: []change{asks("1"), none}, want: map[string]string{"c0": "2"}, last: 2},
		"a note that is changed":        {changes: []change{asks("1"), says(`{"generation":9,"resources":{"c0":{"requests":{"cpu":"1m"}}}}`)}, want: map[string]string{"c0": "2"}, last: 2},
		"a note of somebody":            {changes: []change{says(`{"generation":9,"resources":{"c0":{"requests":{"cpu":"9"}}}}`)}},
		"a note that comes with less":   {changes: []change{func(p *core.Pod) { asks("1")(p); says("{}")(p) }}, want: map[string]string{"c0": "2"}, last: 2},
		"a note that cannot be read":    {before: says("{"), changes: []change{asks("1")}, want: map[string]string{"c0": "2"}, last: 2},
		"a note of an unseen pod stays": {changes: []change{asks("1"), nothing}, want: map[string]string{"c0": "2"}, last: 2},
	} {
		t.Run(name, func(t *testing.T) {
			space := tc.space
			if space == "" {
				space = "a"
			}
			pod := asking("2")
			pod.Generation = 1
			if tc.before != nil {
				tc.before(pod)
			}
			for _, change := range tc.changes {
				complete := PreparePod(t.Context(), space, pod)
				pod = pod.DeepCopy()
				change(pod)
				if err := complete(pod); err != nil {
					t.Fatal(err)
				}
			}
			got := map[string]string{}
			for name, r := range held.Parse(pod.Annotations).Resources {
				got[name] = r.Requests.Cpu().String()
			}
			if last := held.Parse(pod.Annotations).Generation; !maps.Equal(got, tc.want) || last != tc.last {
				t.Errorf("noted is %v of %d, want %v of %d", got, last, tc.want, tc.last)
			}
		})
	}
}

// TestPrepareNewPod checks that a new pod holds nothing, whatever it says: templates are copied.
// TestPrepareFullPod checks that a resize to less is refused whose note would be more than a pod has room for: nobody
// could write the pod any more, its status neither.
func TestPrepareFullPod(t *testing.T) {
	for free, refused := range map[int]bool{20: true, 2000: false} {
		before := asking("2")
		before.Generation, before.Annotations = 1, map[string]string{"a": strings.Repeat("x", apivalidation.TotalAnnotationSizeLimitB-1-free)}
		now := before.DeepCopy()
		now.Generation, now.Spec.Containers[0].Resources = 2, requesting("1")
		err := PreparePod(t.Context(), "a", before)(now)
		if refused != apierrors.IsForbidden(err) || err == nil && apivalidation.ValidateAnnotationsSize(now.Annotations) != nil {
			t.Errorf("with room for %d bytes: %v", free, err)
		}
	}
}

func TestPrepareNewPod(t *testing.T) {
	pod := asking("2")
	pod.Annotations = map[string]string{held.Annotation: `{"generation":9,"resources":{"c0":{"requests":{"cpu":"9"}}}}`}
	if err := PreparePod(t.Context(), "a", nil)(pod); err != nil || len(pod.Annotations) > 0 {
		t.Errorf("it says %v, %v", pod.Annotations, err)
	}
	if err := PreparePod(t.Context(), "a", nil)(&core.Service{}); err == nil {
		t.Error("something else is taken for a pod")
	}
}
