package spacepolicy

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/kubernetes/pkg/apis/apps"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/tenantry/tenantry/internal/tenant"
)

func TestOwners(t *testing.T) {
	owned := func(refs ...metav1.OwnerReference) *core.ConfigMap {
		return &core.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x", OwnerReferences: refs}}
	}
	owner := func(apiVersion, kind, name string) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name, UID: "u"}
	}
	good, bad := owner("apps/v1", "Deployment", "web"), owner("v1", "ConfigMap", "x/../../../watch/secrets")
	claims := &apps.StatefulSet{Spec: apps.StatefulSetSpec{VolumeClaimTemplates: []core.PersistentVolumeClaim{
		{}, {ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{bad}}},
	}}}
	plugin, err := New(nil, Rules{})
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		old, object runtime.Object
		want        []string
	}{
		"owners":               {object: owned(good, owner("rbac.authorization.k8s.io/v1", "ClusterRole", "system:x"))},
		"name":                 {object: owned(good, bad), want: []string{"metadata.ownerReferences[1].name"}},
		"dots":                 {object: owned(owner("v1", "ConfigMap", "..")), want: []string{"metadata.ownerReferences[0].name"}},
		"escaped":              {object: owned(owner("v1", "ConfigMap", "x%2f..")), want: []string{"metadata.ownerReferences[0].name"}},
		"kind":                 {object: owned(owner("v1", "../Pod", "x")), want: []string{"metadata.ownerReferences[0].kind"}},
		"group":                {object: owned(owner("../v1", "Pod", "x")), want: []string{"metadata.ownerReferences[0].apiVersion"}},
		"version":              {object: owned(owner("apps/v1/../..", "Pod", "x")), want: []string{"metadata.ownerReferences[0].apiVersion"}},
		"template of a claim":  {object: claims, want: []string{"spec.volumeClaimTemplates[1].metadata.ownerReferences[0].name"}},
		"kept by an update":    {old: owned(bad), object: owned(good, bad)},
		"added by an update":   {old: owned(good), object: owned(good, bad), want: []string{"metadata.ownerReferences[1].name"}},
		"changed by an update": {old: owned(bad), object: owned(owner("v1", "Secret", bad.Name)), want: []string{"metadata.ownerReferences[0].name"}},
	} {
		for _, n := range []tenant.Name{"a", tenant.System} {
			t.Run(name+" in "+n.String(), func(t *testing.T) {
				ctx := tenant.WithRequest(t.Context(), &tenant.Request{Requested: n.Scope(), Authenticated: n})
				operation := admission.Create
				if tc.old != nil {
					operation = admission.Update
				}
				a := admission.NewAttributesRecord(tc.object, tc.old, schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, "ns", "x",
					schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, "", operation, nil, false, member)
				err := plugin.Validate(ctx, a, nil)
				var got []string
				if status, ok := err.(apierrors.APIStatus); ok && apierrors.IsInvalid(err) {
					for _, cause := range status.Status().Details.Causes {
						got = append(got, cause.Field)
					}
				} else if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("invalid fields (-want +got):\n%s", diff)
				}
			})
		}
	}
}
