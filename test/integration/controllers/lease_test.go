package controllers

import (
	"context"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/retry"

	"github.com/tenantry/tenantry/internal/election"
	"github.com/tenantry/tenantry/internal/etcd"
	"github.com/tenantry/tenantry/internal/kubeconfig"
	"github.com/tenantry/tenantry/internal/kubecontrollers"
	"github.com/tenantry/tenantry/internal/pki"
	"github.com/tenantry/tenantry/internal/server"
	"github.com/tenantry/tenantry/internal/standalone"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
	"github.com/tenantry/tenantry/test/harness"
)

// elected is a server that is asked for the whole time, and whose controllers have a lease.
type elected struct {
	client *kubernetes.Clientset
	// failed are requests that were not answered.
	failed, asked atomic.Int64
	// ended is what the server or its controllers have ended with.
	ended chan error
	// without is how many goroutines there are without controllers.
	without int
	// workers are those of the environment's controller of Deployments.
	workers int
}

// deploys is in the stacks of the workers.
var deploys = []string{"deployment.(*DeploymentController).worker"}

// controlling are what the stacks of controllers have, and of what they use.
var controlling = []string{"k8s.io/kubernetes/pkg/controller", "client-go/util/workqueue", "client-go/tools/record", "client-go/tools/cache", "internal/kubecontrollers"}

// goroutines counts those whose stacks have one of some strings.
func goroutines(with []string) int {
	stacks := make([]byte, 64<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	n := 0
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		if slices.ContainsFunc(with, func(s string) bool { return strings.Contains(stack, s) }) {
			n++
		}
	}
	return n
}

// settled returns the number of goroutines of controllers when it does not change any more.
func settled(ctx context.Context) int {
	GinkgoHelper()
	now := 0
	Eventually(func() int { before := now; now = goroutines(controlling); return now - before }).
		WithContext(ctx).WithPolling(2 * time.Second).WithTimeout(suite.StartTimeout).Should(BeZero())
	return now
}

// startElected starts a server on an etcd, and then its controllers.
func startElected(ctx context.Context, dir, etcdURL string) *elected {
	GinkgoHelper()
	keys, err := pki.Ensure(filepath.Join(dir, "pki"), "127.0.0.1")
	Expect(err).NotTo(HaveOccurred())
	port, err := harness.FreePort()
	Expect(err).NotTo(HaveOccurred())
	options := server.NewOptions()
	flags := pflag.NewFlagSet("server", pflag.ContinueOnError)
	for _, set := range options.Flags().FlagSets {
		flags.AddFlagSet(set)
	}
	cert, key := keys.Serving()
	Expect(flags.Parse([]string{
		"--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(port), "--client-ca-file=" + keys.ClientCA.File, "--etcd-servers=" + etcdURL,
		"--tls-cert-file=" + cert, "--tls-private-key-file=" + key, "--root-ca-file=" + keys.ServerCA.File,
		"--service-account-issuer=https://kubernetes.default.svc", "--service-cluster-ip-range=10.96.0.0/12",
		"--service-account-key-file=" + keys.ServiceAccountKey(), "--service-account-signing-key-file=" + keys.ServiceAccountKey(),
	})).To(Succeed())
	running, cancel := context.WithCancel(context.Background())
	s, err := standalone.NewServer(running, options)
	Expect(err).NotTo(HaveOccurred())
	e := &elected{ended: make(chan error, 2)}
	var all sync.WaitGroup
	DeferCleanup(func() { cancel(); all.Wait() })
	all.Go(func() { e.ended <- standalone.Serve(running, s) })
	Expect(s.WaitUntilReady(ctx)).To(Succeed())
	data, err := kubeconfig.New(keys, "https://127.0.0.1:"+strconv.Itoa(port), kubeconfig.User{Tenant: tenant.System, Name: "admin", Groups: []string{"system:masters"}})
	Expect(err).NotTo(HaveOccurred())
	config, err := clientcmd.RESTConfigFromKubeConfig(data)
	Expect(err).NotTo(HaveOccurred())
	config.QPS = -1
	e.client = suite.Client(config)
	e.without, e.workers = settled(ctx), goroutines(deploys)
	all.Go(func() {
		e.ended <- kubecontrollers.RunElected(running, s, election.Timing{Lease: 4 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 200 * time.Millisecond})
	})
	all.Go(func() {
		for running.Err() == nil {
			err := e.client.Discovery().RESTClient().Get().AbsPath("/version").MaxRetries(0).Do(running).Error()
			if e.asked.Add(1); err != nil && running.Err() == nil {
				e.failed.Add(1)
			}
		}
	})
	return e
}

// hold makes somebody else the holder of the lease, for some seconds.
func (e *elected) hold(ctx context.Context, seconds int32) {
	GinkgoHelper()
	leases := e.client.CoordinationV1().Leases(metav1.NamespaceSystem)
	Expect(retry.RetryOnConflict(retry.DefaultRetry, func() error {
		lease, err := leases.Get(ctx, "tenantry-controllers", metav1.GetOptions{})
		if err != nil {
			return err
		}
		now := metav1.NowMicro()
		lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds, lease.Spec.RenewTime = new("another"), &seconds, &now
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
		return err
	})).To(Succeed())
}

// make makes a namespace when the server takes it.
func (e *elected) make(ctx context.Context, namespace string) {
	GinkgoHelper()
	Eventually(func(ctx context.Context) error {
		_, err := e.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
		return err
	}).WithContext(ctx).WithTimeout(suite.StartTimeout).Should(Succeed())
}

// expectWork waits until the controllers have worked on a namespace.
func (e *elected) expectWork(ctx context.Context, namespace string) {
	GinkgoHelper()
	Eventually(func(ctx context.Context) error {
		_, err := e.client.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
		return err
	}).WithContext(ctx).WithTimeout(suite.StartTimeout).Should(Succeed())
}

var _ = Describe("A server whose controllers lose their lease", Serial, func() {
	It("goes on, and starts them again when it has the lease", func(ctx SpecContext) {
		dir := GinkgoT().TempDir()
		port, err := harness.FreePort()
		Expect(err).NotTo(HaveOccurred())
		store := etcd.Options{Dir: filepath.Join(dir, "etcd"), ListenClientURL: "http://127.0.0.1:" + strconv.Itoa(port), UnsafeNoFsync: true}
		member, err := etcd.Start(ctx, store)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { member.Stop() })
		e := startElected(ctx, dir, store.ListenClientURL)
		e.make(ctx, "first")
		e.expectWork(ctx, "first")
		with := settled(ctx)

		By("having another one take the lease")
		for life := range 3 {
			e.hold(ctx, 3600)
			Eventually(goroutines).WithArguments(controlling).WithContext(ctx).WithTimeout(suite.StartTimeout).Should(BeNumerically("<=", e.without+1), "more than who waits for the lease")
			name := "life-" + strconv.Itoa(life)
			e.make(ctx, name)
			e.hold(ctx, 1)
			e.expectWork(ctx, name)
		}
		Expect(settled(ctx)).To(BeNumerically("<=", with), "something is left of each life")

		By("having no etcd for longer than the lease is renewed")
		member.Stop()
		Eventually(goroutines).WithArguments(deploys).WithContext(ctx).WithTimeout(suite.StartTimeout).Should(Equal(e.workers))
		member, err = etcd.Start(ctx, store)
		Expect(err).NotTo(HaveOccurred())
		e.make(ctx, "last")
		e.expectWork(ctx, "last")
		Expect(e.ended).NotTo(Receive())
		Expect(e.asked.Load()).To(BeNumerically(">", 0))
		Expect(e.failed.Load()).To(BeZero(), "of %d requests", e.asked.Load())
	}, SpecTimeout(5*time.Minute))
})
