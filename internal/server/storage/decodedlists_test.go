package storage

import (
	"context"
	"errors"
	"strconv"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/until"
)

// TestDecodedLists checks that lists of a space which are decoded for it do not take more memory than they may at once, unless there is one alone.
func TestDecodedLists(t *testing.T) {
	const maps, objects = 100, 10
	b := newBackend(t)
	b.cacheMemory = NewCacheMemory(objects*400*maps, 0) // all together, in a cache
	widgets, others, cached := b.customs(t, "a", true, false), b.customs(t, "b", true, false), b.widgets(t, "a", true)
	for n, s := range map[tenant.Name]*store{"a": widgets, "b": others} {
		for i := range objects {
			if err := s.Create(s.in(t, n.Scope(), "ns"), s.key("ns", strconv.Itoa(i)), dense(strconv.Itoa(i), maps), s.newFunc(), 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	by := func(s *store, n tenant.Name) context.Context {
		return request.WithUser(s.in(t, n.Scope(), "ns"), &user.DefaultInfo{Name: "dev", Extra: map[string][]string{tenant.UserExtraKey: {n.String()}}})
	}
	list := func(ctx context.Context, s *store) error {
		return s.GetList(ctx, s.prefix, storage.ListOptions{Recursive: true, Predicate: storage.Everything}, s.newListFunc())
	}
	expect := func(what string, fits bool, err error) {
		t.Helper()
		if fits != (err == nil) || err != nil && !apierrors.IsTooManyRequests(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	first, end := context.WithCancel(by(widgets, "a"))
	defer end()
	expect("one", true, list(first, widgets))
	second, endSecond := context.WithCancel(by(widgets, "a"))
	expect("another one beside it", false, list(second, widgets))
	expect("one that a cache answers", true, list(second, cached))
	expect("another tenant's", true, list(by(others, "b"), others))
	platform := request.WithUser(widgets.in(t, "a", "ns"), &user.DefaultInfo{Name: user.APIServerUser, Groups: []string{user.SystemPrivilegedGroup}})
	expect("one of the platform", true, list(platform, widgets))
	late := &decodedList{memory: b.cacheMemory, of: "late"}
	late.end()
	heldBy := func(n tenant.Name) int64 {
		b.cacheMemory.mu.Lock()
		defer b.cacheMemory.mu.Unlock()
		return b.cacheMemory.lists[n]
	}
	if err := late.add(dense("x", 1)); !errors.Is(err, context.Canceled) || heldBy("late") != 0 {
		t.Errorf("what is decoded when the client has gone: %v; %d bytes count", err, heldBy("late"))
	}
	end()
	endSecond()
	until.True(t, "nothing is held of lists that have ended", func() bool { return heldBy("a") == 0 })
	expect("another one after it", true, list(by(widgets, "a"), widgets))
}
