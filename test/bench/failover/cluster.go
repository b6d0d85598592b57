package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tenantry/tenantry/internal/kubeconfig"
	"github.com/tenantry/tenantry/internal/pki"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/harness"
)

const (
	loopback     = "127.0.0.1"
	startTimeout = 10 * time.Minute
	// shutdownDelay is how long a server goes on when it has been asked to end, as on a host cluster.
	shutdownDelay = 20 * time.Second
)

// cluster are servers and managers on an etcd.
type cluster struct {
	dir     string
	binary  string
	members []*member
	etcd    struct{ cert, key, authority string }
	keys    *pki.PKI // with the authority of system users
	service *service
	servers []*server
	// managers are two, of which one works.
	managers []*exec.Cmd
	// admin reaches the servers by the service.
	admin *rest.Config
	count int
}

// server is one process.
type server struct {
	process *exec.Cmd
	address string
	// log is the file that it writes.
	log string
}

// newCluster makes keys, and starts an etcd, servers and managers.
func newCluster(ctx context.Context, dir, binary string, servers int) (*cluster, error) {
	c := &cluster{dir: dir, binary: binary}
	if err := c.makeKeys(); err != nil {
		return nil, err
	}
	var err error
	if c.members, err = newMembers(dir, 3); err != nil {
		return nil, err
	}
	for _, m := range c.members {
		if err := c.healthy(ctx, m); err != nil {
			return nil, err
		}
	}
	if c.service, err = startService(); err != nil {
		return nil, err
	}
	if c.admin, err = c.config("https://" + c.service.address()); err != nil {
		return nil, err
	}
	for range servers {
		s, err := c.startServer(ctx)
		if err != nil {
			return nil, err
		}
		c.servers = append(c.servers, s)
		c.service.set(c.servers)
	}
	for range 2 {
		if err := c.startManager(); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *cluster) end() {
	for _, m := range c.managers {
		harness.End(m, syscall.SIGKILL)
	}
	for _, s := range c.servers {
		harness.End(s.process, syscall.SIGKILL)
	}
	for _, m := range c.members {
		m.kill()
	}
}

// pki is the directory of what servers mount.
func (c *cluster) pki() string { return filepath.Join(c.dir, "pki") }

// makeKeys makes what a ControlPlane has: an authority of system users beside that of tenants.
func (c *cluster) makeKeys() error {
	keys, err := pki.Ensure(c.pki(), loopback)
	if err != nil {
		return err
	}
	system, err := pki.NewAuthority("system")
	if err != nil {
		return err
	}
	cert, key, err := keys.ClientCertificate(0, tenant.System, "servers")
	if err != nil {
		return err
	}
	c.etcd.cert, c.etcd.key, c.etcd.authority = filepath.Join(c.dir, "etcd.crt"), filepath.Join(c.dir, "etcd.key"), keys.ServerCA.File
	for path, content := range map[string][]byte{
		filepath.Join(c.pki(), "system-ca.crt"): system.PEM(), c.etcd.cert: cert, c.etcd.key: key,
	} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return err
		}
	}
	c.keys = &pki.PKI{ServerCA: keys.ServerCA, ClientCA: system}
	return os.WriteFile(filepath.Join(c.pki(), "service-account.pub"), publicKeys(c.pki()), 0o600)
}

// config is one of a system administrator.
func (c *cluster) config(url string) (*rest.Config, error) {
	data, err := kubeconfig.New(c.keys, url, kubeconfig.User{Tenant: tenant.System, Name: "admin", Groups: []string{"system:masters"}})
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(data)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	return config, nil
}

// startServer starts a server, and waits until it is ready.
func (c *cluster) startServer(ctx context.Context) (*server, error) {
	port, err := harness.FreePort()
	if err != nil {
		return nil, err
	}
	var endpoints []string
	for _, m := range c.members {
		endpoints = append(endpoints, m.client)
	}
	dir, err := c.processDir("server")
	if err != nil {
		return nil, err
	}
	s := &server{address: loopback + ":" + strconv.Itoa(port), log: filepath.Join(dir, filepath.Base(c.binary)+".log")}
	s.process, err = harness.Start(context.Background(), dir, c.binary, "server",
		"--pki-dir="+c.pki(), "--bind-address="+loopback, "--secure-port="+strconv.Itoa(port),
		"--shutdown-delay-duration="+shutdownDelay.String(), "--goaway-chance=0.001",
		"--etcd-servers="+strings.Join(endpoints, ","), "--etcd-prefix=/control-planes/failover", "--etcd-claim=failover",
		"--etcd-certfile="+c.etcd.cert, "--etcd-keyfile="+c.etcd.key, "--etcd-cafile="+c.etcd.authority)
	if err != nil {
		return nil, err
	}
	return s, c.ready(ctx, s)
}

// ready waits until a server says that it is.
func (c *cluster) ready(ctx context.Context, s *server) error {
	return harness.Until(ctx, startTimeout, "the server at "+s.address+" is ready", func(ctx context.Context) error { return c.isReady(ctx, s) })
}

// recover waits until all servers are ready again, and fails if one of them has ended.
func (c *cluster) recover(ctx context.Context) error {
	for _, s := range c.servers {
		var ended error
		if err := harness.Until(ctx, startTimeout, "the server at "+s.address+" is ready, or has ended", func(ctx context.Context) error {
			err := c.isReady(ctx, s)
			if errors.Is(err, syscall.ECONNREFUSED) {
				ended = fmt.Errorf("the server at %s has ended: %w", s.address, err)
				return nil
			}
			return err
		}); err != nil || ended != nil {
			return errors.Join(err, ended)
		}
	}
	return nil
}

// leads waits until controllers have renewed their lease, which nobody has for a while after its holder was killed.
func (c *cluster) leads(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.admin)
	if err != nil {
		return err
	}
	began := time.Now()
	return harness.Until(ctx, startTimeout, "controllers have their lease", func(ctx context.Context) error {
		lease, err := client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, "tenantry-controllers", metav1.GetOptions{})
		if err == nil && (lease.Spec.RenewTime == nil || lease.Spec.RenewTime.Before(&metav1.MicroTime{Time: began})) {
			err = errors.New("nobody renews it")
		}
		return err
	})
}

// lostLease waits until the controllers of a server have ended because they could not renew their lease.
func (c *cluster) lostLease(ctx context.Context) error {
	return harness.Until(ctx, startTimeout, "controllers have lost their lease", func(context.Context) error {
		for _, s := range c.servers {
			log, err := os.ReadFile(s.log)
			if err != nil {
				return err
			}
			if bytes.Contains(log, []byte("The controllers of all spaces have ended")) {
				return nil
			}
		}
		return errors.New("no server says so")
	})
}

func (c *cluster) isReady(ctx context.Context, s *server) error {
	client, err := c.client(s)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return client.Discovery().RESTClient().Get().AbsPath("/readyz").MaxRetries(0).Do(ctx).Error()
}

// client is one of a system administrator at a server.
func (c *cluster) client(s *server) (*kubernetes.Clientset, error) {
	config, err := c.config("https://" + s.address)
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}

// notReady waits until a server says that it is not ready.
func (c *cluster) notReady(ctx context.Context, s *server) error {
	return harness.Until(ctx, startTimeout, "the server at "+s.address+" is not ready", func(ctx context.Context) error {
		if c.isReady(ctx, s) == nil {
			return errors.New("it is ready")
		}
		return nil
	})
}

func (c *cluster) processDir(name string) (string, error) {
	c.count++
	dir := filepath.Join(c.dir, name+"-"+strconv.Itoa(c.count))
	return dir, os.MkdirAll(dir, 0o700)
}

// startManager starts a manager, which may wait for the other one to end.
func (c *cluster) startManager() error {
	dir, err := c.processDir("manager")
	if err != nil {
		return err
	}
	data, err := kubeconfig.New(c.keys, "https://"+c.service.address(), kubeconfig.User{Tenant: tenant.System, Name: "manager", Groups: []string{"system:masters"}})
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		return err
	}
	process, err := harness.Start(context.Background(), dir, c.binary, "manager", "--kubeconfig="+file)
	if err != nil {
		return err
	}
	c.managers = append(c.managers, process)
	return nil
}
