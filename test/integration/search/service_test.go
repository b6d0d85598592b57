package search

import (
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/search"
	"github.com/tenantry/tenantry/internal/server"
	"github.com/tenantry/tenantry/internal/standalone"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/postgres"
	"github.com/tenantry/tenantry/test/env/suite"
	"github.com/tenantry/tenantry/test/harness"
)

// replica is one process of the service, though it runs in that of the tests.
type replica struct {
	port int
	// dir, if set, is that of an index of its own.
	dir  string
	stop func()
}

var (
	// database and replicas are those of the service, nil if the server searches itself.
	database     *postgres.Server
	databaseFile string
	replicas     []*replica
	etcdURL      string
	// keys is the directory of the server's keys.
	keys string
)

// startService starts a server whose searches are answered by two replicas of the service.
func startService(ctx context.Context) {
	GinkgoHelper()
	var err error
	database, err = postgres.Start(ctx)
	if errors.Is(err, postgres.ErrMissing) {
		Skip(err.Error())
	}
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() error { return database.Remove() })
	databaseFile = database.Database(GinkgoTB())
	etcdPort, err := harness.FreePort()
	Expect(err).NotTo(HaveOccurred())
	etcdURL = fmt.Sprintf("http://127.0.0.1:%d", etcdPort)
	for range 2 {
		port, err := harness.FreePort()
		Expect(err).NotTo(HaveOccurred())
		replicas = append(replicas, &replica{port: port})
	}
	tenantry = suite.Start(ctx, func(o *standalone.Options) {
		keys = filepath.Join(o.Dir, "pki")
		o.EtcdListenClientURL = etcdURL
		o.Server.SearchServers.CAFile = filepath.Join(keys, "server-ca.crt")
		for _, r := range replicas {
			o.Server.SearchServers.Servers = append(o.Server.SearchServers.Servers, fmt.Sprintf("https://127.0.0.1:%d", r.port))
		}
	})
	for _, r := range replicas {
		r.start()
		DeferCleanup(func() { r.stop() })
	}
}

// start runs a replica until stop is called.
func (r *replica) start() {
	GinkgoHelper()
	options := server.NewOptions()
	options.SearchOnly, options.SearchLimits = true, search.DefaultLimits
	options.Search = &search.Options{Postgres: databaseFile, Annotations: []string{annotation}}
	if r.dir != "" {
		options.Search.Postgres, options.Search.Dir = "", r.dir
	}
	kube := options.Kube
	kube.Etcd.StorageConfig.Transport.ServerList = []string{etcdURL}
	kube.SecureServing.BindPort, kube.SecureServing.BindAddress = r.port, net.IPv4(127, 0, 0, 1)
	kube.SecureServing.ServerCert.CertKey.CertFile, kube.SecureServing.ServerCert.CertKey.KeyFile = filepath.Join(keys, "server.crt"), filepath.Join(keys, "server.key")
	kube.Authentication.RequestHeader.ClientCAFile = filepath.Join(keys, "front-proxy-ca.crt")
	ctx, cancel := context.WithCancel(context.Background())
	s, err := standalone.NewSearch(ctx, options)
	Expect(err).NotTo(HaveOccurred())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	r.stop = func() {
		cancel()
		if done != nil {
			Expect(<-done).To(Succeed())
			done = nil
		}
	}
}

// ready returns the status of the health check of a replica.
func (r *replica) ready() (int, error) {
	config := &rest.Config{TLSClientConfig: rest.TLSClientConfig{CAFile: filepath.Join(keys, "server-ca.crt")}}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return 0, err
	}
	response, err := client.Get(fmt.Sprintf("https://127.0.0.1:%d/readyz", r.port))
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

var _ = Describe("the service", Serial, func() {
	BeforeEach(func() {
		if database == nil {
			Skip("the server searches itself; SEARCH_DATABASE=postgres is for this")
		}
	})

	AfterEach(func() {
		for _, r := range replicas {
			Eventually(r.ready).Should(Equal(http.StatusOK))
		}
	})

	It("answers servers alone", func(ctx SpecContext) {
		ca := rest.TLSClientConfig{CAFile: filepath.Join(keys, "server-ca.crt")}
		user := tenantry.Config(acme)
		withUser := ca
		withUser.CertData, withUser.KeyData = user.CertData, user.KeyData
		asServer := ca
		asServer.CertFile, asServer.KeyFile = filepath.Join(keys, "front-proxy-client.crt"), filepath.Join(keys, "front-proxy-client.key")
		for name, config := range map[string]rest.TLSClientConfig{"nobody": ca, "a user of a tenant": withUser, "a server that does not say who asks": asServer} {
			client, err := rest.HTTPClientFor(&rest.Config{TLSClientConfig: config})
			Expect(err).NotTo(HaveOccurred())
			response, err := client.Get(fmt.Sprintf("https://127.0.0.1:%d/search", replicas[0].port))
			Expect(err).NotTo(HaveOccurred())
			Expect(response.Body.Close()).To(Succeed())
			Expect(response.StatusCode).To(Equal(http.StatusUnauthorized), name)
		}
	})

	It("is not told by clients who asks", func(ctx SpecContext) {
		config := rest.CopyConfig(tenantry.User(acme, jane))
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(req *http.Request) (*http.Response, error) {
				req = req.Clone(req.Context())
				// {"name":"x","groups":["system:masters"],"tenant":"system","space":"acme"}
				req.Header.Set("X-Tenantry-Asker", "eyJuYW1lIjoieCIsImdyb3VwcyI6WyJzeXN0ZW06bWFzdGVycyJdLCJ0ZW5hbnQiOiJzeXN0ZW0iLCJzcGFjZSI6ImFjbWUifQ")
				req.Header.Set("X-Remote-User", "admin")
				req.Header.Set("X-Remote-Group", "system:masters")
				return next.RoundTrip(req)
			})
		})
		Expect(find(ctx, config, "", "")).To(BeEmpty())
	})

	It("goes on when the process that writes ends, and when it is back", func(ctx SpecContext) {
		namespace := namespaceIn(ctx, acme, "replicas")
		for round, r := range []*replica{replicas[0], replicas[1], replicas[0]} {
			r.stop()
			created := secretIn(ctx, acme, namespace, fmt.Sprint("s", round))
			Expect(find(ctx, tenantry.Config(acme), "kind:secret namespace:"+namespace, created.ResourceVersion)).To(HaveLen(round + 1))
			r.start()
			Eventually(r.ready).Should(Equal(http.StatusOK))
		}
	}, NodeTimeout(3*time.Minute))

	It("answers nothing without PostgreSQL, and everything when it is back", func(ctx SpecContext) {
		namespace := namespaceIn(ctx, acme, "gone")
		secretIn(ctx, acme, namespace, "before")
		for _, end := range []func(){database.Stop, database.Kill} {
			end()
			Eventually(func() error {
				_, err := try(ctx, tenantry.Config(acme), "kind:secret namespace:"+namespace, "")
				return err
			}).Should(Satisfy(apierrors.IsServiceUnavailable))
			for _, r := range replicas {
				Eventually(r.ready).Should(Equal(http.StatusServiceUnavailable))
			}
			client := tenantry.Client(acme).CoreV1().Secrets(namespace)
			Expect(client.Delete(ctx, "before", metav1.DeleteOptions{})).To(Succeed())
			created := secretIn(ctx, acme, namespace, "during")
			Expect(database.Restart(ctx)).To(Succeed())
			Eventually(func() ([]string, error) {
				answer, err := try(ctx, tenantry.Config(acme), "kind:secret namespace:"+namespace, created.ResourceVersion)
				if err != nil {
					return nil, err
				}
				return []string{answer.Items[0].Name}, nil
			}).Should(Equal([]string{"during"}))
			Expect(client.Delete(ctx, "during", metav1.DeleteOptions{})).To(Succeed())
			secretIn(ctx, acme, namespace, "before")
		}
	}, NodeTimeout(5*time.Minute))

	It("shows what there is when etcd has forgotten what became of it meanwhile", func(ctx SpecContext) {
		namespace := namespaceIn(ctx, acme, "compacted")
		own := &replica{dir: filepath.Join(GinkgoT().TempDir(), "index")}
		var err error
		own.port, err = harness.FreePort()
		Expect(err).NotTo(HaveOccurred())
		own.start()
		DeferCleanup(func() { own.stop() })
		Eventually(own.ready).Should(Equal(http.StatusOK))
		for _, name := range []string{"changed", "gone", "stays"} {
			secretIn(ctx, acme, namespace, name)
		}
		binding := let(ctx, acme, namespace, jane, listSecrets)
		names := "kind:secret namespace:" + namespace
		Expect(find(ctx, tenantry.User(acme, jane), names, "")).To(Equal([]string{"changed", "gone", "stays"}))
		Eventually(func() ([]string, error) { return own.find(ctx, acme, names) }).Should(HaveLen(3))
		was := own.ids(ctx, namespace)
		all := append([]*replica{own}, replicas...)
		for _, r := range all {
			r.stop()
		}
		client := tenantry.Client(acme).CoreV1().Secrets(namespace)
		Expect(client.Delete(ctx, "gone", metav1.DeleteOptions{})).To(Succeed())
		_, err = client.Patch(ctx, "changed", types.MergePatchType, []byte(`{"metadata":{"labels":{"app":"other"}}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(tenantry.Client(acme).RbacV1().RoleBindings(namespace).Delete(ctx, binding.Name, metav1.DeleteOptions{})).To(Succeed())
		created := secretIn(ctx, acme, namespace, "new")
		now, err := tenantry.Etcd().Get(ctx, "/registry/")
		Expect(err).NotTo(HaveOccurred())
		_, err = tenantry.Etcd().Compact(ctx, now.Header.Revision)
		Expect(err).NotTo(HaveOccurred())
		for _, r := range all {
			r.start()
		}
		Eventually(func() (int, error) { return all[1].ready() }).Should(Equal(http.StatusOK))
		Eventually(func() ([]string, error) {
			answer, err := try(ctx, tenantry.Config(acme), names, created.ResourceVersion)
			if err != nil {
				return nil, err
			}
			return namesIn(answer), nil
		}).Should(Equal([]string{"changed", "new", "stays"}))
		Expect(find(ctx, tenantry.Config(acme), names+" label:app=web", "")).To(Equal([]string{"new", "stays"}))
		Expect(find(ctx, tenantry.User(acme, jane), names, "")).To(BeEmpty(), "a right that went while nobody looked")
		Eventually(own.ready).Should(Equal(http.StatusOK))
		Expect(own.find(ctx, acme, names)).To(Equal([]string{"changed", "new", "stays"}))
		for driver, ids := range own.ids(ctx, namespace) { // what is the same is not written again
			Expect(ids).To(HaveKeyWithValue("stays", was[driver]["stays"]), driver)
			Expect(ids["changed"]).NotTo(Equal(was[driver]["changed"]), driver)
		}
	}, NodeTimeout(3*time.Minute))

	It("goes on with the index when all processes have ended", func(ctx SpecContext) {
		namespace := namespaceIn(ctx, acme, "left")
		own := &replica{dir: filepath.Join(GinkgoT().TempDir(), "index")}
		var err error
		own.port, err = harness.FreePort()
		Expect(err).NotTo(HaveOccurred())
		own.start()
		DeferCleanup(func() { own.stop() })
		Eventually(own.ready).Should(Equal(http.StatusOK))
		secretIn(ctx, acme, namespace, "b")
		secretIn(ctx, acme, namespace, "gone")
		created := secretIn(ctx, acme, namespace, "a") // is written later than b, and would be earlier in an index that is made anew
		names := "kind:secret namespace:" + namespace
		Expect(find(ctx, tenantry.Config(acme), names, created.ResourceVersion)).To(Equal([]string{"a", "b", "gone"}))
		Eventually(func() ([]string, error) { return own.find(ctx, acme, names) }).Should(Equal([]string{"a", "b", "gone"}))
		all := append([]*replica{own}, replicas...)
		for _, r := range all {
			r.stop()
		}
		client := tenantry.Client(acme).CoreV1().Secrets(namespace)
		Expect(client.Delete(ctx, "gone", metav1.DeleteOptions{})).To(Succeed())
		created = secretIn(ctx, acme, namespace, "c")
		for _, r := range all {
			r.start()
		}
		for _, r := range all {
			Eventually(r.ready).Should(Equal(http.StatusOK))
		}
		Expect(find(ctx, tenantry.Config(acme), names, created.ResourceVersion)).To(Equal([]string{"a", "b", "c"}))
		Expect(own.find(ctx, acme, names)).To(Equal([]string{"a", "b", "c"}))
		for driver, ids := range own.ids(ctx, namespace) {
			Expect(ids["b"]).To(BeNumerically("<", ids["a"]), driver)
			Expect(ids["a"]).To(BeNumerically("<", ids["c"]), driver)
		}
	}, NodeTimeout(3*time.Minute))
})

// ids returns the ids of the Secrets in a namespace of acme, by their names, in the database of the replica and in that
// of the others, by the drivers of these.
func (r *replica) ids(ctx context.Context, namespace string) map[string]map[string]int64 {
	GinkgoHelper()
	address, err := os.ReadFile(databaseFile)
	Expect(err).NotTo(HaveOccurred())
	all := map[string]map[string]int64{}
	for driver, source := range map[string][2]string{"pgx": {string(address), "tenantry_search_5."}, "sqlite": {"file:" + filepath.Join(r.dir, "index.db"), ""}} {
		db, err := sql.Open(driver, source[0])
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(db.Close)
		ids := map[string]int64{}
		rows, err := db.QueryContext(ctx, `SELECT name, id FROM `+source[1]+`objects WHERE key LIKE '%/secrets/acme/`+namespace+`/%'`)
		Expect(err).NotTo(HaveOccurred())
		for rows.Next() {
			var name string
			var id int64
			Expect(rows.Scan(&name, &id)).To(Succeed())
			ids[name] = id
		}
		Expect(errors.Join(rows.Err(), rows.Close())).To(Succeed())
		all[driver] = ids
	}
	return all
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// find asks the replica as a server does, for the administrator of a tenant, and returns the names of what is found.
func (r *replica) find(ctx context.Context, n tenant.Name, query string) ([]string, error) {
	config := &rest.Config{TLSClientConfig: rest.TLSClientConfig{
		CAFile: filepath.Join(keys, "server-ca.crt"), CertFile: filepath.Join(keys, "front-proxy-client.crt"), KeyFile: filepath.Join(keys, "front-proxy-client.key"),
	}}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	t, err := tenantry.Tenants().Get(ctx, string(n), metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	who, err := json.Marshal(map[string]any{"name": "admin", "groups": []string{"system:authenticated"}, "extra": map[string][]string{tenant.UserExtraKey: {string(n)}}, "tenant": n, "space": n, "life": t.GetUID()})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("https://127.0.0.1:%d/search?q=%s", r.port, url.QueryEscape(query)), http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("X-Tenantry-Asker", base64.RawURLEncoding.EncodeToString(who))
	response, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer := &search.Answer{}
	if err := json.NewDecoder(response.Body).Decode(answer); err != nil {
		return nil, err
	}
	var names []string
	for _, item := range answer.Items {
		names = append(names, item.Name)
	}
	return names, nil
}
