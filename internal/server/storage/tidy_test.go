package storage

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/storage/storagebackend"
)

// knownCustom returns the resources whose ranges are known and custom.
func (r *Ranges) knownCustom() sets.Set[string] {
	resources := sets.New[string]()
	for _, stored := range r.snapshot() {
		if stored.custom {
			resources.Insert(stored.resource.String())
		}
	}
	return resources
}

// TestRangesForget checks that what tenants have defined and deleted is not counted for ever, and what is not
// forgotten.
func TestRangesForget(t *testing.T) {
	b := newBackend(t)
	b.configMaps(t, false)
	b.definitions(t).create(t, "system", "", "shared.example.com")
	b.definitions(t).create(t, "foo", "", "own.example.com")
	b.widgets(t, "bar", true).create(t, "bar", "default", "x")
	learn := func(resource string) {
		t.Helper()
		if err := b.ranges.Learn(schema.GroupResource{Group: "example.com", Resource: resource}); err != nil {
			t.Fatal(err)
		}
	}
	for _, resource := range []string{"shared", "own"} {
		learn(resource)
	}
	learnMany := func(to int) {
		t.Helper()
		for i := b.ranges.knownCustom().Len(); i < to; i++ {
			learn(fmt.Sprint("former", i))
		}
	}
	count := func() {
		t.Helper()
		if counts, err := b.ranges.Count(t.Context(), "other"); err != nil || len(counts) > 0 {
			t.Fatal(counts, err)
		}
	}
	learnMany(fewRanges)
	count()
	if got := b.ranges.knownCustom().Len(); got != fewRanges {
		t.Errorf("%d ranges are known, want that none of %d is forgotten", got, fewRanges)
	}
	learnMany(fewRanges + 1)
	client, meanwhile := b.ranges.Client, false
	b.ranges.Client = func(transport storagebackend.TransportConfig) (*clientv3.Client, error) {
		if !meanwhile {
			meanwhile = true
			learn("former10")
			learn("new")
		}
		return client(transport)
	}
	if err := b.ranges.tidy(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := sets.New("shared.example.com", "widgets.example.com", "former10.example.com", "new.example.com")
	if diff := cmp.Diff(want, b.ranges.knownCustom()); diff != "" {
		t.Errorf("known are:\n%s", diff)
	}
	if len(b.ranges.of(schema.GroupResource{Resource: "configmaps"})) != 1 {
		t.Error("a built-in resource is forgotten")
	}
	for i, stored := range b.ranges.snapshot() {
		if b.ranges.at[stored.prefix] != i || len(b.ranges.at) != len(b.ranges.known) {
			t.Errorf("%s is not found", stored.prefix)
		}
	}
	// What a space has defined is learned again when it is asked for.
	if _, err := b.server.Client().Put(t.Context(), etcdPrefix+"/example.com/own/foo/default/x", "{}"); err != nil {
		t.Fatal(err)
	}
	counts, err := b.ranges.Count(t.Context(), "foo")
	if diff := cmp.Diff(map[string]int64{"own.example.com": 1, definitions.String(): 1}, counts); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

// TestRangesForgetNothing checks that nothing is forgotten where nobody can say what is defined.
func TestRangesForgetNothing(t *testing.T) {
	b := newBackend(t)
	for i := range fewRanges + 1 {
		if err := b.ranges.Learn(schema.GroupResource{Group: "example.com", Resource: fmt.Sprint("r", i)}); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := b.ranges.tidy(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := b.ranges.knownCustom().Len(); got != fewRanges+1 {
			t.Errorf("%d are known, want %d", got, fewRanges+1)
		}
	}
}
