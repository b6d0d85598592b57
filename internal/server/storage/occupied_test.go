package storage

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage/storagebackend"

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
	ranges, err := b.ranges.occupied(t.Context(), "foo", b.ranges.snapshot())
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

// metered counts what is read from etcd outside of transactions.
type metered struct {
	clientv3.KV
	keys, values, pages int
}

func (m *metered) Get(ctx context.Context, key string, options ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	response, err := m.KV.Get(ctx, key, options...)
	if err == nil {
		m.pages++
		m.keys += len(response.Kvs)
		for _, kv := range response.Kvs {
			if len(kv.Value) > 0 {
				m.values++
			}
		}
	}
	return response, err
}

// TestCountsReadLittle checks how much is read to find that a space is not empty, or that it is.
func TestCountsReadLittle(t *testing.T) {
	const many = pageSize + 2*smallPage
	custom := func(n tenant.Name) string {
		return `{"metadata":{"annotations":{"` + storedTenant + `":"` + string(n) + `"}}}`
	}
	for name, tc := range map[string]struct {
		custom bool
		// below is where the keys are below that of the tenant, %d is their number; value is what they have.
		below, value string
		last         string // one key more
		want         int64
		exact        int64 // what CountOf says
		keys, values int   // at most
	}{
		"many objects":                               {below: "default/%04d", value: "x", want: many, exact: many, keys: smallPage},
		"objects of the system's namespace":          {below: "%04d", value: "x", keys: many},
		"one behind them":                            {below: "%04d", value: "x", last: "default/x", want: 1, exact: 1, keys: many + 1},
		"many custom resources":                      {custom: true, below: "default/%04d", value: custom("foo"), want: many, exact: many, keys: smallPage},
		"many without namespace":                     {custom: true, below: "%04d", value: custom("foo"), want: many, exact: many, keys: 2 * smallPage, values: smallPage},
		"custom resources of the system's namespace": {custom: true, below: "%04d", value: custom(tenant.System), keys: 2 * many, values: many},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBackend(t)
			things := schema.GroupResource{Group: "example.com", Resource: "things"}
			b.ranges.add(etcdPrefix, "/example.com/things/", etcdRange{resource: things, namespaced: true, custom: tc.custom})
			etcd := b.server.Client()
			put := func(key string) {
				if _, err := etcd.Put(t.Context(), etcdPrefix+"/example.com/things/foo/"+key, tc.value); err != nil {
					t.Fatal(err)
				}
			}
			for i := range many {
				put(fmt.Sprintf(tc.below, i))
			}
			if tc.last != "" {
				put(tc.last)
			}
			meter := &metered{KV: etcd.KV}
			client := clientv3.NewCtxClient(t.Context())
			client.KV = meter
			b.ranges.Client = func(storagebackend.TransportConfig) (*clientv3.Client, error) { return client, nil }
			counts, err := b.ranges.Count(t.Context(), "foo")
			if err != nil {
				t.Fatal(err)
			}
			if counts[things.String()] != tc.want {
				t.Errorf("counted %v, want %d", counts, tc.want)
			}
			if meter.keys > tc.keys || meter.values > tc.values {
				t.Errorf("%d keys and %d values were read in %d pages, want at most %d and %d", meter.keys, meter.values, meter.pages, tc.keys, tc.values)
			}
			*meter = metered{KV: etcd.KV}
			has, err := b.ranges.Has(t.Context(), "foo", things)
			if err != nil || has != (tc.want > 0) {
				t.Errorf("has %v, %v", has, err)
			}
			if meter.keys > tc.keys || meter.values > tc.values {
				t.Errorf("%d keys and %d values were read to find one, want at most %d and %d", meter.keys, meter.values, tc.keys, tc.values)
			}
			if exact, err := b.ranges.CountOf(t.Context(), "foo", things); err != nil || exact != tc.exact {
				t.Errorf("there are %d, %v, want %d", exact, err, tc.exact)
			}
		})
	}
}
