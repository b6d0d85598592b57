package operator

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/pki"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/harness"
	"github.com/tenantry/tenantry/test/harness/sessions"
)

const (
	specTimeout = 5 * time.Minute
	// gracePeriod is what the pods get to end.
	gracePeriod = 90 * time.Second
)

// etcdCluster is an etcd of one member that asks its clients for certificates.
type etcdCluster struct {
	dir     string
	address url.URL
	keys    *pki.PKI
	// clients is the file of the authority of its clients.
	clients string
	server  *embed.Etcd
	// root is a client that may do everything.
	root *clientv3.Client
}

func newEtcdCluster(dir string) *etcdCluster {
	GinkgoHelper()
	port, err := harness.FreePort()
	Expect(err).NotTo(HaveOccurred())
	keys, err := pki.Ensure(filepath.Join(dir, "pki"), loopback)
	Expect(err).NotTo(HaveOccurred())
	return &etcdCluster{
		dir: dir, address: url.URL{Scheme: "https", Host: loopback + ":" + strconv.Itoa(port)}, keys: keys, clients: filepath.Join(dir, "clients.crt"),
	}
}

// start runs etcd for clients of an authority, with what was stored before.
func (e *etcdCluster) start(ctx context.Context, clients *pki.Authority) {
	GinkgoHelper()
	Expect(os.WriteFile(e.clients, clients.PEM(), 0o600)).To(Succeed())
	cert, key := e.keys.Serving()
	server, err := harness.Etcd{Dir: e.dir, URL: e.address.String(), Cert: cert, Key: key, Clients: e.clients, UnsafeNoFsync: true}.Start(ctx)
	Expect(err).NotTo(HaveOccurred())
	e.server = server
}

// restrict lets the user "servers" do what the page names, and nobody but the user "root"
// anything else. Users are named by their certificates.
func (e *etcdCluster) restrict(ctx context.Context) {
	GinkgoHelper()
	certPEM, keyPEM, err := e.keys.ClientCertificate(0, tenant.System, "root")
	Expect(err).NotTo(HaveOccurred())
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	Expect(err).NotTo(HaveOccurred())
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(e.keys.ServerCA.PEM())
	e.root, err = clientv3.New(clientv3.Config{
		Endpoints: []string{e.address.String()}, TLS: &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: authorities},
	})
	Expect(err).NotTo(HaveOccurred())
	for _, name := range []string{"root", "servers"} {
		_, err := e.root.RoleAdd(ctx, name)
		Expect(err).NotTo(HaveOccurred())
		_, err = e.root.UserAddWithOptions(ctx, name, "", &clientv3.UserAddOptions{NoPassword: true})
		Expect(err).NotTo(HaveOccurred())
		_, err = e.root.UserGrantRole(ctx, name, name)
		Expect(err).NotTo(HaveOccurred())
	}
	for _, key := range []string{"/control-planes/", "/tenantry/deleted-tenants-of/control-planes/", "compact_rev_key", "/tenantry.io/claim"} {
		end := ""
		if strings.HasSuffix(key, "/") {
			end = clientv3.GetPrefixRangeEnd(key)
		}
		_, err := e.root.RoleGrantPermission(ctx, "servers", key, end, clientv3.PermissionType(clientv3.PermReadWrite))
		Expect(err).NotTo(HaveOccurred())
	}
	_, err = e.root.AuthEnable(ctx)
	Expect(err).NotTo(HaveOccurred())
}

// login returns the content of a Secret for a client of an authority.
func (e *etcdCluster) login(clients *pki.Authority) map[string][]byte {
	GinkgoHelper()
	cert, key, err := (&pki.PKI{ClientCA: clients}).ClientCertificate(0, tenant.System, "servers")
	Expect(err).NotTo(HaveOccurred())
	return map[string][]byte{"tls.crt": cert, "tls.key": key, "ca.crt": e.keys.ServerCA.PEM()}
}

// keysOutside returns the keys that are not below a prefix.
func (e *etcdCluster) keysOutside(ctx context.Context, prefix string) []string {
	GinkgoHelper()
	found, err := e.root.Get(ctx, "", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	Expect(err).NotTo(HaveOccurred())
	var outside []string
	for _, kv := range found.Kvs {
		if !strings.HasPrefix(string(kv.Key), prefix+"/") {
			outside = append(outside, string(kv.Key))
		}
	}
	return outside
}

var _ = Describe("The servers and managers of a ControlPlane, run as its Deployments say", Ordered, func() {
	const (
		name   = "real"
		prefix = "/control-planes/" + namespace + "/" + name
	)
	var (
		etcd          *etcdCluster
		node          kubelet
		cp            *v1alpha1.ControlPlane
		service       *service
		servers       [2]*pod
		managers      [2]*pod
		administrator *rest.Config
		system        client.Client
	)
	newReal := func(name string) *v1alpha1.ControlPlane {
		cp := newOnEtcd(name)
		cp.Spec.Storage.Etcd.Endpoints = []string{etcd.address.String()}
		return cp
	}
	giveLogin := func(ctx context.Context, cp *v1alpha1.ControlPlane, data map[string][]byte) {
		GinkgoHelper()
		giveEtcdSecret(ctx, cp)
		change(ctx, &corev1.Secret{}, cp.Spec.Storage.Etcd.SecretName, func(s *corev1.Secret) { s.Data = data })
	}
	// ready waits until a server answers as such.
	direct := func(ctx context.Context, p *pod) *rest.Config {
		GinkgoHelper()
		config := adminConfig(ctx, name)
		config.TLSClientConfig.ServerName = name + "." + namespace + ".svc"
		config.Host = "https://" + loopback + ":" + p.port
		return config
	}
	ready := func(ctx context.Context, p *pod) {
		GinkgoHelper()
		direct := kubernetes.NewForConfigOrDie(direct(ctx, p))
		Eventually(func(ctx context.Context) error {
			if p.ExitCode() >= 0 {
				return StopTrying("the server has ended")
			}
			return direct.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
		}).WithContext(ctx).WithTimeout(startTimeout).Should(Succeed())
	}
	startServer := func(ctx context.Context) *pod {
		GinkgoHelper()
		p := node.run(ctx, name)
		ready(ctx, p)
		return p
	}
	startManager := func(ctx context.Context) *pod {
		GinkgoHelper()
		return node.run(ctx, name+"-manager", "HTTPS_PROXY="+service.url.String())
	}
	// restartManagers starts managers again that have ended, as one does that loses its lease while etcd is away.
	restartManagers := func(ctx context.Context) {
		GinkgoHelper()
		for i, manager := range managers {
			if manager.ExitCode() >= 0 {
				managers[i] = startManager(ctx)
			}
		}
	}
	// createReady creates a Tenant and waits until it is ready.
	createReady := func(ctx context.Context, name string) {
		GinkgoHelper()
		t := &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: name}}
		Expect(system.Create(ctx, t)).To(Succeed())
		Eventually(func(ctx context.Context) (bool, error) {
			restartManagers(ctx)
			err := system.Get(ctx, client.ObjectKeyFromObject(t), t)
			return meta.IsStatusConditionTrue(t.Status.Conditions, v1alpha1.ConditionReady), err
		}).WithContext(ctx).WithTimeout(startTimeout).Should(BeTrue())
	}
	configMaps := func(t tenant.Name) coreclient.ConfigMapInterface {
		config := rest.CopyConfig(administrator)
		config.Host += t.Root()
		return kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps(metav1.NamespaceDefault)
	}

	BeforeAll(func(ctx SpecContext) {
		var err error
		node.binary = sessions.Tenantry()
		node.root = GinkgoT().TempDir()
		etcd = newEtcdCluster(filepath.Join(node.root, "etcd"))
		etcd.start(ctx, etcd.keys.ClientCA)
		DeferCleanup(func() { etcd.server.Close() })
		etcd.restrict(ctx)
		DeferCleanup(etcd.root.Close)
		DeferCleanup(node.end)

		cp = newReal(name)
		cp.Spec.ServiceAccounts.MaxTokenLifetime = metav1.Duration{Duration: time.Hour}
		giveLogin(ctx, cp, etcd.login(etcd.keys.ClientCA))
		create(ctx, cp)
		administrator = adminConfig(ctx, name)
		service = startService(strings.TrimPrefix(administrator.Host, "https://"))
		administrator = service.config(administrator)
		scheme := runtime.NewScheme()
		Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
		Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
		for i := range servers {
			servers[i] = startServer(ctx)
		}
		service.set(servers[:]...)
		setDeploymentReady(ctx, name)
		system, err = client.New(administrator, client.Options{Scheme: scheme})
		Expect(err).NotTo(HaveOccurred())

		managers[0] = startManager(ctx)
		Eventually(func(g Gomega) { // so that it is the one that works
			lease, err := kubernetes.NewForConfigOrDie(administrator).CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, "tenantry-manager", metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(*lease.Spec.HolderIdentity).NotTo(BeEmpty())
		}).WithTimeout(startTimeout).Should(Succeed())
		managers[1] = startManager(ctx)
	}, NodeTimeout(specTimeout))

	It("make Tenants ready", func(ctx SpecContext) {
		createReady(ctx, "acme")
		_, err := configMaps("acme").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "works"}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
	}, SpecTimeout(specTimeout))

	It("write nothing outside of their prefix but what the page names, and need no other right", func(ctx SpecContext) {
		for _, key := range etcd.keysOutside(ctx, prefix) {
			Expect(key).To(Or(HavePrefix("/tenantry/deleted-tenants-of"+prefix+"/"), Equal("compact_rev_key")))
		}
		for _, server := range servers {
			Expect(string(server.Err.Contents())).NotTo(ContainSubstring("permission denied"))
		}
	}, SpecTimeout(specTimeout))

	It("do not start at the prefix of another ControlPlane, nor within it, and say so in the status", func(ctx SpecContext) {
		for i, taken := range []string{prefix, prefix + "/pods", "/control-planes"} {
			second := newReal("second-" + strconv.Itoa(i))
			second.Spec.Storage.Etcd.Prefix = taken
			giveLogin(ctx, second, etcd.login(etcd.keys.ClientCA))
			Expect(admin.Create(ctx, second)).To(Succeed())
			refused := node.run(ctx, second.Name)
			Eventually(refused.Session, startTimeout).Should(gexec.Exit(1))
			said := string(refused.Err.Contents())
			Expect(said).To(ContainSubstring("the prefix of etcd is not this control plane's"))

			failed := failedPod(ctx, second.Name+"-x", getPodTemplate(ctx, second.Name), said)
			condition := expectCondition(ctx, second.Name, v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.ReasonPodFailing)
			Expect(condition.Message).To(SatisfyAll(ContainSubstring("choose another prefix"), ContainSubstring(taken)))

			Expect(admin.Delete(ctx, failed, client.GracePeriodSeconds(0))).To(Succeed())
			Expect(admin.Delete(ctx, second)).To(Succeed())
			for _, object := range made(second) {
				Expect(client.IgnoreNotFound(admin.Delete(ctx, object))).To(Succeed())
			}
			Expect(etcd.keysOutside(ctx, prefix)).NotTo(ContainElement(ContainSubstring("second")))
		}
	}, SpecTimeout(specTimeout))

	It("are replaced one by one without a request that fails", func(ctx SpecContext) {
		load := startWriting(ctx, configMaps("acme"), "planned")
		load.more(20)
		next := startServer(ctx)
		service.set(next, servers[1]) // those that are to end are no endpoints any more
		Eventually(servers[0].Signal(syscall.SIGTERM), gracePeriod).Should(gexec.Exit(0))
		servers[0] = next
		load.more(20)
		load.end()
		Expect(load.failed).To(BeEmpty())
		Expect(load.missing(ctx)).To(BeEmpty())
	}, SpecTimeout(specTimeout))

	It("go on, with all that was acknowledged, when one of them is killed", func(ctx SpecContext) {
		load := startWriting(ctx, configMaps("acme"), "killed")
		load.more(20)
		Eventually(servers[1].Kill()).Should(gexec.Exit())
		load.more(20)
		load.end()
		Expect(load.missing(ctx)).To(BeEmpty())
		createReady(ctx, "after-a-kill")
		servers[1] = startServer(ctx)
		service.set(servers[:]...)
	}, SpecTimeout(specTimeout))

	It("have another manager when the one that works ends", func(ctx SpecContext) {
		Eventually(managers[0].Signal(syscall.SIGTERM), gracePeriod).Should(gexec.Exit(0))
		createReady(ctx, "next")
	}, SpecTimeout(specTimeout))

	It("have another key for tokens of service accounts, and no token is refused meanwhile", func(ctx SpecContext) {
		inSpace := func(config *rest.Config) *kubernetes.Clientset {
			config = rest.CopyConfig(config)
			config.Host += tenant.Name("acme").Root()
			return kubernetes.NewForConfigOrDie(config)
		}
		as := func(config *rest.Config, token string) *kubernetes.Clientset {
			config = rest.AnonymousClientConfig(config)
			config.BearerToken, config.QPS = token, -1
			return inSpace(config)
		}
		worker := newWorker(ctx, inSpace(administrator))
		before := worker.token(ctx, inSpace(administrator))
		ofSecret := worker.ofSecret(ctx)
		users := service.config(rest.AnonymousClientConfig(administrator))
		users.BearerToken = before
		load := startWriting(ctx, inSpace(users).CoreV1().ConfigMaps(metav1.NamespaceDefault), "rotated")
		load.more(20)

		By("verifying by the next one")
		change(ctx, newControlPlane(name), name, func(cp *v1alpha1.ControlPlane) { cp.Spec.ServiceAccounts.KeyRotation = "next" })
		expectCondition(ctx, name, v1alpha1.ConditionKeysRotating, metav1.ConditionTrue, v1alpha1.ReasonKeyPublished)
		expectEvent(ctx, namespace, name, "TokenKeyPublished")
		for _, server := range servers {
			server.mount(ctx)
			Eventually(publishedKeys).WithContext(ctx).WithArguments(inSpace(direct(ctx, server))).Should(Equal(2))
		}

		By("signing by it in one server before the other")
		clock.forward(ctx, name, 70*time.Minute)
		expectCondition(ctx, name, v1alpha1.ConditionKeysRotating, metav1.ConditionTrue, v1alpha1.ReasonOldKeysVerify)
		servers[0].mount(ctx)
		var after string
		Eventually(func() string {
			after = worker.token(ctx, inSpace(direct(ctx, servers[0])))
			return keyOf(after)
		}).ShouldNot(Equal(keyOf(before)))
		for _, server := range servers {
			for _, token := range []string{before, after, ofSecret, worker.token(ctx, inSpace(direct(ctx, servers[1])))} {
				worker.expect(ctx, as(direct(ctx, server), token), true)
			}
		}
		servers[1].mount(ctx)
		load.more(20)
		Expect(worker.ofSecret(ctx)).To(Equal(ofSecret))
		load.end()
		Expect(load.failed).To(BeEmpty())
		Expect(load.missing(ctx)).To(BeEmpty())

		By("refusing what was signed before its tokens have ended")
		clock.forward(ctx, name, 70*time.Minute+time.Hour)
		expectCondition(ctx, name, v1alpha1.ConditionKeysRotating, metav1.ConditionFalse, v1alpha1.ReasonRotationIsWhole)
		expectEvent(ctx, namespace, name, "TokenKeyRetired")
		for _, server := range servers {
			server.mount(ctx)
			Eventually(publishedKeys).WithContext(ctx).WithArguments(inSpace(direct(ctx, server))).Should(Equal(1))
		}
		for _, server := range servers {
			worker.expect(ctx, as(direct(ctx, server), after), true)
			worker.expect(ctx, as(direct(ctx, server), before), false)
		}
		Eventually(worker.ofSecret).WithContext(ctx).ShouldNot(Equal(ofSecret))
		worker.expect(ctx, as(direct(ctx, servers[0]), worker.ofSecret(ctx)), true)
	}, SpecTimeout(specTimeout))

	It("are not ready while etcd is away, which the ControlPlane says, and go on by themselves", func(ctx SpecContext) {
		setPods := func(ready bool) { // as a kubelet does that asks servers
			GinkgoHelper()
			of := newPod(name+"-x", getPodTemplate(ctx, name))
			Expect(client.IgnoreAlreadyExists(admin.Create(ctx, of))).To(Succeed())
			get(ctx, of, of.Name)
			of.Status.ContainerStatuses = []corev1.ContainerStatus{{
				Name: "tenantry", Image: image, ImageID: "x", Started: new(true), Ready: ready, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			}}
			Expect(admin.Status().Update(ctx, of)).To(Succeed())
			deployment := get(ctx, &appsv1.Deployment{}, name)
			answering := int32(0)
			if ready {
				answering = *deployment.Spec.Replicas
			}
			deployment.Status.ReadyReplicas, deployment.Status.AvailableReplicas = answering, answering
			Expect(admin.Status().Update(ctx, deployment)).To(Succeed())
		}
		DeferCleanup(func(ctx SpecContext) {
			Expect(admin.Delete(ctx, named(&corev1.Pod{}, name+"-x"), client.GracePeriodSeconds(0))).To(Succeed())
		})
		setPods(true)
		setDeploymentReady(ctx, name+"-manager")
		expectCondition(ctx, name, v1alpha1.ConditionAvailable, metav1.ConditionTrue, v1alpha1.ReasonServersReady)
		etcd.server.Close()
		for _, server := range servers {
			asked := kubernetes.NewForConfigOrDie(direct(ctx, server))
			Eventually(func(ctx context.Context) error {
				return asked.Discovery().RESTClient().Get().AbsPath("/readyz").MaxRetries(0).Do(ctx).Error()
			}).WithContext(ctx).WithTimeout(startTimeout).ShouldNot(Succeed())
		}
		setPods(false)
		condition := expectCondition(ctx, name, v1alpha1.ConditionAvailable, metav1.ConditionFalse, v1alpha1.ReasonServersNotReady)
		Expect(condition.Message).To(SatisfyAll(ContainSubstring("etcd has no majority"), ContainSubstring(etcd.address.String()), ContainSubstring(name+"-x")))
		expectEvent(ctx, namespace, name, v1alpha1.ReasonServersNotReady)

		etcd.start(ctx, etcd.keys.ClientCA)
		for _, server := range servers {
			ready(ctx, server)
		}
		setPods(true)
		expectCondition(ctx, name, v1alpha1.ConditionAvailable, metav1.ConditionTrue, v1alpha1.ReasonServersReady)
		createReady(ctx, "after-etcd")
	}, SpecTimeout(specTimeout))

	It("take over another certificate for etcd while they run", func(ctx SpecContext) {
		authority, err := pki.NewAuthority("next clients of etcd")
		Expect(err).NotTo(HaveOccurred())
		before := secret(ctx, name+"-etcd").Data
		giveLogin(ctx, cp, etcd.login(authority))
		Eventually(func() map[string][]byte { return secret(ctx, name+"-etcd").Data }).ShouldNot(Equal(before))
		for _, server := range servers {
			server.mount(ctx)
		}
		etcd.server.Close()
		etcd.start(ctx, authority)
		for _, server := range servers {
			ready(ctx, server)
		}
		createReady(ctx, "with-another-certificate")
	}, SpecTimeout(specTimeout))
})

func getPodTemplate(ctx context.Context, deployment string) corev1.PodTemplateSpec {
	GinkgoHelper()
	return get(ctx, &appsv1.Deployment{}, deployment).Spec.Template
}

// writing is a client that writes all the time.
type writing struct {
	client coreclient.ConfigMapInterface
	label  string
	stop   context.CancelFunc
	done   chan struct{}

	mu     sync.Mutex
	acked  []string
	failed []error
}

func startWriting(ctx context.Context, c coreclient.ConfigMapInterface, label string) *writing {
	ctx, stop := context.WithCancel(ctx)
	w := &writing{client: c, label: label, stop: stop, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		for i := 0; ctx.Err() == nil; i++ {
			name := label + "-" + strconv.Itoa(i)
			_, err := c.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"load": label}}}, metav1.CreateOptions{})
			w.mu.Lock()
			switch {
			case err == nil:
				w.acked = append(w.acked, name)
			case ctx.Err() == nil:
				w.failed = append(w.failed, err)
			}
			w.mu.Unlock()
		}
	}()
	DeferCleanup(w.end)
	return w
}

// more waits until some more writes have been acknowledged.
func (w *writing) more(n int) {
	GinkgoHelper()
	count := func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.acked)
	}
	Eventually(count, startTimeout).Should(BeNumerically(">=", count()+n))
}

func (w *writing) end() {
	w.stop()
	<-w.done
}

// missing returns what was acknowledged and is not there.
func (w *writing) missing(ctx context.Context) []string {
	GinkgoHelper()
	var missing []string
	for _, name := range w.acked {
		_, err := w.client.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			missing = append(missing, name)
			continue
		}
		Expect(err).NotTo(HaveOccurred())
	}
	return missing
}
