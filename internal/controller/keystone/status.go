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
	conditions.Set(&status.Conditions, s.Generation, found.conditions()...)
	if found.counts() {
		status.Removed = found.removed
		status.Domains, status.Projects, status.Bindings = int32(found.domains), int32(found.projects), int32(found.bindings)
		status.Changes = int32(found.changes)
		status.Planned, status.Conflicts = first(found.planned), first(found.conflicts)
		if found.unmapped != nil {
			status.UnmappedRoles = first(found.unmapped)
		}
	}
	if found.counts() && found.err == nil {
		status.LastSyncTime, status.LastDuration = &metav1.Time{Time: begin}, &metav1.Duration{Duration: found.duration.Round(time.Millisecond)}
	}
	if err := r.Client.Status().Patch(ctx, s, client.MergeFrom(before), client.FieldOwner(fieldManager)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("updating the status of KeystoneSync %q: %w", s.Name, err)
	}
	r.tell(before, s)
	return nil
}

// counts reports whether a run has read all of Keystone's lists, and has looked at them.
func (o *outcome) counts() bool { return o.complete && o.reason != v1alpha1.ReasonOverlaps }

// conditions returns what a run says. What it says nothing of stays as it is.
func (o *outcome) conditions() []metav1.Condition {
	ready := o.reason == v1alpha1.ReasonSynced || o.reason == v1alpha1.ReasonPreviewed
	all := []metav1.Condition{conditions.New(v1alpha1.ConditionReady, ready, o.reason, o.message)}
	add := func(kind string, is bool, reason, message string) {
		all = append(all, conditions.New(kind, is, reason, message))
	}
	switch {
	case o.reason == v1alpha1.ReasonIncomplete:
		add(v1alpha1.ConditionIncomplete, true, v1alpha1.ReasonIncomplete, o.message)
	case o.complete:
		add(v1alpha1.ConditionIncomplete, false, v1alpha1.ReasonComplete, "all of Keystone's lists were read")
	}
	if !o.counts() {
		return all
	}
	if o.removed != nil {
		add(v1alpha1.ConditionGuardTripped, true, v1alpha1.ReasonTooMuchGone, o.removedMessage())
	} else {
		add(v1alpha1.ConditionGuardTripped, false, v1alpha1.ReasonWithinLimit, "what has gone from Keystone's lists, or is disabled, is within spec.guard, or acknowledged")
	}
	switch {
	case len(o.unknownDomains) > 0:
		add(v1alpha1.ConditionDomainsMissing, true, v1alpha1.ReasonNotFound, "Keystone has no domain "+conditions.Enumerate(o.unknownDomains)+
			": nothing is made for them; take from spec.domains what is deleted or misspelt (openstack domain list)")
	case o.unknownDomains != nil:
		add(v1alpha1.ConditionDomainsMissing, false, v1alpha1.ReasonFound, "Keystone has the domains that spec.domains names")
	}
	switch {
	case len(o.missing) > 0:
		add(v1alpha1.ConditionClusterRolesMissing, true, v1alpha1.ReasonNotFound, o.missingMessage())
	case o.missing != nil:
		add(v1alpha1.ConditionClusterRolesMissing, false, v1alpha1.ReasonFound, fmt.Sprintf("tenant %q has the ClusterRoles of spec.roleMappings", o.lacking))
	}
	return all
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
