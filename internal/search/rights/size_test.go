package rights

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/server/registry/accesspolicy"
	tenantregistry "github.com/tenantry/tenantry/internal/server/registry/tenant"
	"github.com/tenantry/tenantry/internal/tenant"
)

func numbered(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("n%06d", i)
	}
	return names
}

// grant lets jane of globex into acme by a policy that names objects in namespaces.
func (s *teller) grant(namespaces, names []string) {
	s.Helper()
	s.tell(tenantregistry.Resource, tenant.System, "", "acme", newTenant("acme", "1"))
	s.tell(tenantregistry.Resource, tenant.System, "", "globex", newTenant("globex", "2"))
	policy := &v1alpha1.TenantAccessPolicy{
		Spec: v1alpha1.TenantAccessPolicySpec{
			Subjects: []v1alpha1.ForeignSubject{{Tenant: "globex", Kind: v1alpha1.SubjectUser, Name: "jane"}},
			Rules:    []v1alpha1.AccessRule{{Verbs: []string{"list"}, APIGroups: []string{"*"}, Resources: []string{"*"}, Namespaces: namespaces, ResourceNames: names}},
		},
		Status: v1alpha1.TenantAccessPolicyStatus{Grantees: []v1alpha1.Grantee{{Tenant: "globex", UIDDigest: digestOf("2")}}},
	}
	policy.Name, policy.Annotations = "p", map[string]string{tenant.Annotation: "acme"}
	s.tell(accesspolicy.Resource, "acme", "", "p", policy)
}

// manyGroups gives jane rights in namespaces, each by a binding of its own.
func (s *teller) manyGroups(namespaces int) {
	s.Helper()
	for i := range namespaces {
		s.bind("acme", fmt.Sprint("n", i), "jane", rule("list", "", "configmaps"))
	}
}

// TestTooLarge checks that rights that name too much are refused, whoever has given them, and others are not.
func TestTooLarge(t *testing.T) {
	for name, tc := range map[string]struct {
		of    tenant.Name
		grant func(*teller)
		large bool
	}{
		"names everywhere":             {"acme", func(s *teller) { s.bindCluster("acme", "jane", rule("list", "*", "*", numbered(20_000)...)) }, true},
		"few names everywhere":         {"acme", func(s *teller) { s.bindCluster("acme", "jane", rule("list", "*", "*", numbered(2000)...)) }, false},
		"names of one resource":        {"acme", func(s *teller) { s.bindCluster("acme", "jane", rule("list", "", "configmaps", numbered(20_000)...)) }, false},
		"names in a namespace":         {"acme", func(s *teller) { s.bind("acme", "a", "jane", rule("list", "*", "*", numbered(40_000)...)) }, true},
		"names that count for nothing": {"acme", func(s *teller) { s.bindCluster("acme", "jane", rule("get", "*", "*", numbered(40_000)...)) }, false},
		"the same names again": {"acme", func(s *teller) {
			again := rule("list", "", "configmaps", numbered(10_000)...)
			s.bindCluster("acme", "jane", again, again, again, again, again)
		}, false},
		"many namespaces":              {"acme", func(s *teller) { s.manyGroups(10_000) }, false},
		"far too many namespaces":      {"acme", func(s *teller) { s.manyGroups(41_000) }, true},
		"names of a policy":            {"globex", func(s *teller) { s.grant(numbered(64), numbered(512)) }, true},
		"names of a policy everywhere": {"globex", func(s *teller) { s.grant([]string{"*"}, numbered(20_000)) }, true},
		"few names of a policy":        {"globex", func(s *teller) { s.grant(numbered(8), numbered(16)) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := &teller{TB: t, State: newState()}
			tc.grant(s)
			ctx, u := requestOf(t.Context(), tc.of, "acme", "jane")
			set, err := s.Compile(ctx, u, "acme")
			if tc.large != errors.Is(err, ErrTooLarge) || !tc.large && err != nil {
				t.Errorf("got %v", err)
			}
			if tc.large != (set == nil) {
				t.Errorf("got a set: %v", set != nil)
			}
		})
	}
}

// TestManyGroups checks that pairs of resources and namespaces count where they are written out.
func TestManyGroups(t *testing.T) {
	groups := func(n, namespaces int) (all []Group) {
		for i := range n {
			g := Group{Resources: sets.New(configMaps, schema.GroupResource{Resource: fmt.Sprint("r", i)}), Namespaces: sets.New[string]()}
			for j := range namespaces + i {
				g.Namespaces.Insert(fmt.Sprintf("n%d-%d", i, j))
			}
			all = append(all, g)
		}
		return all
	}
	for _, tc := range []struct {
		n, namespaces int
		large         bool
	}{{ListedGroups, 2000, false}, {2 * ListedGroups, 100, false}, {2 * ListedGroups, 2000, true}} {
		c := newState().newCompilation(t.Context(), nil, "acme")
		c.group(groups(tc.n, tc.namespaces))
		if tc.large != errors.Is(c.err, ErrTooLarge) {
			t.Errorf("%+v: got %v", tc, c.err)
		}
		if found := c.set.Groups; !tc.large && (len(found) != tc.n || len(found[0].Namespaces) < len(found[len(found)-1].Namespaces)) {
			t.Errorf("%+v: the largest is not first", tc)
		}
	}
}

// TestNothingGoesOn checks that nothing is collected any more for who does not wait any more.
func TestNothingGoesOn(t *testing.T) {
	s := &teller{TB: t, State: newState()}
	many := rule("list", "*", "*", numbered(10)...)
	s.bindCluster("acme", "jane", many, many)
	s.bind("acme", "a", "jane", many, rule("list", "", "configmaps"))
	s.grant(numbered(2), numbered(2))
	for of, collect := range map[tenant.Name]func(*compilation){
		"acme":   func(c *compilation) { c.byRBAC() },
		"globex": func(c *compilation) { c.byPolicies("globex") },
	} {
		ctx, u := requestOf(t.Context(), of, "acme", "jane")
		c := s.newCompilation(ctx, u, "acme")
		if collect(c); c.bytes == 0 {
			t.Errorf("%s: nothing was collected before", of)
		}
		ended, cancel := context.WithCancel(ctx)
		cancel()
		c = s.newCompilation(ended, u, "acme")
		if collect(c); c.bytes > 0 {
			t.Errorf("%s: %d bytes were collected", of, c.bytes)
		}
		if granted := s.grants.GrantedTo(ended, "globex", "acme", u); len(granted) > 0 {
			t.Error("policies were read")
		}
	}
}
