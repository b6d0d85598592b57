package keystone

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/controller/conditions"
)

// maxReported bounds the lists in the status.
const maxReported = 100

// report writes what a run came to into the status, and tells what is new by events.
func (r *Reconciler) report(ctx context.Context, s *v1alpha1.KeystoneSync, found *outcome, begin time.Time) error {
	observe(s.Name, found, begin)
	before := s.DeepCopy()
	status := &s.Status
	status.ObservedGeneration = s.Generation
	set := func(kind string, is bool, reason, message string) {
		value := metav1.ConditionFalse
		if is {
			value = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{
			Type: kind, Status: value, Reason: reason, Message: conditions.Message(message), ObservedGeneration: s.Generation,
		})
	}
	set(v1alpha1.ConditionReady, found.reason == v1alpha1.ReasonSynced || found.reason == v1alpha1.ReasonPreviewed, found.reason, found.message)
	switch {
	case found.reason == v1alpha1.ReasonIncomplete:
		set(v1alpha1.ConditionIncomplete, true, v1alpha1.ReasonIncomplete, found.message)
	case found.complete:
		set(v1alpha1.ConditionIncomplete, false, v1alpha1.ReasonComplete, "all of Keystone's lists were read")
	}
	if found.complete && found.reason != v1alpha1.ReasonOverlaps {
		if status.Removed = found.removed; found.removed != nil {
			set(v1alpha1.ConditionGuardTripped, true, v1alpha1.ReasonTooMuchGone, found.removedMessage())
		} else {
			set(v1alpha1.ConditionGuardTripped, false, v1alpha1.ReasonWithinLimit, "what has gone from Keystone's lists, or is disabled, is within spec.guard, or acknowledged")
		}
		status.Domains, status.Projects, status.Bindings = int32(found.domains), int32(found.projects), int32(found.bindings)
		status.Changes = int32(found.changes)
		status.Planned, status.Conflicts = first(found.planned), first(found.conflicts)
		if found.unmapped != nil {
			status.UnmappedRoles = first(found.unmapped)
		}
		switch {
		case len(found.unknownDomains) > 0:
			set(v1alpha1.ConditionDomainsMissing, true, v1alpha1.ReasonNotFound, "Keystone has no domain "+conditions.Enumerate(found.unknownDomains)+
				": nothing is made for them; take from spec.domains what is deleted or misspelt (openstack domain list)")
		case found.unknownDomains != nil:
			set(v1alpha1.ConditionDomainsMissing, false, v1alpha1.ReasonFound, "Keystone has the domains that spec.domains names")
		}
		switch {
		case len(found.missing) > 0:
			set(v1alpha1.ConditionClusterRolesMissing, true, v1alpha1.ReasonNotFound, found.missingMessage())
		case found.missing != nil:
			set(v1alpha1.ConditionClusterRolesMissing, false, v1alpha1.ReasonFound, fmt.Sprintf("tenant %q has the ClusterRoles of spec.roleMappings", found.lacking))
		}
	}
	if found.complete && found.err == nil && found.reason != v1alpha1.ReasonOverlaps {
		status.LastSyncTime, status.LastDuration = &metav1.Time{Time: begin}, &metav1.Duration{Duration: found.duration.Round(time.Millisecond)}
	}
	if err := r.Client.Status().Patch(ctx, s, client.MergeFrom(before), client.FieldOwner(FieldManager)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("updating the status of KeystoneSync %q: %w", s.Name, err)
	}
	r.tell(before, s)
	return nil
}

func first[T any](all []T) []T { return all[:min(len(all), maxReported)] }

func (o *outcome) removedMessage() string {
	return fmt.Sprintf("%s; what was made of them is kept as it is until spec.guard.acknowledged is %q", describe(o.removed), o.removed.Token)
}

func (o *outcome) missingMessage() string {
	return fmt.Sprintf("tenant %q, and perhaps others, has no ClusterRoles %s: bindings of them give nothing until somebody makes them, or publishes them to all tenants",
		o.lacking, conditions.Enumerate(o.missing))
}

// tell records what has changed in the conditions, and which roles are newly found to have
// no mapping.
func (r *Reconciler) tell(before, after *v1alpha1.KeystoneSync) {
	was, is := meta.FindStatusCondition(before.Status.Conditions, v1alpha1.ConditionReady), meta.FindStatusCondition(after.Status.Conditions, v1alpha1.ConditionReady)
	if was == nil || was.Reason != is.Reason {
		kind := corev1.EventTypeNormal
		if is.Status != metav1.ConditionTrue {
			kind = corev1.EventTypeWarning
		}
		r.Events.Eventf(after, nil, kind, is.Reason, "Synchronize", "%s", is.Message)
	}
	for _, kind := range []string{v1alpha1.ConditionDomainsMissing, v1alpha1.ConditionClusterRolesMissing} {
		c := meta.FindStatusCondition(after.Status.Conditions, kind)
		if c == nil || c.Status != metav1.ConditionTrue {
			continue
		}
		if b := meta.FindStatusCondition(before.Status.Conditions, kind); b == nil || b.Message != c.Message {
			r.Events.Eventf(after, nil, corev1.EventTypeWarning, kind, "Synchronize", "%s", c.Message)
		}
	}
	var names []string
	for _, role := range after.Status.UnmappedRoles {
		if !slices.ContainsFunc(before.Status.UnmappedRoles, func(b v1alpha1.KeystoneUnmappedRole) bool { return b.ID == role.ID }) {
			names = append(names, fmt.Sprintf("%q (%s)", role.Name, role.ID))
		}
	}
	if len(names) > 0 {
		r.Events.Eventf(after, nil, corev1.EventTypeWarning, "UnmappedRoles", "Synchronize",
			"assigned, and without a mapping, so that they give no rights: %s", conditions.Enumerate(names))
	}
}
