package replicas

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/harness/sessions"
)

var _ = Describe("A server that is stopped while a tenant is deleted and made again", Ordered, func() {
	const (
		n       = tenant.Name("reborn")
		rounds  = 3
		writers = 64
		// fences is where those of the tenants are.
		fences = "/tenantry/deleted-tenants-of/stall/" + string(n) + "/"
	)
	var (
		running, stopped *server
		// configMaps is the etcd of config maps, beside that of all else.
		configMaps *externalEtcd
	)

	BeforeAll(func(ctx SpecContext) {
		configMaps = startEtcd(ctx, GinkgoT().TempDir())
		flags := []string{"--etcd-prefix=/stall", "--etcd-servers-overrides=/configmaps#" + configMaps.address}
		running = startServer(flags...)
		running.ready(ctx)
		manager := startManager(running)
		stopped = startServer(append(flags, "--controllers=false")...)
		stopped.ready(ctx)
		DeferCleanup(func() { sessions.Kill(stopped.session, running.session, manager) }) // before that etcd ends
	}, NodeTimeout(startTimeout))

	// write creates objects through the server that is stopped later, until it may not or
	// is told to end.
	write := func(ctx context.Context, end <-chan struct{}, created *atomic.Int64) (wait func()) {
		client := stopped.client(n).CoreV1()
		create := func(name string, secret bool) error {
			meta := metav1.ObjectMeta{Name: name}
			if secret {
				_, err := client.Secrets(metav1.NamespaceDefault).Create(ctx, &corev1.Secret{ObjectMeta: meta}, metav1.CreateOptions{})
				return err
			}
			_, err := client.ConfigMaps(metav1.NamespaceDefault).Create(ctx, &corev1.ConfigMap{ObjectMeta: meta}, metav1.CreateOptions{})
			return err
		}
		var all sync.WaitGroup
		for i := range writers {
			all.Go(func() {
				for j := 0; ; j++ {
					select {
					case <-end:
						return
					default:
					}
					if create(fmt.Sprintf("earlier-%d-%d", i, j), i%2 == 0) != nil {
						return
					}
					created.Add(1)
				}
			})
		}
		return all.Wait
	}

	It("writes nothing in the space of the next tenant, in any etcd", func(ctx SpecContext) {
		for round := range rounds {
			By(fmt.Sprintf("round %d", round))
			applyTenant(ctx, running, n)
			waitReady(ctx, running, n)
			waitReady(ctx, stopped, n)
			end := make(chan struct{})
			var created atomic.Int64
			wait := write(ctx, end, &created)
			Eventually(created.Load).WithContext(ctx).WithTimeout(specTimeout).Should(BeNumerically(">", 5*writers))

			stopped.session.Signal(syscall.SIGSTOP)
			close(end)
			deleteTenant(ctx, running, n)
			applyTenant(ctx, running, n)
			waitReady(ctx, running, n)
			stopped.session.Signal(syscall.SIGCONT)
			wait()

			for _, e := range []*externalEtcd{etcd, configMaps} {
				for key := range e.stored(ctx, "/stall/") {
					Expect(key).NotTo(ContainSubstring("/earlier-"), "it is of the earlier tenant")
				}
				Expect(e.stored(ctx, fences)).To(HaveLen(2+4*round), "of each tenant that has ended")
			}
			deleteTenant(ctx, running, n)
		}
	}, SpecTimeout(specTimeout))
})

// deleteTenant deletes a tenant and waits until it has gone.
func deleteTenant(ctx context.Context, s *server, n tenant.Name) {
	GinkgoHelper()
	client := s.dynamic(tenant.System).Resource(tenants)
	Expect(client.Delete(ctx, n.String(), metav1.DeleteOptions{})).To(Succeed())
	Eventually(func(ctx context.Context) bool {
		_, err := client.Get(ctx, n.String(), metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	}).WithContext(ctx).WithTimeout(specTimeout).Should(BeTrue())
}
