package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/controller/keystone"
	"github.com/tenantry/tenantry/test/harness"
	"github.com/tenantry/tenantry/test/keystone/fake"
)

const interval = 10 * time.Second

func main() {
	binary := flag.String("binary", "bin/tenantry", "The binary whose server is measured.")
	c := cloud{Keystone: fake.New()}
	flag.IntVar(&c.domains, "domains", 1000, "Number of domains.")
	flag.IntVar(&c.projects, "projects", 10_000, "Number of projects.")
	flag.IntVar(&c.roles, "roles", 20, "Number of mapped roles.")
	flag.Parse()
	fmt.Printf("%d cores, %s.\n\n## %d domains, %d projects, %d mapped roles\n\n| what | measured |\n|---|---|\n",
		runtime.NumCPU(), runtime.Version(), c.domains, c.projects, c.roles)
	harness.Main("keystone", func(ctx context.Context) error {
		return harness.Install("keystone", *binary, func(at harness.Installation) error { return measure(ctx, at, &c) })
	})
}

// cloud is a Keystone with many domains.
type cloud struct {
	*fake.Keystone
	domains, projects, roles int
}

func id(kind, n int) string { return fmt.Sprintf("%08x%024x", n*2_654_435_761%(1<<32), kind<<32+n) }

// set makes what there is.
func (c *cloud) set() {
	var domains, projects []map[string]any
	for n := range c.domains {
		domains = append(domains, fake.Domain(id(1, n), fmt.Sprintf("domain %d", n), true))
	}
	for n := range c.projects {
		projects = append(projects, fake.Project(id(2, n), fmt.Sprintf("project %d", n), id(1, n%c.domains), true))
	}
	var roles []map[string]any
	for n := range c.roles {
		roles = append(roles, fake.Ref(id(3, n)))
	}
	c.Set("roles", roles...)
	c.Set("domains", domains...)
	c.Set("projects", projects...)
}

// configuration writes the files of a KeystoneConfiguration.
func (c *cloud) configuration(dir string) (string, error) {
	path := filepath.Join(dir, "keystone.yaml")
	return path, errors.Join(
		os.WriteFile(filepath.Join(dir, "clouds.yaml"), c.Clouds(), 0o600),
		os.WriteFile(path, []byte("apiVersion: config.tenantry.io/v1alpha1\nkind: KeystoneConfiguration\nurl: "+c.URL+"/v3\ncloudsFile: clouds.yaml\ncloud: asker\n"), 0o600))
}

func measure(ctx context.Context, at harness.Installation, c *cloud) error {
	c.set()
	path, err := c.configuration(at.Dir)
	if err != nil {
		return err
	}
	p, err := at.Up(ctx)
	if err != nil {
		return err
	}
	defer func() { p.End(syscall.SIGTERM) }()
	objects, err := harness.NewTenants(p.Config)
	if err != nil {
		return err
	}
	s := &v1alpha1.KeystoneSync{ObjectMeta: metav1.ObjectMeta{Name: "all"}, Spec: v1alpha1.KeystoneSyncSpec{
		Mode: v1alpha1.KeystoneSyncSync, Interval: &metav1.Duration{Duration: interval},
		Domains: v1alpha1.KeystoneDomains{AllExcept: &v1alpha1.KeystoneExcluded{}},
	}}
	for n := range c.roles {
		s.Spec.RoleMappings = append(s.Spec.RoleMappings, v1alpha1.KeystoneRoleMapping{RoleID: id(3, n), Scope: v1alpha1.KeystoneScopeProject, ClusterRole: "view"})
	}
	if err := objects.WithWatch.Create(ctx, s); err != nil {
		return err
	}
	// The controller of the server's process has no Keystone, says so, and is done.
	if _, err := await(ctx, objects, func(s *v1alpha1.KeystoneSync) bool {
		return meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionReady) != nil
	}); err != nil {
		return err
	}
	go func() {
		if err := run(ctx, p.Config, path); err != nil {
			klog.ErrorS(err, "Running the controller")
		}
	}()
	changes := 0
	for _, what := range []string{"first run", "run that has nothing to do", "the next"} {
		var server time.Duration
		last := s.Status.LastSyncTime
		own, err := harness.Spent(harness.OwnCPU, func() (err error) {
			server, err = harness.Spent(p.CPU, func() (err error) {
				s, err = await(ctx, objects, func(s *v1alpha1.KeystoneSync) bool {
					return s.Status.LastSyncTime != nil && (last == nil || last.Before(s.Status.LastSyncTime))
				})
				return err
			})
			return err
		})
		if err != nil {
			return err
		}
		harness.Row(what, "%.1f s, %d objects written; %.1f s of the processor in the controller and the fake, %.1f s in the server",
			s.Status.LastDuration.Seconds(), s.Status.Changes, own.Seconds(), server.Seconds())
		if changes++; changes > 1 && s.Status.Changes != 0 {
			return fmt.Errorf("a run that has nothing to do wrote %d objects", s.Status.Changes)
		}
	}
	resident, _, err := p.Memory()
	if err != nil {
		return err
	}
	harness.Row("resident memory of the server", "%d MiB", resident>>20)
	before := s.Status.Bindings
	began := time.Now()
	c.projects++
	c.set()
	if s, err = await(ctx, objects, func(s *v1alpha1.KeystoneSync) bool { return s.Status.Bindings == before+int32(c.roles) }); err != nil {
		return err
	}
	harness.Row("a new project, until it is bound", "%.1f s, with an interval of %s and a run of %.1f s", time.Since(began).Seconds(), interval, s.Status.LastDuration.Seconds())
	return nil
}

// await waits until a KeystoneSync is as it should be.
func await(ctx context.Context, objects harness.Tenants, is func(*v1alpha1.KeystoneSync) bool) (*v1alpha1.KeystoneSync, error) {
	s := &v1alpha1.KeystoneSync{}
	return s, wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, time.Hour, true, func(ctx context.Context) (bool, error) {
		if err := objects.Get(ctx, client.ObjectKey{Name: "all"}, s); err != nil {
			return false, err
		}
		return is(s), nil
	})
}

// run runs the controller alone.
func run(ctx context.Context, config *rest.Config, path string) error {
	ctrl.SetLogger(klog.Background())
	scheme := apiruntime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	config = rest.CopyConfig(config)
	config.QPS = -1
	mgr, err := ctrl.NewManager(config, ctrl.Options{Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		return err
	}
	if err := keystone.Setup(mgr, path); err != nil {
		return err
	}
	return mgr.Start(ctx)
}
