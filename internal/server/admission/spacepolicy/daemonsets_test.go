package spacepolicy

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/kubernetes/pkg/apis/apps"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
)

// warnings collects warnings.
type warnings []string

func (w *warnings) AddWarning(_, text string) { *w = append(*w, text) }

func TestDaemonSets(t *testing.T) {
	inert, refused := &v1alpha1.DaemonSets{Mode: v1alpha1.DaemonSetsInert}, &v1alpha1.DaemonSets{Mode: v1alpha1.DaemonSetsRefused}
	for name, tc := range map[string]struct {
		config   string
		own      *v1alpha1.DaemonSets
		old, new *apps.DaemonSet
		refused  bool
		warned   bool
	}{
		"by default":         {new: generation(1), refused: true},
		"by configuration":   {config: header + "daemonSets: {mode: Inert}", new: generation(1), warned: true},
		"by the Tenant":      {own: inert, new: generation(1), warned: true},
		"the Tenant decides": {config: header + "daemonSets: {mode: Inert}", own: refused, new: generation(1), refused: true},
		"another spec":       {own: inert, old: generation(1), new: generation(2), warned: true},
		"the same spec":      {own: inert, old: generation(1), new: generation(1)},
		"what is there when it may not be there any more": {old: generation(1), new: generation(2), warned: true},
	} {
		t.Run(name, func(t *testing.T) {
			plugin, err := New(strings.NewReader(tc.config), Rules{DaemonSets: func(tenant.Name) *v1alpha1.DaemonSets { return tc.own }})
			if err != nil {
				t.Fatal(err)
			}
			operation, old := admission.Create, runtime.Object(nil)
			if tc.old != nil {
				operation, old = admission.Update, tc.old
			}
			a := admission.NewAttributesRecord(tc.new, old, schema.GroupVersionKind{}, "ns", "x",
				daemonSets.WithVersion("v1"), "", operation, nil, false, member)
			var warned warnings
			err = plugin.Validate(warning.WithWarningRecorder(tenant.WithSpace(t.Context(), "a"), &warned), a, nil)
			if tc.refused != (err != nil) || tc.warned != (len(warned) == 1) {
				t.Errorf("got error %v and warnings %q", err, warned)
			}
		})
	}
}

func generation(g int64) *apps.DaemonSet {
	return &apps.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "x", Generation: g}}
}

func TestPrepareDaemonSet(t *testing.T) {
	created := metav1.NewTime(time.Unix(1, 0))
	set := func() *apps.DaemonSet {
		return &apps.DaemonSet{
			ObjectMeta: metav1.ObjectMeta{Name: "x", Generation: 3, CreationTimestamp: created},
			Status:     apps.DaemonSetStatus{DesiredNumberScheduled: 4, ObservedGeneration: 2},
		}
	}
	for name, tc := range map[string]struct {
		space tenant.Name
		want  apps.DaemonSetStatus
	}{
		"in a space": {space: "a", want: apps.DaemonSetStatus{ObservedGeneration: 3, Conditions: []apps.DaemonSetCondition{{
			Type: "Inert", Status: core.ConditionTrue, LastTransitionTime: created, Reason: "NoNodes", Message: inertDaemonSet,
		}}}},
		"in the system space": {space: tenant.System, want: set().Status},
	} {
		t.Run(name, func(t *testing.T) {
			got := set()
			if err := PrepareDaemonSet(context.Background(), tc.space, nil)(got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got.Status); diff != "" {
				t.Error(diff)
			}
		})
	}
	if err := PrepareDaemonSet(context.Background(), "a", nil)(&apps.Deployment{}); err == nil {
		t.Error("another kind is no error")
	}
}
