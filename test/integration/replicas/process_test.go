package replicas

import (
	"context"
	"path/filepath"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tenantry/tenantry/internal/kubeconfig"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/harness/sessions"
)

// server is one "tenantry server".
type server struct {
	session *gexec.Session
	url     string
}

// startServer starts a server; ready waits for it.
func startServer(flags ...string) *server {
	GinkgoHelper()
	port := sessions.FreePort()
	cert, key := keys.Serving()
	flags = slices.Concat([]string{
		"server", "--bind-address=" + loopback, "--secure-port=" + port, "--client-ca-file=" + keys.ClientCA.File,
		"--tls-cert-file=" + cert, "--tls-private-key-file=" + key, "--root-ca-file=" + keys.ServerCA.File,
		"--service-account-issuer=https://kubernetes.default.svc", "--service-cluster-ip-range=10.96.0.0/12",
		"--service-account-key-file=" + keys.ServiceAccountKey(), "--service-account-signing-key-file=" + keys.ServiceAccountKey(),
	}, etcd.flags, flags)
	return &server{session: run(flags...), url: "https://" + loopback + ":" + port}
}

// ready waits until the server answers requests.
func (s *server) ready(ctx context.Context) {
	GinkgoHelper()
	client := s.client(tenant.System)
	Eventually(func(ctx context.Context) error {
		if s.session.ExitCode() >= 0 {
			return StopTrying("the server has ended")
		}
		return client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	}).WithContext(ctx).WithTimeout(startTimeout).Should(Succeed())
}

// config returns the config of an administrator of a space at this server.
func (s *server) config(n tenant.Name) *rest.Config {
	GinkgoHelper()
	user := kubeconfig.User{Tenant: n, Name: "admin"}
	if n == tenant.System {
		user.Groups = []string{"system:masters"}
	}
	data, err := kubeconfig.New(keys, s.url, user)
	Expect(err).NotTo(HaveOccurred())
	config, err := clientcmd.RESTConfigFromKubeConfig(data)
	Expect(err).NotTo(HaveOccurred())
	config.QPS = -1
	return config
}

func (s *server) client(n tenant.Name) *kubernetes.Clientset {
	GinkgoHelper()
	client, err := kubernetes.NewForConfig(s.config(n))
	Expect(err).NotTo(HaveOccurred())
	return client
}

func (s *server) dynamic(n tenant.Name) dynamic.Interface {
	GinkgoHelper()
	client, err := dynamic.NewForConfig(s.config(n))
	Expect(err).NotTo(HaveOccurred())
	return client
}

// dynamicAdmin returns a client of a system administrator in the space of n.
func (s *server) dynamicAdmin(n tenant.Name) dynamic.Interface {
	GinkgoHelper()
	config := s.config(tenant.System)
	if n != tenant.System {
		config.Host += n.Root()
	}
	client, err := dynamic.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	return client
}

// startManager starts a "tenantry manager" that works through a server.
func startManager(s *server) *gexec.Session {
	GinkgoHelper()
	data, err := kubeconfig.New(keys, s.url, kubeconfig.User{Tenant: tenant.System, Name: "manager", Groups: []string{"system:masters"}})
	Expect(err).NotTo(HaveOccurred())
	return run("manager", "--kubeconfig="+writeFile(filepath.Join(GinkgoT().TempDir(), "manager.kubeconfig"), data))
}

// started are all processes, which end with the suite: what one spec starts serves
// the following ones.
var started []*gexec.Session

// run starts the binary.
func run(args ...string) *gexec.Session {
	GinkgoHelper()
	session := sessions.Run(binary, args...)
	started = append(started, session)
	return session
}
