package publishedobject

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/config/crd"
	"github.com/tenantry/tenantry/internal/server/definition"
	"github.com/tenantry/tenantry/internal/tenant"
)

// TestPrepare checks that a request of one resource leaves to the other what is its own.
func TestPrepare(t *testing.T) {
	report := func(object string, copies int32, generation int64) *v1alpha1.PublishedObject {
		return &v1alpha1.PublishedObject{
			ObjectMeta: metav1.ObjectMeta{Name: "r", Generation: generation},
			Object:     v1alpha1.PublishedReference{Resource: "configmaps", Name: object},
			Status:     v1alpha1.PublishedObjectStatus{Copies: copies},
		}
	}
	created := report("a", 1, 7)
	main := strategy{Strategy: definition.Strategy[v1alpha1.PublishedObject, v1alpha1.PublishedObjectStatus]{Parts: parts}}
	main.PrepareForCreate(t.Context(), created)
	if diff := cmp.Diff(report("a", 0, 1), created); diff != "" {
		t.Error(diff)
	}
	old := report("a", 1, 1)
	for name, tc := range map[string]struct {
		update   rest.RESTUpdateStrategy
		to, want *v1alpha1.PublishedObject
	}{
		"the object":           {update: main, to: report("b", 2, 9), want: report("b", 1, 2)},
		"the same object":      {update: main, to: report("a", 2, 1), want: report("a", 1, 1)},
		"the status":           {update: definition.NewStatusStrategy(main, parts), to: report("b", 2, 9), want: report("a", 2, 1)},
		"labels by the status": {update: definition.NewStatusStrategy(main, parts), to: labelled(report("a", 2, 1)), want: report("a", 2, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			tc.update.PrepareForUpdate(t.Context(), tc.to, old)
			if diff := cmp.Diff(tc.want, tc.to); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func labelled(report *v1alpha1.PublishedObject) *v1alpha1.PublishedObject {
	report.Labels = map[string]string{"a": "b"}
	return report
}

func TestValidate(t *testing.T) {
	rules, err := definition.NewRules(crd.PublishedObjects)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		space  tenant.Name
		report v1alpha1.PublishedObject
		// want is what is wrong: the kind of each error, and its field.
		want []string
	}{
		"complete": {tenant.System, v1alpha1.PublishedObject{
			ObjectMeta: metav1.ObjectMeta{Name: "clusterroles.example:auditor"},
			Object:     v1alpha1.PublishedReference{Resource: "clusterroles", Name: "example:auditor"},
			Status: v1alpha1.PublishedObjectStatus{Conditions: []metav1.Condition{{
				Type: v1alpha1.ConditionPublished, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonPublished, LastTransitionTime: metav1.Now(),
			}}},
		}, nil},
		"in a space": {"acme", v1alpha1.PublishedObject{
			ObjectMeta: metav1.ObjectMeta{Name: "a"}, Object: v1alpha1.PublishedReference{Resource: "configmaps", Name: "a"},
		}, []string{"FieldValueForbidden metadata"}},
		"a condition without reason": {tenant.System, v1alpha1.PublishedObject{
			ObjectMeta: metav1.ObjectMeta{Name: "a"}, Object: v1alpha1.PublishedReference{Resource: "configmaps", Name: "a"},
			Status: v1alpha1.PublishedObjectStatus{Conditions: []metav1.Condition{{
				Type: v1alpha1.ConditionPublished, Status: metav1.ConditionTrue, LastTransitionTime: metav1.Now(),
			}}},
		}, []string{"FieldValueInvalid status.conditions[0].reason"}},
		"no name for a path": {tenant.System, v1alpha1.PublishedObject{
			ObjectMeta: metav1.ObjectMeta{Name: "a/b"}, Object: v1alpha1.PublishedReference{Resource: "configmaps", Name: "a"},
		}, []string{"FieldValueInvalid metadata.name"}},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			definition.AddToScheme(scheme)
			errs := strategy{Strategy: definition.Strategy[v1alpha1.PublishedObject, v1alpha1.PublishedObjectStatus]{ObjectTyper: scheme, Rules: rules}}.Validate(tenant.WithSpace(t.Context(), tc.space), &tc.report)
			var got []string
			for _, err := range errs {
				got = append(got, string(err.Type)+" "+err.Field)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%v (-want +got):\n%s", errs, diff)
			}
		})
	}
}
