package user

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/rbac"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
)

// stored returns a User as storage has it.
func stored(n tenant.Name, name, username string, uid types.UID) *v1alpha1.User {
	u := newUser(named(username))
	u.Name, u.UID, u.Annotations = name, uid, map[string]string{tenant.Annotation: n.String()}
	return u
}

func namespace(annotations, labels map[string]string) *core.Namespace {
	return &core.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "x", Annotations: annotations, Labels: labels}}
}

var forged = map[string]string{tenant.CreatorAnnotation: "forged", tenant.CreatedByLabel: "forged", "other": "kept"}

// stampOf returns what a namespace says of who has created it.
func stampOf(ns *core.Namespace) stamp {
	return stamp{ns.Annotations[tenant.CreatorAnnotation], ns.Labels[tenant.CreatedByLabel]}
}

func TestPrepareNamespace(t *testing.T) {
	index := NewIndex()
	ended := stored("acme", "ended", "ended", "4")
	ended.DeletionTimestamp = &metav1.Time{}
	index.Replace([]*v1alpha1.User{stored("acme", "a", "alice", "1"), stored("globex", "b", "bob", "2"), ended})
	index.seen.Reach(1)
	was := stamp{`{"tenant":"acme","name":"was"}`, "0"}
	existing := namespace(map[string]string{tenant.CreatorAnnotation: was.creator}, map[string]string{tenant.CreatedByLabel: was.createdBy})
	for name, tc := range map[string]struct {
		by        string
		of, space tenant.Name
		before    runtime.Object
		want      stamp
	}{
		"a User":                       {by: "alice", of: "acme", space: "acme", want: stamp{`{"tenant":"acme","name":"alice","uid":"uid"}`, "1"}},
		"somebody without":             {by: "carol", of: "acme", space: "acme", want: stamp{creator: `{"tenant":"acme","name":"carol","uid":"uid"}`}},
		"a User of another tenant":     {by: "bob", of: "acme", space: "acme", want: stamp{creator: `{"tenant":"acme","name":"bob","uid":"uid"}`}},
		"a foreign user":               {by: "alice", of: "globex", space: "acme", want: stamp{creator: `{"tenant":"globex","name":"alice","uid":"uid"}`}},
		"a User that is being deleted": {by: "ended", of: "acme", space: "acme", want: stamp{creator: `{"tenant":"acme","name":"ended","uid":"uid"}`}},
		"the platform":                 {by: "alice", of: tenant.System, space: "acme"},
		"the publisher":                {by: tenant.Publisher, of: tenant.System, space: "acme"},
		"an update":                    {by: "alice", of: "acme", space: "acme", before: existing, want: was},
		"an update of the platform's":  {by: "alice", of: "acme", space: "acme", before: namespace(nil, nil)},
		"an update by the publisher":   {by: tenant.Publisher, of: tenant.System, space: "acme", before: existing, want: was},
	} {
		for shape, to := range map[string]map[string]string{"forged": forged, "left out": nil} {
			t.Run(name+", "+shape, func(t *testing.T) {
				after := namespace(to, to)
				if err := index.Prepare(as(t.Context(), tc.by, tc.of, tc.space), tc.space, tc.before)(after); err != nil {
					t.Fatal(err)
				}
				if got := stampOf(after); got != tc.want {
					t.Errorf("got %v, want %v", got, tc.want)
				}
				if after.Labels["other"] != to["other"] || after.Annotations["other"] != to["other"] {
					t.Errorf("others became %v, %v", after.Labels, after.Annotations)
				}
			})
		}
	}
	if forged[tenant.CreatedByLabel] != "forged" {
		t.Error("a map that others may have was changed")
	}
	system := namespace(forged, forged)
	if err := index.Prepare(as(t.Context(), "admin", tenant.System, tenant.System), tenant.System, nil)(system); err != nil || stampOf(system) != (stamp{"forged", "forged"}) {
		t.Errorf("in the system space: %v, %v", stampOf(system), err)
	}
	// What is changed in place is read before.
	inPlace := existing.DeepCopy()
	prepare := index.Prepare(as(t.Context(), "alice", "acme", "acme"), "acme", inPlace)
	inPlace.Labels, inPlace.Annotations = nil, nil
	if err := prepare(inPlace); err != nil || stampOf(inPlace) != was {
		t.Errorf("changed in place: %v, %v", stampOf(inPlace), err)
	}
	if err := index.Prepare(t.Context(), "acme", nil)(namespace(nil, nil)); !errors.Is(err, tenant.ErrNoTenant) {
		t.Errorf("it is not known who creates it: %v", err)
	}
}

// TestPrepareWaits checks that a server that has just started does not take a User for somebody
// without.
func TestPrepareWaits(t *testing.T) {
	index := NewIndex()
	ended, end := context.WithCancel(t.Context())
	end()
	if err := index.Prepare(as(ended, "alice", "acme", "acme"), "acme", nil)(namespace(nil, nil)); !errors.Is(err, context.Canceled) {
		t.Errorf("before Users are read: %v", err)
	}
	go func() {
		index.Replace([]*v1alpha1.User{stored("acme", "a", "alice", "1")})
		index.seen.Reach(1)
	}()
	after := namespace(nil, nil)
	if err := index.Prepare(as(t.Context(), "alice", "acme", "acme"), "acme", nil)(after); err != nil || stampOf(after).createdBy != "1" {
		t.Errorf("got %v, %v", stampOf(after), err)
	}
}

// TestPrepareBinding checks that nobody is bound whose User is being deleted.
func TestPrepareBinding(t *testing.T) {
	index := NewIndex()
	ending := stored("acme", "a", "alice", "1")
	ending.DeletionTimestamp = &metav1.Time{}
	index.Replace([]*v1alpha1.User{ending, stored("acme", "b", "bob", "2"), stored("globex", "a", "carol", "3")})
	binding := func(kind string, names ...string) runtime.Object {
		b := &rbac.RoleBinding{}
		for _, name := range names {
			b.Subjects = append(b.Subjects, rbac.Subject{Kind: kind, Name: name})
		}
		return b
	}
	for name, tc := range map[string]struct {
		space   tenant.Name
		was, is runtime.Object
		refused bool
	}{
		"created":              {"acme", nil, binding(rbac.UserKind, "bob", "alice"), true},
		"added":                {"acme", binding(rbac.UserKind, "bob"), binding(rbac.UserKind, "bob", "alice"), true},
		"there already":        {"acme", binding(rbac.UserKind, "alice"), binding(rbac.UserKind, "alice", "bob"), false},
		"taken out":            {"acme", binding(rbac.UserKind, "alice", "bob"), binding(rbac.UserKind, "bob"), false},
		"a group of the name":  {"acme", nil, binding(rbac.GroupKind, "alice"), false},
		"a User that is there": {"acme", nil, binding(rbac.UserKind, "bob"), false},
		"in another space":     {"globex", nil, binding(rbac.UserKind, "alice"), false},
		"in the system space":  {tenant.System, nil, binding(rbac.UserKind, "alice"), false},
	} {
		prepared := index.PrepareBinding(t.Context(), tc.space, tc.was)
		if was, ok := tc.was.(*rbac.RoleBinding); ok { // which may be changed in place
			was.Subjects = append(was.Subjects[:0], tc.is.(*rbac.RoleBinding).Subjects[0])
		}
		if err := prepared(tc.is); apierrors.IsForbidden(err) != tc.refused || !tc.refused && err != nil {
			t.Errorf("%s: got %v", name, err)
		}
	}
	index.Delete(ending)
	if err := index.PrepareBinding(as(t.Context(), "bob", "acme", "acme"), "acme", nil)(binding(rbac.UserKind, "alice")); err != nil || len(index.ending) > 0 {
		t.Errorf("after its end: %v, %v", err, index.ending)
	}
	alice := as(t.Context(), "alice", "acme", "acme")
	if err := index.PrepareBinding(alice, "acme", nil)(binding(rbac.UserKind, "alice")); !apierrors.IsForbidden(err) {
		t.Errorf("by a request from before its end: %v", err)
	}
	index.ended[key{"acme", "alice"}] = time.Now()
	if err := index.PrepareBinding(alice, "acme", nil)(binding(rbac.UserKind, "alice")); err != nil {
		t.Errorf("when all requests from before have ended: %v", err)
	}
	index.ended[key{"acme", "alice"}] = time.Now().Add(time.Minute)
	index.Set(stored("acme", "a", "alice", "4"))
	if err := index.PrepareBinding(alice, "acme", nil)(binding(rbac.UserKind, "alice")); err != nil {
		t.Errorf("with another User: %v", err)
	}
}

func TestIndex(t *testing.T) {
	index := NewIndex()
	is := func(want string) {
		t.Helper()
		found, _ := index.Find("acme", "alice")
		if diff := cmp.Diff(want, string(found.UID)); diff != "" {
			t.Error(diff)
		}
	}
	first, second := stored("acme", "a", "alice", "2"), stored("acme", "b", "alice", "1")
	first.CreationTimestamp, second.CreationTimestamp = metav1.Unix(1, 0), metav1.Unix(2, 0)
	is("")
	index.Set(second)
	is("1")
	index.Set(first)
	index.Set(first)
	is("2")
	gone := first.DeepCopy()
	gone.DeletionTimestamp = &metav1.Time{}
	index.Set(gone)
	is("1")
	index.Delete(gone)
	index.Delete(second)
	is("")
	if len(index.users) > 0 {
		t.Errorf("%v are kept", index.users)
	}
	index.Replace([]*v1alpha1.User{first})
	index.Replace(nil)
	is("")
	if until := index.ended[key{"acme", "alice"}]; until.Before(time.Now()) {
		t.Error("it is not known that a User has ended that a list has no more")
	}
}
