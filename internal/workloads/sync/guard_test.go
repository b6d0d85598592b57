package sync

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/component-base/metrics/testutil"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/names"
	"github.com/tenantry/tenantry/internal/workloads/network"
	"github.com/tenantry/tenantry/internal/workloads/translate"
)

// oneGoes has one more object of so many go, if it may.
func oneGoes(g *guard, all int) error {
	uid := uuid.NewUUID()
	err := g.mayGo(uid, all)
	if err == nil {
		g.note(uid)
	}
	return err
}

// TestGoesOnce checks that an object that does not go, as somebody refuses it, counts once however often that is tried.
func TestGoesOnce(t *testing.T) {
	g := newGuards(testingclock.NewFakeClock(time.Unix(0, 0)), 4, "").orphans
	for i := range 10 {
		if err := g.allow("acme", "stays", 100); err != nil {
			t.Fatalf("attempt %d: %v", i, err)
		}
	}
	if err := g.allow("acme", "another", 100); err != nil {
		t.Errorf("another one of two: %v", err)
	}
	if g.allow("acme", "a third", 4) == nil {
		t.Error("a third one of two may go")
	}
	for range 3 { // it may still go, and that it does not is no reason to say again of others that they may not
		if err := g.allow("acme", "stays", 4); err != nil {
			t.Errorf("what has been counted: %v", err)
		}
		if halted, is := errors.AsType[haltedError](g.allow("acme", "a third", 4)); !is || halted.first {
			t.Errorf("a third one: %v", halted)
		}
	}
}

func TestGuard(t *testing.T) {
	c := testingclock.NewFakeClock(time.Unix(0, 0))
	for name, tc := range map[string]struct{ all, want int }{
		"few":           {all: 100, want: 50},
		"all of few":    {all: 40, want: 40},
		"a tenth":       {all: 1000, want: 100},
		"none at first": {all: 0, want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			g := &guard{clock: c, limit: DefaultOrphanLimit, share: orphanShare}
			gone := 0
			for left := tc.all; left > 0 && oneGoes(g, left) == nil; left-- {
				gone++
			}
			if gone != tc.want {
				t.Errorf("%d are gone, want %d", gone, tc.want)
			}
		})
	}
	g := &guard{clock: c, limit: 1, share: orphanShare, what: "pods"}
	if err := oneGoes(g, 2); err != nil {
		t.Error(err)
	}
	if err := oneGoes(g, 1); err == nil {
		t.Error("the second of two may go")
	}
	c.Step(orphanWindow + time.Second)
	if err := oneGoes(g, 1); err != nil {
		t.Errorf("after a while: %v", err)
	}
}

// TestGuardOfTenants checks that a tenant of which too much would go halts itself alone, and that all are halted where
// it is much of all.
func TestGuardOfTenants(t *testing.T) {
	c := testingclock.NewFakeClock(time.Unix(0, 0))
	for name, tc := range map[string]struct {
		going      map[tenant.Name]int
		all        int
		may, isNot []tenant.Name
	}{
		"few of each":   {map[tenant.Name]int{"acme": 25, "globex": 25}, 50, []tenant.Name{"acme", "globex"}, nil},
		"many of one":   {map[tenant.Name]int{"acme": 1000, "globex": 2}, 1200, []tenant.Name{"globex", "initech"}, []tenant.Name{"acme"}},
		"an old backup": {map[tenant.Name]int{"acme": 30, "globex": 30, "initech": 3}, 100, nil, []tenant.Name{"acme", "globex", "initech", "hooli"}},
		"the only one":  {map[tenant.Name]int{"acme": 60}, 60, []tenant.Name{"hooli"}, []tenant.Name{"acme"}},
		"two of many": {
			map[tenant.Name]int{"acme": 200, "acme2": 200, "globex": 1, "initech": 0, "hooli": 0}, 450, []tenant.Name{"globex", "initech", "hooli"}, []tenant.Name{"acme", "acme2"},
		},
		"two of few":                   {map[tenant.Name]int{"acme": 200, "acme2": 200, "globex": 1}, 450, nil, []tenant.Name{"acme", "acme2", "globex"}},
		"two of many, and some of all": {map[tenant.Name]int{"acme": 200, "acme2": 200, "globex": 13, "initech": 13, "hooli": 0}, 450, nil, []tenant.Name{"acme", "globex", "hooli"}},
		"some of each":                 {map[tenant.Name]int{"acme": 20, "acme2": 20, "globex": 20}, 450, nil, []tenant.Name{"acme", "globex", "hooli"}},
		"a twentieth":                  {map[tenant.Name]int{"acme": 500, "globex": 1}, 10000, []tenant.Name{"acme", "globex"}, nil},
		"a bit more":                   {map[tenant.Name]int{"acme": 501, "globex": 1}, 10000, []tenant.Name{"globex"}, []tenant.Name{"acme"}},
		"all of all, large":            {map[tenant.Name]int{"acme": 5000, "globex": 5000, "initech": 5000}, 15000, nil, []tenant.Name{"acme", "globex", "hooli"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGuards(c, DefaultOrphanLimit, "restart").orphans
			if err := g.begin(tc.going, tc.all); (err == nil) != (tc.isNot == nil) {
				t.Errorf("at the start: %v", err)
			}
			for _, n := range tc.may {
				if err := g.allow(n, uuid.NewUUID(), tc.all); err != nil {
					t.Errorf("%s: %v", n, err)
				}
			}
			for _, n := range tc.isNot {
				if g.allow(n, uuid.NewUUID(), tc.all) == nil {
					t.Errorf("%s goes", n)
				}
			}
		})
	}
	g := newGuards(c, DefaultOrphanLimit, "restart").orphans
	count := func(n tenant.Name) (gone int) {
		for range 100 {
			if g.allow(n, uuid.NewUUID(), 100) == nil {
				gone++
			}
		}
		return gone
	}
	ServeMetrics()
	before := heldSoFar(t, heldOrphans)
	if acme, globex, initech := count("acme"), count("globex"), count("initech"); acme != 25 || globex != 25 || initech != 0 {
		t.Errorf("%d, %d and %d go", acme, globex, initech)
	}
	if held := heldSoFar(t, heldOrphans) - before; held != 250 {
		t.Errorf("a metric counts %v that may not go, want 250", held)
	}
	for i, want := range []bool{false, true, false} { // the log has said so, until one of it has gone
		if i == 1 {
			g.ofTenant("acme").note(uuid.NewUUID())
		}
		if halted, is := errors.AsType[haltedError](g.allow("acme", uuid.NewUUID(), 100)); !is || halted.first != want {
			t.Errorf("%d: the log says so once more: %v", i, halted.first)
		}
	}
	c.Step(orphanWindow - time.Second)
	count("initech")
	c.Step(2 * time.Second)
	if initech := count("initech"); initech != 25 {
		t.Errorf("%d of initech go: those that were not to go count", initech)
	}
	c.Step(orphanWindow + time.Second)
	if hooli := count("hooli"); hooli != 25 || len(g.byTenant) != 1 {
		t.Errorf("after a while %d go, and something is known of %d tenants", hooli, len(g.byTenant))
	}
}

// heldSoFar returns how many deletions of a kind have not been made.
func heldSoFar(t *testing.T, kind string) float64 {
	t.Helper()
	n, err := testutil.GetCounterMetricValue(heldDeletions.WithLabelValues(kind))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestHaltedAlone checks that what a tenant deletes while no syncer works keeps nothing of others on the host.
func TestHaltedAlone(t *testing.T) {
	globex := names.Namespace{Installation: "i", Tenant: "globex", TenantUID: "g", Name: "shop", UID: "gn"}
	theirs := hostNamespace(globex, "")
	theirs.UID, theirs.Annotations[boundAnnotation] = "gh", "true"
	before := (&syncer{dns: newDNSService(nil, "")}).translated(spacePod(func(p *corev1.Pod) { p.Name, p.UID = "db-0", "before" }), translate.Home{Namespace: globex, HostUID: "gh"}, network.Open{})
	before.UID, before.Status.Phase = "host-before", corev1.PodRunning
	objects := []runtime.Object{hostSpace(), theirs, before, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "globex|shop", UID: "gn"}}}
	for i := range 3 {
		objects = append(objects, hostPod(spacePod(func(p *corev1.Pod) { p.Name, p.UID = fmt.Sprint("gone-", i), types.UID(fmt.Sprint(i)) }), onNode))
	}
	w := newWorld(t, objects...)
	w.cache(w.tenants, &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "globex", UID: "g"}})
	if err := w.countOrphans(); err == nil || !strings.Contains(err.Error(), `3 of 4 objects on the host are made of what no space has, and are of the tenant "acme"`) {
		t.Errorf("at the start: %v", err)
	}
	if err := w.syncPod(t.Context(), item{podItem, "globex", "globex|shop", "db-0"}); err != nil {
		t.Error(err)
	}
	if err := w.syncPod(t.Context(), item{podItem, "acme", "acme|shop", "gone-0"}); err == nil {
		t.Error("a pod of acme goes")
	}
	w.expect(nil, []string{"delete pods host-before"})
}

// TestHaltedOfMany checks that some tenants that have deleted much while no syncer worked halt themselves alone.
func TestHaltedOfMany(t *testing.T) {
	var objects []runtime.Object
	tenants := []tenant.Name{"t-0", "t-1", "t-2", "t-3", "t-4"}
	for i, n := range tenants {
		of := names.Namespace{Installation: "i", Tenant: n, TenantUID: "t", Name: "shop", UID: "n"}
		host := hostNamespace(of, "")
		host.UID = types.UID(n)
		objects = append(objects, host)
		for name := range 3 {
			pod := spacePod(func(p *corev1.Pod) {
				p.Namespace, p.Name, p.UID = of.Flat().String(), fmt.Sprint(name), types.UID(fmt.Sprint(name))
			})
			there := (&syncer{dns: newDNSService(nil, "")}).translated(pod, translate.Home{Namespace: of, HostUID: host.UID}, network.Open{})
			there.UID = types.UID(fmt.Sprint(n, name))
			objects = append(objects, there)
			if i > 1 {
				objects = append(objects, pod)
			}
		}
	}
	w := newWorld(t, objects...)
	if err := w.countOrphans(); err == nil {
		t.Error("nobody is halted")
	}
	for i, n := range tenants {
		if err := w.orphans.allow(n, uuid.NewUUID(), w.hostCaches.objects()); (err != nil) != (i < 2) {
			t.Errorf("%s: %v", n, err)
		}
		w.clock.Step(2 * orphanWindow)
	}
}

func TestDeletions(t *testing.T) {
	c := testingclock.NewFakeClock(time.Unix(0, 0))
	d := newDeletions(c)
	for i := range 100 {
		d.note(types.UID(fmt.Sprint(i)), true)
	}
	if seen, ok := d.of("7"); !ok || !seen.forced {
		t.Errorf("got %v, %v", seen, ok)
	}
	c.Step(orphanWindow + time.Second)
	d.note("new", false)
	if _, ok := d.of("7"); ok || len(d.seen) != 1 {
		t.Errorf("%d are remembered", len(d.seen))
	}
}
