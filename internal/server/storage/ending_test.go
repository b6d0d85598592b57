package storage

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"

	"github.com/tenantry/tenantry/internal/etcdstore"
	"github.com/tenantry/tenantry/internal/tenant"
)

var errFrozen = errors.New("frozen")

// as returns the context of a request of a user of a tenant that was admitted to a space.
func as(ctx context.Context, of tenant.Name, verb string, to tenant.Name) context.Context {
	ctx = request.WithUser(ctx, &user.DefaultInfo{Name: "jane", Extra: map[string][]string{tenant.UserExtraKey: {string(of)}}})
	return tenant.WithUID(request.WithRequestInfo(ctx, &request.RequestInfo{IsResourceRequest: true, Verb: verb}), to, "u")
}

// TestChangesOfEndingSpaces begins to end the space while an update that was admitted is under way.
func TestChangesOfEndingSpaces(t *testing.T) {
	b := newBackend(t)
	for name, tc := range map[string]struct {
		of     tenant.Name // "a" by default
		verb   string      // "update" by default
		before []string    // the finalizers
		change func(*corev1.ConfigMap)
		want   error
	}{
		"data":               {change: func(c *corev1.ConfigMap) { c.Data = map[string]string{"k": "v"} }, want: errFrozen},
		"nothing":            {change: func(*corev1.ConfigMap) {}, want: errFrozen},
		"a finalizer":        {change: func(c *corev1.ConfigMap) { c.Finalizers = []string{"x/y"} }, want: errFrozen},
		"one more":           {before: []string{"x/y"}, change: func(c *corev1.ConfigMap) { c.Finalizers = append(c.Finalizers, "x/z") }, want: errFrozen},
		"another":            {before: []string{"x/y"}, change: func(c *corev1.ConfigMap) { c.Finalizers[0] = "x/z" }, want: errFrozen},
		"another for two":    {before: []string{"x/y", "x/z"}, change: func(c *corev1.ConfigMap) { c.Finalizers = []string{"x/a"} }, want: errFrozen},
		"one less":           {before: []string{"x/y", "x/z"}, change: func(c *corev1.ConfigMap) { c.Finalizers = c.Finalizers[1:] }},
		"one less, and data": {before: []string{"x/y"}, change: func(c *corev1.ConfigMap) { c.Finalizers, c.Data = nil, map[string]string{"k": "v"} }, want: errFrozen},
		"one less, managed": {before: []string{"x/y"}, change: func(c *corev1.ConfigMap) {
			c.Finalizers, c.ManagedFields = nil, []metav1.ManagedFieldsEntry{{Manager: "m"}}
		}},
		"none any more":       {before: []string{"x/y"}, change: func(c *corev1.ConfigMap) { c.Finalizers = nil }},
		"deletion":            {verb: "create", change: func(c *corev1.ConfigMap) { c.DeletionTimestamp = &metav1.Time{} }}, // an eviction
		"deletion by request": {verb: "delete", change: func(c *corev1.ConfigMap) { c.Finalizers = []string{metav1.FinalizerDeleteDependents} }},
		"of the platform":     {of: tenant.System, change: func(c *corev1.ConfigMap) { c.Data = map[string]string{"k": "v"} }},
	} {
		t.Run(name, func(t *testing.T) {
			configMaps, ending := b.configMaps(t, true), false
			configMaps.options.Frozen = func(_ context.Context, n tenant.Name) error {
				if n == "a" && ending {
					return errFrozen
				}
				return nil
			}
			object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "x", Finalizers: tc.before}}
			in, key := configMaps.in(t, "a", "ns"), configMaps.key("ns", "x")
			created := &corev1.ConfigMap{}
			if err := configMaps.Create(in, key, object, created, 0); err != nil {
				t.Fatal(err)
			}
			defer configMaps.remove(t, "a", "ns", "x")
			of, verb := tenant.Name("a"), "update"
			if tc.of != "" {
				of = tc.of
			}
			if tc.verb != "" {
				verb = tc.verb
			}
			change := func(ctx context.Context) error {
				return configMaps.GuaranteedUpdate(ctx, key, &corev1.ConfigMap{}, false, nil,
					func(input runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
						tc.change(input.(*corev1.ConfigMap))
						ending = true
						return input, nil, nil
					}, nil)
			}
			if err := change(as(in, of, verb, "a")); !errors.Is(err, tc.want) {
				t.Errorf("got error %v, want %v", err, tc.want)
			}
			kept := &corev1.ConfigMap{}
			if err := configMaps.Get(in, key, storage.GetOptions{}, kept); err != nil {
				t.Fatal(err)
			}
			if changed := kept.ResourceVersion != created.ResourceVersion; changed != (tc.want == nil) {
				t.Errorf("changed %v, want error %v", changed, tc.want)
			}
		})
	}
}

// halves is a fence whose space takes no new objects, and has not ended.
type halves struct{ gate }

func (halves) Ended() string { return "/ended" }

// TestFrozenByEtcd checks that a server which has stalled, and has not heard of the deletion, writes no change of the
// tenant's users as soon as etcd takes no new objects of the space. What deletes is written.
func TestFrozenByEtcd(t *testing.T) {
	b := newBackend(t)
	configMaps := b.configMaps(t, true)
	configMaps.create(t, "a", "ns", "x")
	configMaps.options.Fence = func(tenant.Name, types.UID) etcdstore.Fence { return halves{} }
	if _, err := b.server.Client().Put(t.Context(), halves{}.Closed(), ""); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		of   tenant.Name
		verb string
		want error
	}{
		"a user":     {of: "a", verb: "update", want: errFenced},
		"a deletion": {of: "a", verb: "delete"},
		"a clean-up": {of: "a", verb: "deletecollection"},
		"a system's": {of: tenant.System, verb: "update"},
	} {
		ctx := as(configMaps.in(t, "a", "ns"), tc.of, tc.verb, "a")
		err := configMaps.GuaranteedUpdate(ctx, configMaps.key("ns", "x"), &corev1.ConfigMap{}, false, nil,
			func(input runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
				input.(*corev1.ConfigMap).Data = map[string]string{"by": name}
				return input, nil, nil
			}, nil)
		if !errors.Is(err, tc.want) {
			t.Errorf("%s: got error %v, want %v", name, err, tc.want)
		}
	}
}
