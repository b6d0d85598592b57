package kubecontrollers

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/tenantry/tenantry/internal/spaces"

	"github.com/tenantry/tenantry/internal/tenant"
)

func object(namespace, name string, owners ...metav1.OwnerReference) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-" + name), OwnerReferences: owners}}
}

func ownedBy(name string) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: name, UID: types.UID("uid-" + name)}
}

func TestInterest(t *testing.T) {
	now := metav1.Now()
	deleting := object("a|ns", "plain")
	deleting.DeletionTimestamp = &now
	for name, tc := range map[string]struct {
		stored []*corev1.ConfigMap
		do     func(cache.ResourceEventHandler)
		want   []string
	}{
		"neither owner nor owned": {
			do: func(h cache.ResourceEventHandler) {
				h.OnAdd(object("a|ns", "plain"), true)
				h.OnUpdate(object("a|ns", "plain"), object("a|ns", "plain"))
			},
		},
		"being deleted": {
			do:   func(h cache.ResourceEventHandler) { h.OnUpdate(object("a|ns", "plain"), deleting) },
			want: []string{"update a|plain"},
		},
		"owner before dependent": {
			stored: []*corev1.ConfigMap{object("a|ns", "owner")},
			do: func(h cache.ResourceEventHandler) {
				h.OnAdd(object("a|ns", "owner"), true)
				h.OnAdd(object("a|ns", "dependent", ownedBy("owner")), true)
				h.OnUpdate(object("a|ns", "owner"), object("a|ns", "owner"))
				h.OnDelete(object("a|ns", "owner"))
			},
			want: []string{"add a|owner", "add a|dependent", "update a|owner", "delete a|owner"},
		},
		"dependent before owner": {
			do: func(h cache.ResourceEventHandler) {
				h.OnAdd(object("a|ns", "dependent", ownedBy("owner")), true)
				h.OnAdd(object("a|ns", "owner"), true)
			},
			want: []string{"add a|dependent", "add a|owner"},
		},
		"another space's object of the same name and UID": {
			stored: []*corev1.ConfigMap{object("b|ns", "owner")},
			do: func(h cache.ResourceEventHandler) {
				h.OnAdd(object("a|ns", "dependent", ownedBy("owner")), true)
				h.OnAdd(object("b|ns", "owner"), true)
			},
			want: []string{"add a|dependent"},
		},
		"a misplaced dependent, which does not lead to the owner, before another": {
			stored: []*corev1.ConfigMap{object("a|ns", "owner")},
			do: func(h cache.ResourceEventHandler) {
				h.OnAdd(object("a|other", "misplaced", ownedBy("owner")), true)
				h.OnAdd(object("a|ns", "dependent", ownedBy("owner")), true)
				h.OnAdd(object("a|ns", "second", ownedBy("owner")), true)
			},
			want: []string{"add a|misplaced", "add a|owner", "add a|dependent", "add a|second"},
		},
		"a dependent whose owner's name is corrected": {
			stored: []*corev1.ConfigMap{object("a|ns", "owner")},
			do: func(h cache.ResourceEventHandler) {
				wrong := ownedBy("owner")
				wrong.Name = "other"
				h.OnAdd(object("a|ns", "dependent", wrong), true)
				h.OnUpdate(object("a|ns", "dependent", wrong), object("a|ns", "dependent", ownedBy("owner")))
			},
			want: []string{"add a|dependent", "add a|owner", "update a|dependent"},
		},
		"orphaned": {
			do: func(h cache.ResourceEventHandler) {
				h.OnUpdate(object("a|ns", "dependent", ownedBy("owner")), object("a|ns", "dependent"))
			},
			want: []string{"update a|dependent"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			factory, err := spaces.NewInformerFactory(&rest.Config{Host: "https://127.0.0.1:1"}, 0)
			if err != nil {
				t.Fatal(err)
			}
			store := factory.Core().V1().ConfigMaps().Informer().GetStore()
			for _, obj := range tc.stored {
				if err := store.Add(obj); err != nil {
					t.Fatal(err)
				}
			}
			var got []string
			record := func(verb string, obj any) { got = append(got, verb+" "+obj.(metav1.Object).GetName()) }
			tc.do(newInterest(factory, func(tenant.Name) {}).handler(corev1.SchemeGroupVersion.WithResource("configmaps"), cache.ResourceEventHandlerFuncs{
				AddFunc:    func(obj any) { record("add", obj) },
				UpdateFunc: func(_, obj any) { record("update", obj) },
				DeleteFunc: func(obj any) { record("delete", obj) },
			}))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

func TestInterestOfOwnersThatChange(t *testing.T) {
	changed := object("a|ns", "owner")
	changed.ResourceVersion = "2"
	for name, tc := range map[string]struct {
		change func(cache.Store) error
		want   []string
	}{
		"deleted": {
			change: func(s cache.Store) error { return s.Delete(changed) },
			want:   []string{"add a|owner", "delete a|owner", "add a|dependent"},
		},
		"updated": {
			change: func(s cache.Store) error { return s.Update(changed) },
			want:   []string{"add a|owner", "update a|owner 2", "add a|dependent"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			factory, err := spaces.NewInformerFactory(&rest.Config{Host: "https://127.0.0.1:1"}, 0)
			if err != nil {
				t.Fatal(err)
			}
			store := factory.Core().V1().ConfigMaps().Informer().GetStore()
			if err := store.Add(object("a|ns", "owner")); err != nil {
				t.Fatal(err)
			}
			var got []string
			h := newInterest(factory, func(tenant.Name) {}).handler(corev1.SchemeGroupVersion.WithResource("configmaps"), cache.ResourceEventHandlerFuncs{
				AddFunc: func(obj any) {
					name := obj.(metav1.Object).GetName()
					got = append(got, "add "+name)
					if name != "a|owner" {
						return
					}
					// The owner's own event overtakes this one.
					if err := tc.change(store); err != nil {
						t.Error(err)
					}
				},
				UpdateFunc: func(_, obj any) {
					o := obj.(metav1.Object)
					got = append(got, "update "+o.GetName()+" "+o.GetResourceVersion())
				},
				DeleteFunc: func(obj any) { got = append(got, "delete "+obj.(metav1.Object).GetName()) },
			})
			h.OnAdd(object("a|ns", "dependent", ownedBy("owner")), false)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

// A tenant can name owners that do not exist, as many as it likes over time.
func TestInterestEndsWithTheDependents(t *testing.T) {
	factory, err := spaces.NewInformerFactory(&rest.Config{Host: "https://127.0.0.1:1"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	interest := newInterest(factory, func(tenant.Name) {})
	h := interest.handler(corev1.SchemeGroupVersion.WithResource("configmaps"), cache.ResourceEventHandlerFuncs{})
	first, second := object("a|ns", "first", ownedBy("invented"), ownedBy("other")), object("a|ns", "second", ownedBy("invented"))
	h.OnAdd(first, true)
	h.OnAdd(second, false)
	changed := object("a|ns", "second", ownedBy("third"))
	h.OnUpdate(second, changed)
	want := map[types.UID]named{"a|uid-invented": {objects: 1}, "a|uid-other": {objects: 1}, "a|uid-third": {objects: 1}}
	if diff := cmp.Diff(want, interest.owners, cmp.AllowUnexported(named{})); diff != "" {
		t.Errorf("owners (-want +got):\n%s", diff)
	}
	h.OnDelete(cache.DeletedFinalStateUnknown{Key: "a|ns/first", Obj: first})
	h.OnUpdate(changed, object("a|ns", "second"))
	h.OnDelete(object("a|ns", "second"))
	if len(interest.owners) > 0 {
		t.Errorf("left: %v", interest.owners)
	}
}

func TestInterestEndsWithTheInformer(t *testing.T) {
	factory, err := spaces.NewInformerFactory(&rest.Config{Host: "https://127.0.0.1:1"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	interest := newInterest(factory, func(tenant.Name) {})
	gvr := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "a|widgets"}
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	owned := &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "example.com/v1", Kind: "a|Widget"},
		ObjectMeta: metav1.ObjectMeta{Name: "a|w", UID: "a|uid-w", OwnerReferences: []metav1.OwnerReference{ownedBy("invented")}},
	}
	client := metadatafake.NewSimpleMetadataClient(scheme)
	if err := client.Tracker().Create(gvr, owned, ""); err != nil {
		t.Fatal(err)
	}
	generic, err := newCustomInformer(client, interest, gvr)
	if err != nil {
		t.Fatal(err)
	}
	added := make(chan struct{})
	_, err = generic.Informer().AddEventHandlerWithResyncPeriod(cache.ResourceEventHandlerFuncs{AddFunc: func(any) { close(added) }}, 0)
	if err != nil {
		t.Fatal(err)
	}
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		generic.Informer().GetController().Run(stop)
		close(ended)
	}()
	<-added
	if len(interest.owners) != 1 {
		t.Errorf("owners: %v", interest.owners)
	}
	close(stop)
	<-ended
	if len(interest.owners) > 0 {
		t.Errorf("left: %v", interest.owners)
	}
}

// TestWaitingForTheCollector checks for what a tenant waits for the collector.
func TestWaitingForTheCollector(t *testing.T) {
	owned := object("a|ns", "dependent", metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "a|owner", UID: "absent"})
	for name, tc := range map[string]struct {
		do   func(cache.ResourceEventHandler)
		want int
	}{
		"one that has owners":           {func(h cache.ResourceEventHandler) { h.OnAdd(owned, false) }, 1},
		"one that there was":            {func(h cache.ResourceEventHandler) { h.OnAdd(owned, true) }, 0},
		"one that has had owners":       {func(h cache.ResourceEventHandler) { h.OnUpdate(owned, object("a|ns", "dependent")) }, 1},
		"one that has had owners, gone": {func(h cache.ResourceEventHandler) { h.OnDelete(owned) }, 1},
		"one whose status changes":      {func(h cache.ResourceEventHandler) { h.OnUpdate(owned, owned) }, 0},
		"one that has nothing": {func(h cache.ResourceEventHandler) {
			h.OnAdd(object("a|ns", "x"), false)
			h.OnDelete(object("a|ns", "x"))
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			factory, err := spaces.NewInformerFactory(&rest.Config{Host: "https://127.0.0.1:1"}, 0)
			if err != nil {
				t.Fatal(err)
			}
			waits := 0
			tc.do(newInterest(factory, func(n tenant.Name) {
				if n != "a" {
					t.Errorf("%q waits", n)
				}
				waits++
			}).handler(corev1.SchemeGroupVersion.WithResource("configmaps"), cache.ResourceEventHandlerFuncs{}))
			if waits != tc.want {
				t.Errorf("%d wait, not %d", waits, tc.want)
			}
		})
	}
}
