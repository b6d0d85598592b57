package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/workloads/names"
	"github.com/tenantry/tenantry/test/harness"
	"github.com/tenantry/tenantry/test/host"
)

const (
	syncerToken  = "token-of-the-syncer"
	connectToken = "token-of-the-servers"
	// startTimeout is what each part gets to start, and runTimeout what all pods get to be Running, or gone.
	startTimeout, runTimeout = 2 * time.Minute, time.Hour
	nodes, podsOfNode        = 50, 1000
)

// nodesConfig has kwok work on so many pods at once. Of what is not said there, kwok has no defaults.
const nodesConfig = "apiVersion: config.kwok.x-k8s.io/v1alpha1\nkind: KwokConfiguration\noptions:\n  podPlayStageParallelism: %d\n" +
	"  nodePlayStageParallelism: 4\n  nodeLeaseParallelism: 4\n  podsOnNodeSyncParallelism: 1\n"

// process is one of those that are measured.
type process struct {
	name string
	cpu  func() (time.Duration, error)
}

// system is a host, and servers whose pods run on it.
type system struct {
	dir       string
	cluster   *host.Host
	server    *harness.APIServer
	started   []*exec.Cmd
	processes []process
	tenants   harness.Tenants
	syncer    *syncer
	// managerMetrics is the address of the manager's.
	managerMetrics string
	// spacesFile and hostFile are the syncer's kubeconfigs.
	spacesFile, hostFile string
}

func (s *system) stop() {
	if s.syncer != nil {
		harness.End(s.syncer.command, os.Interrupt)
	}
	for _, command := range s.started {
		harness.End(command, os.Interrupt)
	}
	if s.server != nil {
		s.server.Stop()
	}
	s.cluster.Stop()
}

// start starts all of it, with state and logs in a directory.
func start(ctx context.Context, dir string, o options) (_ *system, err error) {
	s := &system{dir: dir}
	of := func(account, token string) string {
		const all = "system:serviceaccounts"
		return fmt.Sprintf("%s,%s:%s:%s,%s,\"%s,%s:%s,system:authenticated\"\n", token, "system:serviceaccount", names.Platform, account, token, all, all, names.Platform)
	}
	into, err := s.directory("host")
	if err != nil {
		return nil, err
	}
	if s.cluster, err = host.Start(ctx, into, of("syncer", syncerToken)+of("connect", connectToken)); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.stop()
		}
	}()
	s.processes = append(s.processes, process{"the host's API server", s.cluster.CPU})
	if err := s.startHost(ctx, o); err != nil {
		return nil, fmt.Errorf("starting the host: %w", err)
	}
	return s, s.startServer(ctx, o)
}

func (s *system) directory(name string) (string, error) {
	into := filepath.Join(s.dir, name)
	return into, os.MkdirAll(into, 0o700)
}

// run runs a program in a directory of its own.
func (s *system) run(ctx context.Context, name, program string, args ...string) error {
	into, err := s.directory(name)
	if err != nil {
		return err
	}
	command, err := harness.Start(ctx, into, program, args...)
	if err != nil {
		return fmt.Errorf("starting the %s: %w; \"make build bench-host\" builds what is missing", name, err)
	}
	s.started = append(s.started, command)
	s.processes = append(s.processes, process{"the " + name, func() (time.Duration, error) { return harness.CPU(command) }})
	return nil
}

// startHost runs what a cluster has beside its API server, and makes what pods of spaces need there.
func (s *system) startHost(ctx context.Context, o options) error {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	admin, err := client.New(s.cluster.Config, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	if err := host.Apply(ctx, admin, names.Platform, harness.WorkloadsFiles(filepath.Join("config", "workloads"))...); err != nil {
		return err
	}
	kubeconfig, err := harness.WriteToken(s.cluster.Config, "", filepath.Join(s.dir, "host.kubeconfig"))
	if err != nil {
		return err
	}
	keys := filepath.Join(s.dir, "host", "pki")
	alike := []string{"--kubeconfig=" + kubeconfig, "--leader-elect=false", "--secure-port=0"}
	if o.hostQPS > 0 {
		alike = append(alike, fmt.Sprintf("--kube-api-qps=%d", o.hostQPS), fmt.Sprintf("--kube-api-burst=%d", 2*o.hostQPS))
	}
	if err := s.run(ctx, "host's controller manager", filepath.Join(o.hostPrograms, "kube-controller-manager"), append(alike,
		"--root-ca-file="+filepath.Join(keys, "server-ca.crt"), "--service-account-private-key-file="+filepath.Join(keys, "service-account.key"),
		"--flex-volume-plugin-dir="+filepath.Join(s.dir, "flexvolume"))...); err != nil {
		return err
	}
	if err := s.run(ctx, "host's scheduler", filepath.Join(o.hostPrograms, "kube-scheduler"), alike...); err != nil {
		return err
	}
	return s.startNodes(ctx, o, kubeconfig)
}

// startNodes makes nodes that kwok simulates, and waits until they are ready.
func (s *system) startNodes(ctx context.Context, o options, kubeconfig string) error {
	stages, err := filepath.Glob(filepath.Join(o.hostPrograms, "stages", "*.yaml"))
	if err != nil {
		return err
	}
	// By itself, kwok has four workers for the pods of all nodes. Here each node has one, as if it had a kubelet.
	alone := filepath.Join(s.dir, "nodes.yaml")
	if err := os.WriteFile(alone, fmt.Appendf(nil, nodesConfig, nodes), 0o600); err != nil {
		return err
	}
	args := []string{"--config=" + alone, "--kubeconfig=" + kubeconfig, "--manage-all-nodes", "--node-lease-duration-seconds=40", "--cidr=10.64.0.0/12"}
	for _, stage := range stages {
		// It deletes pods by their names, also those that have come in the place of others.
		if o.kill == 0 || filepath.Base(stage) != "pod-delete.yaml" {
			args = append(args, "--config="+stage)
		}
	}
	if err := s.run(ctx, "nodes (kwok)", filepath.Join(o.hostPrograms, "kwok"), args...); err != nil {
		return err
	}
	admin, err := kubernetes.NewForConfig(s.cluster.Config)
	if err != nil {
		return err
	}
	has := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("256Gi"), corev1.ResourcePods: *resource.NewQuantity(podsOfNode, resource.DecimalSI)}
	for i := range nodes {
		name := fmt.Sprintf("node-%02d", i)
		if _, err := admin.CoreV1().Nodes().Create(ctx, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64"}},
			Status:     corev1.NodeStatus{Capacity: has, Allocatable: has},
		}, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return harness.Until(ctx, startTimeout, "all nodes are ready", func(ctx context.Context) error {
		list, err := admin.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range list.Items {
			if !isReady(&list.Items[i]) {
				return fmt.Errorf("node %s is not", list.Items[i].Name)
			}
		}
		return nil
	})
}

func isReady(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue && len(node.Spec.Taints) == 0
		}
	}
	return false
}

// startServer runs a server, a manager and a syncer.
func (s *system) startServer(ctx context.Context, o options) error {
	connect, err := harness.WriteToken(s.cluster.As(connectToken), "", filepath.Join(s.dir, "connect.kubeconfig"))
	if err != nil {
		return err
	}
	if s.hostFile, err = harness.WriteToken(s.cluster.As(syncerToken), "", filepath.Join(s.dir, "syncer.kubeconfig")); err != nil {
		return err
	}
	into, err := s.directory("server")
	if err != nil {
		return err
	}
	var tokens strings.Builder
	for prefix, count := range map[string]int{tenantPrefix: o.tenants, greedyPrefix: o.greedy + 1, idlePrefix: o.idle, stuckPrefix: 2} {
		for i := range count {
			name := tenantName(prefix, i)
			fmt.Fprintf(&tokens, "%s,%s,%s,,,%s\n", tokenOf(name), user, name, name)
		}
	}
	if s.server, err = harness.StartAPIServer(ctx, harness.APIServerOptions{
		Dir: into, Tokens: tokens.String(), UnsafeNoFsync: true, // as the host
		Command: []string{o.tenantry, "server", "--authorization-mode=RBAC", "--host-kubeconfig=" + connect},
	}); err != nil {
		return err
	}
	s.processes = append(s.processes, process{"the spaces' server", s.server.CPU})
	if s.spacesFile, err = harness.WriteToken(s.server.Config, "", filepath.Join(s.dir, "spaces.kubeconfig")); err != nil {
		return err
	}
	port, err := harness.FreePort()
	if err != nil {
		return err
	}
	s.managerMetrics = "127.0.0.1:" + strconv.Itoa(port)
	if err := s.run(ctx, "manager", o.tenantry, "manager", "--kubeconfig="+s.spacesFile, "--metrics-bind-address="+s.managerMetrics); err != nil {
		return err
	}
	if s.tenants, err = harness.NewTenants(s.server.Config); err != nil {
		return err
	}
	s.processes = append(s.processes, process{"the syncer", func() (time.Duration, error) { return s.syncer.cpu() }},
		process{"the benchmark, with both etcds", harness.OwnCPU})
	s.syncer, err = startSyncer(ctx, s.dir, s.spacesFile, s.hostFile)
	return err
}

// spent returns the processor time that each process has taken.
func (s *system) spent() ([]time.Duration, error) {
	all := make([]time.Duration, len(s.processes))
	for i, p := range s.processes {
		var err error
		if all[i], err = p.cpu(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Prefixes of the names of tenants. Each has a user, who is held to what the server gives tenants.
const (
	tenantPrefix, greedyPrefix, idlePrefix, stuckPrefix = "tenant", "greedy", "idle", "stuck"
	user                                                = "jane"
)

func tenantName(prefix string, i int) string { return fmt.Sprintf("%s-%05d", prefix, i) }

func tokenOf(name string) string { return "token-of-" + name }

// newTenants creates tenants and returns their users' places when they can work there.
func (s *system) newTenants(ctx context.Context, prefix string, count int) ([]podNamespace, error) {
	all := make([]podNamespace, count)
	_, err := harness.Each(0, count, 16, func(i int) error {
		name := tenantName(prefix, i)
		var spec v1alpha1.TenantSpec
		if prefix == greedyPrefix { // by itself, a tenant may have 1,000
			spec.Quota = map[corev1.ResourceName]resource.Quantity{corev1.ResourcePods: *resource.NewQuantity(nodes*podsOfNode, resource.DecimalSI)}
		}
		if err := s.tenants.Create(ctx, name, spec); err != nil {
			return fmt.Errorf("creating tenant %q: %w", name, err)
		}
		if err := s.tenants.Await(ctx, name, step, runTimeout); err != nil {
			return err
		}
		if prefix == idlePrefix {
			return nil
		}
		config := harness.InSpace(s.server.Config, name)
		admin, err := newPodNamespace(config, "default")
		if err != nil {
			return err
		}
		if err := admin.letIn(ctx); err != nil {
			return err
		}
		config.BearerToken = tokenOf(name)
		if all[i], err = newPodNamespace(config, "default"); err != nil {
			return err
		}
		return harness.Until(ctx, startTimeout, "the user has its rights", func(ctx context.Context) error {
			_, err := all[i].client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
			return err
		})
	})
	return all, err
}

// letIn gives a tenant's user all rights in its space.
func (p podNamespace) letIn(ctx context.Context) error {
	_, err := p.client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user}, Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
	}, metav1.CreateOptions{})
	return err
}

// newNamespaces creates namespaces of the host and returns when pods can be created in them.
func (s *system) newNamespaces(ctx context.Context, prefix string, count int) ([]podNamespace, error) {
	all := make([]podNamespace, count)
	_, err := harness.Each(0, count, 16, func(i int) error {
		p, err := newPodNamespace(s.cluster.Config, fmt.Sprintf("%s-%05d", prefix, i))
		if err != nil {
			return err
		}
		all[i] = p
		if _, err := p.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.namespace}}, metav1.CreateOptions{}); err != nil {
			return err
		}
		return harness.Until(ctx, startTimeout, "the namespace has its account", func(ctx context.Context) error {
			_, err := p.client.CoreV1().ServiceAccounts(p.namespace).Get(ctx, "default", metav1.GetOptions{})
			return err
		})
	})
	return all, err
}

// newPodNamespace returns a namespace of a space, or of the host.
func newPodNamespace(config *rest.Config, namespace string) (podNamespace, error) {
	config = rest.CopyConfig(config)
	config.ContentType = runtime.ContentTypeProtobuf
	c, err := kubernetes.NewForConfig(config)
	return podNamespace{c, namespace}, err
}
