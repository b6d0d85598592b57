package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/test/harness"
)

// stock is a control plane of kube-apiserver and kube-controller-manager.
type stock struct {
	server     *harness.APIServer
	manager    *exec.Cmd
	kubeconfig string
}

func (s *stock) stop() {
	harness.End(s.manager, os.Interrupt)
	s.server.Stop()
}

// startStock runs a stock control plane with an etcd of its own, below dir.
func startStock(ctx context.Context, bin, dir string) (_ *stock, err error) {
	s := &stock{kubeconfig: filepath.Join(dir, "kubeconfig")}
	if s.server, err = harness.StartAPIServer(ctx, harness.APIServerOptions{
		Dir: dir, UnsafeNoFsync: true,
		Command: []string{filepath.Join(bin, "kube-apiserver"), "--authorization-mode=Node,RBAC", "--service-cluster-ip-range=10.1.0.0/16"},
	}); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.server.Stop()
		}
	}()
	if err := clientcmd.WriteToFile(api.Config{
		Clusters:       map[string]*api.Cluster{"stock": {Server: s.server.Config.Host, CertificateAuthorityData: s.server.Config.CAData}},
		AuthInfos:      map[string]*api.AuthInfo{"admin": {Token: harness.AdminToken}},
		Contexts:       map[string]*api.Context{"admin": {Cluster: "stock", AuthInfo: "admin"}},
		CurrentContext: "admin",
	}, s.kubeconfig); err != nil {
		return nil, err
	}
	if err := createNode(ctx, s.server.Config); err != nil {
		return nil, err
	}
	s.manager, err = harness.Start(ctx, dir, filepath.Join(bin, "kube-controller-manager"), "--controllers=*,-node-lifecycle-controller",
		"--kubeconfig="+s.kubeconfig, "--secure-port=0", "--leader-elect=false",
		"--root-ca-file="+s.server.Keys.ServerCA.File, "--service-account-private-key-file="+s.server.Keys.ServiceAccountKey(),
		"--flex-volume-plugin-dir="+filepath.Join(dir, "flexvolume"))
	return s, err
}

// startTenantry runs Tenantry with a space for each tenant, below dir, and returns their
// kubeconfigs.
func startTenantry(ctx context.Context, bin, dir string, tenants []string) (_ *harness.Tenantry, kubeconfigs []string, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, err
	}
	at, err := harness.NewInstallation(filepath.Join(bin, "tenantry"), dir)
	if err != nil {
		return nil, nil, err
	}
	running, err := at.Up(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			running.End(os.Interrupt)
		}
	}()
	if err := createNode(ctx, running.Config); err != nil {
		return nil, nil, err
	}
	// Some tests keep pods pending by a node selector that no node has.
	spec := v1alpha1.TenantSpec{NodePlacement: &v1alpha1.NodePlacement{Mode: v1alpha1.NodePlacementEnabled}}
	for _, tenant := range tenants {
		if _, err := harness.NewSpace(ctx, running.Config, tenant, spec); err != nil {
			return nil, nil, err
		}
		kubeconfig, err := at.WriteKubeconfig(ctx, tenant)
		if err != nil {
			return nil, nil, err
		}
		kubeconfigs = append(kubeconfigs, kubeconfig)
	}
	return running, kubeconfigs, nil
}

// createNode creates the node that pods are bound to.
func createNode(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}, metav1.CreateOptions{})
	return err
}
