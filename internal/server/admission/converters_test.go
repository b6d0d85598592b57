package admission

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/openapi"

	"github.com/tenantry/tenantry/internal/server/storage/cachememory"
)

// groupVersion is a group version whose schemas have so many bytes.
type groupVersion struct {
	openapi.GroupVersion
	bytes int
}

func (v groupVersion) Schema(string) ([]byte, error) { return make([]byte, v.bytes), nil }

type groupVersions map[string]openapi.GroupVersion

func (v groupVersions) Paths() (map[string]openapi.GroupVersion, error) { return v, nil }

// TestConverters checks that what mutating policies make of schemas counts as long as their plugin is there, which ends
// where there is no room for more.
func TestConverters(t *testing.T) { synctest.Test(t, convertersCount) }

func convertersCount(t *testing.T) {
	budget, why, forgotten := cachememory.New(1<<20, 0), &refusals{}, 0
	ctx, stop := context.WithCancel(t.Context())
	client := countedClient{groupVersions{"apis/a/v1": groupVersion{bytes: 1000}, "apis/b/v1": groupVersion{bytes: 1 << 20}},
		newConverters(ctx, spaceReads{newReads(), tenantKey{tenant: "acme"}, budget, why, func() { forgotten++ }})}
	none := budget.Usage().Bytes["acme"]
	paths, err := client.Paths()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if data, err := paths["apis/a/v1"].Schema("application/json"); err != nil || len(data) != 1000 {
			t.Fatalf("schemas of %d bytes: %v", len(data), err)
		}
	}
	if made := budget.Usage().Bytes["acme"] - none; made != converterShare*1000 {
		t.Errorf("what is made of 1000 bytes counts %d bytes", made)
	}
	for _, want := range []int{0, 1} {
		if _, err := paths["apis/b/v1"].Schema("application/json"); err == nil || forgotten != want {
			t.Errorf("without room for more: %v; the plugin was forgotten %d times, not %d", err, forgotten, want)
		}
		time.Sleep(2 * converterAge)
	}
	refused := why.explain(apierrors.NewServiceUnavailable("Resource kind X not found. " + missing[1])).Error()
	if !strings.Contains(refused, "; schemas of apis/b/v1, which mutating policies need, are not read: the definitions and policies") {
		t.Errorf("a policy says: %s", refused)
	}
	stop()
	if synctest.Wait(); len(budget.Usage().Bytes) > 0 {
		t.Error("converters of a plugin that has ended count")
	}
}

// TestConvertersAtOnce checks that schemas which many requests read at once, to make a converter of each, are handed
// out over some time, and all of them when the plugin has ended.
func TestConvertersAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		const schema = 4 << 20
		by := spaceReads{newReads(), tenantKey{tenant: "many"}, nil, &refusals{}, nil}
		client := countedClient{groupVersions{"apis/a/v1": groupVersion{bytes: schema}}, newConverters(ctx, by)}
		paths, err := client.Paths()
		if err != nil {
			t.Fatal(err)
		}
		var read atomic.Int64
		for range 10 {
			go func() {
				if _, err := paths["apis/a/v1"].Schema("application/json"); err == nil {
					read.Add(1)
				}
			}()
		}
		expect := func(want int64) {
			t.Helper()
			if synctest.Wait(); read.Load() != want {
				t.Errorf("%d have been handed out, want %d", read.Load(), want)
			}
		}
		expect(int64(by.converters.AtOnce / schema / converterShare))
		time.Sleep(time.Second)
		expect(3)
		stop()
		expect(10)
	})
}
