package quota

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenantry/tenantry/internal/server/storage"
	"github.com/tenantry/tenantry/internal/tenant"
)

const widgets = "count/widgets.example.com"

// newTestLedger returns a ledger over a store, of which the informers show the known quota
// and no change. A space holds three widgets when they are counted.
func newTestLedger(t *testing.T, s *fakeStore, known *corev1.ResourceQuota) *Ledger {
	t.Helper()
	recounter := newRecounter(s, func(context.Context, tenant.Name, corev1.ResourceList) (corev1.ResourceList, error) {
		return list(widgets, "3"), nil
	}, nil, 0)
	t.Cleanup(func() {
		recounter.uncounted.ShutDown()
		recounter.turns.ShutDown()
		recounter.quiet.ShutDown()
	})
	accounts := &accounts{store: s, latest: latestOf(t, known), count: recounter.count}
	refunds := &refunds{subtract: accounts.subtract, failed: recounter.notRefunded}
	accounts.advances = newAdvances(recounter.settle, refunds.giveBack)
	return &Ledger{
		accounts:  accounts,
		refunds:   refunds,
		recounter: recounter,
		measure:   &measure{},
		meters:    meters{},
		evaluator: newEvaluator(&accessor{read: accounts.ofTenant, write: accounts.charge}, meters{}, nil, nil, t.Context().Done()),
	}
}

// change returns the change of a widget in a namespace of acme.
func change(namespace string, before, after bool) storage.Change {
	object := func(exists bool) runtime.Object {
		if !exists {
			return nil
		}
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "w"}}
	}
	return storage.Change{
		Tenant: "acme", Resource: schema.GroupResource{Group: "example.com", Resource: "widgets"},
		Old: object(before), New: object(after),
	}
}

// TestSettle checks what is used after a write, and that nothing is given back to a quota
// that was not charged: that of the next tenant of the name.
func TestSettle(t *testing.T) {
	limit := list(widgets, "10")
	for name, tc := range map[string]struct {
		before, after bool // whether the object exists
		outcome       storage.Outcome
		replaced      bool // between charge and write
		want          string
		doubted       bool
	}{
		"a creation":                   {after: true, outcome: storage.Written, want: "5"},
		"a creation that is refused":   {after: true, outcome: storage.Dropped, want: "4"},
		"a creation without an answer": {after: true, outcome: storage.Unknown, want: "5", doubted: true},
		"a change":                     {before: true, after: true, outcome: storage.Written, want: "4"},
		"a deletion":                   {before: true, outcome: storage.Written, want: "3"},
		"a deletion without an answer": {before: true, outcome: storage.Unknown, want: "4", doubted: true},
		"a creation that is refused, of an old tenant": {after: true, outcome: storage.Dropped, replaced: true, want: "4", doubted: true},
		"a deletion, of an old tenant":                 {before: true, outcome: storage.Written, replaced: true, want: "4", doubted: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := &fakeStore{quota: newQuota("1", limit, limit, list(widgets, "4"))}
			known := s.quota.DeepCopy()
			l := newTestLedger(t, s, known)
			entry, err := l.Charge(t.Context(), change("default", tc.before, tc.after))
			if err != nil {
				t.Fatal(err)
			}
			if shared, err := l.accounts.latest.informer.Lister().ResourceQuotas(known.Namespace).Get(known.Name); err != nil || !cmp.Equal(known.Status, shared.Status) {
				t.Errorf("upstream has changed what all share: %v, %v", shared, err)
			}
			if tc.replaced {
				s.quota = newQuota("9", limit, limit, list(widgets, "4"))
				s.quota.UID = "next"
			}
			entry.Settle(tc.outcome)
			if got := s.used(widgets); got != tc.want {
				t.Errorf("%s widgets are used, want %s", got, tc.want)
			}
			if _, doubted := l.recounter.observation("acme"); doubted != tc.doubted {
				t.Errorf("the tenant will be recounted: %t, want %t", doubted, tc.doubted)
			}
		})
	}
}

// TestSettleInNamespace checks the same of the quota of a namespace.
func TestSettleInNamespace(t *testing.T) {
	limit := list(widgets, "10")
	for uid, want := range map[types.UID]string{"u": "3", "next": "4"} {
		s := &fakeStore{quota: newQuota("1", limit, limit, list(widgets, "4"))}
		s.quota.Namespace, s.quota.Name = "acme|team", "q"
		l := newTestLedger(t, s, s.quota.DeepCopy())
		l.namespaces = &namespaces{latest: l.accounts.latest}
		entry, err := l.Charge(t.Context(), change("team", true, false))
		if err != nil {
			t.Fatal(err)
		}
		s.quota.UID = uid
		entry.Settle(storage.Written)
		if got := s.used(widgets); got != want {
			t.Errorf("%s widgets are used of the quota with UID %q, want %s", got, uid, want)
		}
	}
}

// TestQuotasAreNotCharged checks that the quotas of a namespace are looked at when there is one more or less of them,
// and not whenever one of them is charged.
func TestQuotasAreNotCharged(t *testing.T) {
	s := &fakeStore{quota: newQuota("1", list("pods", "1"), list("pods", "1"), list("pods", "1"))}
	s.quota.Namespace, s.quota.Name = "acme|team", "q"
	l := newTestLedger(t, s, s.quota.DeepCopy())
	l.namespaces = &namespaces{latest: l.accounts.latest}
	for _, exists := range [][2]bool{{false, true}, {true, false}, {true, true}} {
		c := change("team", exists[0], exists[1])
		c.Resource = quotaResource
		if charged := l.inNamespace(t.Context(), c) != nil; charged == (exists[0] && exists[1]) {
			t.Errorf("is there before and after %v: charged %v", exists, charged)
		}
	}
}

// TestChargeReplaced charges a quota that is another one by now, which the informers do not
// show yet.
func TestChargeReplaced(t *testing.T) {
	limit := list(widgets, "10")
	for name, tc := range map[string]struct {
		hard, used corev1.ResourceList
		want       string
	}{
		"counted":     {limit, list(widgets, "1"), "2"},
		"not counted": {nil, nil, "4"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &fakeStore{quota: newQuota("5", limit, tc.hard, tc.used)}
			s.quota.UID = "next"
			l := newTestLedger(t, s, newQuota("1", limit, limit, list(widgets, "9")))
			if _, err := l.Charge(t.Context(), change("default", false, true)); err != nil {
				t.Fatal(err)
			}
			if got := s.used(widgets); got != tc.want {
				t.Errorf("%s widgets are used, want %s", got, tc.want)
			}
		})
	}
}
