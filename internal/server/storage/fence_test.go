package storage

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/storage"

	"github.com/tenantry/tenantry/internal/etcdstore"
	"github.com/tenantry/tenantry/internal/tenant"
)

// gate is a fence with one key for all writes.
type gate struct{}

var errFenced = errors.New("fenced")

func (gate) Closed() string { return "/gate" }
func (gate) Ended() string  { return "/gate" }
func (gate) Refused() error { return errFenced }

// TestFencedWrites checks that etcd refuses every write of a tenant that has ended, and that
// nothing is created for a request that was admitted to no tenant.
func TestFencedWrites(t *testing.T) {
	b := newBackend(t)
	configMaps := b.configMaps(t, true)
	configMaps.create(t, "a", "ns", "old")
	configMaps.options.Fence = func(n tenant.Name, uid types.UID) etcdstore.Fence {
		if n != "a" || uid != "u" {
			t.Errorf("the fence of %q with UID %q is asked for", n, uid)
		}
		return gate{}
	}
	in := configMaps.in(t, "a", "ns")
	create := func(name string) error {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
		return configMaps.Create(tenant.WithUID(in, "a", "u"), configMaps.key("ns", name), object, &corev1.ConfigMap{}, 0)
	}
	if err := create("new"); err != nil {
		t.Fatal(err)
	}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "nobody"}}
	for name, ctx := range map[string]func() error{
		"no tenant": func() error {
			return configMaps.Create(in, configMaps.key("ns", "nobody"), object, &corev1.ConfigMap{}, 0)
		},
		"another tenant": func() error {
			return configMaps.Create(tenant.WithUID(in, "b", "u"), configMaps.key("ns", "nobody"), object, &corev1.ConfigMap{}, 0)
		},
	} {
		if err := ctx(); err == nil {
			t.Errorf("something was created for a request that was admitted to %s", name)
		}
	}
	if _, err := b.server.Client().Put(t.Context(), gate{}.Ended(), ""); err != nil {
		t.Fatal(err)
	}
	admitted := tenant.WithUID(in, "a", "u")
	for name, err := range map[string]error{
		"create": create("newer"),
		"update": configMaps.GuaranteedUpdate(admitted, configMaps.key("ns", "old"), &corev1.ConfigMap{}, false, nil,
			func(input runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
				input.(*corev1.ConfigMap).Data = map[string]string{"k": "v"}
				return input, nil, nil
			}, nil),
		"delete": configMaps.Delete(admitted, configMaps.key("ns", "old"), &corev1.ConfigMap{}, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{}),
	} {
		if !errors.Is(err, errFenced) {
			t.Errorf("%s of a tenant that has ended: %v", name, err)
		}
	}
}

// TestClosedSpace checks that an update creates nothing in a space that takes no new objects, and that a patch of what
// is not there is told so.
func TestClosedSpace(t *testing.T) {
	configMaps := newBackend(t).configMaps(t, true)
	errClosed := errors.New("closed")
	configMaps.options.Closed = func(context.Context, tenant.Name) error { return errClosed }
	notThere := storage.NewKeyNotFoundError("x", 0)
	for _, want := range []error{errClosed, notThere} {
		err := configMaps.GuaranteedUpdate(configMaps.in(t, "a", "ns"), configMaps.key("ns", "x"), &corev1.ConfigMap{}, true, nil,
			func(runtime.Object, storage.ResponseMeta) (runtime.Object, *uint64, error) {
				if storage.IsNotFound(want) {
					return nil, nil, notThere
				}
				return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "x"}}, nil, nil
			}, nil)
		if !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
}

// TestStoredObjects checks what of an object is never stored: the link, which readers get
// made for their own path.
func TestStoredObjects(t *testing.T) {
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{SelfLink: "/of/somebody/else"}}
	if err := setTenant(object, "a"); err != nil {
		t.Fatal(err)
	}
	if object.SelfLink != "" {
		t.Errorf("%q is stored as link", object.SelfLink)
	}
}

// TestLongNames checks that nothing gets a name in a space by which it could not be deleted, and that everything else
// may.
func TestLongNames(t *testing.T) {
	b := newBackend(t)
	volumes := b.volumes(t, true)
	long, longest := strings.Repeat("x", maxName+1), strings.Repeat("x", maxName)
	for n, allowed := range map[tenant.Name]bool{"a": false, tenant.System: true} {
		volume := func() *corev1.PersistentVolume {
			return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: long}}
		}
		in, key := volumes.in(t, n.Scope(), ""), volumes.key("", long)
		updated := volumes.GuaranteedUpdate(in, key, &corev1.PersistentVolume{}, true, nil,
			func(runtime.Object, storage.ResponseMeta) (runtime.Object, *uint64, error) { return volume(), nil, nil }, nil)
		created := volumes.Create(in, key, volume(), &corev1.PersistentVolume{}, 0)
		if allowed && updated != nil || !allowed && (!apierrors.IsBadRequest(updated) || !apierrors.IsBadRequest(created)) {
			t.Errorf("in the space of %q: %v and %v", n, updated, created)
		}
		volumes.create(t, n, "", longest)
	}
}
