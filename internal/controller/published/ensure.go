package published

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tenantry/tenantry/internal/tenant"
)

// outcome is what a copy in one space came to, if it did not fail.
type outcome int

const (
	// current: the copy is as it is to be.
	current outcome = iota
	// pending: something has to go, or to come, first.
	pending
	// kept: the tenant has an object of its own there.
	kept
)

// known returns the outcome if it is known without a request.
func (r *Reconciler) known(n tenant.Name, desired *desiredCopy) (outcome, bool) {
	if desired.object.Resource == definitions { // the server shows them in every space
		if r.conflicts.at(desired.object, n) {
			return kept, true
		}
		return current, true
	}
	have, ok := r.copies.get(desired.object, n)
	switch {
	case ok && have.terminating:
		return pending, true
	case ok && !have.held && have.from == desired.from:
		return current, true
	case ok && have.held && desired.implied:
		return current, true
	case ok && have.held && !desired.force:
		return kept, true
	case !ok && !desired.force && !desired.implied && r.conflicts.at(desired.object, n):
		return kept, true
	default:
		return 0, false
	}
}

// ensure makes the desired copy in the space of n.
func (r *Reconciler) ensure(ctx context.Context, n tenant.Name, desired *desiredCopy) (outcome, error) {
	if result, ok := r.known(n, desired); ok {
		return result, nil
	}
	if desired.object.Namespace != "" {
		if result, err := r.ensureNamespace(ctx, n, desired.object.Namespace); err != nil || result != current {
			return result, err
		}
	}
	if have, ok := r.copies.get(desired.object, n); ok {
		return r.replace(ctx, n, desired, have.version)
	}
	return r.create(ctx, n, desired)
}

// ensureNamespace sees to it that the space has a namespace that stays as long as
// there are copies in it: a copy, or one of its own.
func (r *Reconciler) ensureNamespace(ctx context.Context, n tenant.Name, name string) (outcome, error) {
	object := namespaceObject(name)
	if have, ok := r.copies.get(object, n); ok {
		if have.terminating {
			return pending, nil
		}
		return current, nil
	}
	if slices.Contains(tenant.Namespaces, name) {
		return r.hold(ctx, n, object)
	}
	desired, err := r.desired(ctx, object)
	if err != nil || desired == nil {
		return pending, err
	}
	asImplied := *desired
	asImplied.implied, asImplied.force = true, false
	return r.create(ctx, n, &asImplied)
}

func (r *Reconciler) create(ctx context.Context, n tenant.Name, desired *desiredCopy) (outcome, error) {
	created, err := r.clients.create(ctx, n, desired)
	switch {
	case err == nil:
		r.observe(n, desired.object, created)
		return current, nil
	case apierrors.IsAlreadyExists(err):
		return r.reconcileExisting(ctx, n, desired)
	case apierrors.IsNotFound(err), apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return pending, nil // of the namespace or the space itself
	default:
		return 0, fmt.Errorf("creating %s: %w", desired.object, err)
	}
}

// reconcileExisting decides about what is there already.
func (r *Reconciler) reconcileExisting(ctx context.Context, n tenant.Name, desired *desiredCopy) (outcome, error) {
	existing, err := r.clients.get(ctx, n, desired.resource, desired.object)
	if apierrors.IsNotFound(err) {
		return pending, nil
	}
	if err != nil {
		return 0, fmt.Errorf("reading %s: %w", desired.object, err)
	}
	seen, marked := copyOf(existing)
	if marked {
		r.observe(n, desired.object, existing)
		if result, ok := r.known(n, desired); ok {
			return result, nil
		}
		return r.replace(ctx, n, desired, seen.version)
	}
	switch {
	case desired.implied:
		return r.hold(ctx, n, desired.object)
	case desired.force && seen.terminating:
		return pending, nil
	case desired.force:
		return r.replace(ctx, n, desired, seen.version)
	default:
		return kept, nil
	}
}

// hold marks a tenant's own namespace, so that it stays.
func (r *Reconciler) hold(ctx context.Context, n tenant.Name, object Object) (outcome, error) {
	held, err := r.clients.mark(ctx, n, r.resources[namespaces], object.Name, tenant.PublishedNamespace)
	switch {
	case apierrors.IsNotFound(err):
		return pending, nil
	case err != nil:
		return 0, fmt.Errorf("marking %s: %w", object, err)
	case held.DeletionTimestamp != nil:
		return pending, nil
	}
	r.observe(n, object, held)
	return current, nil
}

// replace replaces a version of what is there.
func (r *Reconciler) replace(ctx context.Context, n tenant.Name, desired *desiredCopy, version uint64) (outcome, error) {
	updated, err := r.clients.update(ctx, n, desired, version)
	switch {
	case err == nil:
		r.observe(n, desired.object, updated)
		return current, nil
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return pending, r.reread(ctx, n, desired.object)
	case apierrors.IsInvalid(err) && desired.object.Resource != namespaces:
		// Something that cannot be changed has changed, or the new state is not valid at all. Of a
		// Service, the old copy may have the addresses and ports of the new one.
		if err := r.clients.validate(ctx, n, desired); err != nil && !isAllocated(err) {
			return 0, fmt.Errorf("updating %s: %w", desired.object, err)
		}
		if err := r.clients.delete(ctx, n, desired.resource, desired.object, version); err != nil && !apierrors.IsNotFound(err) {
			return pending, fmt.Errorf("replacing %s: %w", desired.object, err)
		}
		r.copies.drop(desired.object, n, forever)
		return r.create(ctx, n, desired)
	default:
		return 0, fmt.Errorf("updating %s: %w", desired.object, err)
	}
}

// isAllocated reports whether nothing is wrong but addresses and ports that are taken. Of the port of
// health checks that is an error of the server.
func isAllocated(err error) bool {
	var status *apierrors.StatusError
	if apierrors.IsInternalError(err) {
		return strings.HasSuffix(err.Error(), "already allocated")
	}
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.ErrStatus.Details == nil || len(status.ErrStatus.Details.Causes) == 0 {
		return false
	}
	return !slices.ContainsFunc(status.ErrStatus.Details.Causes, func(cause metav1.StatusCause) bool {
		return !strings.Contains(cause.Message, "already allocated")
	})
}

// remove removes a copy from a space. contents are the resources of which there may be
// objects in it, if it is a namespace.
func (r *Reconciler) remove(ctx context.Context, n tenant.Name, o Object, contents []schema.GroupVersionResource) (outcome, error) {
	have, ok := r.copies.get(o, n)
	switch {
	case !ok:
		return current, nil
	case have.terminating:
		return pending, nil
	case o.Resource == namespaces:
		return r.release(ctx, n, o, have, contents)
	default:
		return r.delete(ctx, n, o, have)
	}
}

func (r *Reconciler) delete(ctx context.Context, n tenant.Name, o Object, have observedCopy) (outcome, error) {
	err := r.clients.delete(ctx, n, r.resources[o.Resource], o, have.version)
	switch {
	case err == nil && o.Resource == namespaces:
		return pending, nil // it takes its time
	case err == nil, apierrors.IsNotFound(err):
		r.copies.drop(o, n, forever)
		return current, nil
	case apierrors.IsConflict(err):
		return pending, r.reread(ctx, n, o)
	default:
		return 0, fmt.Errorf("deleting %s: %w", o, err)
	}
}

// reread reads what has turned out to be different from what was known.
func (r *Reconciler) reread(ctx context.Context, n tenant.Name, o Object) error {
	existing, err := r.clients.get(ctx, n, r.resources[o.Resource], o)
	if apierrors.IsNotFound(err) {
		r.copies.drop(o, n, forever)
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", o, err)
	}
	r.observe(n, o, existing)
	return nil
}

// observe remembers what the watch of all copies will tell later.
func (r *Reconciler) observe(n tenant.Name, o Object, is *metav1.PartialObjectMetadata) {
	if seen, marked := copyOf(is); marked {
		r.copies.put(o, n, seen)
	} else {
		r.copies.drop(o, n, forever)
	}
}

// isPermanent reports whether an error comes from the published object itself,
// so that it is of no use to try again soon.
func isPermanent(err error) bool {
	var status *apierrors.StatusError
	switch {
	case apierrors.IsForbidden(err) && errors.As(err, &status) && status.ErrStatus.Details != nil:
		// Unless it is the manager that may not be the publisher.
		return status.ErrStatus.Details.Kind != "users" && status.ErrStatus.Details.Kind != "groups"
	default:
		return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) ||
			apierrors.IsRequestEntityTooLargeError(err) || apierrors.IsMethodNotSupported(err)
	}
}

func ignorePermanent(err error) error {
	if err == nil || isPermanent(err) || isNotPublishable(err) {
		return nil
	}
	return err
}
