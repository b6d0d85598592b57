package main

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/test/harness"
	"github.com/tenantry/tenantry/test/host"
)

const (
	namespace    = "tenantry-system"
	controlPlane = "bench"
	user         = "system:serviceaccount:" + namespace + ":tenantry-operator"
	token        = "token-of-the-operator"
	config       = "config"
	// startTimeout is what each part gets to start.
	startTimeout = 2 * time.Minute
	// audit logs what the operator writes to the host, but for its Lease.
	audit = `{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": [
		{"level": "None", "resources": [{"group": "coordination.k8s.io"}]},
		{"level": "None", "verbs": ["get", "list", "watch"]},
		{"level": "Metadata", "users": ["` + user + `"]},
		{"level": "None"}]}`
)

// system is a host with an operator, and the server of a ControlPlane.
type system struct {
	cluster          *host.Host
	operator, server *exec.Cmd
	// log is the audit log of the host.
	log string
	// host and space have the Tenants of the host and of the control plane.
	host, space harness.Tenants
}

func (s *system) stop() {
	for _, command := range []*exec.Cmd{s.operator, s.server} {
		if command != nil {
			harness.End(command, syscall.SIGTERM)
		}
	}
	s.cluster.Stop()
}

// start starts all of it, with state and logs in a directory.
func start(ctx context.Context, dir, tenantry string) (_ *system, err error) {
	s := &system{log: filepath.Join(dir, "audit.log")}
	policy := filepath.Join(dir, "audit.json")
	if err := os.WriteFile(policy, []byte(audit), 0o600); err != nil {
		return nil, err
	}
	if s.cluster, err = host.Start(ctx, dir, token+","+user+",2,\"system:serviceaccounts,system:authenticated\"\n",
		"--audit-policy-file="+policy, "--audit-log-path="+s.log); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.stop()
		}
	}()
	if s.host, err = harness.NewTenants(s.cluster.Config); err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme, v1alpha1.AddHostToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	admin, err := client.New(s.cluster.Config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	for _, file := range []string{"crd/tenantry.io_controlplanes.yaml", "crd/tenantry.io_tenants.yaml", "operator/namespace.yaml",
		"operator/serviceaccount.yaml", "operator/role.yaml", "default/events.yaml"} {
		if err := host.Apply(ctx, admin, namespace, filepath.Join(config, file)); err != nil {
			return nil, err
		}
	}
	if s.operator, err = s.startOperator(ctx, dir, tenantry); err != nil {
		return nil, err
	}
	return s, s.startControlPlane(ctx, dir, tenantry, admin)
}

func (s *system) startOperator(ctx context.Context, dir, tenantry string) (*exec.Cmd, error) {
	kubeconfig, err := harness.WriteToken(s.cluster.As(token), namespace, filepath.Join(dir, "operator.kubeconfig"))
	if err != nil {
		return nil, err
	}
	into := filepath.Join(dir, "operator")
	if err := os.MkdirAll(into, 0o700); err != nil {
		return nil, err
	}
	return harness.Start(ctx, into, tenantry, "operator", "--kubeconfig", kubeconfig, "--image", "registry.example/tenantry:bench")
}

// startControlPlane makes a ControlPlane, and runs its server in the place of the pod.
func (s *system) startControlPlane(ctx context.Context, dir, tenantry string, admin client.Client) error {
	cp := &v1alpha1.ControlPlane{}
	cp.Namespace, cp.Name = namespace, controlPlane
	cp.Spec.Expose = v1alpha1.ControlPlaneExpose{Type: v1alpha1.ExposeNodePort, Names: []string{"127.0.0.1"}}
	if err := admin.Create(ctx, cp); err != nil {
		return err
	}
	service, serving, kubeconfig := &corev1.Service{}, &corev1.Secret{}, &corev1.Secret{}
	for name, object := range map[string]client.Object{controlPlane: service, controlPlane + "-serving": serving, controlPlane + "-admin": kubeconfig} {
		if err := harness.Until(ctx, startTimeout, name+" is there", func(ctx context.Context) error {
			return admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object)
		}); err != nil {
			return err
		}
	}
	keys, into := filepath.Join(dir, "keys"), filepath.Join(dir, "server")
	for _, made := range []string{keys, into} {
		if err := os.MkdirAll(made, 0o700); err != nil {
			return err
		}
	}
	for file, content := range serving.Data {
		if err := os.WriteFile(filepath.Join(keys, file), content, 0o600); err != nil {
			return err
		}
	}
	var err error
	if s.server, err = harness.Start(ctx, into, tenantry, "up", "--dir", filepath.Join(into, "state"), "--pki-dir", keys,
		"--secure-port", strconv.Itoa(int(service.Spec.Ports[0].NodePort))); err != nil {
		return err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig.Data["kubeconfig"])
	if err != nil {
		return err
	}
	config.QPS = -1
	if s.space, err = harness.NewTenants(config); err != nil {
		return err
	}
	server, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	return harness.Until(ctx, startTimeout, "the server is ready", func(ctx context.Context) error {
		return server.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
}

// cpu returns the processor time that the operator has taken.
func (s *system) cpu() (time.Duration, error) { return harness.CPU(s.operator) }

// writes returns what the operator has written to the host.
func (s *system) writes() ([]string, error) {
	log, err := os.Open(s.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	var all []string
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var written struct{ Verb, RequestURI string }
		if err := json.Unmarshal(lines.Bytes(), &written); err != nil {
			break // it is being written
		}
		all = append(all, written.Verb+" "+written.RequestURI)
	}
	return all, lines.Err()
}
