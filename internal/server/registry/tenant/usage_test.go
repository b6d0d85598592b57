package tenant

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
)

func TestUsageChange(t *testing.T) {
	earlier := metav1.NewTime(time.Unix(1000, 0))
	known := func(t *v1alpha1.Tenant) {
		t.Status.Usage = &v1alpha1.TenantUsage{Objects: 3, StoredBytes: 300, Requests: 30, ObservedTime: earlier}
	}
	for name, tc := range map[string]struct {
		tenant *v1alpha1.Tenant
		change func(*v1alpha1.TenantUsage)
		want   v1alpha1.TenantUsage
		// observed is whether the time is that of the change.
		observed bool
	}{
		"new": {
			tenant: newTenant("a"), change: func(u *v1alpha1.TenantUsage) { u.Objects = 1 },
			want: v1alpha1.TenantUsage{Objects: 1}, observed: true,
		},
		"new and empty": {tenant: newTenant("a"), change: func(*v1alpha1.TenantUsage) {}, observed: true},
		"changed": {
			tenant: newTenant("a", known), change: func(u *v1alpha1.TenantUsage) { u.Requests += 5 },
			want: v1alpha1.TenantUsage{Objects: 3, StoredBytes: 300, Requests: 35}, observed: true,
		},
		"not changed": {
			tenant: newTenant("a", known), change: func(u *v1alpha1.TenantUsage) { u.Objects = 3 },
			want: v1alpha1.TenantUsage{Objects: 3, StoredBytes: 300, Requests: 30},
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := tc.tenant.DeepCopy()
			obj, err := usageChange(tc.change).UpdatedObject(t.Context(), tc.tenant)
			if err != nil {
				t.Fatal(err)
			}
			got := *obj.(*v1alpha1.Tenant).Status.Usage
			if observed := got.ObservedTime.After(earlier.Time); observed != tc.observed {
				t.Errorf("observed at %s, which is new: %v", got.ObservedTime, observed)
			}
			got.ObservedTime = metav1.Time{}
			if owned := len(obj.(*v1alpha1.Tenant).ManagedFields); owned > 1 || (owned == 1) != tc.observed {
				t.Errorf("%d have managed fields, and it was written: %v", owned, tc.observed)
			}
			again, err := usageChange(tc.change).UpdatedObject(t.Context(), obj)
			if err != nil || len(again.(*v1alpha1.Tenant).ManagedFields) > 1 {
				t.Errorf("written again, it is %v, %v", again, err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(before, tc.tenant); diff != "" {
				t.Errorf("the stored object was changed:\n%s", diff)
			}
		})
	}
}

func TestUsageOfTenants(t *testing.T) {
	l := NewLookup(&Storage{})
	if _, exists := l.Usage("a"); !exists {
		t.Error("a tenant is taken for gone before the tenants are known")
	}
	if _, known := l.Names(); known {
		t.Error("the tenants are known before they are")
	}
	counted := newTenant("counted", func(t *v1alpha1.Tenant) { t.Status.Usage = &v1alpha1.TenantUsage{Objects: 1} })
	l.Replace([]*v1alpha1.Tenant{counted, newTenant("new"), newTenant(tenant.System.String())})
	for n, want := range map[tenant.Name]struct {
		counted, exists bool
	}{"counted": {true, true}, "new": {false, true}, "gone": {false, false}} {
		if usage, exists := l.Usage(n); (usage != nil) != want.counted || exists != want.exists {
			t.Errorf("usage of %q: %v, exists: %v; want %v", n, usage, exists, want)
		}
	}
	if names, known := l.Names(); len(names) != 2 || !known {
		t.Errorf("names are %v, known: %v; want the two with spaces", names, known)
	}
	l.EachUsage(func(n tenant.Name, usage *v1alpha1.TenantUsage) {
		if n != "counted" || usage.Objects != 1 {
			t.Errorf("visited %q with %v", n, usage)
		}
	})
}
