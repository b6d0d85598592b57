package tenant

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
)

// UpdateUsage changes what the status of a Tenant says of its use, in one step: if
// the Tenant changes meanwhile, change is called again. The server does so, nobody's
// request.
func (l *Lookup) UpdateUsage(ctx context.Context, n tenant.Name, change func(*v1alpha1.TenantUsage)) error {
	own := request.WithNamespace(tenant.WithSpace(request.WithUser(ctx, nil), tenant.System), "")
	_, _, err := l.usage.Update(own, string(n), usageChange(change), rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc,
		false, &metav1.UpdateOptions{})
	return err
}

// usageChange returns a change as the storage takes it. What has not changed is not written.
func usageChange(change func(*v1alpha1.TenantUsage)) rest.UpdatedObjectInfo {
	return rest.DefaultUpdatedObjectInfo(nil, func(_ context.Context, _, stored runtime.Object) (runtime.Object, error) {
		t := stored.DeepCopyObject().(*v1alpha1.Tenant)
		var before v1alpha1.TenantUsage
		if t.Status.Usage != nil {
			before = *t.Status.Usage
		}
		after := before
		if change(&after); t.Status.Usage == nil || after != before {
			after.ObservedTime = metav1.Now().Rfc3339Copy()
			t.Status.Usage = &after
			ownUsage(t)
		}
		return t, nil
	})
}

// usageManager owns the usage.
const usageManager = "tenantry-server"

// ownUsage says so in the managed fields. Upstream keeps these for requests, and this is none.
func ownUsage(t *v1alpha1.Tenant) {
	if slices.ContainsFunc(t.ManagedFields, func(e metav1.ManagedFieldsEntry) bool { return e.Manager == usageManager }) {
		return
	}
	t.ManagedFields = append(t.ManagedFields, metav1.ManagedFieldsEntry{
		Manager: usageManager, Operation: metav1.ManagedFieldsOperationUpdate, Subresource: "status",
		APIVersion: v1alpha1.GroupVersion.String(), Time: t.Status.Usage.ObservedTime.DeepCopy(), FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:usage":{".":{},"f:objects":{},"f:observedTime":{},"f:requests":{},"f:storedBytes":{}}}}`),
	})
}

// Usage returns what the status of a tenant says of its use, nil if nothing yet, and
// whether there is the tenant. Until the tenants are known, everybody may be one.
func (l *Lookup) Usage(n tenant.Name) (usage *v1alpha1.TenantUsage, exists bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	state, exists := l.states[n]
	return state.Usage, exists || !l.listed
}

// EachUsage calls visit with every tenant whose status says something of its use.
func (l *Lookup) EachUsage(visit func(n tenant.Name, usage *v1alpha1.TenantUsage)) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for n, state := range l.states {
		if state.Usage != nil {
			visit(n, state.Usage)
		}
	}
}

// Names returns the tenants, and whether they are known yet.
func (l *Lookup) Names() ([]tenant.Name, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	names := make([]tenant.Name, 0, len(l.states))
	for n := range l.states {
		if n.IsSpace() {
			names = append(names, n)
		}
	}
	return names, l.listed
}
