package tenant

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
)

func TestOfDomain(t *testing.T) {
	domain := v1alpha1.TenantKeystone{Keystone: "default", DomainID: "d"}
	named := func(name, uid string, domain *v1alpha1.TenantKeystone) *v1alpha1.Tenant {
		return &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid)}, Status: v1alpha1.TenantStatus{Keystone: domain}}
	}
	l := NewLookup(&Storage{})
	if _, _, known := l.OfDomain(domain); known {
		t.Error("a tenant that has not been read is known not to be there")
	}
	if _, known := l.DomainOf("acme"); known {
		t.Error("the domain of a tenant that has not been read is known")
	}
	for _, step := range []struct {
		what  string
		event func()
		names []tenant.Name
		uid   types.UID
	}{
		{"read", func() { l.Replace([]*v1alpha1.Tenant{named("acme", "1", &domain), named("none", "2", nil)}) }, []tenant.Name{"acme"}, "1"},
		{"changed", func() { l.Set(named("acme", "1", &domain)) }, []tenant.Name{"acme"}, "1"},
		{"another Keystone", func() { l.Set(named("east", "3", &v1alpha1.TenantKeystone{Keystone: "east", DomainID: "d"})) }, []tenant.Name{"acme"}, "1"},
		{"the system", func() { l.Set(named("system", "4", &domain)) }, []tenant.Name{"acme"}, "1"},
		{"a second one", func() { l.Set(named("two", "5", &domain)) }, []tenant.Name{"acme", "two"}, ""},
		{"the first one is another", func() { l.Set(named("acme", "6", nil)) }, []tenant.Name{"two"}, "5"},
		{"deleted", func() { l.Delete(named("two", "5", &domain)) }, []tenant.Name{}, ""},
		{"one that nobody knows is deleted", func() { l.Delete(named("three", "5", &domain)) }, []tenant.Name{}, ""},
		{"read again", func() { l.Replace([]*v1alpha1.Tenant{named("acme", "7", &domain)}) }, []tenant.Name{"acme"}, "7"},
	} {
		step.event()
		names, uid, known := l.OfDomain(domain)
		if diff := cmp.Diff(step.names, names); diff != "" || uid != step.uid || !known {
			t.Errorf("%s: %s, UID %q, known %v", step.what, diff, uid, known)
		}
		for _, n := range names {
			if of, known := l.DomainOf(n); of != domain || !known {
				t.Errorf("%s: the domain of %q is %v, known %v", step.what, n, of, known)
			}
		}
	}
	if of, known := l.DomainOf(tenant.System); of != (v1alpha1.TenantKeystone{}) || !known {
		t.Errorf("the system is the domain %v, known %v", of, known)
	}
	if l.Set(named("acme", "7", nil)); len(l.domains) != 0 {
		t.Errorf("left: %v", l.domains)
	}
}
