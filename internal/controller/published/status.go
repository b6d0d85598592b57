package published

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/controller/conditions"
)

// reportName returns the name of the PublishedObject about o.
func reportName(o Object) string {
	if o.Namespace == "" {
		return o.Resource.Resource + "." + o.Name
	}
	return o.Resource.Resource + "." + o.Namespace + "." + o.Name
}

// objectOf returns what a report is about.
func objectOf(about *v1alpha1.PublishedObject) Object {
	o := Object{Namespace: about.Object.Namespace, Name: about.Object.Name}
	o.Resource.Group, o.Resource.Resource = about.Object.Group, about.Object.Resource
	return o
}

// condition says in one sentence how far an object is copied.
func (r *report) condition() metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionPublished, Status: metav1.ConditionFalse, Message: r.String()}
	switch {
	case len(r.failed) > 0:
		c.Reason = v1alpha1.ReasonNotCopied
	case len(r.keptIn) > 0:
		c.Reason = v1alpha1.ReasonKept
	case r.counts[current] < r.spaces:
		c.Reason = v1alpha1.ReasonCopying
	default:
		c.Status, c.Reason = metav1.ConditionTrue, v1alpha1.ReasonPublished
	}
	return c
}

func (r *report) status() v1alpha1.PublishedObjectStatus {
	return v1alpha1.PublishedObjectStatus{
		Spaces: int32(r.spaces), Copies: int32(r.counts[current]), Kept: int32(len(r.keptIn)), Failed: int32(len(r.failed)),
	}
}

// createReport creates the report of an object that has none yet, before its copies
// are written.
func (r *Reconciler) createReport(ctx context.Context, desired *desiredCopy, spaces int) error {
	if desired.implied {
		return nil
	}
	err := r.Client.Get(ctx, client.ObjectKey{Name: reportName(desired.object)}, &v1alpha1.PublishedObject{})
	if err == nil {
		return nil
	}
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("reading the report about %s: %w", desired.object, err)
	}
	begun := newReport(spaces)
	_, err = r.writeReport(ctx, desired.object, begun.status(), begun.condition())
	return err
}

// reportFound writes what was found to the report and, if it is news, an event. After a
// restart, what the report says already and took no request is no news.
func (r *Reconciler) reportFound(ctx context.Context, desired *desiredCopy, found *report) error {
	if desired.implied {
		return nil
	}
	condition := found.condition()
	reported, err := r.writeReport(ctx, desired.object, found.status(), condition)
	if err != nil {
		return err
	}
	about := desired.from.Value() + condition.Reason + found.problems()
	r.mu.Lock()
	recorded, ok := r.recorded[desired.object]
	r.recorded[desired.object] = about
	r.mu.Unlock()
	if recorded == about || condition.Reason == v1alpha1.ReasonCopying || !ok && !reported && !found.worked {
		return nil
	}
	kind := corev1.EventTypeWarning
	if condition.Status == metav1.ConditionTrue {
		kind = corev1.EventTypeNormal
	}
	r.Events.Eventf(desired.published, nil, kind, condition.Reason, "Publish", "%s", condition.Message)
	return nil
}

// requeueAfter returns when to look again at an object that waits for something: the longer
// it has waited, the later.
func (r *Reconciler) requeueAfter(ctx context.Context, o Object) time.Duration {
	known := &v1alpha1.PublishedObject{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: reportName(o)}, known); err != nil {
		return soon
	}
	return backoff(conditions.Waited(known.Status.Conditions, v1alpha1.ConditionPublished))
}

// backoff returns when to look again at what has waited for some time.
func backoff(waited time.Duration) time.Duration { return min(max(soon, waited/4), seldom) }

// writeReport updates the report of an object if it says something new, and returns
// whether it does.
func (r *Reconciler) writeReport(ctx context.Context, o Object, status v1alpha1.PublishedObjectStatus, condition metav1.Condition) (bool, error) {
	condition.Message = conditions.Message(condition.Message)
	known := &v1alpha1.PublishedObject{}
	err := r.Client.Get(ctx, client.ObjectKey{Name: reportName(o)}, known)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading the report about %s: %w", o, err)
	}
	status.Conditions = slices.Clone(known.Status.Conditions)
	meta.SetStatusCondition(&status.Conditions, condition)
	desired := &v1alpha1.PublishedObject{
		ObjectMeta: metav1.ObjectMeta{Name: reportName(o)},
		Object:     v1alpha1.PublishedReference{Group: o.Resource.Group, Resource: o.Resource.Resource, Namespace: o.Namespace, Name: o.Name},
	}
	if err != nil {
		err = r.Client.Create(ctx, desired, client.FieldOwner(fieldManager))
		if client.IgnoreAlreadyExists(err) != nil { // the cache may not have seen it yet
			return true, fmt.Errorf("creating the report about %s: %w", o, err)
		}
	} else if apiequality.Semantic.DeepEqual(known.Status, status) {
		return false, nil
	}
	desired.Status = status
	if err := r.Client.Status().Update(ctx, desired, client.FieldOwner(fieldManager)); err != nil {
		return true, fmt.Errorf("updating the report about %s: %w", o, err)
	}
	return true, nil
}

// forget removes the report about what is published no longer.
func (r *Reconciler) forget(ctx context.Context, o Object) error {
	r.mu.Lock()
	delete(r.recorded, o)
	r.mu.Unlock()
	known := &v1alpha1.PublishedObject{}
	err := r.Client.Get(ctx, client.ObjectKey{Name: reportName(o)}, known)
	if err == nil {
		err = r.Client.Delete(ctx, known)
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the report about %s: %w", o, err)
	}
	return nil
}
