package storage

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tenantry/tenantry/internal/tenant"
)

// fill writes keys of tenant foo below a prefix.
func (b *backend) fill(t *testing.T, prefix string, keys int) {
	t.Helper()
	for i := range keys {
		if _, err := b.server.Client().Put(t.Context(), fmt.Sprintf("%sfoo/%03d", prefix, i), "value"); err != nil {
			t.Fatal(err)
		}
	}
}

// More ranges than one request may ask for, with many keys, few and none.
func TestRangesManyResources(t *testing.T) {
	b := newBackend(t)
	want, objects := map[string]int64{}, int64(0)
	for i := range 2*maxRanges + 10 {
		name, keys := fmt.Sprintf("r%03d", i), 0
		switch {
		case i == 3, i == maxRanges:
			keys = 2*smallPage + 1
		case i%7 == 0:
			keys = i%5 + 1
		}
		b.ranges.add(etcdPrefix, "/"+name+"/", etcdRange{resource: schema.GroupResource{Resource: name}})
		b.fill(t, fullPrefix(etcdPrefix, "/"+name+"/"), keys)
		if keys > 0 {
			want[name], objects = int64(keys), objects+int64(keys)
		}
	}
	counts, err := b.ranges.Count(t.Context(), "foo")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, counts); diff != "" {
		t.Error(diff)
	}
	all := func(schema.GroupResource, string) bool { return true }
	for n, want := range map[tenant.Name]int64{"foo": objects, "fo": 0, "fooo": 0} {
		stored, bytes, err := b.ranges.Stored(t.Context(), n, all)
		if err != nil {
			t.Fatal(err)
		}
		if stored != want || bytes != want*int64(len("value")) {
			t.Errorf("of %q are stored %d objects with %d bytes, want %d", n, stored, bytes, want)
		}
	}
	if _, _, err := b.ranges.Stored(t.Context(), tenant.System, all); err == nil || !strings.Contains(err.Error(), "not a tenant with a space of its own") {
		t.Errorf("the system space was counted: %v", err)
	}
}

// What is written after it was asked which ranges are occupied is read as well.
func TestRangesGrow(t *testing.T) {
	b := newBackend(t)
	b.ranges.add(etcdPrefix, "/a/", etcdRange{})
	b.ranges.add(etcdPrefix, "/b/", etcdRange{})
	b.fill(t, etcdPrefix+"/a/", 2)
	b.fill(t, etcdPrefix+"/b/", 1)
	ranges, err := b.ranges.occupied(t.Context(), "foo")
	if err != nil {
		t.Fatal(err)
	}
	b.fill(t, etcdPrefix+"/a/", 3*smallPage)
	read := 0
	if err := readAll(t.Context(), ranges, func(occupied, string, []byte) { read++ }); err != nil {
		t.Fatal(err)
	}
	if want := 3*smallPage + 1; read != want {
		t.Errorf("read %d keys, want %d", read, want)
	}
}

func TestFew(t *testing.T) {
	one, other := &clientv3.Client{}, &clientv3.Client{}
	in := func(client *clientv3.Client, keys ...int64) (ranges []occupied) {
		for _, n := range keys {
			ranges = append(ranges, occupied{client: client, keys: n})
		}
		return ranges
	}
	for name, tc := range map[string]struct {
		ranges []occupied
		want   int
	}{
		"one":                    {in(one, 1), 1},
		"one with much":          {in(one, smallPage+1), 1},
		"one with much, another": {in(one, smallPage+1, 1), 1},
		"together a small page":  {in(one, smallPage-3, 1, 2), 3},
		"together more":          {in(one, smallPage-3, 1, 3, 1), 2},
		"another etcd":           {append(in(one, 1, 1), in(other, 1)...), 2},
	} {
		t.Run(name, func(t *testing.T) {
			if got := readable(tc.ranges); got != tc.want {
				t.Errorf("%d ranges are read at once, want %d", got, tc.want)
			}
		})
	}
}
