package process

import (
	"path/filepath"
	"strconv"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tenantry/tenantry/test/harness/sessions"
)

const (
	startTimeout = sessions.StartTimeout
	stopTimeout  = sessions.StopTimeout
	writes       = 50
)

var binary string

func TestProcess(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Process")
}

var _ = BeforeSuite(func() { binary = sessions.Tenantry() })

var _ = Describe("tenantry up", func() {
	var dir, port string

	BeforeEach(func() {
		dir, port = filepath.Join(GinkgoT().TempDir(), "state"), sessions.FreePort()
	})

	It("keeps what it has acknowledged when it is killed", func(ctx SpecContext) {
		server := start(dir, port)
		var acknowledged []string
		configMaps := client(dir).CoreV1().ConfigMaps("default")
		for i := range writes {
			name := "c" + strconv.Itoa(i)
			create := func() error {
				_, err := configMaps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
				return err
			}
			Eventually(create, startTimeout).Should(Succeed())
			acknowledged = append(acknowledged, name)
		}
		sessions.Kill(server)

		server = start(dir, port)
		list, err := client(dir).CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		var names []string
		for _, item := range list.Items {
			names = append(names, item.Name)
		}
		Expect(names).To(ContainElements(acknowledged))
		sessions.End(server)
	})

	It("ends open watches when it is asked to end", func(ctx SpecContext) {
		server := start(dir, port)
		watcher, err := client(dir).CoreV1().Namespaces().Watch(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(watcher.Stop)
		Eventually(watcher.ResultChan()).Should(Receive())
		sessions.End(server)
		Eventually(watcher.ResultChan()).Should(BeClosed())
	})

	It("has its directory and its port to itself", func() {
		server := start(dir, port)
		second := run("up", "--dir", dir, "--secure-port", sessions.FreePort())
		Eventually(second, stopTimeout).Should(gexec.Exit(1))
		Expect(second.Err).To(gbytes.Say("is in use by another tenantry"))
		third := run("up", "--dir", dir+"2", "--secure-port", port)
		Eventually(third, stopTimeout).Should(gexec.Exit(1))
		Expect(third.Err).To(gbytes.Say("address already in use"))
		Expect(dir + "2").NotTo(BeADirectory())
		Expect(string(server.Err.Contents())).To(BeEmpty())
		Eventually(server.Interrupt(), stopTimeout).Should(gexec.Exit(0))
	})
})

// start runs tenantry up and returns when it is ready.
func start(dir, port string) *gexec.Session {
	GinkgoHelper()
	session := run("up", "--dir", dir, "--secure-port", port)
	Eventually(session.Out, startTimeout).Should(gbytes.Say("Tenantry is ready at https://127.0.0.1:" + port))
	return session
}

// run runs the binary and ends it with the spec.
func run(args ...string) *gexec.Session {
	GinkgoHelper()
	session := sessions.Run(binary, args...)
	DeferCleanup(func() { sessions.Kill(session) })
	return session
}

func client(dir string) *kubernetes.Clientset {
	GinkgoHelper()
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "admin.kubeconfig"))
	Expect(err).NotTo(HaveOccurred())
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	return client
}
