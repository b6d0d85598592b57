package replicas

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/internal/pki"
	"github.com/tenantry/tenantry/test/harness/sessions"
)

const (
	startTimeout = sessions.StartTimeout
	specTimeout  = 3 * time.Minute
	loopback     = "127.0.0.1"
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
	binary = sessions.Tenantry()
	dir := GinkgoT().TempDir()
	keys, err = pki.Ensure(filepath.Join(dir, "pki"), loopback)
	Expect(err).NotTo(HaveOccurred())
	etcd = startEtcd(ctx, dir)
	DeferCleanup(func() { sessions.Kill(started...) })
}, NodeTimeout(startTimeout))

func writeFile(path string, data []byte) string {
	GinkgoHelper()
	Expect(os.WriteFile(path, data, 0o600)).To(Succeed())
	return path
}
