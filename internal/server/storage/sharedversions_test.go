package storage

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/dense"
)

// strictVersion is a version to which a webhook does not convert what has a field "bad".
type strictVersion struct{ runtime.Codec }

var errBad = errors.New("the webhook does not convert it")

func (v strictVersion) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if bytes.Contains(data, []byte(`"bad":`)) {
		return nil, nil, errBad
	}
	return v.Codec.Decode(data, defaults, into)
}

// TestSharedVersions checks that a space stores nothing that a version of a shared definition could not show: the
// caches of all spaces would stop with it.
func TestSharedVersions(t *testing.T) {
	b := newBackend(t)
	b.defining = map[tenant.Name]bool{"own": true}
	widgets := b.widgets(t, "", true)
	create := func(n tenant.Name, name string, fields ...string) error {
		object := dense.Widget(name, 1)
		for _, field := range fields {
			object.Object[field] = "x"
		}
		return widgets.Create(widgets.in(t, n.Scope(), "ns"), widgets.key("ns", name), object, widgets.newFunc(), 0)
	}
	change := func(name string, change func(*unstructured.Unstructured)) error {
		return widgets.GuaranteedUpdate(widgets.in(t, "a", "ns"), widgets.key("ns", name), widgets.newFunc(), false, nil,
			func(input runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
				change(input.(*unstructured.Unstructured))
				return input, nil, nil
			}, nil)
	}
	expect := func(what string, taken bool, err error) {
		t.Helper()
		if taken != (err == nil) || err != nil && (!apierrors.IsInternalError(err) || !strings.Contains(err.Error(), errBad.Error())) {
			t.Errorf("%s: %v", what, err)
		}
	}
	expect("one that was there before", true, create("a", "old", "bad"))
	strict := *widgets.codec.(*foreignCodec)
	strict.Codec = strictVersion{strict.Codec}
	remove := widgets.options.sharedVersions.add(widgets.resource, &strict)
	expect("one that converts", true, create("a", "good"))
	expect("one that does not", false, create("a", "bad", "bad"))
	expect("one of the platform", true, create(tenant.System, "bad", "bad"))
	expect("one whose annotation does not convert", false, change("good", func(o *unstructured.Unstructured) { o.SetAnnotations(map[string]string{"bad": "x"}) }))
	expect("one that becomes such a one", false, change("good", func(o *unstructured.Unstructured) { o.Object["bad"] = "x" }))
	expect("one that remains so", false, change("old", func(o *unstructured.Unstructured) { o.Object["more"] = "x" }))
	expect("one whose finalizer goes", true, change("old", func(o *unstructured.Unstructured) { o.SetFinalizers(nil); o.SetLabels(map[string]string{"a": "b"}) }))
	expect("one that is mended", true, change("old", func(o *unstructured.Unstructured) { delete(o.Object, "bad") }))
	remove()
	remove() // once too often
	expect("one when the version is gone", true, create("a", "late", "bad"))
	if own := b.widgets(t, "own", true); own.options.sharedVersions != nil {
		t.Error("a definition of one space is compared, too")
	}
}
