package spacepolicy

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/kubernetes/pkg/apis/resource"

	"github.com/tenantry/tenantry/internal/tenant"
)

func TestAdminAccess(t *testing.T) {
	plugin, err := New(nil, Rules{})
	if err != nil {
		t.Fatal(err)
	}
	asking := func(admin *bool) resource.ResourceClaimSpec {
		return resource.ResourceClaimSpec{Devices: resource.DeviceClaim{Requests: []resource.DeviceRequest{
			{FirstAvailable: []resource.DeviceSubRequest{{Name: "s"}}},
			{Exactly: &resource.ExactDeviceRequest{AdminAccess: admin}},
		}}}
	}
	yes, no := new(true), new(false)
	given := &resource.ResourceClaim{Spec: asking(nil), Status: resource.ResourceClaimStatus{Allocation: &resource.AllocationResult{
		Devices: resource.DeviceAllocationResult{Results: []resource.DeviceRequestAllocationResult{{AdminAccess: yes}}},
	}}}
	for name, tc := range map[string]struct {
		space    tenant.Name
		old, obj runtime.Object
		refused  bool
	}{
		"claim":                 {space: "a", obj: &resource.ResourceClaim{Spec: asking(yes)}, refused: true},
		"template":              {space: "a", obj: &resource.ResourceClaimTemplate{Spec: resource.ResourceClaimTemplateSpec{Spec: asking(yes)}}, refused: true},
		"in the system space":   {space: tenant.System, obj: &resource.ResourceClaim{Spec: asking(yes)}},
		"not asked for":         {space: "a", obj: &resource.ResourceClaim{Spec: asking(nil)}},
		"declined":              {space: "a", obj: &resource.ResourceClaim{Spec: asking(no)}},
		"given in a status":     {space: "a", old: &resource.ResourceClaim{Spec: asking(nil)}, obj: given, refused: true},
		"stored already":        {space: "a", old: &resource.ResourceClaim{Spec: asking(yes)}, obj: &resource.ResourceClaim{Spec: asking(yes)}},
		"given to an old claim": {space: "a", old: &resource.ResourceClaim{Spec: asking(yes)}, obj: given, refused: true},
		"given already":         {space: "a", old: given, obj: given},
	} {
		t.Run(name, func(t *testing.T) {
			operation := admission.Create
			if tc.old != nil {
				operation = admission.Update
			}
			a := admission.NewAttributesRecord(tc.obj, tc.old, schema.GroupVersionKind{}, "ns", "x",
				resource.Resource("resourceclaims").WithVersion("v1"), "", operation, nil, false, member)
			ctx := tenant.WithSpace(t.Context(), tc.space)
			for phase, err := range map[string]error{"Admit": plugin.Admit(ctx, a, nil), "Validate": plugin.Validate(ctx, a, nil)} {
				if (err != nil) != tc.refused {
					t.Errorf("%s: %v", phase, err)
				}
			}
		})
	}
}
