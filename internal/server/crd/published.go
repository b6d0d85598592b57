package crd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tenantry/tenantry/internal/objects"
	"github.com/tenantry/tenantry/internal/server/storage"
	"github.com/tenantry/tenantry/internal/tenant"
)

var errPublished = errors.New("the platform publishes this definition to every space, and changes and deletes it alone; " +
	"to use another one of this name in this space, create or apply it whole, or give it the annotation " +
	tenant.OwnDefinitionAnnotation + "=true: it takes the place of the published one")

// Defaults are the definitions that every space has without storing them.
func (s *Servers) Defaults() *storage.Defaults {
	return &storage.Defaults{
		Keys:     s.index.names,
		Adapt:    published,
		Replaced: storage.ByCreation,
		Hidden:   s.Terminating,
		Changes:  s.index.changes,
		Draft:    draft,
		Override: s.own,
		Refusal:  errPublished,
	}
}

// declarations are annotations of a definition that somebody wants to have whole, and
// not to edit whatever is there: by saying so, by kubectl apply, or as part of a Helm
// release. What is edited, or written by controllers, is not given them.
var declarations = []string{tenant.OwnDefinitionAnnotation, corev1.LastAppliedConfigAnnotation, "meta.helm.sh/release-name"}

// notShown are annotations that say something about the definition in the system space
// alone.
var notShown = append([]string{tenant.PublishedAnnotation, "meta.helm.sh/release-namespace"}, declarations...)

// IsShown reports whether spaces see a definition of the system space that is or was published. While
// it is deleted they see it once more, so that those who have to finalize objects can.
func IsShown(definition metav1.Object) bool {
	return tenant.IsPublished(definition.GetAnnotations()) || definition.GetDeletionTimestamp() != nil
}

// published makes a definition of the system space what spaces see of it: without what
// holds it there, and whose it is.
func published(_ string, obj runtime.Object) (bool, error) {
	accessor, err := meta.Accessor(obj)
	if err != nil || accessor.GetResourceVersion() == "" {
		return false, err
	}
	annotations, labels := maps.Clone(accessor.GetAnnotations()), maps.Clone(accessor.GetLabels())
	if !IsShown(accessor) {
		return false, nil
	}
	for _, key := range notShown {
		delete(annotations, key)
	}
	delete(labels, tenant.PublishedDefinitionLabel)
	accessor.SetAnnotations(annotations)
	accessor.SetLabels(objects.WithKey(labels, tenant.PublishedCopyLabel, tenant.PublishedCopy))
	accessor.SetFinalizers(nil)
	accessor.SetOwnerReferences(nil)
	return true, nil
}

// Shown changes a definition of the system space to what other spaces see of it, and reports whether
// they see it.
func Shown(obj runtime.Object) (bool, error) { return published("", obj) }

// draft is storage.Defaults.Draft: a definition without status is changed as freely as
// a new one, and nobody manages fields of it yet.
func draft(obj runtime.Object) error {
	definition, ok := obj.(*apiextensions.CustomResourceDefinition)
	if !ok {
		return fmt.Errorf("unexpected object %T", obj)
	}
	definition.Status = apiextensions.CustomResourceDefinitionStatus{}
	definition.ManagedFields = nil
	return nil
}

// own is storage.Defaults.Override.
func (s *Servers) own(ctx context.Context, obj runtime.Object) (bool, error) {
	definition, ok := obj.(*apiextensions.CustomResourceDefinition)
	if !ok {
		return false, fmt.Errorf("unexpected object %T", obj)
	}
	if !isOwn(definition) {
		return false, nil
	}
	definition.Labels = maps.Clone(definition.Labels)
	delete(definition.Labels, tenant.PublishedCopyLabel)
	return true, s.mayCreate(ctx, definition)
}

// isOwn reports whether somebody wants a definition for the space. What is shown has
// none of the declarations.
func isOwn(definition *apiextensions.CustomResourceDefinition) bool {
	return slices.ContainsFunc(declarations, func(key string) bool {
		value, ok := definition.Annotations[key]
		return ok && (key != tenant.OwnDefinitionAnnotation || value == "true")
	})
}

// mayDefine returns why a space cannot take the place of a shared definition by one of
// its own: it has objects that the new one could not read.
func (s *Servers) mayDefine(ctx context.Context, n tenant.Name, definition *apiextensions.CustomResourceDefinition) error {
	if !s.index.shares(definition.Name, true) {
		return nil
	}
	resource := schema.GroupResource{Group: definition.Spec.Group, Resource: definition.Spec.Names.Plural}
	if has, err := s.Ranges.Has(ctx, n, resource); err != nil || !has {
		return err
	}
	shared, err := s.definition(ctx, definition.Name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the published definition: %w", err)
	}
	refuse := func(format string, args ...any) error {
		return apierrors.NewForbidden(definitions.GroupResource(), definition.Name,
			fmt.Errorf("the space has %s of the published definition of this name, and this one %s; delete them first, or add it",
				resource, fmt.Sprintf(format, args...)))
	}
	if string(shared.Spec.Scope) != string(definition.Spec.Scope) {
		return refuse("has another scope than %s", shared.Spec.Scope)
	}
	for _, stored := range shared.Status.StoredVersions {
		if !slices.ContainsFunc(definition.Spec.Versions, func(v apiextensions.CustomResourceDefinitionVersion) bool { return v.Name == stored }) {
			return refuse("lacks the version %s in which they are stored", stored)
		}
	}
	return nil
}
