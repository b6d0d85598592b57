package storage

import (
	"context"
	"path"
	"sync"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	upstream "k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/kubernetes"

	"github.com/tenantry/tenantry/internal/server/storage"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
)

// stalls are the writes of config maps that are decided about, and not done before they
// are released. Their requests have long been answered when they are.
var stalls = map[string]*stall{
	"create stalled-creation": newStall(),
	"update stalled-apply":    newStall(),
	"delete stalled-deletion": newStall(),
}

type stall struct {
	begun    atomic.Bool
	reached  chan struct{}
	released chan struct{}
	outcome  chan error
}

func newStall() *stall {
	return &stall{reached: make(chan struct{}), released: make(chan struct{}), outcome: make(chan error, 1)}
}

var _ = Describe("A server that stalls between its decision and the write", func() {
	const n = tenant.Name("reborn")

	It("writes nothing in the space of the next tenant of that name", func(ctx SpecContext) {
		tenantry.CreateTenants(ctx, n)
		maps := func() kubernetes.Interface { return suite.Client(tenantry.In(n, tenantry.Config(tenant.System))) }
		create := func(name string) error {
			_, err := maps().CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
			return err
		}
		Expect(create("stalled-deletion")).To(Succeed())
		for key, write := range map[string]func() error{
			"create stalled-creation": func() error { return create("stalled-creation") },
			"update stalled-apply": func() error {
				_, err := maps().CoreV1().ConfigMaps("default").Patch(ctx, "stalled-apply", types.ApplyPatchType,
					[]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"stalled-apply"}}`), metav1.PatchOptions{FieldManager: "test"})
				return err
			},
			"delete stalled-deletion": func() error {
				return maps().CoreV1().ConfigMaps("default").Delete(ctx, "stalled-deletion", metav1.DeleteOptions{})
			},
		} {
			go func() { _ = write() }()
			Eventually(stalls[key].reached).WithContext(ctx).Should(BeClosed())
		}

		tenants := tenantry.Client(tenant.System).CoreV1().RESTClient()
		Expect(tenants.Delete().AbsPath("/api/v1/tenants", n.String()).Do(ctx).Error()).To(Succeed())
		Eventually(func() bool {
			return apierrors.IsNotFound(tenants.Get().AbsPath("/api/v1/tenants", n.String()).Do(ctx).Error())
		}).WithContext(ctx).WithTimeout(timeout).Should(BeTrue())
		tenantry.CreateTenants(ctx, n)
		Expect(create("stalled-deletion")).To(Succeed())
		for key, stalled := range stalls {
			By(key)
			close(stalled.released)
			var err error
			Eventually(stalled.outcome).WithContext(ctx).Should(Receive(&err))
			Expect(err).To(refuseNewObjects())
		}
		Expect(keys(ctx, "/registry/configmaps/"+n.String()+"/default/stalled-")).To(ConsistOf(HaveSuffix("/stalled-deletion")))
	}, SpecTimeout(timeout))
})

// stalling makes storage that stalls.
func stalling(raw storage.RawFunc) storage.RawFunc {
	return func(c storagebackend.ConfigForResource, newFunc, newListFunc func() runtime.Object, prefix string) (upstream.Interface, factory.DestroyFunc, error) {
		made, destroy, err := raw(c, newFunc, newListFunc, prefix)
		if err == nil && c.GroupResource.String() == "configmaps" {
			made = stallingStorage{made}
		}
		return made, destroy, err
	}
}

type stallingStorage struct{ upstream.Interface }

// stalled does a write. If it is one of stalls, and the first, the write does not end with
// its request: a server that stalls as a whole does not learn that it should, either.
func stalled(ctx context.Context, verb, key string, write func(ctx context.Context, wait func()) error) error {
	s, ok := stalls[verb+" "+path.Base(key)]
	if !ok || !s.begun.CompareAndSwap(false, true) {
		return write(ctx, func() {})
	}
	err := write(context.WithoutCancel(ctx), sync.OnceFunc(func() { // decisions may be made again
		close(s.reached)
		<-s.released
	}))
	s.outcome <- err
	return err
}

func (s stallingStorage) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	return stalled(ctx, "create", key, func(ctx context.Context, wait func()) error {
		wait()
		return s.Interface.Create(ctx, key, obj, out, ttl)
	})
}

func (s stallingStorage) GuaranteedUpdate(ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool,
	preconditions *upstream.Preconditions, tryUpdate upstream.UpdateFunc, cached runtime.Object) error {
	return stalled(ctx, "update", key, func(ctx context.Context, wait func()) error {
		decided := func(input runtime.Object, res upstream.ResponseMeta) (runtime.Object, *uint64, error) {
			output, ttl, err := tryUpdate(input, res)
			wait()
			return output, ttl, err
		}
		return s.Interface.GuaranteedUpdate(ctx, key, destination, ignoreNotFound, preconditions, decided, cached)
	})
}

func (s stallingStorage) Delete(ctx context.Context, key string, out runtime.Object, preconditions *upstream.Preconditions,
	validate upstream.ValidateObjectFunc, cached runtime.Object, opts upstream.DeleteOptions) error {
	return stalled(ctx, "delete", key, func(ctx context.Context, wait func()) error {
		decided := func(ctx context.Context, obj runtime.Object) error {
			err := validate(ctx, obj)
			wait()
			return err
		}
		return s.Interface.Delete(ctx, key, out, preconditions, decided, cached, opts)
	})
}
