package controllers

import (
	"context"
	"net"
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/internal/etcd"
	"github.com/tenantry/tenantry/internal/pki"
	"github.com/tenantry/tenantry/internal/server"
	"github.com/tenantry/tenantry/internal/tenant"
)

func TestControllers(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "controllers")
}

// nodeName is a node of the system space.
const nodeName = "node-1"

// loopback is the config of a system administrator.
var loopback *rest.Config

var _ = BeforeSuite(func() {
	SetDefaultEventuallyTimeout(30 * time.Second)
	SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	klog.SetOutput(GinkgoWriter)
	klog.LogToStderr(false)
	ctx, cancel := context.WithCancel(context.Background())
	s := newServer(ctx)
	var running errgroup.Group
	DeferCleanup(func() { // before etcd stops
		cancel()
		Expect(running.Wait()).To(Or(Succeed(), MatchError(context.Canceled)))
	})
	running.Go(func() error { return s.Run(ctx) })
	Expect(s.WaitUntilReady(ctx)).To(Succeed())
	loopback = s.LoopbackConfig()
	running.Go(func() error { return s.RunControllers(ctx, true) })
	_, err := client(tenant.System).CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	createTenant(ctx, "a")
	createTenant(ctx, "b")
})

func newServer(ctx context.Context) *server.Server {
	const address = "127.0.0.1"
	keys, err := pki.Ensure(GinkgoT().TempDir(), address)
	Expect(err).NotTo(HaveOccurred())
	store, err := etcd.Start(ctx, etcd.Options{Dir: GinkgoT().TempDir()})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(store.Stop)

	options := server.NewOptions()
	options.EtcdClient = store.Client
	kube := options.Kube
	store.Transport(&kube.Etcd.StorageConfig.Transport)
	kube.SecureServing.BindAddress = net.ParseIP(address)
	kube.SecureServing.BindPort = freePort(address)
	kube.SecureServing.ServerCert.CertKey.CertFile, kube.SecureServing.ServerCert.CertKey.KeyFile = keys.Serving()
	kube.Authentication.ClientCert.ClientCA = keys.ClientCAFile()
	kube.Authentication.ServiceAccounts.Issuers = []string{"https://kubernetes.default.svc"}
	kube.Authentication.ServiceAccounts.KeyFiles = []string{keys.ServiceAccountKey()}
	kube.ServiceAccountSigningKeyFile = keys.ServiceAccountKey()
	kube.ProxyClientCertFile, kube.ProxyClientKeyFile = keys.FrontProxyClient()
	completed, err := options.Complete(ctx)
	Expect(err).NotTo(HaveOccurred())
	Expect(completed.Validate()).To(BeEmpty())
	s, err := server.New(ctx, completed)
	Expect(err).NotTo(HaveOccurred())
	return s
}

func freePort(address string) int {
	listener, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	Expect(err).NotTo(HaveOccurred())
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	Expect(err).NotTo(HaveOccurred())
	number, err := strconv.Atoi(port)
	Expect(err).NotTo(HaveOccurred())
	return number
}

// inSpace returns a config for the space of n.
func inSpace(n tenant.Name) *rest.Config {
	config := rest.CopyConfig(loopback)
	config.QPS = -1
	config.WarningHandler = rest.NoWarnings{}
	if n != tenant.System {
		config.Host += "/tenants/" + string(n)
	}
	return config
}

func client(n tenant.Name) *kubernetes.Clientset {
	c, err := kubernetes.NewForConfig(inSpace(n))
	Expect(err).NotTo(HaveOccurred())
	return c
}

func createTenant(ctx context.Context, name string) {
	body := `{"apiVersion":"v1","kind":"Tenant","metadata":{"name":"` + name + `"}}`
	rest := client(tenant.System).CoreV1().RESTClient()
	Expect(rest.Post().AbsPath("/api/v1/tenants").SetHeader("Content-Type", "application/json").
		SetHeader("Accept", "application/json").Body([]byte(body)).Do(ctx).Error()).To(Succeed())
	Eventually(func() error {
		return rest.Get().AbsPath("/tenants/" + name + "/api/v1/namespaces").Do(ctx).Error()
	}).Should(Succeed())
}
