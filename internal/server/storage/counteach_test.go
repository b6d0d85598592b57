package storage

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage/storagebackend"

	"github.com/tenantry/tenantry/internal/tenant"
)

// TestCountEach counts custom resources that a server was never asked for, more than one transaction has room for, and
// some that nobody has defined.
func TestCountEach(t *testing.T) {
	writer := newBackend(t)
	widgets := schema.GroupResource{Group: "example.com", Resource: "widgets"}
	for _, n := range []tenant.Name{"foo", "bar"} {
		writer.definitions(t).create(t, n, "", widgets.String())
		for i := range 3 {
			writer.widgets(t, n, true).create(t, n, "a", fmt.Sprint(i))
		}
		writer.widgets(t, n, true).create(t, n, "b", "x")
	}
	config := storagebackend.NewDefaultConfig(etcdPrefix, unstructured.UnstructuredJSONScheme)
	reader := &Ranges{Client: writer.ranges.Client, Custom: customGetter{config}}
	reader.add(etcdPrefix, "/apiextensions.k8s.io/customresourcedefinitions/", etcdRange{resource: definitions})
	asked := []schema.GroupResource{widgets}
	for i := range maxRanges {
		other := schema.GroupResource{Group: "example.com", Resource: fmt.Sprint("others", i)}
		reader.add(etcdPrefix, "/example.com/"+other.Resource+"/", etcdRange{resource: other, custom: true})
		asked = append(asked, other)
	}
	unknown := schema.GroupResource{Group: "example.com", Resource: "unknown"}
	asked = append(asked, unknown)
	for namespace, want := range map[string]int64{"": 4, "a": 3, "b": 1, "c": 0} {
		counts, err := reader.CountEach(t.Context(), "foo", asked, namespace)
		if err != nil {
			t.Fatal(err)
		}
		if _, known := counts[unknown]; len(counts) != len(asked) || !known {
			t.Errorf("%d are counted, want %d", len(counts), len(asked))
		}
		if counts[widgets] != want {
			t.Errorf("in %q are %d, want %d", namespace, counts[widgets], want)
		}
	}
	none, err := reader.CountEach(t.Context(), "foo", nil, "a")
	if diff := cmp.Diff(map[schema.GroupResource]int64{}, none); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if _, err := reader.CountEach(t.Context(), tenant.System, asked, ""); err == nil {
		t.Error("the system space was counted")
	}
}
