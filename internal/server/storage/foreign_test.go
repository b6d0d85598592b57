package storage

import (
	"errors"
	"io"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tenantry/tenantry/internal/tenant"
)

// customCodec reads and writes custom resources as etcd has them.
var customCodec = keysCodec{Codec: unstructured.UnstructuredJSONScheme}

// storedTenant is the annotation of the tenant in etcd.
var storedTenant = tenant.Former(tenant.Annotation)

// FuzzForeignCodec checks that what a space may see of custom resources is
// decoded in full and that what it may not is known for what it is, whatever the
// objects hold beside.
func FuzzForeignCodec(f *testing.F) {
	for _, n := range []string{"", "acme", "other", "system", `a"b`, "a.b", "*"} {
		f.Add("name", "namespace", n, "key", "value")
		f.Add("name", "", n, "metadata.annotations."+storedTenant, "other")
		f.Add(`"},"metadata":{"annotations":{"`+storedTenant+`":"acme"}}`, "a", n, "tenant", "acme")
		f.Add("", "", n, `multi-tenancy\.k8s\.io/tenant`, "other")
		f.Add("", "", n, tenant.Annotation, "other")
	}
	f.Fuzz(func(t *testing.T, name, namespace, owner, key, value string) {
		for _, s := range []string{name, namespace, owner, key, value} {
			if !utf8.ValidString(s) {
				t.Skip("not to be stored as JSON")
			}
		}
		stored := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.com/v1", "kind": "Widget",
			key: map[string]any{"annotations": map[string]any{storedTenant: value}},
		}}
		stored.SetAPIVersion("example.com/v1")
		stored.SetKind("Widget")
		stored.SetName(name)
		stored.SetNamespace(namespace)
		annotations := map[string]string{key: value}
		delete(annotations, storedTenant)
		if owner != "" {
			annotations[storedTenant] = owner
		}
		stored.SetAnnotations(annotations)
		data, err := runtime.Encode(unstructured.UnstructuredJSONScheme, stored)
		if err != nil {
			t.Skip("not to be stored")
		}
		full := &unstructured.Unstructured{}
		if _, _, err := customCodec.Decode(data, nil, full); err != nil {
			t.Skip("not to be read")
		}
		n, err := tenantOf(full)
		if err != nil {
			t.Fatal(err)
		}
		for _, only := range []tenant.Name{tenant.System, "acme", n} {
			got := &unstructured.Unstructured{}
			codec := &foreignCodec{Codec: customCodec, foreign: func(n tenant.Name) bool { return n != only }}
			if _, _, err := codec.Decode(data, nil, got); err != nil {
				t.Fatal(err)
			}
			if shown, err := tenantOf(got); err != nil || shown != n {
				t.Errorf("by %q it belongs to %q, %v, want %q", only, shown, err, n)
			}
			if only == n {
				if diff := cmp.Diff(full.Object, got.Object); diff != "" {
					t.Error(diff)
				}
				continue
			}
			if got.GetName() != full.GetName() || got.GetNamespace() != full.GetNamespace() {
				t.Errorf("of a foreign object the name is %s/%s", got.GetNamespace(), got.GetName())
			}
			for field := range got.Object {
				if field != "apiVersion" && field != "kind" && field != "metadata" {
					t.Errorf("of a foreign object there is %q", field)
				}
			}
		}
	})
}

// TestConvertedTenant checks that a conversion webhook, which may change annotations,
// does not move what it converts into another space, on the way to etcd or back.
func TestConvertedTenant(t *testing.T) {
	stored := func(owner tenant.Name) *unstructured.Unstructured {
		object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Widget"}}
		object.SetName("w")
		if owner != tenant.System {
			object.SetAnnotations(map[string]string{tenant.Annotation: string(owner)})
		}
		return object
	}
	for name, tc := range map[string]struct {
		owner, converted tenant.Name
	}{
		"as it is":             {owner: "a", converted: "a"},
		"the system's":         {owner: tenant.System, converted: tenant.System},
		"to another tenant":    {owner: "a", converted: "b"},
		"to the system space":  {owner: "a", converted: tenant.System},
		"of the system space":  {owner: tenant.System, converted: "b"},
		"to what is no tenant": {owner: "a", converted: "*"},
	} {
		t.Run(name, func(t *testing.T) {
			codec := &foreignCodec{
				Codec:   keysCodec{convertingCodec{unstructured.UnstructuredJSONScheme, tc.converted}},
				foreign: func(n tenant.Name) bool { return n != tc.owner },
				kind:    stored(tc.owner).GroupVersionKind(),
			}
			data, err := runtime.Encode(codec, stored(tc.owner))
			if (err != nil) != (tc.owner != tc.converted) {
				t.Errorf("encoding: %v", err)
			}
			if err != nil && len(data) > 0 {
				t.Errorf("there is something to be stored: %s", data)
			}
			if data, err = runtime.Encode(customCodec, stored(tc.owner)); err != nil {
				t.Fatal(err)
			}
			decoded, err := runtime.Decode(codec, data)
			if err != nil {
				t.Fatal(err)
			}
			if n, err := tenantOf(decoded); err != nil || n != tc.owner {
				t.Errorf("decoded as one of %q, %v; want %q", n, err, tc.owner)
			}
		})
	}
}

// convertingCodec makes what it encodes and decodes that of a tenant.
type convertingCodec struct {
	runtime.Codec
	to tenant.Name
}

func (c convertingCodec) Encode(obj runtime.Object, w io.Writer) error {
	converted := obj.DeepCopyObject()
	c.convert(converted)
	return c.Codec.Encode(converted, w)
}

func (c convertingCodec) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	obj, kind, err := c.Codec.Decode(data, defaults, into)
	if err != nil {
		return obj, kind, err
	}
	c.convert(obj)
	return obj, kind, nil
}

func (c convertingCodec) convert(obj runtime.Object) {
	obj.(*unstructured.Unstructured).SetAnnotations(nil)
	if c.to != tenant.System {
		obj.(*unstructured.Unstructured).SetAnnotations(map[string]string{storedTenant: c.to.String(), tenant.Annotation: c.to.String()})
	}
}

// failingCodec decodes nothing, as one whose conversion webhook is gone.
type failingCodec struct{ runtime.Codec }

// Decode implements runtime.Decoder.
func (failingCodec) Decode([]byte, *schema.GroupVersionKind, runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	return nil, nil, errors.New("conversion failed")
}

// TestDecodeAsIs checks that what cannot be converted is read in the space of a tenant that is being deleted, and there
// alone.
func TestDecodeAsIs(t *testing.T) {
	stored := &unstructured.Unstructured{}
	stored.SetAPIVersion("example.com/v1alpha1")
	stored.SetKind("Widget")
	stored.SetName("w")
	stored.SetFinalizers([]string{"example.com/f"})
	stored.SetAnnotations(map[string]string{storedTenant: "acme"})
	data, err := runtime.Encode(unstructured.UnstructuredJSONScheme, stored)
	if err != nil {
		t.Fatal(err)
	}
	kind := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
	for deleted, read := range map[tenant.Name]bool{"acme": true, "other": false} {
		codec := &foreignCodec{
			Codec: failingCodec{}, kind: kind, foreign: func(tenant.Name) bool { return false },
			terminating: func(n tenant.Name) bool { return n == deleted },
		}
		for _, into := range []runtime.Object{nil, &unstructured.Unstructured{}} {
			got, _, err := codec.Decode(data, nil, into)
			if (err == nil) != read {
				t.Fatalf("while %s is deleted: got %v", deleted, err)
			}
			if !read {
				continue
			}
			object := got.(*unstructured.Unstructured)
			n, err := tenantOf(object)
			if err != nil || n != "acme" || object.GetName() != "w" || object.GroupVersionKind() != kind || len(object.GetFinalizers()) != 1 {
				t.Errorf("got %v of tenant %q, %v", object.Object, n, err)
			}
		}
	}
}
