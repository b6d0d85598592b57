package storage

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"

	"github.com/tenantry/tenantry/internal/tenant"
)

// nextEvent returns the next event of a watch as its type and the name of the object.
func nextEvent(t *testing.T, watcher watch.Interface) string {
	t.Helper()
	select {
	case event, ok := <-watcher.ResultChan():
		if !ok {
			t.Fatal("the watch has ended")
		}
		object, err := meta.Accessor(event.Object)
		if err != nil {
			t.Fatalf("%s: %v, %v", event.Type, event.Object, err)
		}
		return string(event.Type) + " " + object.GetName()
	case <-time.After(10 * time.Second):
		t.Fatal("no event")
		return ""
	}
}

// TestStoredListsAreObjects checks that the cache goes on with objects that look like lists, or
// that upstream's watch cannot read as such, whoever has stored them.
func TestStoredListsAreObjects(t *testing.T) {
	b := newBackend(t)
	widgets := b.widgets(t, "a", true)
	watcher := widgets.watch(t, "a", "")
	client := b.server.Client()
	stored := []string{`[]`, `["a"]`, `[{"apiVersion": "v1", "kind": "Pod"}]`, `{}`, `null`, `"a"`, `7`}
	for i, items := range stored {
		name := fmt.Sprint("w", i)
		if _, err := client.Put(t.Context(), etcdPrefix+"/example.com/widgets/a/ns/"+name, fmt.Sprintf(
			`{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": %q, "namespace": "ns", "annotations": {%q: "a"}}, "items": %s}`,
			name, storedTenant, items)); err != nil {
			t.Fatal(err)
		}
		if got := nextEvent(t, watcher); got != "ADDED "+name {
			t.Errorf("items %s: %s", items, got)
		}
	}
	if found, _ := widgets.list(t, "a", "", from("0", "")); len(found) != len(stored) {
		t.Errorf("found %v", found)
	}
	for i := range stored {
		name := fmt.Sprint("w", i)
		widgets.label(t, "a", "ns", name, "changed")
		if got := nextEvent(t, watcher); got != "MODIFIED "+name {
			t.Errorf("items %s: %s", stored[i], got)
		}
		widgets.remove(t, "a", "ns", name)
		if got := nextEvent(t, watcher); got != "DELETED "+name {
			t.Errorf("items %s: %s", stored[i], got)
		}
	}
	widgets.create(t, "a", "ns", "after")
	if got := nextEvent(t, watcher); got != "ADDED after" {
		t.Error(got)
	}
}

// TestNoListsAreStored checks that what looks like a list is refused on the way to etcd.
func TestNoListsAreStored(t *testing.T) {
	widgets := newBackend(t).widgets(t, "a", true)
	ctx := widgets.in(t, tenant.Scope("a"), "ns")
	refused := func(what string, err error) {
		t.Helper()
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), `"w" is invalid: items: Forbidden`) {
			t.Errorf("%s: %v", what, err)
		}
	}
	object := func(content map[string]any) *unstructured.Unstructured {
		made := widgets.newObject().(*unstructured.Unstructured)
		made.SetName("w")
		made.SetNamespace("ns")
		for field, value := range content {
			made.Object[field] = value
		}
		return made
	}
	for _, items := range []any{[]any{}, []any{"a"}, map[string]any{}, nil, "a"} {
		refused(fmt.Sprint("created with ", items),
			widgets.Create(ctx, widgets.key("ns", "w"), object(map[string]any{"items": items}), widgets.newFunc(), 0))
	}
	if err := widgets.Create(ctx, widgets.key("ns", "w"), object(map[string]any{"spec": map[string]any{"items": []any{"a"}}, "Items": []any{"a"}}), widgets.newFunc(), 0); err != nil {
		t.Fatal(err)
	}
	update := func(change func(*unstructured.Unstructured)) error {
		return widgets.GuaranteedUpdate(ctx, widgets.key("ns", "w"), widgets.newFunc(), false, nil,
			func(input runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
				change(input.(*unstructured.Unstructured))
				return input, nil, nil
			}, nil)
	}
	refused("updated", update(func(u *unstructured.Unstructured) { u.Object["items"] = []any{} }))
}

// TestConvertedLists checks that no conversion webhook makes what looks like a list of an object.
func TestConvertedLists(t *testing.T) {
	codec := &foreignCodec{Codec: listingCodec{customCodec}, foreign: func(tenant.Name) bool { return false }}
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "w"}}}
	if data, err := runtime.Encode(codec, object); !apierrors.IsInvalid(err) || len(data) > 0 {
		t.Errorf("encoded as %s, %v", data, err)
	}
	object.Object["items"] = []any{} // stored by an earlier version, and read by this one
	if _, err := runtime.Encode(codec, object); err != nil {
		t.Error(err)
	}
}

// listingCodec makes what it encodes look like a list.
type listingCodec struct{ runtime.Codec }

func (c listingCodec) Encode(obj runtime.Object, w io.Writer) error {
	converted := obj.DeepCopyObject().(*unstructured.Unstructured)
	converted.Object["items"] = []any{}
	return c.Codec.Encode(converted, w)
}
