package admission

import (
	"context"
	"fmt"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/kubernetes/pkg/apis/core"
)

// TestManyBindings checks that policies of a space are not evaluated without end for one request.
func TestManyBindings(t *testing.T) {
	again := func(objects []apiruntime.Object, count int) []apiruntime.Object {
		for i := range count - 1 {
			binding := objects[1].DeepCopyObject()
			meta := binding.(metav1.Object)
			meta.SetName(fmt.Sprintf("%s-%d", meta.GetName(), i))
			objects = append(objects, binding)
		}
		return objects
	}
	audited := policy("a", "a refuses")
	audited[1].(*admissionregistrationv1.ValidatingAdmissionPolicyBinding).Spec.ValidationActions = []admissionregistrationv1.ValidationAction{admissionregistrationv1.Audit}
	for name, tc := range map[string]struct {
		objects []apiruntime.Object
		message string
	}{
		"validating, few":  {again(audited, 800), ""},
		"validating, many": {again(audited, 4_001), "are evaluated too often for one request"},
		"mutating, few":    {again(mutatingPolicy("a", "x"), 300), ""},
		"mutating, many":   {again(mutatingPolicy("a", "x"), 4_001), "are evaluated too often for one request"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, serverConfig{objects: spaces(tc.objects...)})
			err := createWithPolicies(t, s, "a", pod("team"))
			if tc.message == "" && err != nil || tc.message != "" && (err == nil || !strings.Contains(err.Error(), tc.message)) {
				t.Errorf("got error %.300v", err)
			}
		})
	}
}

// TestEvaluationsEnd checks that evaluations end with the request, and that no other panic is caught.
func TestEvaluationsEnd(t *testing.T) {
	a := admission.NewAttributesRecord(pod("x"), nil, core.SchemeGroupVersion.WithKind("Pod"), "team", "x",
		core.SchemeGroupVersion.WithResource("pods"), "", admission.Create, nil, false, &user.DefaultInfo{Name: "jane"})
	ctx, cancel := context.WithCancel(t.Context())
	asked := 0
	err := boundEvaluations(ctx, validating.PluginName, a, func(a admission.Attributes) error {
		for range 10 {
			if got := a.GetUserInfo().GetName(); got != "jane" {
				t.Errorf("got user %q", got)
			}
			asked++
			cancel()
		}
		return nil
	})
	if asked != 1 || err == nil || !strings.Contains(err.Error(), "the request has ended") {
		t.Errorf("got %v after %d evaluations", err, asked)
	}
	defer func() {
		if r := recover(); r != "other" {
			t.Errorf("got panic %v", r)
		}
	}()
	_ = boundEvaluations(t.Context(), validating.PluginName, a, func(admission.Attributes) error { panic("other") })
}
