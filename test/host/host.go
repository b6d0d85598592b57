package host

import (
	"context"
	"fmt"
	"os"

	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"

	"github.com/tenantry/tenantry/test/harness"
)

// environment makes the process of a test an API server.
const environment = "TENANTRY_TEST_HOST"

// RunIfCalled runs the API server, and ends the process, if Start has called it for that. It
// belongs to the beginning of TestMain.
func RunIfCalled() {
	if os.Getenv(environment) == "" {
		return
	}
	command := app.NewAPIServerCommand()
	command.SetArgs(os.Args[1:])
	if err := command.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Host is a running API server.
type Host struct {
	// Config is of its administrator.
	Config *rest.Config
	server *harness.APIServer
}

// Start runs an API server with RBAC, its state in dir, and returns when it is ready. Tokens
// are lines for its users, and flags further ones of the server. There are no controllers and no
// nodes. It runs until Stop.
func Start(ctx context.Context, dir, tokens string, flags ...string) (*Host, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if err := os.Setenv(environment, "yes"); err != nil {
		return nil, err
	}
	defer os.Unsetenv(environment)
	server, err := harness.StartAPIServer(context.WithoutCancel(ctx), harness.APIServerOptions{
		Dir: dir, Command: append([]string{program, "--authorization-mode=RBAC", "--service-cluster-ip-range=10.43.0.0/16"}, flags...),
		Tokens: tokens, UnsafeNoFsync: true,
	})
	if err != nil {
		return nil, fmt.Errorf("starting the API server of the host: %w", err)
	}
	return &Host{Config: server.Config, server: server}, nil
}

// As returns a config of the user of a token.
func (h *Host) As(token string) *rest.Config {
	config := rest.CopyConfig(h.Config)
	config.BearerToken = token
	return config
}

// Stop ends the server.
func (h *Host) Stop() { h.server.Stop() }
