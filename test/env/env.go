package env

import (
	"context"
	"fmt"
	"net"
	"os"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tenantry/tenantry/internal/kubeconfig"
	"github.com/tenantry/tenantry/internal/standalone"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/harness"
)

// loopback is where tests have the webhooks of tenants.
var loopback = []net.IPNet{{IP: net.IPv4(127, 0, 0, 0), Mask: net.CIDRMask(8, 32)}}

// Environment is a running Tenantry.
type Environment struct {
	running standalone.Running
	cancel  context.CancelFunc
	dir     string
	done    chan error
}

// Start runs Tenantry and returns when it is ready. Changes adjust the options.
func Start(ctx context.Context, changes ...func(*standalone.Options)) (*Environment, error) {
	dir, err := os.MkdirTemp("", "tenantry-test-")
	if err != nil {
		return nil, fmt.Errorf("creating a directory: %w", err)
	}
	port, err := harness.FreePort()
	if err != nil {
		return nil, err
	}
	options := standalone.NewOptions()
	options.Dir, options.Port, options.UnsafeNoFsync, options.Server.Egress.Allowed = dir, port, true, loopback
	for _, change := range changes {
		change(&options)
	}
	runCtx, cancel := context.WithCancel(context.Background())
	e := &Environment{cancel: cancel, dir: dir, done: make(chan error, 1)}
	ready := make(chan struct{})
	go func() {
		e.done <- standalone.Run(runCtx, options, func(r standalone.Running) error {
			e.running = r
			close(ready)
			return nil
		})
	}()
	select {
	case <-ready:
		return e, nil
	case err := <-e.done:
		cancel()
		return nil, fmt.Errorf("starting Tenantry: %w", err)
	case <-ctx.Done():
		return nil, fmt.Errorf("starting Tenantry: %w", context.Cause(ctx))
	}
}

// Stop ends everything, waits for it and removes the state.
func (e *Environment) Stop() error {
	e.cancel()
	if err := <-e.done; err != nil {
		return fmt.Errorf("running Tenantry: %w", err)
	}
	return os.RemoveAll(e.dir)
}

// Dir returns the directory of all state.
func (e *Environment) Dir() string { return e.dir }

// Admin returns a config of a system administrator in the system space.
func (e *Environment) Admin() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", e.running.AdminKubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading the admin's kubeconfig: %w", err)
	}
	config.QPS = -1
	return config, nil
}

// UserConfig returns a config of a user of tenant t, whose server is the root of
// the tenant's space. ShortPath changes that.
func (e *Environment) UserConfig(t tenant.Name, user string, groups ...string) (*rest.Config, error) {
	data, err := kubeconfig.New(e.running.Keys, "https://"+e.running.Address,
		kubeconfig.User{Tenant: t, Name: user, Groups: groups})
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(data)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of %q: %w", user, err)
	}
	config.QPS = -1
	return config, nil
}

// ShortPath returns a config with the same credentials, whose URLs name no space.
func (e *Environment) ShortPath(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Host = "https://" + e.running.Address
	return config
}

// Etcd returns a client of the store of all objects.
func (e *Environment) Etcd() *clientv3.Client { return e.running.Etcd }

// CreateTenant creates a tenant and waits until it is ready.
func (e *Environment) CreateTenant(ctx context.Context, t tenant.Name) error {
	config, err := e.Admin()
	if err != nil {
		return err
	}
	tenants, err := harness.NewTenants(config)
	if err != nil {
		return err
	}
	return tenants.CreateReady(ctx, t.String(), 20*time.Millisecond, time.Minute)
}
