package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/tenantry/tenantry/internal/etcd"
	"github.com/tenantry/tenantry/internal/pki"
)

// startTimeout is for a server to become ready, or a space to be made.
const startTimeout = 2 * time.Minute

// cluster is a running control plane.
type cluster struct {
	kubeconfigs []string
	processes   []*exec.Cmd
	store       *etcd.Server
}

func (c *cluster) stop() {
	for _, process := range slices.Backward(c.processes) { // the servers last
		_ = process.Process.Signal(os.Interrupt)
		_ = process.Wait()
	}
	if c.store != nil {
		c.store.Stop()
	}
}

// start runs a program, with its output in dir.
func (c *cluster) start(ctx context.Context, dir, binary string, args ...string) error {
	log, err := os.Create(filepath.Join(dir, filepath.Base(binary)+".log"))
	if err != nil {
		return err
	}
	process := exec.CommandContext(ctx, binary, args...)
	process.Stdout, process.Stderr = log, log
	if err := process.Start(); err != nil {
		return err
	}
	c.processes = append(c.processes, process)
	return nil
}

// startStock runs kube-apiserver and kube-controller-manager against an etcd of
// their own, below dir.
func startStock(ctx context.Context, bin, dir string) (_ *cluster, err error) {
	c := &cluster{}
	defer func() {
		if err != nil {
			c.stop()
		}
	}()
	keys, err := pki.Ensure(filepath.Join(dir, "pki"))
	if err != nil {
		return nil, err
	}
	const token = "conformance"
	tokens := filepath.Join(dir, "tokens.csv")
	if err := os.WriteFile(tokens, []byte(token+",admin,1,system:masters\n"), 0o600); err != nil {
		return nil, err
	}
	etcdPort, port, err := freePorts()
	if err != nil {
		return nil, err
	}
	etcdURL, address := "http://127.0.0.1:"+etcdPort, "https://127.0.0.1:"+port
	if c.store, err = etcd.Start(ctx, etcd.Options{Dir: filepath.Join(dir, "etcd"), ListenClientURL: etcdURL, UnsafeNoFsync: true}); err != nil {
		return nil, err
	}
	cert, key := keys.Serving()
	if err := c.start(ctx, dir, filepath.Join(bin, "kube-apiserver"),
		"--etcd-servers="+etcdURL, "--bind-address=127.0.0.1", "--secure-port="+port,
		"--tls-cert-file="+cert, "--tls-private-key-file="+key, "--token-auth-file="+tokens,
		"--client-ca-file="+keys.ClientCAFile(), "--authorization-mode=Node,RBAC",
		"--service-cluster-ip-range=10.1.0.0/16",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+keys.ServiceAccountKey(),
		"--service-account-signing-key-file="+keys.ServiceAccountKey()); err != nil {
		return nil, err
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := clientcmd.WriteToFile(api.Config{
		Clusters:       map[string]*api.Cluster{"stock": {Server: address, CertificateAuthorityData: keys.ServerCA.PEM()}},
		AuthInfos:      map[string]*api.AuthInfo{"admin": {Token: token}},
		Contexts:       map[string]*api.Context{"admin": {Cluster: "stock", AuthInfo: "admin"}},
		CurrentContext: "admin",
	}, kubeconfig); err != nil {
		return nil, err
	}
	if err := await(ctx, address); err != nil {
		return nil, err
	}
	if err := createNode(ctx, kubeconfig); err != nil {
		return nil, err
	}
	c.kubeconfigs = []string{kubeconfig}
	return c, c.start(ctx, dir, filepath.Join(bin, "kube-controller-manager"), "--controllers=*,-node-lifecycle-controller",
		"--kubeconfig="+kubeconfig, "--secure-port=0", "--leader-elect=false",
		"--root-ca-file="+keys.ServerCAFile(), "--service-account-private-key-file="+keys.ServiceAccountKey(),
		"--flex-volume-plugin-dir="+filepath.Join(dir, "flexvolume"))
}

// startTenantry runs Tenantry with a space for each tenant, below dir.
func startTenantry(ctx context.Context, bin, dir string, tenants []string) (_ *cluster, err error) {
	c := &cluster{}
	defer func() {
		if err != nil {
			c.stop()
		}
	}()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	_, port, err := freePorts()
	if err != nil {
		return nil, err
	}
	binary, state := filepath.Join(bin, "tenantry"), filepath.Join(dir, "state")
	if err := c.start(ctx, dir, binary, "up", "--dir", state, "--secure-port", port); err != nil {
		return nil, err
	}
	if err := await(ctx, "https://127.0.0.1:"+port); err != nil {
		return nil, err
	}
	admin := filepath.Join(state, "admin.kubeconfig")
	if err := createNode(ctx, admin); err != nil {
		return nil, err
	}
	for _, tenant := range tenants {
		if err := createSpace(ctx, admin, tenant); err != nil {
			return nil, err
		}
		kubeconfig, err := exec.CommandContext(ctx, binary, "kubeconfig", tenant, "--dir", state).Output()
		if err != nil {
			return nil, fmt.Errorf("making a kubeconfig of tenant %q: %w", tenant, err)
		}
		path := filepath.Join(dir, tenant+".kubeconfig")
		if err := os.WriteFile(path, kubeconfig, 0o600); err != nil {
			return nil, err
		}
		c.kubeconfigs = append(c.kubeconfigs, path)
	}
	return c, nil
}

// createNode creates the node that pods are bound to.
func createNode(ctx context.Context, kubeconfig string) error {
	var config *rest.Config
	if err := poll(ctx, func(context.Context) (_ bool, err error) { // it is written when the server is ready
		config, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
		return err == nil, nil
	}); err != nil {
		return fmt.Errorf("waiting for %s: %w", kubeconfig, err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}, metav1.CreateOptions{})
	return err
}

// createSpace creates a tenant and returns when its namespace default has a
// service account.
func createSpace(ctx context.Context, admin, tenant string) error {
	config, err := clientcmd.BuildConfigFromFlags("", admin)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	// Some tests keep pods pending by a node selector that no node has.
	object := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Tenant","metadata":{"name":%q},"spec":{"nodePlacement":{"mode":"Enabled"}}}`, tenant)
	if err := client.CoreV1().RESTClient().Post().AbsPath("/api/v1/tenants").
		SetHeader("Content-Type", "application/json").Body(object).Do(ctx).Error(); err != nil {
		return fmt.Errorf("creating tenant %q: %w", tenant, err)
	}
	inSpace := rest.CopyConfig(config)
	inSpace.Host += "/tenants/" + tenant
	if client, err = kubernetes.NewForConfig(inSpace); err != nil {
		return err
	}
	return poll(ctx, func(ctx context.Context) (bool, error) {
		_, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
}

// await returns when the server at address is ready.
func await(ctx context.Context, address string) error {
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // asks for readiness only
	err := poll(ctx, func(context.Context) (bool, error) {
		response, err := client.Get(address + "/readyz")
		if err != nil {
			return false, nil
		}
		defer response.Body.Close()
		return response.StatusCode == http.StatusOK, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for %s to be ready, see its log: %w", address, err)
	}
	return nil
}

func poll(ctx context.Context, condition wait.ConditionWithContextFunc) error {
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, startTimeout, true, condition)
}

func freePorts() (first, second string, err error) {
	ports := make([]string, 2)
	for i := range ports {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", "", err
		}
		defer listener.Close()
		ports[i] = strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
	}
	return ports[0], ports[1], nil
}
