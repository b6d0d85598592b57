package crd

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenantry/tenantry/internal/tenant"
)

func TestOwn(t *testing.T) {
	for name, tc := range map[string]struct {
		annotations map[string]string
		want        bool
	}{
		"an edit":             {annotations: map[string]string{"example.com/note": "x"}},
		"declared":            {annotations: map[string]string{tenant.OwnDefinitionAnnotation: "true"}, want: true},
		"declared not to be":  {annotations: map[string]string{tenant.OwnDefinitionAnnotation: "false"}},
		"applied":             {annotations: map[string]string{corev1.LastAppliedConfigAnnotation: "{}"}, want: true},
		"of a release":        {annotations: map[string]string{"meta.helm.sh/release-name": "x"}, want: true},
		"published by itself": {annotations: isPublished},
	} {
		t.Run(name, func(t *testing.T) {
			definition := &apiextensions.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Annotations: tc.annotations}}
			if got := isOwn(definition); got != tc.want {
				t.Errorf("it is the space's own: %v, want %v", got, tc.want)
			}
		})
	}
}

// What a space is shown must not declare that it is the space's own: every update of
// it would.
func TestShownIsNotOwn(t *testing.T) {
	definition := &apiextensions.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{
		Name: "widgets.example.com", ResourceVersion: "1",
		Finalizers:      []string{tenant.PublishedDefinitionFinalizer, "example.com/other"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "of-the-system"}},
		Annotations: map[string]string{
			tenant.PublishedAnnotation: "true", tenant.OwnDefinitionAnnotation: "true", corev1.LastAppliedConfigAnnotation: "{}",
			"meta.helm.sh/release-name": "x", "meta.helm.sh/release-namespace": "y", "example.com/note": "z",
		},
	}}
	if found, err := published("", definition); err != nil || !found {
		t.Fatalf("it is not shown: %v", err)
	}
	if diff := cmp.Diff(map[string]string{"example.com/note": "z"}, definition.Annotations); diff != "" {
		t.Error(diff)
	}
	if len(definition.Finalizers)+len(definition.OwnerReferences) > 0 {
		t.Errorf("it shows %q and %v", definition.Finalizers, definition.OwnerReferences)
	}
	if isOwn(definition) {
		t.Error("it is taken for a space's own")
	}
}
