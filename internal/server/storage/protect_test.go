package storage

import (
	"context"
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"

	"github.com/tenantry/tenantry/internal/tenant"
)

var errProtected = errors.New("protected")

// guard notes what it is asked about and refuses if it is told to.
type guard struct {
	refuse bool
	asked  []string
}

func (g *guard) of(_ context.Context, n tenant.Name, resource schema.GroupResource, before runtime.Object) func(after runtime.Object) error {
	was := valueOf(before)
	return func(after runtime.Object) error {
		g.asked = append(g.asked, n.String()+" "+resource.String()+" "+was+" to "+valueOf(after))
		if g.refuse {
			return errProtected
		}
		return nil
	}
}

func valueOf(obj runtime.Object) string {
	if obj == nil {
		return "nothing"
	}
	return "<" + obj.(metav1.Object).GetLabels()["value"] + ">"
}

// TestEveryChangeIsAskedAbout checks that all changes are decided about, new objects as they are
// when they are complete.
func TestEveryChangeIsAskedAbout(t *testing.T) {
	for name, cached := range map[string]bool{"cached": true, "uncached": false} {
		t.Run(name, func(t *testing.T) {
			s := newBackend(t).configMaps(t, cached)
			g := &guard{}
			s.options.Protect = g.of
			s.options.Prepare = map[schema.GroupResource]Preparation{s.resource: func(_ context.Context, _ tenant.Name, before runtime.Object) func(after runtime.Object) error {
				return func(after runtime.Object) error {
					if o := after.(metav1.Object); before == nil {
						o.SetLabels(map[string]string{"value": "new" + o.GetLabels()["from"]})
					}
					return nil
				}
			}}
			label := func(value string, ignoreNotFound bool) error {
				return s.GuaranteedUpdate(s.in(t, "a", "ns"), s.key("ns", "o"), s.newFunc(), ignoreNotFound, nil,
					func(input runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
						object := input.(metav1.Object) // changed in place, as some of upstream do
						object.SetNamespace("ns")
						object.SetName("o")
						object.SetLabels(map[string]string{"value": value, "from": value})
						return input, nil, nil
					}, nil)
			}
			remove := func() error {
				return s.Delete(s.in(t, "a", "ns"), s.key("ns", "o"), s.newFunc(), nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{})
			}
			// What is refused on a state that the cache had is asked about again.
			expect := func(what string, err, want error, last string) {
				t.Helper()
				if !errors.Is(err, want) {
					t.Errorf("%s: got %v, want %v", what, err, want)
				}
				if len(g.asked) == 0 || g.asked[len(g.asked)-1] != last {
					t.Errorf("%s: asked about %q, want %q at last", what, g.asked, last)
				}
				g.asked = nil
			}
			g.refuse = true
			expect("create by an update", label("1", true), errProtected, "a configmaps nothing to <new1>")
			object := s.newObject()
			object.SetNamespace("ns")
			object.SetName("o")
			create := func() error {
				return s.Create(s.in(t, "a", "ns"), s.key("ns", "o"), object.(runtime.Object), s.newFunc(), 0)
			}
			expect("create", create(), errProtected, "a configmaps nothing to <new>")
			if found, _ := s.list(t, "a", "ns"); len(found) > 0 {
				t.Errorf("there is %v", found)
			}
			g.refuse = false
			expect("create", create(), nil, "a configmaps nothing to <new>")
			expect("update", label("1", false), nil, "a configmaps <new> to <1>")
			g.refuse = true
			expect("update", label("2", false), errProtected, "a configmaps <1> to <2>")
			expect("delete", remove(), errProtected, "a configmaps <1> to nothing")
			if found, _ := s.list(t, "a", "ns"); len(found) != 1 {
				t.Errorf("there is %v", found)
			}
			g.refuse = false
			expect("delete", remove(), nil, "a configmaps <1> to nothing")
		})
	}
}
