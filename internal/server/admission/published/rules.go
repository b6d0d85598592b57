package published

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tenantry/tenantry/internal/objects"
	"github.com/tenantry/tenantry/internal/tenant"
)

// Rules decide who may change copies in a space, and published objects in the system space.
type Rules struct {
	// Terminating reports whether a tenant is being deleted: then its copies are deleted like
	// all objects.
	Terminating func(tenant.Name) bool
	// Authorizer decides about publishVerb and forceVerb in the system space. If it is nil, nobody may
	// change published objects.
	Authorizer authorizer.UnconditionalAuthorizer
	// Shown reports whether every space shows an object of the system space that
	// has no annotation. It may be nil.
	Shown func(Original) bool
	// Published returns the published objects in a namespace of the system space. It may be
	// nil.
	Published func(ctx context.Context, namespace string) ([]Original, error)
	// Publishable are the resources that can be copied, as far as the server knows. An
	// annotation on an object of another resource causes a warning.
	Publishable []schema.GroupResource
}

// Of returns the function that decides about a change of an object of a resource in the space
// of n. It gets the new object, nil if it is deleted. before is the current object,
// nil if there is none. It is read at once, because it may be changed in place
// afterwards.
func (r Rules) Of(ctx context.Context, n tenant.Name, resource schema.GroupResource, before runtime.Object) func(after runtime.Object) error {
	if n == tenant.System {
		return r.ofOriginal(ctx, resource, before)
	}
	if !n.IsSpace() {
		return func(runtime.Object) error { return nil }
	}
	was := marksOf(before)
	var snapshot runtime.Object
	if was.copied() && resource == deployments && tenant.ByPlatform(ctx) {
		snapshot = before.DeepCopyObject()
	}
	return func(after runtime.Object) error {
		is := marksOf(after)
		if is.former {
			return apierrors.NewForbidden(resource, is.name, errFormer)
		}
		if was.none() && is.none() || tenant.ByPublisher(ctx) || r.Terminating(n) {
			return nil
		}
		if snapshot != nil && after != nil && was == is && apiequality.Semantic.DeepEqual(withoutAnnotations(snapshot), withoutAnnotations(after)) {
			return nil
		}
		if err := decide(ctx, was, is, after == nil); err != nil {
			return apierrors.NewForbidden(resource, cmp.Or(was.name, is.name), err)
		}
		return nil
	}
}

// deployments have their revision in an annotation, which a controller of the platform
// writes.
var deployments = schema.GroupResource{Group: "apps", Resource: "deployments"}

// withoutAnnotations returns a copy of an object without annotations, and without the
// metadata that changes with them.
func withoutAnnotations(obj runtime.Object) runtime.Object {
	return objects.Content(obj, func(accessor metav1.Object) { accessor.SetAnnotations(nil) })
}

var (
	errCopy = errors.New("it is the copy of an object that the platform publishes to every space, " +
		"and is changed and deleted with the original alone, the object of this name in the system space; " +
		"ask the platform's administrators, or use an object of another name")
	errNamespace = errors.New("the namespace holds copies of objects that the platform publishes to every space; " +
		"it can be deleted when these are no longer published")
	errMarks = fmt.Errorf("label %q and annotation %q are the platform's; leave them as they are, and out of a new object",
		tenant.PublishedCopyLabel, tenant.PublishedFromAnnotation)
	errKeystone = fmt.Errorf("label %q and annotations %q, %q and %q say what is made of OpenStack's Keystone, and are the platform's; leave them as they are, and out of a new object",
		tenant.KeystoneLabel, tenant.KeystoneIDAnnotation, tenant.KeystoneGoneAnnotation, tenant.KeystoneDisabledAnnotation)
	errUser = fmt.Errorf("label %q says what is made for a User, and is the platform's; leave it as it is, and out of a new object", tenant.UserLabel)
	// errFormer is for a publisher of the version before, too: without marks, its copies
	// would be the tenant's own.
	errFormer = fmt.Errorf("label %q and annotation %q have other names now, and are the platform's; leave them out",
		formerLabel, formerFrom)
)

var formerLabel, formerFrom = tenant.Former(tenant.PublishedCopyLabel), tenant.Former(tenant.PublishedFromAnnotation)

// decide decides about a change by anybody but the publisher. Controllers of the platform
// write the status of copies, such as the usage of a quota, and finish deletions
// that the publisher has begun.
func decide(ctx context.Context, was, is marks, deleted bool) error {
	switch {
	case was.copied() && was.terminating && tenant.ByPlatform(ctx):
		return nil
	case was.copied() && !deleted && was == is && tenant.ByPlatform(ctx) && toStatus(ctx):
		return nil
	case was.copied():
		return errCopy
	case was.keystone != is.keystone && !deleted:
		return errKeystone
	case was.user != is.user && !deleted:
		return errUser
	case was.none() && is.none():
		return nil
	case was.kind == "" && is.kind == "":
		// The annotation alone makes no copy. Objects that controllers make of a copy, such as
		// the ReplicaSets of a Deployment, have it.
		if was.from == is.from || deleted || tenant.ByPlatform(ctx) {
			return nil
		}
		return errMarks
	case deleted || is.terminating && !was.terminating:
		return errNamespace
	case was.kind != is.kind || was.from != is.from:
		return errMarks
	default:
		return nil
	}
}

func toStatus(ctx context.Context) bool {
	info, ok := request.RequestInfoFrom(ctx)
	return ok && info.Subresource == "status"
}

// marks are the marks of the publisher on an object, and its name and state.
type marks struct {
	// kind and from are the values of label and annotation with a prefix, so that they are
	// not empty if the values are.
	kind, from string
	// keystone are the values of the label and the annotations on what is made of Keystone, with prefixes. They
	// are compared one by one: a tenant chooses what would join them.
	keystone [4]string
	// user is the value of the label of what is made for a User, with a prefix.
	user        string
	terminating bool
	name        string
	// former is whether there are marks by their former names. No object that is read has any.
	former bool
}

func (m marks) none() bool {
	return m.kind == "" && m.from == "" && m.keystone == [4]string{} && m.user == "" && !m.former
}

// copied reports whether the object is a copy, and not a tenant's own namespace.
func (m marks) copied() bool { return m.kind != "" && m.kind != present+tenant.PublishedNamespace }

const present = "="

func marksOf(obj runtime.Object) (m marks) {
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return m // nothing, or the options of a subresource
	}
	labels, annotations := accessor.GetLabels(), accessor.GetAnnotations()
	if value, ok := labels[tenant.PublishedCopyLabel]; ok {
		m.kind = present + value
	}
	if value, ok := annotations[tenant.PublishedFromAnnotation]; ok {
		m.from = present + value
	}
	if value, ok := labels[tenant.KeystoneLabel]; ok {
		m.keystone[0] = present + value
	}
	for i, key := range []string{tenant.KeystoneIDAnnotation, tenant.KeystoneGoneAnnotation, tenant.KeystoneDisabledAnnotation} {
		if value, ok := annotations[key]; ok {
			m.keystone[i+1] = present + value
		}
	}
	if value, ok := labels[tenant.UserLabel]; ok {
		m.user = present + value
	}
	_, label := labels[formerLabel]
	_, from := annotations[formerFrom]
	m.former = label || from
	if m.none() {
		return m
	}
	m.name, m.terminating = accessor.GetName(), accessor.GetDeletionTimestamp() != nil
	return m
}
