package storage

import (
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/storage"

	"github.com/tenantry/tenantry/internal/tenant"
)

func TestListsAreLimited(t *testing.T) {
	b := newBackend(t)
	stores := map[string]*store{"cache": b.configMaps(t, true), "etcd": b.configMaps(t, false)}
	var last string
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		for _, n := range []tenant.Name{"foo", "foobar", tenant.System} {
			last = version(t, stores["cache"].create(t, n, "default", name))
		}
	}
	const all = 5
	unpaged := func(l *ListLimit) { l.Unpaged = true }
	tests := map[string]struct {
		limit   int64
		change  func(*ListLimit)
		request func(*storage.ListOptions)
		want    int
		more    bool
		refused bool
	}{
		"within":                              {limit: all, request: from("", ""), want: all},
		"beyond":                              {limit: all - 1, request: from("", ""), refused: true},
		"far beyond":                          {limit: 1, request: from("", ""), refused: true},
		"of what is selected":                 {limit: 1, request: named("c"), want: 1},
		"any version, within":                 {limit: all, request: from("0", ""), want: all},
		"any version, beyond":                 {limit: all - 1, request: from("0", ""), refused: true},
		"a version, within":                   {limit: all, request: from(last, ""), want: all},
		"a version, beyond":                   {limit: all - 1, request: from(last, ""), refused: true},
		"not older than, within":              {limit: all, request: from(last, metav1.ResourceVersionMatchNotOlderThan), want: all},
		"not older than, beyond":              {limit: all - 1, request: from(last, metav1.ResourceVersionMatchNotOlderThan), refused: true},
		"exact, within":                       {limit: all, request: from(last, metav1.ResourceVersionMatchExact), want: all},
		"exact, beyond":                       {limit: all - 1, request: from(last, metav1.ResourceVersionMatchExact), refused: true},
		"a small page":                        {limit: 2, request: page(1, ""), want: 1, more: true},
		"a page of the limit":                 {limit: 2, request: page(2, ""), want: 2, more: true},
		"a negative page":                     {limit: all - 1, request: page(-1, ""), refused: true},
		"a large page":                        {limit: 2, request: page(500, ""), want: 2, more: true},
		"a page of any version":               {limit: 2, request: func(o *storage.ListOptions) { page(3, "")(o); from("0", "")(o) }, want: 2, more: true},
		"pages in one answer, within":         {limit: all, change: unpaged, request: page(2, ""), want: 2, more: true},
		"pages in one answer, beyond":         {limit: all - 1, change: unpaged, request: page(2, ""), refused: true},
		"pages in one answer, what is chosen": {limit: 1, change: unpaged, request: named("c"), want: 1},
	}
	for where, s := range stores {
		s.list(t, "foo", "default", from(last, "")) // the cache follows
		limited := &limitedLists{Interface: s.Space, resource: schema.GroupResource{Resource: "configmaps"}, newList: s.newListFunc}
		in := func(t *testing.T, limit ListLimit, request func(*storage.ListOptions)) (int, string, error) {
			ctx := WithListLimit(s.in(t, "foo", "default"), limit)
			list := s.newListFunc()
			err := limited.GetList(ctx, registry.NamespaceKeyRootFunc(ctx, s.prefix), listOptions(request), list)
			return meta.LenList(list), list.(metav1.ListInterface).GetContinue(), err
		}
		for name, tc := range tests {
			t.Run(where+"/"+name, func(t *testing.T) {
				limit := ListLimit{Tenant: "foo", Objects: tc.limit}
				if tc.change != nil {
					tc.change(&limit)
				}
				got, token, err := in(t, limit, tc.request)
				switch {
				case tc.refused && !apierrors.IsRequestEntityTooLargeError(err):
					t.Fatalf("%d objects, error %v, want a refusal", got, err)
				case !tc.refused && (err != nil || got != tc.want || (token != "") != tc.more):
					t.Fatalf("%d objects, token %q, error %v; want %d, more: %v", got, token, err, tc.want, tc.more)
				}
			})
		}
		t.Run(where+"/the rest", func(t *testing.T) {
			_, token, err := in(t, ListLimit{Objects: 2}, page(2, ""))
			if err != nil {
				t.Fatal(err)
			}
			if got, rest, err := in(t, ListLimit{Objects: 3}, page(0, token)); err != nil || got != 3 || rest != "" {
				t.Errorf("%d objects, token %q, error %v", got, rest, err)
			}
			if _, _, err := in(t, ListLimit{Objects: 2}, page(0, token)); !apierrors.IsRequestEntityTooLargeError(err) {
				t.Errorf("beyond the limit: %v", err)
			}
		})
		for name, tc := range map[string]struct {
			limit   int64
			request func(*storage.ListOptions)
			refused bool
		}{
			"within":                {limit: all, request: from("", "")},
			"beyond":                {limit: all - 1, request: from("", ""), refused: true},
			"any version":           {limit: all - 1, request: from("0", ""), refused: true},
			"streaming":             {limit: all - 1, request: streaming, refused: true},
			"from now on":           {limit: 1, request: from(last, "")},
			"of what is selected":   {limit: 1, request: named("c")},
			"without initial state": {limit: 1, request: func(o *storage.ListOptions) { from(last, "")(o); o.Predicate.AllowWatchBookmarks = true }},
		} {
			t.Run(fmt.Sprintf("%s/watch %s", where, name), func(t *testing.T) {
				ctx := WithListLimit(s.in(t, "foo", "default"), ListLimit{Objects: tc.limit})
				w, err := limited.Watch(ctx, registry.NamespaceKeyRootFunc(ctx, s.prefix), listOptions(tc.request))
				if err == nil {
					w.Stop()
				}
				if apierrors.IsRequestEntityTooLargeError(err) != tc.refused || !tc.refused && err != nil {
					t.Errorf("refused: %v, want %v", err, tc.refused)
				}
			})
		}
	}
}

// streaming asks for the current state by a watch.
func streaming(o *storage.ListOptions) {
	send := true
	o.SendInitialEvents, o.ResourceVersionMatch, o.Predicate.AllowWatchBookmarks = &send, metav1.ResourceVersionMatchNotOlderThan, true
}
