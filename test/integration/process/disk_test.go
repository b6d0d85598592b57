package process

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tenantry/tenantry/internal/pki"
	"github.com/tenantry/tenantry/internal/statedir"
	"github.com/tenantry/tenantry/test/harness/sessions"
)

const (
	// diskSize has space for etcd's log, of which there are two files, and little else.
	diskSize = "size=160m"
	// most is how many large objects are written at most until there is no space.
	most = 300
)

var _ = Describe("tenantry up without space", func() {
	It("ends when its disk is full, says so, and has what it acknowledged when there is space", func(ctx SpecContext) {
		disk := mountDisk()
		dir, port := filepath.Join(disk, "state"), sessions.FreePort()
		server := start(dir, port)
		filler := filepath.Join(disk, "filler")
		fillUp(filler)
		acknowledged, err := createUntilRefused(ctx, client(dir))
		Expect(err).To(HaveOccurred())
		Eventually(server, stopTimeout).Should(gexec.Exit(1))
		Expect(server.Err).To(gbytes.Say(`tenantry: the disk of ` + dir + `/etcd is full: .*no space left on device`))

		By("a start without space")
		fillUp(filler)
		server = run("up", "--dir", dir, "--secure-port", port)
		Eventually(server, startTimeout).Should(gexec.Exit(1))
		Expect(string(server.Err.Contents())).To(And(
			MatchRegexp(`tenantry: the disk of `+dir+`\S* is full: .*no space left on device`), Not(ContainSubstring("damaged"))))

		By("a first start without space")
		fillUp(filler)
		server = run("up", "--dir", filepath.Join(disk, "other"), "--secure-port", port)
		Eventually(server, startTimeout).Should(gexec.Exit(1))
		Expect(server.Err).To(gbytes.Say(`tenantry: the disk of ` + disk + `/other\S* is full: .*no space left on device`))

		By("a start with space")
		Expect(os.Remove(filler)).To(Succeed())
		server = start(dir, port)
		Expect(configMaps(ctx, client(dir))).To(ContainElements(acknowledged))
		Eventually(server.Interrupt(), stopTimeout).Should(gexec.Exit(0))
	}, SpecTimeout(4*startTimeout))

	It("deletes at etcd's space quota, and writes when there is space or a larger quota", func(ctx SpecContext) {
		dir, port := filepath.Join(GinkgoT().TempDir(), "state"), sessions.FreePort()
		up := func(quota int) *gexec.Session {
			session := run("up", "--dir", dir, "--secure-port", port, "--etcd-quota-backend-bytes", strconv.Itoa(quota))
			Eventually(session.Out, startTimeout).Should(gbytes.Say("Tenantry is ready"))
			return session
		}
		create := func(c *kubernetes.Clientset, name string) func() error {
			return func() error {
				_, err := c.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
				if apierrors.IsAlreadyExists(err) {
					return nil
				}
				return err
			}
		}
		server := up(24 << 20)
		member := newTenant(ctx, dir, "acme")

		By("what a client is told")
		created, err := createUntilRefused(ctx, member)
		status := apierrors.APIStatus(nil)
		Expect(errors.As(err, &status)).To(BeTrue(), "%v", err)
		Expect(status.Status().Code).To(BeEquivalentTo(http.StatusInsufficientStorage))
		Expect(string(status.Status().Reason)).To(Equal("InsufficientStorage"))
		Expect(status.Status().Message).To(And(ContainSubstring("space quota"), ContainSubstring("--etcd-quota-backend-bytes")))

		By("deletions")
		for _, name := range created {
			Expect(member.CoreV1().ConfigMaps("default").Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
		}
		Eventually(create(member, "again"), startTimeout).Should(Succeed())
		Expect(client(dir).CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "new"}}, metav1.CreateOptions{})).Error().NotTo(HaveOccurred())

		By("a larger quota")
		created, err = createUntilRefused(ctx, member)
		Expect(err).To(HaveOccurred())
		Eventually(server.Interrupt(), stopTimeout).Should(gexec.Exit(0))
		server = up(64 << 20)
		Eventually(create(client(dir), "afterwards"), startTimeout).Should(Succeed())
		Expect(configMaps(ctx, member)).To(ContainElements(append(created, "again")))
		Eventually(server.Interrupt(), stopTimeout).Should(gexec.Exit(0))
	}, SpecTimeout(4*startTimeout))

	It("ends when it is asked to, as a server beside it does, though it was started at etcd's space quota", func(ctx SpecContext) {
		dir, port, etcd := filepath.Join(GinkgoT().TempDir(), "state"), sessions.FreePort(), "http://127.0.0.1:"+sessions.FreePort()
		up := func(quota int) *gexec.Session {
			session := run("up", "--dir", dir, "--secure-port", port, "--etcd-listen-client-url", etcd, "--etcd-quota-backend-bytes", strconv.Itoa(quota))
			Eventually(session.Out, startTimeout).Should(gbytes.Say("Tenantry is ready"))
			return session
		}
		first := up(48 << 20)
		_, err := createUntilRefused(ctx, client(dir))
		Expect(err).To(HaveOccurred())
		sessions.End(first)

		second := up(24 << 20)
		beside := startServer(ctx, dir, etcd)
		sessions.End(beside)
		sessions.End(second)
	}, SpecTimeout(4*startTimeout))
})

// startServer starts the API server alone, with the keys in the directory of a tenantry
// up, and returns when it is ready.
func startServer(ctx context.Context, dir, etcd string) *gexec.Session {
	GinkgoHelper()
	keys, err := pki.Open(statedir.Path(dir).PKI())
	Expect(err).NotTo(HaveOccurred())
	cert, key := keys.Serving()
	port := sessions.FreePort()
	session := run("server", "--etcd-servers", etcd, "--bind-address", "127.0.0.1", "--secure-port", port,
		"--client-ca-file", keys.ClientCA.File, "--tls-cert-file", cert, "--tls-private-key-file", key,
		"--service-account-issuer", "https://kubernetes.default.svc", "--service-cluster-ip-range", "10.96.0.0/12",
		"--service-account-key-file", keys.ServiceAccountKey(), "--service-account-signing-key-file", keys.ServiceAccountKey())
	config, err := clientcmd.BuildConfigFromFlags("https://127.0.0.1:"+port, statedir.Path(dir).AdminKubeconfig())
	Expect(err).NotTo(HaveOccurred())
	client, err := kubernetes.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	Eventually(func() error { return client.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error() }, startTimeout).Should(Succeed())
	return session
}

// mountDisk mounts a small disk of its own until the spec ends.
func mountDisk() string {
	GinkgoHelper()
	dir := GinkgoT().TempDir()
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, diskSize)
	if errors.Is(err, syscall.EPERM) {
		Skip("mounting a disk takes the rights of root")
	}
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(syscall.Unmount, dir, syscall.MNT_DETACH)
	return dir
}

// fillUp writes to a file until its disk is full.
func fillUp(name string) {
	GinkgoHelper()
	file, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	Expect(err).NotTo(HaveOccurred())
	defer file.Close()
	for size := 1 << 20; size >= 512; { // the blocks of a disk are larger
		if _, err := file.Write(make([]byte, size)); errors.Is(err, syscall.ENOSPC) {
			size /= 2
		} else {
			Expect(err).NotTo(HaveOccurred())
		}
	}
}

// createUntilRefused creates large objects and returns the names of those that were
// acknowledged, and why the next one was not.
func createUntilRefused(ctx context.Context, c *kubernetes.Clientset) ([]string, error) {
	GinkgoHelper()
	var acknowledged []string
	data := map[string]string{"x": strings.Repeat("x", 400_000)}
	for i := range most {
		name := "large-" + strconv.Itoa(i)
		_, err := c.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}, metav1.CreateOptions{})
		if err != nil {
			return acknowledged, err
		}
		acknowledged = append(acknowledged, name)
	}
	return acknowledged, nil
}

func configMaps(ctx context.Context, c *kubernetes.Clientset) []string {
	GinkgoHelper()
	list, err := c.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	var names []string
	for _, item := range list.Items {
		names = append(names, item.Name)
	}
	return names
}
