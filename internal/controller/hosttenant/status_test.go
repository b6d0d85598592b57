package hosttenant

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/controller/conditions"
)

// TestObservedGeneration checks that a condition is about the spec of the host only when the
// control plane has seen that: clients wait for it.
func TestObservedGeneration(t *testing.T) {
	for name, tc := range map[string]struct {
		generation, observed int64 // of the Tenant in the control plane
		settled              bool
		want                 int64
	}{
		"seen":        {5, 5, true, 3},
		"not seen":    {6, 5, true, 2},
		"not applied": {5, 5, false, 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := &work{tenant: onHost(), mirror: inSpace(hostUID), settled: tc.settled, ref: new(ref("own", "a"))}
			w.tenant.Status.ObservedGeneration = 2
			w.mirror.Generation, w.mirror.Status.ObservedGeneration, w.mirror.Status.Conditions[0].ObservedGeneration = tc.generation, tc.observed, tc.observed
			got := statusOf(w, problemIf(!tc.settled))
			if got.ObservedGeneration != tc.want || got.Conditions[0].ObservedGeneration != tc.want {
				t.Errorf("observed generation %d, that of Ready %d, want %d", got.ObservedGeneration, got.Conditions[0].ObservedGeneration, tc.want)
			}
		})
	}
}

func problemIf(is bool) error {
	if is {
		return conditions.Problemf(v1alpha1.ReasonFailed, "failed")
	}
	return nil
}

// TestOwnConditions checks that a control plane does not write what the operator says, nor where
// the tenant is.
func TestOwnConditions(t *testing.T) {
	w := &work{tenant: onHost(), cp: &v1alpha1.ControlPlane{}, mirror: inSpace(hostUID), settled: true, ref: new(ref("own", "a"))}
	for _, kind := range []string{v1alpha1.ConditionMirrored, v1alpha1.ConditionKubeconfig} {
		meta.SetStatusCondition(&w.mirror.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "Forged"})
	}
	w.mirror.Status.ControlPlaneRef = new(ref("own", "forged"))
	got := statusOf(w, nil)
	if c := meta.FindStatusCondition(got.Conditions, v1alpha1.ConditionMirrored); c == nil || c.Reason != v1alpha1.ReasonMirrored {
		t.Errorf("Mirrored is %v", c)
	}
	if c := meta.FindStatusCondition(got.Conditions, v1alpha1.ConditionKubeconfig); c != nil {
		t.Errorf("KubeconfigReady is %v", c)
	}
	if got.ControlPlaneRef.String() != "own/a" {
		t.Errorf("it is in %v", got.ControlPlaneRef)
	}
	w.tenant.Status = *got
	if again := statusOf(w, nil); !meta.IsStatusConditionTrue(again.Conditions, v1alpha1.ConditionMirrored) || len(again.Conditions) != len(got.Conditions) {
		t.Errorf("the second time it is %v", again.Conditions)
	}
}

// TestLastKnown checks that a space whose control plane does not answer is not said to be gone.
func TestLastKnown(t *testing.T) {
	w := &work{tenant: onHost()}
	w.tenant.Status = inSpace(hostUID).Status
	got := statusOf(w, conditions.Unwatchedf(v1alpha1.ReasonControlPlaneUnreachable, "it does not answer"))
	if !meta.IsStatusConditionTrue(got.Conditions, v1alpha1.ConditionReady) || !meta.IsStatusConditionFalse(got.Conditions, v1alpha1.ConditionMirrored) {
		t.Errorf("conditions %v", got.Conditions)
	}
}

// TestReadyOfWhatFails checks that a Tenant that has never been made says why, and that a space is as it was.
func TestReadyOfWhatFails(t *testing.T) {
	invalid := fmt.Errorf("creating: %w", apierrors.NewInvalid(schema.GroupKind{Kind: "Tenant"}, "acme", nil))
	unreachable := conditions.Unwatchedf(v1alpha1.ReasonControlPlaneUnreachable, "it does not answer")
	never := onHost().Status
	was := func(reason string) v1alpha1.TenantStatus {
		return v1alpha1.TenantStatus{Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: reason}}}
	}
	for name, tc := range map[string]struct {
		before v1alpha1.TenantStatus
		failed error
		want   string
	}{
		"refused":                     {never, invalid, v1alpha1.ReasonInvalid},
		"refused again":               {was(v1alpha1.ReasonInvalid), invalid, v1alpha1.ReasonInvalid},
		"refused after a failure":     {was(v1alpha1.ReasonFailed), invalid, v1alpha1.ReasonInvalid},
		"refused after no answer":     {was(v1alpha1.ReasonControlPlaneUnreachable), invalid, v1alpha1.ReasonInvalid},
		"refused, of a space":         {inSpace(hostUID).Status, invalid, v1alpha1.ReasonReady},
		"refused, of one on its way":  {was(v1alpha1.ReasonProgressing), invalid, v1alpha1.ReasonProgressing},
		"not answered":                {never, unreachable, v1alpha1.ReasonControlPlaneUnreachable},
		"not answered after that":     {was(v1alpha1.ReasonInvalid), unreachable, v1alpha1.ReasonInvalid},
		"failed":                      {never, errors.New("no rights"), v1alpha1.ReasonFailed},
		"failed, of a space":          {inSpace(hostUID).Status, errors.New("no rights"), v1alpha1.ReasonReady},
		"of a reserved name, a space": {inSpace(hostUID).Status, conditions.Problemf(v1alpha1.ReasonNameReserved, "reserved"), v1alpha1.ReasonNameReserved},
	} {
		w := &work{tenant: onHost(), ref: new(ref("own", "a"))}
		w.tenant.Status = tc.before
		got := meta.FindStatusCondition(statusOf(w, tc.failed).Conditions, v1alpha1.ConditionReady)
		if got == nil || got.Reason != tc.want || (got.Status == metav1.ConditionTrue) != (tc.want == v1alpha1.ReasonReady) {
			t.Errorf("%s: Ready is %v, want reason %q", name, got, tc.want)
		}
	}
}

// TestLargeStatus checks that a control plane has the host store little for a Tenant, and that this says so.
func TestLargeStatus(t *testing.T) {
	long := strings.Repeat("x", 20_000)
	condition := func(kind, reason, message string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason, Message: message}
	}
	used := corev1.ResourceList{}
	for i := range 500 {
		used[corev1.ResourceName(fmt.Sprintf("count/%d.%.50s", i, long))] = resource.MustParse("1")
	}
	for name, tc := range map[string]struct {
		change func(*v1alpha1.TenantStatus)
		reason string // of the condition Mirrored
	}{
		"usual":    {func(*v1alpha1.TenantStatus) {}, v1alpha1.ReasonMirrored},
		"messages": {func(s *v1alpha1.TenantStatus) { s.Conditions[0].Message = long }, v1alpha1.ReasonMirrored},
		"a reason": {func(s *v1alpha1.TenantStatus) {
			s.Conditions = append(s.Conditions, condition(v1alpha1.ConditionDeleting, long, ""))
		}, v1alpha1.ReasonMirrored},
		"conditions": {func(s *v1alpha1.TenantStatus) { s.Conditions = append(s.Conditions, condition("Other", "Other", long)) }, v1alpha1.ReasonMirrored},
		"a quota":    {func(s *v1alpha1.TenantStatus) { s.Quota = &v1alpha1.TenantQuotaStatus{Used: used} }, v1alpha1.ReasonFailed},
		"names":      {func(s *v1alpha1.TenantStatus) { s.Keystone = &v1alpha1.TenantKeystone{Keystone: long} }, v1alpha1.ReasonFailed},
	} {
		t.Run(name, func(t *testing.T) {
			w := &work{tenant: onHost(), cp: &v1alpha1.ControlPlane{}, mirror: inSpace(hostUID), settled: true, ref: new(ref("own", "a"))}
			w.mirror.Status.Usage = &v1alpha1.TenantUsage{Objects: 7}
			tc.change(&w.mirror.Status)
			got := statusOf(w, nil)
			content, err := json.Marshal(got)
			if err != nil || len(content) > statusBytes {
				t.Errorf("the status has %d bytes, error %v", len(content), err)
			}
			if c := meta.FindStatusCondition(got.Conditions, v1alpha1.ConditionMirrored); c == nil || c.Reason != tc.reason {
				t.Errorf("Mirrored is %v, want reason %q", c, tc.reason)
			}
			if !meta.IsStatusConditionTrue(got.Conditions, v1alpha1.ConditionReady) || got.Usage.Objects != 7 {
				t.Errorf("the status is %s", content)
			}
		})
	}
}
