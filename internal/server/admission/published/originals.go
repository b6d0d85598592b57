package published

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/kubernetes/pkg/apis/rbac"

	configv1alpha1 "github.com/tenantry/tenantry/api/config/v1alpha1"
	"github.com/tenantry/tenantry/internal/objects"
	"github.com/tenantry/tenantry/internal/tenant"
)

// The verbs that are needed to change the objects of every space. They are checked on the
// resource at the cluster scope, with the object's name, so that rights in one namespace of
// the system space do not include them.
const (
	// publishVerb is needed to publish an object, to change or delete a published one, and to
	// stop publishing it.
	publishVerb = "publish"
	// forceVerb is needed beside publishVerb while the annotation is tenant.PublishedForce,
	// which replaces tenants' own objects, and for a change to or from that.
	forceVerb = "force-publish"
)

// Original names an object of the system space.
type Original = objects.Ref

var namespaces = schema.GroupResource{Resource: "namespaces"}

// original is what the rules need of an object of the system space.
type original struct {
	Original
	// annotation is the value of the annotation with a prefix, so that it is not empty if the
	// annotation has an empty value. value is the same for objects that can be published, and
	// empty for others.
	annotation, value string
	// shown is true for objects that spaces see without an annotation: default objects,
	// and definitions that have been published, of which spaces may have objects.
	shown bool
	// statusIsShown is true if spaces see the status, too.
	statusIsShown bool
	terminating   bool
	// owners and aggregates are only set if everywhere returns true.
	owners     []metav1.OwnerReference
	aggregates bool
}

// everywhere reports whether a change of the object changes every space. An invalid
// value from before counts as published, because older servers publish it.
func (o original) everywhere() bool {
	return o.shown || o.value != "" && o.value != present+tenant.PublishedFalse
}

func (o original) forced() bool { return o.value == present+tenant.PublishedForce }

func (r Rules) originalOf(resource schema.GroupResource, obj runtime.Object) (o original) {
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return o // nothing, or the options of a subresource
	}
	o.Original = Original{Resource: resource, Namespace: accessor.GetNamespace(), Name: accessor.GetName()}
	o.terminating = accessor.GetDeletionTimestamp() != nil
	if value, ok := accessor.GetAnnotations()[tenant.PublishedAnnotation]; ok {
		o.annotation = present + value
		if _, never := configv1alpha1.NeverPublishable(resource); !never {
			o.value = o.annotation
		}
	}
	if resource == definitions {
		_, o.shown = accessor.GetLabels()[tenant.PublishedDefinitionLabel]
	} else if r.Shown != nil {
		o.shown = r.Shown(o.Original)
	}
	o.statusIsShown = o.shown || resource == definitions
	if o.everywhere() {
		o.owners = accessor.GetOwnerReferences()
		if role, ok := obj.(*rbac.ClusterRole); ok {
			o.aggregates = role.AggregationRule != nil
		}
	}
	return o
}

// ofOriginal is Of for the system space. Only changes of objects with the annotation are
// examined, and authorized.
func (r Rules) ofOriginal(ctx context.Context, resource schema.GroupResource, before runtime.Object) func(after runtime.Object) error {
	was := r.originalOf(resource, before)
	var snapshot runtime.Object
	if was.everywhere() {
		snapshot = before.DeepCopyObject()
	}
	return func(after runtime.Object) error {
		is := r.originalOf(resource, after)
		gone := after == nil
		if resource == namespaces && !was.terminating && (gone || is.terminating) {
			if err := r.mayEmpty(ctx, was.Name); err != nil {
				return err
			}
		}
		switch {
		case !was.everywhere() && !is.everywhere() && (gone || was.value == is.value):
			if gone || was.annotation == is.annotation || isController(ctx) { // controllers copy annotations to objects that they create
				return nil
			}
			return validate(was, is)
		case gone && was.terminating && !was.statusIsShown: // the deletion was authorized when it began
			return nil
		case !gone && snapshot != nil && isBookkeeping(was, snapshot, after):
			return nil
		}
		object := was.Original
		if object.Name == "" {
			object = is.Original
		}
		if err := r.mayChange(ctx, object, was, is, gone); err != nil {
			return apierrors.NewForbidden(resource, object.Name, err)
		}
		if gone {
			return nil
		}
		return validate(was, is)
	}
}

// mayChange returns an error if the user of ctx must not change an object from was to
// is, or delete it.
func (r Rules) mayChange(ctx context.Context, object Original, was, is original, gone bool) error {
	if err := byController(ctx, was, is, gone); err != nil {
		return err
	}
	why := "it is published to every space"
	switch {
	case !gone && was.value != is.value:
		why = fmt.Sprintf("annotation %s decides what every space has", tenant.PublishedAnnotation)
	case was.value == "":
		why = "every space has it"
	}
	if err := r.may(ctx, publishVerb, object, why); err != nil {
		return err
	}
	if was.forced() || is.forced() {
		why = fmt.Sprintf("annotation %s=%s replaces what tenants have of that name", tenant.PublishedAnnotation, tenant.PublishedForce)
		return r.may(ctx, forceVerb, object, why)
	}
	return nil
}

var (
	errTemplate = fmt.Errorf("annotation %s comes from a template, and nothing is published by a template; leave it out there",
		tenant.PublishedAnnotation)
	errScaled = errors.New("it is published to every space, and a HorizontalPodAutoscaler of the system space would scale it in all of them; " +
		"delete that, or publish it too, for spaces to scale their own")
)

// byController refuses changes by the platform's controllers, who have every right: they
// act for the author of some other object, who may have no right to publish.
func byController(ctx context.Context, was, is original, gone bool) error {
	if gone || !isController(ctx) {
		return nil
	}
	if was.value != is.value {
		return errTemplate
	}
	if info, ok := request.RequestInfoFrom(ctx); ok && info.Subresource == "scale" {
		return errScaled
	}
	return nil
}

// isController reports whether the user is one of the platform's controllers.
func isController(ctx context.Context) bool {
	u, ok := request.UserFrom(ctx)
	return ok && u.GetName() == user.APIServerUser
}

// mayEmpty returns an error if the user of ctx must not delete a namespace, which would
// remove the published objects in it from every space.
func (r Rules) mayEmpty(ctx context.Context, namespace string) error {
	if r.Published == nil {
		return nil
	}
	objects, err := r.Published(ctx, namespace)
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("looking for what is published in namespace %q: %w", namespace, err))
	}
	for _, object := range objects {
		if err := r.may(ctx, publishVerb, object, fmt.Sprintf("its deletion takes %s from every space", object)); err != nil {
			return apierrors.NewForbidden(namespaces, namespace, err)
		}
	}
	return nil
}

// may returns an error if the user of ctx does not have a verb on an object. why is why the
// verb is needed.
func (r Rules) may(ctx context.Context, verb string, object Original, why string) error {
	u, ok := request.UserFrom(ctx)
	if !ok || r.Authorizer == nil {
		return fmt.Errorf("%s, and it is not known who asks for the change", why)
	}
	decision, _, err := r.Authorizer.Authorize(ctx, authorizer.AttributesRecord{
		User: u, Verb: verb, APIGroup: object.Resource.Group, APIVersion: "*", Resource: object.Resource.Resource,
		Name: object.Name, ResourceRequest: true,
	})
	if decision == authorizer.DecisionAllow {
		return nil
	}
	refusal := fmt.Errorf("%s: user %q needs the verb %q on resource %q in API group %q at the cluster scope; "+
		"ask the platform's administrators for a ClusterRole with it and a ClusterRoleBinding (a RoleBinding does not do)",
		why, u.GetName(), verb, object.Resource.Resource, object.Resource.Group)
	if err != nil {
		return fmt.Errorf("%w: %w", refusal, err)
	}
	return refusal
}

// values are the valid values of the annotation.
var values = []string{present + tenant.PublishedTrue, present + tenant.PublishedForce, present + tenant.PublishedFalse}

// validate returns what is wrong with a published object. What was wrong before may stay.
func validate(was, is original) error {
	annotation := field.NewPath("metadata", "annotations").Key(tenant.PublishedAnnotation)
	var errs field.ErrorList
	if is.annotation != was.annotation && is.annotation != "" && !slices.Contains(values, is.annotation) {
		errs = append(errs, field.Invalid(annotation, is.annotation[len(present):], fmt.Sprintf(
			"must be %q to publish the object, %q to replace what tenants have of that name as well, or %q; without the annotation it is not published",
			tenant.PublishedTrue, tenant.PublishedForce, tenant.PublishedFalse)))
	}
	if is.everywhere() {
		for i, owner := range is.owners {
			if is.Namespace != "" && !slices.ContainsFunc(was.owners, func(o metav1.OwnerReference) bool { return o.UID == owner.UID }) {
				errs = append(errs, field.Forbidden(field.NewPath("metadata", "ownerReferences").Index(i),
					"what is published in a namespace has no owner, because whoever deletes the owner would remove it from every space; leave the owner or the annotation out"))
			}
		}
		if is.aggregates && !was.aggregates {
			errs = append(errs, field.Forbidden(field.NewPath("aggregationRule"),
				"a ClusterRole that aggregates others is not published, because whoever writes one of those would give rights in every space; list its rules"))
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: is.Resource.Group, Kind: is.Resource.Resource}, is.Name, errs)
}

// isBookkeeping reports whether a change of an object concerns its own space only: the
// status, managed fields and, while it is being deleted, the finalizers.
func isBookkeeping(was original, before, after runtime.Object) bool {
	drop := func(accessor metav1.Object) {
		accessor.SetSelfLink("") // clients see it, and patches of theirs have it
		if was.terminating && !was.statusIsShown {
			accessor.SetFinalizers(nil)
		}
	}
	return apiequality.Semantic.DeepEqual(content(before, was.statusIsShown, drop), content(after, was.statusIsShown, drop))
}

// content returns a copy of an object without the fields that every write changes, what drop takes from it and, unless
// withStatus, without its status.
func content(obj runtime.Object, withStatus bool, drop func(metav1.Object)) runtime.Object {
	obj = objects.Content(obj, drop)
	u, isUnstructured := obj.(*unstructured.Unstructured)
	if !isUnstructured {
		obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{}) // decoders differ in setting it
	}
	switch {
	case withStatus:
		return obj
	case isUnstructured:
		delete(u.Object, "status")
		return obj
	}
	if status := reflect.ValueOf(obj).Elem().FieldByName("Status"); status.IsValid() {
		status.SetZero()
	}
	return obj
}
