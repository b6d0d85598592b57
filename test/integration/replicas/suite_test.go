package replicas

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/internal/pki"
)

const (
	startTimeout = 2 * time.Minute
	// stopTimeout is what a pod gets to end.
	stopTimeout = 30 * time.Second
	specTimeout = 3 * time.Minute
	loopback    = "127.0.0.1"
)

var (
	binary string
	keys   *pki.PKI
	etcd   *externalEtcd
)

func TestReplicas(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	RunSpecs(t, "Replicas")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	klog.LogToStderr(false)
	klog.SetOutput(GinkgoWriter)
	var err error
	binary, err = gexec.Build("github.com/tenantry/tenantry/cmd/tenantry")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(gexec.CleanupBuildArtifacts)
	dir := GinkgoT().TempDir()
	keys, err = pki.Ensure(filepath.Join(dir, "pki"), loopback)
	Expect(err).NotTo(HaveOccurred())
	etcd = startEtcd(ctx, dir)
	DeferCleanup(func() { kill(started...) })
}, NodeTimeout(startTimeout))

// freePort returns a port of this machine that nobody listens on.
func freePort() string {
	GinkgoHelper()
	listener, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
	Expect(err).NotTo(HaveOccurred())
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	Expect(err).NotTo(HaveOccurred())
	return port
}

func writeFile(path string, data []byte) string {
	GinkgoHelper()
	Expect(os.WriteFile(path, data, 0o600)).To(Succeed())
	return path
}
