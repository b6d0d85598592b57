package definition

import (
	"context"
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/names"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

// written is a storage of one object, which tells what is written.
type written struct {
	storage.Interface
	before  *v1alpha1.User
	changes int
}

func (*written) ReadinessCheck() error        { return nil }
func (*written) Versioner() storage.Versioner { return storage.APIObjectVersioner{} }

func (w *written) Create(context.Context, string, runtime.Object, runtime.Object, uint64) error {
	w.changes++
	return nil
}

func (w *written) GuaranteedUpdate(_ context.Context, _ string, _ runtime.Object, _ bool, _ *storage.Preconditions, update storage.UpdateFunc, _ runtime.Object) error {
	_, _, err := update(w.before.DeepCopy(), storage.ResponseMeta{ResourceVersion: 1})
	if err == nil {
		w.changes++
	}
	return err
}

// anything is valid.
type anything struct {
	Strategy[v1alpha1.User, v1alpha1.UserStatus]
}

func (anything) PrepareForCreate(context.Context, runtime.Object)                 {}
func (anything) PrepareForUpdate(context.Context, runtime.Object, runtime.Object) {}
func (anything) Validate(context.Context, runtime.Object) field.ErrorList         { return nil }
func (anything) ValidateUpdate(context.Context, runtime.Object, runtime.Object) field.ErrorList {
	return nil
}
func (anything) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set { return nil }

// TestConfirmed checks that nothing is written without confirmation, by whatever request.
func TestConfirmed(t *testing.T) {
	scheme := runtime.NewScheme()
	AddToScheme(scheme)
	w := &written{}
	options := generic.RESTOptions{
		StorageConfig: &storagebackend.ConfigForResource{}, ResourcePrefix: "/users",
		Decorator: func(*storagebackend.ConfigForResource, string, func(runtime.Object) (string, error), func() runtime.Object, func() runtime.Object,
			storage.AttrFunc, storage.IndexerFuncs, *cache.Indexers) (storage.Interface, factory.DestroyFunc, error) {
			return w, func() {}, nil
		},
	}
	users := v1alpha1.GroupVersion.WithResource("users").GroupResource()
	store, err := NewStore[v1alpha1.User, v1alpha1.UserList](options, users, "user",
		anything{Strategy[v1alpha1.User, v1alpha1.UserStatus]{ObjectTyper: scheme, NameGenerator: names.SimpleNameGenerator}}, rest.NewDefaultTableConvertor(users))
	if err != nil {
		t.Fatal(err)
	}
	user := func(version string) *v1alpha1.User {
		return &v1alpha1.User{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u", ResourceVersion: version}}
	}
	var refusal error
	var isNew bool
	c := Confirmed{store, func(_ context.Context, _, old runtime.Object) error {
		isNew = old == nil
		return refusal
	}}
	ctx := request.WithNamespace(t.Context(), metav1.NamespaceNone)
	create := func() error {
		_, err := c.Create(ctx, user(""), rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
		return err
	}
	update := func(before string) func() error {
		return func() error {
			w.before = user(before)
			_, _, err := c.Update(ctx, "a", rest.DefaultUpdatedObjectInfo(user(before)), rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc,
				true, &metav1.UpdateOptions{})
			return err
		}
	}
	for name, tc := range map[string]struct {
		send    func() error
		creates bool
	}{
		"a creation":            {create, true},
		"an apply that creates": {update(""), true},
		"an update":             {update("1"), false},
	} {
		refusal, w.changes = errors.New("refused"), 0
		if err := tc.send(); !errors.Is(err, refusal) || w.changes > 0 || isNew != tc.creates {
			t.Errorf("%s: got %v, and %d changes; new: %v", name, err, w.changes, isNew)
		}
		refusal = nil
		if err := tc.send(); err != nil || w.changes != 1 {
			t.Errorf("%s that is confirmed: got %v, and %d changes", name, err, w.changes)
		}
	}
}
