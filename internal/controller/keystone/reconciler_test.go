package keystone

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/keystone/fake"
)

func TestSync(t *testing.T) {
	w := newWorld(t)
	w.must(v1alpha1.ReasonSynced)
	got := w.tenants[acmeTenant]
	want := v1alpha1.Tenant{
		ObjectMeta: metav1.ObjectMeta{Name: acmeTenant, Annotations: map[string]string{domainAnnotation: "default/" + acme, nameAnnotation: "acme"}},
		Spec:       v1alpha1.TenantSpec{Admins: []v1alpha1.Subject{{Kind: v1alpha1.SubjectGroup, Name: "keystone:nobody"}}},
		Status:     v1alpha1.TenantStatus{Keystone: &v1alpha1.TenantKeystone{Keystone: "default", DomainID: acme}},
	}
	if diff := cmp.Diff(&want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{
		"data-e8b8068e9a36: keystone:project:" + data + ":" + member + " is edit",
		"keystone:domain:" + acme + ":" + member + " is view",
		webNamespace + ": keystone:project:" + web + ":" + member + " is edit",
	}, w.bound(acmeTenant)); diff != "" {
		t.Error(diff)
	}
	ns := w.namespace(acmeTenant, webNamespace)
	if ns.Labels[tenant.KeystoneLabel] != tenant.KeystoneProject || ns.Annotations[tenant.KeystoneIDAnnotation] != web {
		t.Errorf("the namespace is not marked: %+v", ns.ObjectMeta)
	}
	if status := w.sync("all").Status; status.Domains != 2 || status.Projects != 2 || status.Bindings != 4 || status.LastSyncTime == nil {
		t.Errorf("status %+v", status)
	}
	if applied := w.must(v1alpha1.ReasonSynced); len(applied) > 0 {
		t.Errorf("an unchanged run writes %q", applied)
	}
}

// TestIncomplete: lists that are not whole change nothing.
func TestIncomplete(t *testing.T) {
	page := func(collection, more string) string {
		return fmt.Sprintf(`{%q: [{"id": "a", "name": "a", "domain_id": "a", "enabled": true}]%s}`, collection, more)
	}
	for name, tc := range map[string]struct {
		collection string
		answer     func(w http.ResponseWriter, req *http.Request)
		says       string
	}{
		"truncated projects": {"projects", body(page("projects", `, "truncated": true`)), "truncated"},
		"truncated domains":  {"domains", body(page("domains", `, "truncated": true`)), "truncated"},
		"truncated roles":    {"roles", body(page("roles", `, "truncated": true`)), "truncated"},
		"a repeated link":    {"projects", body(page("projects", `, "links": {"next": "http://k/v3/projects?"}`)), "does not end"},
		"a link that repeats": {"projects", func(w http.ResponseWriter, req *http.Request) {
			id := "a" + req.URL.RawQuery
			fmt.Fprintf(w, `{"projects": [{"id": %q, "domain_id": "a"}], "links": {"next": "http://k/v3/projects?m"}}`, id)
		}, "does not end"},
		"an id twice": {"projects", body(`{"projects": [{"id": "a", "domain_id": "a"}, {"id": "a", "domain_id": "a"}]}`), "twice"},
		"an error in mid-list": {"projects", func(w http.ResponseWriter, req *http.Request) {
			if req.URL.RawQuery != "" {
				w.WriteHeader(http.StatusBadGateway)
				return
			}
			body(page("projects", `, "links": {"next": "http://k/v3/projects?marker=a"}`))(w, req)
		}, "status 502"},
		"half a body": {"projects", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, `{"projects": [`)
		}, "not one of Keystone"},
		"a slow body": {"projects", func(w http.ResponseWriter, req *http.Request) {
			fmt.Fprint(w, `{"projects": [`)
			w.(http.Flusher).Flush()
			<-req.Context().Done()
		}, "no answer in time"},
		"no list":          {"projects", body(`{}`), "not one of Keystone"},
		"null":             {"projects", body(`{"projects": null}`), "not one of Keystone"},
		"no domains":       {"domains", body(`{"domains": []}`), "sees none"},
		"no id":            {"domains", body(`{"domains": [{"name": "a"}]}`), "ids that are none"},
		"no domain":        {"projects", body(`{"projects": [{"id": "a"}]}`), "ids that are none"},
		"a colon in an id": {"projects", body(`{"projects": [{"id": "a:b", "domain_id": "a"}]}`), "ids that are none"},
		"forbidden":        {"projects", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }, "status 403"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.must(v1alpha1.ReasonSynced)
			w.keystone.Instead(func(rw http.ResponseWriter, req *http.Request) bool {
				if req.URL.Path != "/v3/"+tc.collection {
					return false
				}
				tc.answer(rw, req)
				return true
			})
			if applied := w.must(v1alpha1.ReasonIncomplete); len(applied) > 0 {
				t.Errorf("changed %q", applied)
			}
			c := meta.FindStatusCondition(w.sync("all").Status.Conditions, v1alpha1.ConditionIncomplete)
			if c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, tc.says) {
				t.Errorf("condition %+v does not say %q", c, tc.says)
			}
			w.keystone.Instead(nil)
			w.must(v1alpha1.ReasonSynced)
			if meta.IsStatusConditionTrue(w.sync("all").Status.Conditions, v1alpha1.ConditionIncomplete) {
				t.Error("it stays incomplete")
			}
		})
	}
}

func body(text string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }
}

// TestPages: all pages of a list are read.
func TestPages(t *testing.T) {
	w := newWorld(t)
	w.keystone.Instead(func(rw http.ResponseWriter, req *http.Request) bool {
		if req.URL.Path != "/v3/projects" {
			return false
		}
		next := map[string]string{"": `"http://elsewhere/v3/projects?marker=a"`, "marker=a": `"http://elsewhere/v3/projects?marker=b"`, "marker=b": "null"}[req.URL.RawQuery]
		fmt.Fprintf(rw, `{"projects": [{"id": "p%s", "name": "p", "domain_id": %q, "enabled": true}], "links": {"next": %s}}`,
			strings.TrimPrefix(req.URL.RawQuery, "marker="), acme, next)
		return true
	})
	w.must(v1alpha1.ReasonSynced)
	if projects := w.sync("all").Status.Projects; projects != 3 {
		t.Errorf("%d projects", projects)
	}
}

func TestGuard(t *testing.T) {
	for name, tc := range map[string]struct {
		lose    func(w *world)
		percent int32
		trips   bool
	}{
		"one of two domains":  {func(w *world) { w.keystone.Set("domains", fake.Domain(acme, "acme", true)) }, 30, true},
		"as many as may":      {func(w *world) { w.keystone.Set("domains", fake.Domain(acme, "acme", true)) }, 50, false},
		"one of two projects": {func(w *world) { w.keystone.Set("projects", fake.Project(web, "web", acme, true)) }, 49, true},
		"all projects":        {func(w *world) { w.keystone.Set("projects") }, 99, true},
		"any number":          {func(w *world) { w.keystone.Set("projects") }, 100, false},
		"both projects disabled": {func(w *world) {
			w.keystone.Set("projects", fake.Project(web, "web", acme, false), fake.Project(data, "data", acme, false))
		}, 99, true},
		"both domains disabled": {func(w *world) {
			w.keystone.Set("domains", fake.Domain(acme, "acme", false), fake.Domain(globex, "globex", false))
		}, 99, true},
		"one gone, two disabled": {func(w *world) {
			w.keystone.Set("domains", fake.Domain(acme, "acme", false), fake.Domain(globex, "globex", false))
			w.keystone.Set("projects", fake.Project(web, "web", acme, true))
		}, 50, true},
		"one disabled": {func(w *world) {
			w.keystone.Set("domains", fake.Domain(acme, "acme", false), fake.Domain(globex, "globex", true))
		}, 30, false},
		"all disabled, and all may": {func(w *world) {
			w.keystone.Set("domains", fake.Domain(acme, "acme", false), fake.Domain(globex, "globex", false))
		}, 100, false},
		"a project, and none may": {func(w *world) { w.keystone.Set("projects", fake.Project(web, "web", acme, true)) }, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.change(func(spec *v1alpha1.KeystoneSyncSpec) {
				spec.Guard.MaxRemovedPercent = &tc.percent
				spec.Deletion = v1alpha1.KeystoneDeletion{
					Tenants:    v1alpha1.KeystoneTenantDeletion{Policy: "Delete", GracePeriod: &metav1.Duration{}},
					Namespaces: v1alpha1.KeystoneNamespaceDeletion{Policy: "Delete", GracePeriod: &metav1.Duration{}},
				}
			})
			w.must(v1alpha1.ReasonSynced)
			tc.lose(w)
			if !tc.trips {
				w.must(v1alpha1.ReasonSynced)
				return
			}
			for range 2 {
				if applied := w.must(v1alpha1.ReasonTooMuchGone); len(applied) > 0 {
					t.Errorf("changed %q", applied)
				}
			}
			status := w.sync("all").Status
			if !meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionGuardTripped) || status.Removed == nil {
				t.Fatalf("status %+v", status)
			}
			w.change(func(spec *v1alpha1.KeystoneSyncSpec) { spec.Guard.Acknowledged = "something else" })
			w.must(v1alpha1.ReasonTooMuchGone)
			w.change(func(spec *v1alpha1.KeystoneSyncSpec) { spec.Guard.Acknowledged = status.Removed.Token })
			if applied := w.must(v1alpha1.ReasonSynced); len(applied) == 0 {
				t.Error("nothing is taken away")
			}
			w.change(func(spec *v1alpha1.KeystoneSyncSpec) { spec.Guard.Acknowledged = "" })
			w.must(v1alpha1.ReasonSynced)
			// What is new is made while the guard has tripped.
			w.reset()
			w.must(v1alpha1.ReasonSynced)
			tc.lose(w)
			w.must(v1alpha1.ReasonTooMuchGone)
		})
	}
}

// TestDisabledOnce: what is known to be disabled is not so again, and a domain that is disabled at
// first sight is suspended whatever has gone.
func TestDisabledOnce(t *testing.T) {
	w := newWorld(t)
	w.must(v1alpha1.ReasonSynced)
	off := []map[string]any{fake.Project(web, "web", acme, false), fake.Project(data, "data", acme, true)}
	w.keystone.Set("projects", off...)
	w.must(v1alpha1.ReasonSynced)
	off[1] = fake.Project(data, "data", acme, false)
	w.keystone.Set("projects", off...)
	w.must(v1alpha1.ReasonSynced)
	if len(w.bound(acmeTenant)) != 1 {
		t.Errorf("bound %q", w.bound(acmeTenant))
	}
	w.reset()
	w.must(v1alpha1.ReasonSynced)
	w.keystone.Set("projects", fake.Project(web, "web", acme, false), fake.Project(data, "data", acme, false))
	w.keystone.Set("domains", fake.Domain(acme, "acme", true), fake.Domain(globex, "globex", true), fake.Domain(strings.Repeat("a", 32), "new", false))
	w.must(v1alpha1.ReasonTooMuchGone)
	if len(w.bound(acmeTenant)) != 3 || !w.tenants["new-"+strings.Repeat("a", 12)].Spec.Suspended {
		t.Errorf("bound %q, tenants %+v", w.bound(acmeTenant), w.tenants)
	}
	if removed := w.sync("all").Status.Removed; removed.DisabledProjects != 2 || removed.Projects != 0 {
		t.Errorf("removed %+v", removed)
	}
}

// TestTemplate: a field is the template's as long as it is as that has made it.
func TestTemplate(t *testing.T) {
	type quota = map[corev1.ResourceName]resource.Quantity
	pods := func(n string) quota { return quota{"pods": resource.MustParse(n)} }
	w := newWorld(t)
	w.tenants["mine"] = &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "mine", Annotations: map[string]string{v1alpha1.AdoptKeystoneDomainAnnotation: "default/" + globex}}}
	template := func(template *v1alpha1.KeystoneTenantTemplate, changes int) {
		t.Helper()
		w.change(func(spec *v1alpha1.KeystoneSyncSpec) { spec.TenantTemplate = template })
		if applied := w.must(v1alpha1.ReasonSynced); len(applied) != changes {
			t.Errorf("changed %q", applied)
		}
		if applied := w.must(v1alpha1.ReasonSynced); len(applied) > 0 {
			t.Errorf("again: %q", applied)
		}
	}
	has := func(want quota, inFlight *int32) {
		t.Helper()
		spec := w.tenants[acmeTenant].Spec
		var limit *v1alpha1.RateLimit
		if inFlight != nil {
			limit = &v1alpha1.RateLimit{InFlight: inFlight}
		}
		if !apiequality.Semantic.DeepEqual(spec.Quota, want) || !apiequality.Semantic.DeepEqual(spec.RateLimit, limit) {
			t.Errorf("spec %+v", spec)
		}
	}
	w.must(v1alpha1.ReasonSynced)
	template(&v1alpha1.KeystoneTenantTemplate{Quota: pods("10"), RateLimit: &v1alpha1.RateLimit{InFlight: new(int32(5))}}, 1)
	has(pods("10"), new(int32(5)))
	w.tenants[acmeTenant].Spec.Quota = pods("50")
	template(&v1alpha1.KeystoneTenantTemplate{Quota: pods("20"), RateLimit: &v1alpha1.RateLimit{InFlight: new(int32(6))}}, 1)
	has(pods("50"), new(int32(6)))
	w.tenants[acmeTenant].Spec.Quota = nil
	template(&v1alpha1.KeystoneTenantTemplate{Quota: pods("20")}, 1)
	has(nil, nil)
	w.tenants[acmeTenant].Spec.Quota = pods("20") // which gives it back
	template(&v1alpha1.KeystoneTenantTemplate{Quota: pods("20")}, 1)
	template(&v1alpha1.KeystoneTenantTemplate{Quota: pods("30")}, 1)
	has(pods("30"), nil)
	template(nil, 1)
	has(nil, nil)
	if found := w.tenants[acmeTenant].Annotations[templateAnnotation]; found != "" {
		t.Errorf("annotation %q", found)
	}
	if mine := w.tenants["mine"]; mine.Spec.Quota != nil || mine.Annotations[templateAnnotation] != "" {
		t.Errorf("an adopted one: %+v", mine)
	}
}

// TestMissingClusterRoles: bindings of what is not there are said to give nothing, once.
func TestMissingClusterRoles(t *testing.T) {
	w := newWorld(t)
	w.lacking = map[string]bool{"view": true}
	for range 2 {
		w.must(v1alpha1.ReasonSynced)
	}
	if c := meta.FindStatusCondition(w.sync("all").Status.Conditions, v1alpha1.ConditionClusterRolesMissing); c == nil || c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, `"view"`) {
		t.Errorf("condition %+v", c)
	}
	told := 0
	for len(w.events.Events) > 0 {
		if strings.Contains(<-w.events.Events, v1alpha1.ConditionClusterRolesMissing) {
			told++
		}
	}
	if told != 1 {
		t.Errorf("told %d times", told)
	}
	w.lacking = nil
	w.must(v1alpha1.ReasonSynced)
	if !meta.IsStatusConditionFalse(w.sync("all").Status.Conditions, v1alpha1.ConditionClusterRolesMissing) {
		t.Errorf("conditions %+v", w.sync("all").Status.Conditions)
	}
}

// TestUnknownDomains: domains that Keystone does not have are named, once, and keep nothing of the
// others.
func TestUnknownDomains(t *testing.T) {
	for name, tc := range map[string]struct {
		domains v1alpha1.KeystoneDomains
		want    string
	}{
		"id":        {v1alpha1.KeystoneDomains{IDs: []string{"gone", acme}}, `with the id "gone": `},
		"name":      {v1alpha1.KeystoneDomains{Names: []string{"acme", "acmee"}}, `no domain "acmee": `},
		"both":      {v1alpha1.KeystoneDomains{IDs: []string{"gone"}, Names: []string{"acme", "acmee"}}, `with the id "gone", "acmee": `},
		"left out":  {v1alpha1.KeystoneDomains{AllExcept: &v1alpha1.KeystoneExcluded{Names: []string{"globexx"}}}, `no domain "globexx": `},
		"all there": {v1alpha1.KeystoneDomains{IDs: []string{globex}, Names: []string{"acme"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.change(func(s *v1alpha1.KeystoneSyncSpec) { s.Domains = tc.domains })
			for range 2 {
				w.must(v1alpha1.ReasonSynced)
			}
			if _, ok := w.tenants[acmeTenant]; !ok {
				t.Error("the domain that is there has no Tenant")
			}
			c := meta.FindStatusCondition(w.sync("all").Status.Conditions, v1alpha1.ConditionDomainsMissing)
			if c == nil || (c.Status == metav1.ConditionTrue) != (tc.want != "") || !strings.Contains(c.Message, tc.want) {
				t.Errorf("condition %+v", c)
			}
			told := 0
			for len(w.events.Events) > 0 {
				if strings.Contains(<-w.events.Events, v1alpha1.ConditionDomainsMissing) {
					told++
				}
			}
			if want := min(1, len(tc.want)); told != want {
				t.Errorf("told %d times, not %d", told, want)
			}
		})
	}
}

// TestGuardByDomain: a project that is one of another domain has gone from its own.
func TestGuardByDomain(t *testing.T) {
	w := newWorld(t)
	w.must(v1alpha1.ReasonSynced)
	w.keystone.Set("projects", fake.Project(web, "web", globex, true), fake.Project(data, "data", acme, true))
	w.must(v1alpha1.ReasonTooMuchGone)
	if len(w.bound(acmeTenant)) != 3 || w.namespace(globexTenant, webNamespace) == nil {
		t.Errorf("bound %q", w.bound(acmeTenant))
	}
}

func TestDisabledDomain(t *testing.T) {
	disabled := func(w *world) {
		w.keystone.Set("domains", fake.Domain(acme, "acme", false), fake.Domain(globex, "globex", true))
	}
	t.Run("is suspended until it is enabled", func(t *testing.T) {
		w := newWorld(t)
		w.must(v1alpha1.ReasonSynced)
		disabled(w)
		w.must(v1alpha1.ReasonSynced)
		if spec := w.tenants[acmeTenant].Spec; !spec.Suspended || spec.SuspendedReason != reasonDisabled {
			t.Errorf("spec %+v", spec)
		}
		if w.tenants[globexTenant].Spec.Suspended || len(w.bound(acmeTenant)) != 3 {
			t.Error("more was changed")
		}
		if applied := w.must(v1alpha1.ReasonSynced); len(applied) > 0 {
			t.Errorf("again: %q", applied)
		}
		w.reset()
		w.must(v1alpha1.ReasonSynced)
		if spec := w.tenants[acmeTenant].Spec; spec.Suspended || spec.SuspendedReason != "" {
			t.Errorf("spec %+v", spec)
		}
	})
	for name, tc := range map[string]struct {
		before, during func(*v1alpha1.Tenant)
	}{
		"stays suspended if somebody else has suspended it":       {before: func(t *v1alpha1.Tenant) { t.Spec.Suspended = true }},
		"stays suspended if somebody else has with a reason":      {before: func(t *v1alpha1.Tenant) { t.Spec.Suspended, t.Spec.SuspendedReason = true, "unpaid" }},
		"stays suspended if somebody else gives another reason":   {during: func(t *v1alpha1.Tenant) { t.Spec.SuspendedReason = "unpaid" }},
		"stays suspended if somebody else takes the reason away":  {during: func(t *v1alpha1.Tenant) { t.Spec.SuspendedReason = "" }},
		"stays suspended if somebody else takes the note of that": {during: func(t *v1alpha1.Tenant) { delete(t.Annotations, suspendedAnnotation) }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.must(v1alpha1.ReasonSynced)
			if tc.before != nil {
				tc.before(w.tenants[acmeTenant])
			}
			disabled(w)
			w.must(v1alpha1.ReasonSynced)
			if tc.during != nil {
				tc.during(w.tenants[acmeTenant])
			}
			want := w.tenants[acmeTenant].Spec
			w.must(v1alpha1.ReasonSynced)
			w.reset()
			w.must(v1alpha1.ReasonSynced)
			if diff := cmp.Diff(want, w.tenants[acmeTenant].Spec); diff != "" || !want.Suspended {
				t.Error(diff)
			}
		})
	}
}

// lenient lets everything go.
func lenient(spec *v1alpha1.KeystoneSyncSpec) { spec.Guard.MaxRemovedPercent = new(int32(100)) }

func TestDeletedDomain(t *testing.T) {
	deleted := func(w *world) {
		w.keystone.Set("domains", fake.Domain(globex, "globex", true))
		w.keystone.Set("projects")
	}
	hour := &metav1.Duration{Duration: time.Hour}
	policy := v1alpha1.KeystoneTenantDeletion{Policy: v1alpha1.KeystoneDelete, GracePeriod: hour}
	t.Run("is suspended, and kept", func(t *testing.T) {
		w := newWorld(t)
		w.change(lenient)
		w.must(v1alpha1.ReasonSynced)
		deleted(w)
		w.must(v1alpha1.ReasonSynced)
		w.time = w.time.Add(100 * 24 * time.Hour)
		if applied := w.must(v1alpha1.ReasonSynced); len(applied) > 0 {
			t.Errorf("changed %q", applied)
		}
		if got := w.tenants[acmeTenant]; got == nil || got.Spec.SuspendedReason != reasonGone || w.namespace(acmeTenant, webNamespace) == nil {
			t.Errorf("got %+v", got)
		}
		w.reset()
		w.must(v1alpha1.ReasonSynced)
		if got := w.tenants[acmeTenant]; got.Spec.Suspended || got.Annotations[tenant.KeystoneGoneAnnotation] != "" {
			t.Errorf("back: %+v", got)
		}
	})
	t.Run("is deleted after its time by the policy", func(t *testing.T) {
		w := newWorld(t)
		w.change(lenient)
		w.change(func(spec *v1alpha1.KeystoneSyncSpec) { spec.Deletion.Tenants = policy })
		w.must(v1alpha1.ReasonSynced)
		deleted(w)
		w.must(v1alpha1.ReasonSynced)
		w.time = w.time.Add(50 * time.Minute)
		if w.must(v1alpha1.ReasonSynced); w.tenants[acmeTenant] == nil {
			t.Fatal("too early")
		}
		w.time = w.time.Add(10 * time.Minute)
		if w.must(v1alpha1.ReasonSynced); w.tenants[acmeTenant] != nil {
			t.Error("it is still there")
		}
	})
	t.Run("leaves nothing to a new one of its name", func(t *testing.T) {
		w := newWorld(t)
		w.change(lenient)
		w.must(v1alpha1.ReasonSynced)
		const next = "999964a412e5462c82cf749d82d98e7f"
		w.keystone.Set("domains", fake.Domain(next, "acme", true), fake.Domain(globex, "globex", true))
		w.keystone.Set("projects")
		w.must(v1alpha1.ReasonSynced)
		if !w.tenants[acmeTenant].Spec.Suspended || w.tenants["acme-999964a412e5"].Status.Keystone.DomainID != next {
			t.Errorf("tenants %+v", w.tenants)
		}
	})
	t.Run("is never deleted if it was adopted", func(t *testing.T) {
		w := newWorld(t)
		w.change(lenient)
		w.change(func(spec *v1alpha1.KeystoneSyncSpec) { spec.Deletion.Tenants = policy })
		w.tenants["own"] = &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "own", Annotations: map[string]string{
			v1alpha1.AdoptKeystoneDomainAnnotation: "default/" + acme,
		}}}
		w.must(v1alpha1.ReasonSynced)
		deleted(w)
		w.must(v1alpha1.ReasonSynced)
		w.time = w.time.Add(2 * time.Hour)
		w.must(v1alpha1.ReasonSynced)
		if got := w.tenants["own"]; got == nil || !got.Spec.Suspended {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("is left alone if it is not selected", func(t *testing.T) {
		w := newWorld(t)
		w.change(lenient)
		w.must(v1alpha1.ReasonSynced)
		w.change(func(spec *v1alpha1.KeystoneSyncSpec) { spec.Domains.AllExcept.Names = []string{"acme"} })
		deleted(w)
		if applied := w.must(v1alpha1.ReasonSynced); len(applied) > 0 {
			t.Errorf("changed %q", applied)
		}
	})
}

func TestProjects(t *testing.T) {
	t.Run("disabled", func(t *testing.T) {
		w := newWorld(t)
		w.must(v1alpha1.ReasonSynced)
		w.keystone.Set("projects", fake.Project(web, "web", acme, false), fake.Project(data, "data", acme, true))
		w.must(v1alpha1.ReasonSynced)
		if len(w.bound(acmeTenant)) != 2 || w.namespace(acmeTenant, webNamespace) == nil {
			t.Errorf("bound %q", w.bound(acmeTenant))
		}
		w.reset()
		w.must(v1alpha1.ReasonSynced)
		if len(w.bound(acmeTenant)) != 3 {
			t.Errorf("bound %q", w.bound(acmeTenant))
		}
	})
	t.Run("renamed", func(t *testing.T) {
		w := newWorld(t)
		w.must(v1alpha1.ReasonSynced)
		w.keystone.Set("domains", fake.Domain(acme, "Acme & Sons", true), fake.Domain(globex, "globex", true))
		w.keystone.Set("projects", fake.Project(web, "a\x1bb", acme, true), fake.Project(data, "data", acme, true))
		if applied := w.must(v1alpha1.ReasonSynced); len(applied) != 2 {
			t.Errorf("changed %q", applied)
		}
		if len(w.tenants) != 2 || w.tenants[acmeTenant].Annotations[nameAnnotation] != "Acme & Sons" ||
			w.namespace(acmeTenant, webNamespace).Annotations[nameAnnotation] != "a\ufffdb" {
			t.Errorf("tenants %+v", w.tenants)
		}
	})
	t.Run("deleted", func(t *testing.T) {
		w := newWorld(t)
		w.change(lenient)
		w.must(v1alpha1.ReasonSynced)
		w.keystone.Set("projects", fake.Project(data, "data", acme, true))
		w.must(v1alpha1.ReasonSynced)
		if len(w.bound(acmeTenant)) != 2 || w.namespace(acmeTenant, webNamespace) == nil {
			t.Errorf("bound %q", w.bound(acmeTenant))
		}
		if applied := w.must(v1alpha1.ReasonSynced); len(applied) > 0 {
			t.Errorf("changed %q", applied)
		}
		w.change(func(spec *v1alpha1.KeystoneSyncSpec) {
			spec.Deletion.Namespaces = v1alpha1.KeystoneNamespaceDeletion{Policy: v1alpha1.KeystoneDelete, GracePeriod: &metav1.Duration{Duration: time.Hour}}
		})
		if w.must(v1alpha1.ReasonSynced); w.namespace(acmeTenant, webNamespace) == nil {
			t.Error("too early")
		}
		w.time = w.time.Add(time.Hour)
		if w.must(v1alpha1.ReasonSynced); w.namespace(acmeTenant, webNamespace) != nil || w.namespace(acmeTenant, "data-e8b8068e9a36") == nil {
			t.Error("the namespace is still there, or the other is not")
		}
	})
	t.Run("that are domains", func(t *testing.T) {
		w := newWorld(t)
		domain := fake.Project(acme, "acme", acme, true)
		domain["is_domain"] = true
		w.keystone.Set("projects", domain)
		if w.must(v1alpha1.ReasonSynced); w.sync("all").Status.Projects != 0 {
			t.Error("a domain is a project")
		}
	})
	t.Run("whose namespace somebody else has", func(t *testing.T) {
		w := newWorld(t)
		w.put(acmeTenant, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: webNamespace}})
		w.must(v1alpha1.ReasonConflicts)
		if len(w.bound(acmeTenant)) != 2 || len(w.sync("all").Status.Conflicts) != 1 || w.namespace(acmeTenant, webNamespace).Labels != nil {
			t.Errorf("bound %q, status %+v", w.bound(acmeTenant), w.sync("all").Status)
		}
	})
}

func TestAdoption(t *testing.T) {
	for name, tc := range map[string]struct {
		tenants []v1alpha1.Tenant
		reason  string
		admins  string
	}{
		"by annotation": {reason: v1alpha1.ReasonSynced, admins: "keystone:nobody", tenants: []v1alpha1.Tenant{
			{ObjectMeta: metav1.ObjectMeta{Name: "own", Annotations: map[string]string{v1alpha1.AdoptKeystoneDomainAnnotation: "default/" + acme}}},
		}},
		"with administrators": {reason: v1alpha1.ReasonSynced, admins: "jane", tenants: []v1alpha1.Tenant{
			{ObjectMeta: metav1.ObjectMeta{Name: "own", Annotations: map[string]string{v1alpha1.AdoptKeystoneDomainAnnotation: "default/" + acme}},
				Spec: v1alpha1.TenantSpec{Admins: []v1alpha1.Subject{{Kind: v1alpha1.SubjectUser, Name: "jane"}}}},
		}},
		"by status alone": {reason: v1alpha1.ReasonConflicts, tenants: []v1alpha1.Tenant{
			{ObjectMeta: metav1.ObjectMeta{Name: "own"}, Status: v1alpha1.TenantStatus{Keystone: &v1alpha1.TenantKeystone{Keystone: "default", DomainID: acme}}},
		}},
		"twice": {reason: v1alpha1.ReasonConflicts, tenants: []v1alpha1.Tenant{
			{ObjectMeta: metav1.ObjectMeta{Name: "own", Annotations: map[string]string{v1alpha1.AdoptKeystoneDomainAnnotation: "default/" + acme}}},
			{ObjectMeta: metav1.ObjectMeta{Name: "other", Annotations: map[string]string{v1alpha1.AdoptKeystoneDomainAnnotation: "default/" + acme}}},
		}},
		"of another domain": {reason: v1alpha1.ReasonConflicts, tenants: []v1alpha1.Tenant{
			{ObjectMeta: metav1.ObjectMeta{Name: "own", Annotations: map[string]string{v1alpha1.AdoptKeystoneDomainAnnotation: "default/" + acme}},
				Status: v1alpha1.TenantStatus{Keystone: &v1alpha1.TenantKeystone{Keystone: "default", DomainID: "x"}}},
		}},
		"of nobody, with the name of the Tenant": {reason: v1alpha1.ReasonConflicts, tenants: []v1alpha1.Tenant{{ObjectMeta: metav1.ObjectMeta{Name: acmeTenant}}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			for i := range tc.tenants {
				w.tenants[tc.tenants[i].Name] = tc.tenants[i].DeepCopy()
			}
			w.must(tc.reason)
			if tc.reason == v1alpha1.ReasonConflicts {
				for i := range tc.tenants {
					if diff := cmp.Diff(&tc.tenants[i], w.tenants[tc.tenants[i].Name]); diff != "" {
						t.Error(diff)
					}
				}
				if len(w.bound(acmeTenant))+len(w.bound("own")) > 0 || len(w.tenants) != len(tc.tenants)+1 {
					t.Error("it has bindings, or there are more Tenants")
				}
				return
			}
			if got := w.tenants["own"]; got.Spec.Admins[0].Name != tc.admins || got.Status.Keystone.DomainID != acme || len(w.bound("own")) != 3 || w.tenants[acmeTenant] != nil {
				t.Errorf("got %+v, bound %q", got, w.bound("own"))
			}
		})
	}
	t.Run("of the system tenant", func(t *testing.T) {
		w := newWorld(t)
		w.tenants["system"] = &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "system", Annotations: map[string]string{v1alpha1.AdoptKeystoneDomainAnnotation: "default/" + acme}}}
		w.must(v1alpha1.ReasonSynced)
		if w.tenants["system"].Status.Keystone != nil || w.tenants[acmeTenant] == nil {
			t.Error("the system tenant is that of a domain")
		}
	})
}

func TestPreview(t *testing.T) {
	w := newWorld(t)
	w.change(func(spec *v1alpha1.KeystoneSyncSpec) { spec.Mode = v1alpha1.KeystoneSyncPreview })
	if applied := w.must(v1alpha1.ReasonPreviewed); len(applied) > 0 {
		t.Errorf("changed %q", applied)
	}
	planned := w.sync("all").Status.Planned
	w.change(func(spec *v1alpha1.KeystoneSyncSpec) { spec.Mode = v1alpha1.KeystoneSyncSync })
	applied := w.must(v1alpha1.ReasonSynced)
	if status := w.sync("all").Status; len(status.Planned) != 0 || status.Changes != int32(len(applied)) {
		t.Errorf("status %+v", status)
	}
	slices.Sort(planned)
	slices.Sort(applied) // domains are worked on at once
	if diff := cmp.Diff(planned, applied); diff != "" {
		t.Error(diff)
	}
	w.change(func(spec *v1alpha1.KeystoneSyncSpec) { spec.Mode = v1alpha1.KeystoneSyncPreview })
	var many []map[string]any
	for i := range 200 {
		many = append(many, fake.Project(fmt.Sprintf("p%d", i), "p", globex, true))
	}
	w.keystone.Set("projects", many...)
	w.must(v1alpha1.ReasonTooMuchGone)
	if status := w.sync("all").Status; len(status.Planned) != 100 || status.Changes != 400 {
		t.Errorf("%d planned of %d", len(status.Planned), status.Changes)
	}
}

func TestOverlap(t *testing.T) {
	w := newWorld(t)
	w.must(v1alpha1.ReasonSynced)
	w.create("later", func(spec *v1alpha1.KeystoneSyncSpec) {
		spec.Domains = v1alpha1.KeystoneDomains{Names: []string{"acme"}}
		spec.RoleMappings[0].ClusterRole = "admin"
	})
	if reason, applied := w.run("later"); reason != v1alpha1.ReasonOverlaps || len(applied) > 0 {
		t.Errorf("%s: %q", reason, applied)
	}
	w.must(v1alpha1.ReasonSynced)
	w.change(func(spec *v1alpha1.KeystoneSyncSpec) { spec.Domains.AllExcept.IDs = []string{acme} })
	if reason, applied := w.run("later"); reason != v1alpha1.ReasonSynced || len(applied) != 2 {
		t.Errorf("%s: %q", reason, applied)
	}
}

func TestRepair(t *testing.T) {
	w := newWorld(t)
	w.must(v1alpha1.ReasonSynced)
	want := w.bound(acmeTenant)
	own := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: webNamespace, Name: "own"}, Subjects: []rbacv1.Subject{{Name: "jane"}}}
	w.put(acmeTenant, own)
	for key, o := range w.objects {
		switch o := o.(type) {
		case *rbacv1.RoleBinding:
			if o.Namespace == "data-e8b8068e9a36" {
				delete(w.objects, key)
			} else if o.Name != "own" {
				o.Subjects[0].Name = "mallory"
			}
		case *rbacv1.ClusterRoleBinding:
			o.RoleRef.Name = "cluster-admin"
		}
	}
	if applied := w.must(v1alpha1.ReasonSynced); len(applied) != 4 { // that of globex, too
		t.Errorf("changed %q", applied)
	}
	delete(w.objects, keyOf(acmeTenant, own))
	if diff := cmp.Diff(want, w.bound(acmeTenant)); diff != "" {
		t.Error(diff)
	}
	w.change(func(spec *v1alpha1.KeystoneSyncSpec) { spec.RoleMappings = spec.RoleMappings[:1] })
	if w.must(v1alpha1.ReasonSynced); len(w.bound(acmeTenant)) != 2 {
		t.Errorf("bound %q", w.bound(acmeTenant))
	}
}

func TestAdministrators(t *testing.T) {
	w := newWorld(t)
	w.change(func(spec *v1alpha1.KeystoneSyncSpec) { spec.TenantAdminRoleID = reader })
	w.must(v1alpha1.ReasonSynced)
	is := func(want string) {
		t.Helper()
		if admins := w.tenants[acmeTenant].Spec.Admins; len(admins) != 1 || admins[0].Name != want {
			t.Errorf("administrators %v, want %s", admins, want)
		}
	}
	is("keystone:domain:" + acme + ":" + reader)
	w.change(func(spec *v1alpha1.KeystoneSyncSpec) { spec.TenantAdminRoleID = "" })
	w.must(v1alpha1.ReasonSynced)
	is("keystone:nobody")
	w.tenants[acmeTenant].Spec.Admins = nil
	w.must(v1alpha1.ReasonSynced)
	is("keystone:nobody")
	w.tenants[acmeTenant].Spec.Admins = []v1alpha1.Subject{{Kind: v1alpha1.SubjectUser, Name: "jane"}}
	w.must(v1alpha1.ReasonSynced)
	is("jane")
}

func TestUnmappedRoles(t *testing.T) {
	w := newWorld(t)
	w.keystone.Set("role_assignments", fake.Assignment(reader, web), fake.Assignment(reader, data), fake.Assignment(member, web), fake.Assignment("x", "elsewhere"),
		map[string]any{"role": map[string]any{"id": "y"}, "scope": map[string]any{"system": map[string]any{"all": true}}})
	w.must(v1alpha1.ReasonSynced)
	w.must(v1alpha1.ReasonSynced)
	want := []v1alpha1.KeystoneUnmappedRole{{ID: reader, Name: "name of " + reader, Assignments: 2}}
	if diff := cmp.Diff(want, w.sync("all").Status.UnmappedRoles); diff != "" {
		t.Error(diff)
	}
	var found int
	for range len(w.events.Events) {
		if strings.Contains(<-w.events.Events, "UnmappedRoles") {
			found++
		}
	}
	if found != 1 || strings.Contains(strings.Join(w.bound(acmeTenant), " "), reader) {
		t.Errorf("%d events, bound %q", found, w.bound(acmeTenant))
	}
	w.keystone.Instead(func(rw http.ResponseWriter, req *http.Request) bool {
		if req.URL.Path == "/v3/role_assignments" {
			rw.WriteHeader(http.StatusForbidden)
			return true
		}
		return false
	})
	w.must(v1alpha1.ReasonSynced)
	if len(w.sync("all").Status.UnmappedRoles) != 1 {
		t.Error("what is not known is forgotten")
	}
}

// TestFailures: what fails in one domain does not concern the others.
func TestFailures(t *testing.T) {
	w := newWorld(t)
	w.failing[acmeTenant] = errors.New("s3rver is busy")
	w.must(v1alpha1.ReasonFailed)
	if result, err := w.r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: "all"}}); err != nil || result.RequeueAfter != domainRetry {
		t.Errorf("got %v, %v: a domain that fails keeps others waiting", result, err)
	}
	if w.tenants[globexTenant] == nil || w.sync("all").Status.LastSyncTime != nil {
		t.Error("the other domain has no Tenant, or the run is taken for whole")
	}
	w.failing = nil
	w.must(v1alpha1.ReasonSynced)
}

// TestFailedNamespace: a namespace that fails keeps nothing else of its domain waiting, and nothing is made in it.
func TestFailedNamespace(t *testing.T) {
	w := newWorld(t)
	w.must(v1alpha1.ReasonSynced)
	all := w.bound(acmeTenant)
	w = newWorld(t)
	w.failing[acmeTenant+"/"+webNamespace] = errors.New("a quota is used up")
	w.must(v1alpha1.ReasonFailed)
	if got := w.bound(acmeTenant); len(got) != len(all)-1 {
		t.Errorf("bound %q of %q", got, all)
	}
	w.failing = map[string]error{}
	w.must(v1alpha1.ReasonSynced)
	if diff := cmp.Diff(all, w.bound(acmeTenant)); diff != "" {
		t.Error(diff)
	}
}

// TestMeanwhile: a suspension between the list of Tenants and a write is seen.
func TestMeanwhile(t *testing.T) {
	w := newWorld(t)
	w.must(v1alpha1.ReasonSynced)
	w.keystone.Set("domains", fake.Domain(acme, "renamed", true), fake.Domain(globex, "globex", true))
	w.meanwhile = func(t *v1alpha1.Tenant) { t.Spec.Suspended, t.Spec.SuspendedReason = true, "unpaid" }
	w.must(v1alpha1.ReasonSynced)
	if got := w.tenants[acmeTenant]; got.Spec.SuspendedReason != "unpaid" || got.Annotations[nameAnnotation] != "renamed" {
		t.Errorf("got %+v", got)
	}
}

// TestUnknownRoles: a role that is mapped by its name gives nothing, and that is said.
func TestUnknownRoles(t *testing.T) {
	w := newWorld(t)
	w.change(func(spec *v1alpha1.KeystoneSyncSpec) {
		spec.RoleMappings = append(spec.RoleMappings, v1alpha1.KeystoneRoleMapping{RoleID: "member", Scope: v1alpha1.KeystoneScopeProject, ClusterRole: "admin"})
		spec.TenantAdminRoleID = "boss"
	})
	w.keystone.Set("roles of domains", map[string]any{"id": "boss", "name": "boss", "domain_id": acme})
	w.must(v1alpha1.ReasonConflicts)
	if conflicts := w.sync("all").Status.Conflicts; len(conflicts) != 2 || !strings.Contains(conflicts[0], "no role with the id") || !strings.Contains(conflicts[1], "of domain \""+acme+"\" alone") {
		t.Errorf("conflicts %q", conflicts)
	}
}

func TestNotConfigured(t *testing.T) {
	w := newWorld(t)
	w.r.Cloud = (&source{}).cloud
	if applied := w.must(v1alpha1.ReasonNotConfigured); len(applied) > 0 {
		t.Errorf("changed %q", applied)
	}
	result, err := w.r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: "all"}})
	if err != nil || result.RequeueAfter != 0 {
		t.Errorf("again: %+v, %v", result, err)
	}
	if _, _, err := (&source{path: "/nowhere"}).cloud(); err == nil {
		t.Error("a file that is not there is no error")
	}
}

func TestInterval(t *testing.T) {
	w := newWorld(t)
	for interval, want := range map[*metav1.Duration]time.Duration{nil: 5 * time.Minute, {Duration: time.Hour}: time.Hour} {
		w.change(func(spec *v1alpha1.KeystoneSyncSpec) { spec.Interval = interval })
		result, err := w.r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: "all"}})
		if err != nil || result.RequeueAfter != want {
			t.Errorf("again after %s, %v", result.RequeueAfter, err)
		}
	}
}
