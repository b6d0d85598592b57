package eviction

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	policyclient "k8s.io/client-go/kubernetes/typed/policy/v1"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/policy"
	podstore "k8s.io/kubernetes/pkg/registry/core/pod/storage"
)

type contextKey struct{}

// fakeBudgets notes whose contexts its calls have.
type fakeBudgets struct {
	policyclient.PodDisruptionBudgetInterface
	seen []any
}

func (f *fakeBudgets) PodDisruptionBudgets(string) policyclient.PodDisruptionBudgetInterface {
	return f
}

var errListed = errors.New("listed")

func (f *fakeBudgets) List(ctx context.Context, _ metav1.ListOptions) (*policyv1.PodDisruptionBudgetList, error) {
	f.seen = append(f.seen, ctx.Value(contextKey{}))
	return nil, errListed
}

// storedPod is a storage with one running pod that can be read.
type storedPod struct{ storage.Interface }

func (storedPod) ReadinessCheck() error { return nil }

func (storedPod) Get(_ context.Context, _ string, _ storage.GetOptions, into apiruntime.Object) error {
	*into.(*core.Pod) = core.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p"}, Status: core.PodStatus{
		Phase: core.PodRunning, Conditions: []core.PodCondition{{Type: core.PodReady, Status: core.ConditionTrue}},
	}}
	return nil
}

func wrapped(t testing.TB, budgets policyclient.PodDisruptionBudgetsGetter) *REST {
	t.Helper()
	options := generic.RESTOptions{StorageConfig: &storagebackend.ConfigForResource{}, ResourcePrefix: "pods", Decorator: existing(storedPod{})}
	pods, err := podstore.NewStorage(options, nil, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	storages := map[string]rest.Storage{"pods": pods.Pod, "pods/eviction": pods.Eviction}
	if err := Wrap(storages, options, budgets); err != nil {
		t.Fatal(err)
	}
	return storages["pods/eviction"].(*REST)
}

func TestBudgetsAreThoseOfTheRequest(t *testing.T) {
	fake := &fakeBudgets{}
	r := wrapped(t, fake)
	for _, name := range []string{"one", "another"} {
		ctx := context.WithValue(request.WithNamespace(t.Context(), "n"), contextKey{}, name)
		_, err := r.Create(ctx, "p", &policy.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "p"}}, nil, &metav1.CreateOptions{})
		if !errors.Is(err, errListed) {
			t.Fatalf("got error %v, want that of the client", err)
		}
	}
	if want := []any{"one", "another"}; !slices.Equal(fake.seen, want) {
		t.Errorf("budgets were listed in the contexts %v, want %v", fake.seen, want)
	}
}

// Evictions of all spaces share what pods are stored with.
func TestNothingRunsForAnEviction(t *testing.T) {
	r := wrapped(t, &fakeBudgets{})
	const evictions = 100
	before := runtime.NumGoroutine()
	for range evictions {
		if _, err := r.bind(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if after := runtime.NumGoroutine(); after >= before+evictions { // some of the storage's may begin late
		t.Errorf("%d goroutines, %d before %d evictions", after, before, evictions)
	}
}

func BenchmarkBind(b *testing.B) {
	r := wrapped(b, &fakeBudgets{})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.bind(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
