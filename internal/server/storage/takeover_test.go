package storage

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"

	"github.com/tenantry/tenantry/internal/tenant"
)

// What a request makes of a default object is the space's own, with an identity of its
// own, if the request creates objects or declares it. Nothing else is stored.
func TestTakeOver(t *testing.T) {
	const declared = "declared"
	unknown := apierrors.NewNotFound(schema.GroupResource{}, "")
	// Requests as upstream's registry makes them: nothing is created but by
	// server-side apply, and an update needs an object.
	apply := func(object metav1.Object) error { object.SetName("v"); return nil }
	update := func(labels ...string) func(metav1.Object) error {
		return func(object metav1.Object) error {
			if object.GetResourceVersion() == "" {
				return unknown
			}
			for _, label := range labels {
				object.SetLabels(map[string]string{label: ""})
			}
			return nil
		}
	}
	backend := newBackend(t)
	s := backend.volumes(t, false)
	s.Space.defaults = &Defaults{
		Keys:     func() []string { return []string{"v"} },
		Adapt:    func(_ string, obj runtime.Object) (bool, error) { return !isZero(obj), nil },
		Replaced: ByCreation,
		Draft:    func(runtime.Object) error { return nil },
		Override: func(_ context.Context, obj runtime.Object) (bool, error) {
			_, ok := obj.(metav1.Object).GetLabels()[declared]
			return ok, nil
		},
		Refusal: errors.New("ask the platform"),
		Hidden:  func(tenant.Name) bool { return false },
	}
	s.create(t, tenant.System, "", "v")
	spaces := 0
	for name, tc := range map[string]struct {
		verb, subresource string
		change            func(metav1.Object) error
		refusal           string // none if it is stored
	}{
		"server-side apply":       {verb: "patch", change: apply},
		"a declaring patch":       {verb: "patch", change: update(declared)},
		"a declaring update":      {verb: "update", change: update(declared)},
		"a patch":                 {verb: "patch", change: update("x"), refusal: "ask the platform"},
		"a declaring status":      {verb: "patch", subresource: "status", change: update(declared), refusal: "ask the platform"},
		"a deletion that updates": {verb: "delete", change: func(metav1.Object) error { return nil }, refusal: "ask the platform"},
		"what makes no name":      {verb: "patch", change: func(metav1.Object) error { return nil }, refusal: "ask the platform"},
		"part of an object": {verb: "patch", refusal: "ask the platform (this one", change: func(metav1.Object) error {
			return apierrors.NewInvalid(schema.GroupKind{}, "v", nil)
		}},
		"an unknown object": {verb: "patch", change: func(metav1.Object) error { return unknown }, refusal: "not found"},
	} {
		t.Run(name, func(t *testing.T) {
			spaces++
			n := tenant.Name(fmt.Sprintf("t%d", spaces))
			before := backend.keys(t, etcdPrefix)
			ctx := request.WithRequestInfo(s.in(t, n.Scope(), ""), &request.RequestInfo{Verb: tc.verb, Subresource: tc.subresource})
			shown := s.newObject()
			if err := s.Get(ctx, s.key("", "v"), storage.GetOptions{}, shown.(runtime.Object)); err != nil {
				t.Fatal(err)
			}
			stored := s.newObject()
			err := s.GuaranteedUpdate(ctx, s.key("", "v"), stored.(runtime.Object), true, nil,
				func(input runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
					return input, nil, tc.change(input.(metav1.Object))
				}, nil)
			if tc.refusal != "" {
				if err == nil || !strings.Contains(err.Error(), tc.refusal) || len(backend.keys(t, etcdPrefix)) != len(before) {
					t.Errorf("got %v, and etcd has %v", err, backend.keys(t, etcdPrefix))
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := describe(stored.(runtime.Object)); got != string(n)+":v" || stored.GetUID() == shown.GetUID() {
				t.Errorf("stored %s with the UID %q", got, stored.GetUID())
			}
			system := s.newObject()
			if err := s.Get(s.in(t, tenant.System.Scope(), ""), s.key("", "v"), storage.GetOptions{}, system.(runtime.Object)); err != nil || len(system.GetLabels()) > 0 {
				t.Errorf("the system space's has changed: %v, %v", system, err)
			}
		})
	}
}
