package follow

import (
	"context"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"

	"github.com/tenantry/tenantry/internal/progress"
	"github.com/tenantry/tenantry/internal/tenant"
)

// storage is a Source of which every call must name all spaces.
type storage struct {
	t      *testing.T
	events *watch.FakeWatcher
}

func (s storage) check(ctx context.Context) {
	if in, err := tenant.ScopeFrom(ctx); err != nil || in != tenant.Everything {
		s.t.Errorf("read in %q (%v), want %q", in, err, tenant.Everything)
	}
}

func (s storage) List(ctx context.Context, _ *metainternalversion.ListOptions) (runtime.Object, error) {
	s.check(ctx)
	return &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: "3"}, Items: []corev1.ConfigMap{*configMap("acme", "1")}}, nil
}

func (s storage) Watch(ctx context.Context, options *metainternalversion.ListOptions) (watch.Interface, error) {
	s.check(ctx)
	if options.ResourceVersion != "3" {
		s.t.Errorf("watched from version %q, want that of the list", options.ResourceVersion)
	}
	return s.events, nil
}

// envelope is how the watch cache hands out an object that it shares.
type envelope struct {
	runtime.CacheableObject
	*corev1.ConfigMap
}

func (e envelope) GetObject() runtime.Object      { return e.ConfigMap }
func (e envelope) DeepCopyObject() runtime.Object { return e.ConfigMap.DeepCopyObject() }
func (e envelope) GetObjectKind() schema.ObjectKind {
	return e.ConfigMap.GetObjectKind()
}

func configMap(n, version string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "same", ResourceVersion: version, Annotations: map[string]string{"in": n}}}
}

// index tells objects of one name in two spaces apart.
type index map[string]string

func (i index) Set(c *corev1.ConfigMap)    { i[c.Annotations["in"]] = c.ResourceVersion }
func (i index) Delete(c *corev1.ConfigMap) { delete(i, c.Annotations["in"]) }
func (i index) Replace(all []*corev1.ConfigMap) {
	clear(i)
	for _, c := range all {
		i.Set(c)
	}
}

func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		source := storage{t, watch.NewFakeWithChanSize(10, false)}
		kept, seen := index{}, &progress.Progress{}
		done := make(chan struct{})
		go func() {
			defer close(done)
			Run(ctx, "test", tenant.Everything, source, kept, seen)
		}()
		synctest.Wait()
		if len(kept) != 1 || !seen.Wait("3") || seen.Wait("4") {
			t.Errorf("after the list the index has %v", kept)
		}
		source.events.Add(envelope{ConfigMap: configMap("globex", "4")})
		source.events.Delete(configMap("acme", "5"))
		synctest.Wait()
		if len(kept) != 1 || kept["globex"] != "4" || !seen.Wait("5") {
			t.Errorf("after the events the index has %v", kept)
		}
		cancel()
		<-done
	})
}

func TestWritersWait(t *testing.T) {
	for name, write := range map[string]func(*genericregistry.Store, runtime.Object){
		"create": func(s *genericregistry.Store, obj runtime.Object) { s.AfterCreate(obj, nil) },
		"update": func(s *genericregistry.Store, obj runtime.Object) { s.AfterUpdate(obj, nil) },
		"delete": func(s *genericregistry.Store, obj runtime.Object) { s.AfterDelete(obj, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, seen := &genericregistry.Store{}, &progress.Progress{}
				Await(store, seen)
				seen.Note("6")
				written := make(chan struct{})
				go func() {
					defer close(written)
					write(store, configMap("acme", "7"))
				}()
				synctest.Wait()
				select {
				case <-written:
					t.Error("the writer is answered before the index knows what it wrote")
				default:
				}
				seen.Note("7")
				<-written
			})
		})
	}
}
