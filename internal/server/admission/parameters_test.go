package admission

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"github.com/tenantry/tenantry/internal/process/memory"
	"github.com/tenantry/tenantry/internal/server/storage/cachememory"
	"github.com/tenantry/tenantry/internal/tenant"
)

var limitsResource = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "limits"}

// limit is a parameter of so many bytes and more.
func limit(name string, bytes int) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Limit", "metadata": map[string]any{"name": name, "namespace": "default", "resourceVersion": "7"},
		"spec": strings.Repeat("x", bytes),
	}}
}

// limitServer serves objects to one informer.
type limitServer struct {
	dynamic.NamespaceableResourceInterface
	objects atomic.Pointer[[]*unstructured.Unstructured]
	// fails says that there is no such resource.
	fails atomic.Bool
	// asked is how often it was asked.
	asked   atomic.Int64
	watches chan *watch.RaceFreeFakeWatcher
}

func (s *limitServer) Resource(schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	return s
}

func (s *limitServer) Namespace(string) dynamic.ResourceInterface { return s }

func (s *limitServer) serve(objects ...*unstructured.Unstructured) { s.objects.Store(&objects) }

func (s *limitServer) List(_ context.Context, options metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	s.asked.Add(1)
	if options.Limit != parameterPage || options.ResourceVersion != "" {
		return nil, apierrors.NewBadRequest("not in pages")
	}
	if s.fails.Load() {
		return nil, apierrors.NewNotFound(limitsResource.GroupResource(), "")
	}
	list := &unstructured.UnstructuredList{Object: map[string]any{"metadata": map[string]any{"resourceVersion": "7"}}}
	for _, object := range *s.objects.Load() {
		list.Items = append(list.Items, *object)
	}
	return list, nil
}

func (s *limitServer) Watch(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
	s.asked.Add(1)
	switch {
	case s.fails.Load():
		return nil, apierrors.NewNotFound(limitsResource.GroupResource(), "")
	case options.SendInitialEvents != nil:
		return nil, errors.New("a watch that begins with all")
	}
	w := watch.NewRaceFreeFake()
	s.watches <- w
	return w, nil
}

// TestParameters checks that what the informers of policies have counts as long as they are there, also after their
// watch was opened anew, and that objects for which there is no room are not read, as the errors of policies say.
func TestParameters(t *testing.T) { synctest.Test(t, parametersCount) }

func parametersCount(t *testing.T) {
	small, large := limit("a", 1000), limit("b", 3<<20)
	budget := cachememory.New(2<<20, 0)
	counted := func() int64 { synctest.Wait(); return budget.Usage().Bytes["acme"] }
	s := &limitServer{watches: make(chan *watch.RaceFreeFakeWatcher, 100)}
	s.serve(small)
	var ended atomic.Bool
	why := &refusals{}
	p := newParameters(s, spaceReads{newReads(), tenantKey{tenant: "acme"}, budget, why, func() { ended.Store(true) }})
	ctx, stop := context.WithCancel(t.Context())
	informer := dynamicinformer.NewFilteredDynamicInformer(p, limitsResource, "", 0, cache.Indexers{}, nil).Informer()
	// Upstream's own one waits until a second after the last error of the process, by a clock that is not this one.
	if err := informer.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {}); err != nil {
		t.Fatal(err)
	}
	go informer.RunWithContext(ctx)

	before := counted()
	if before < int64(memory.Of(small)) || !informer.HasSynced() {
		t.Fatalf("one object counts %d bytes, and all are there: %v", before, informer.HasSynced())
	}
	s.fails.Store(true)
	(<-s.watches).Stop()
	time.Sleep(time.Hour)
	if after := counted(); after != before {
		t.Errorf("when it cannot be read any more, what an informer still has counts %d bytes, not %d", after, before)
	}
	if !ended.Load() {
		t.Error("policies go on with what cannot be read any more")
	}
	ended.Store(false)
	s.fails.Store(false)
	time.Sleep(time.Minute)
	(<-s.watches).Stop() // and the next one begins where it has ended
	time.Sleep(time.Minute)
	w := <-s.watches
	w.Add(limit("c", 1000))
	if after := counted(); after <= before {
		t.Errorf("what comes by the second watch counts %d bytes in all, after %d", after, before)
	}
	refusal := func() error {
		return why.explain(apierrors.NewForbidden(limitsResource.GroupResource(), "x", errors.New("paramKind is "+missing[0])))
	}
	if strings.Contains(refusal().Error(), "parameters") {
		t.Errorf("all have been read, and a policy says: %v", refusal())
	}
	other := apierrors.NewForbidden(limitsResource.GroupResource(), "x", errors.New("no"))
	s.serve(small, large)
	w.Add(large)
	w.Add(small) // which nobody takes any more
	if counted(); !strings.Contains(refusal().Error(), `limits.example.com, which are parameters of policies, are not read: the definitions and policies of the space`) {
		t.Errorf("the error of a policy does not say what has not been read: %v", refusal())
	}
	if !ended.Load() {
		t.Error("policies go on with what was before there was no room")
	}
	asked := s.asked.Load()
	if time.Sleep(readAgain / 2); s.asked.Load() != asked {
		t.Errorf("what was refused is asked for %d times more at once", s.asked.Load()-asked)
	}
	if before := other.Error(); why.explain(other).Error() != before {
		t.Errorf("a refusal for another reason says: %v", other)
	}
	s.serve(small)
	time.Sleep(time.Hour) // in which it is read again
	if after := counted(); after != before || strings.Contains(refusal().Error(), "parameters") {
		t.Errorf("with room for all, they count %d bytes, not %d, and a policy says: %v", after, before, refusal())
	}
	if stop(); counted() != 0 {
		t.Errorf("without an informer, its objects count %d bytes", counted())
	}
}

// slowServer serves an object after a while.
type slowServer struct {
	dynamic.NamespaceableResourceInterface
	object        *unstructured.Unstructured
	asked, inside atomic.Int64
	most          atomic.Int64
}

func (s *slowServer) Resource(schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	return s
}

func (s *slowServer) List(context.Context, metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	s.asked.Add(1)
	s.most.Store(max(s.most.Load(), s.inside.Add(1)))
	time.Sleep(time.Second)
	s.inside.Add(-1)
	return &unstructured.UnstructuredList{Items: []unstructured.Unstructured{*s.object}}, nil
}

// TestParametersTakeTurns checks that of the informers of a space, in all of its plugins, one reads at a time, that
// none reads what another has been refused, and that other spaces do not wait.
func TestParametersTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowServer{object: limit("large", 3<<20)}
		budget := cachememory.New(2<<20, 0)
		reads := newReads()
		readLife := func(of tenantKey, budget *cachememory.Budget) error {
			p := newParameters(s, spaceReads{reads, of, budget, &refusals{}, func() {}})
			_, err := p.Resource(limitsResource).List(t.Context(), metav1.ListOptions{})
			return err
		}
		read := func(of tenant.Name, budget *cachememory.Budget) error { return readLife(tenantKey{tenant: of}, budget) }
		var refused atomic.Int64
		for range 5 {
			go func() {
				if err := read("turns", budget); apierrors.IsForbidden(err) {
					refused.Add(1)
				}
			}()
		}
		time.Sleep(time.Minute)
		if refused.Load() != 5 || s.asked.Load() != 1 || s.most.Load() != 1 {
			t.Errorf("%d of five are refused after %d were asked for, %d at once", refused.Load(), s.asked.Load(), s.most.Load())
		}
		if err := read("turns", budget); !apierrors.IsForbidden(err) || s.asked.Load() != 2 {
			t.Errorf("a minute later it is not tried again: %v", err)
		}
		if err := readLife(tenantKey{"turns", "next"}, budget); !apierrors.IsForbidden(err) || s.asked.Load() != 3 {
			t.Errorf("the next tenant of that name has what the one before was refused: %v", err)
		}
		for i := range 3 {
			go func() { _ = read(tenant.Name(fmt.Sprint("turns-", i)), nil) }()
			go func() { _ = read("turns-0", nil) }()
		}
		time.Sleep(500 * time.Millisecond)
		if s.inside.Load() != 3 {
			t.Errorf("of three spaces %d read at once", s.inside.Load())
		}
		time.Sleep(time.Minute)
	})
}
