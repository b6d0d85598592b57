package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/test/harness"
)

// startTimeout is what the host gets to know what was made a moment ago.
const startTimeout = 2 * time.Minute

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

// Apply creates what manifests have, in a namespace where they name none, as kustomize does. It waits until
// the host knows their kinds.
func Apply(ctx context.Context, admin client.Client, namespace string, paths ...string) error {
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096); ; {
			object := &unstructured.Unstructured{}
			if err := decoder.Decode(object); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return fmt.Errorf("reading %s: %w", path, err)
			}
			if err := harness.Until(ctx, startTimeout, "the host has what "+path+" says", func(ctx context.Context) error {
				return createIn(ctx, admin, namespace, object)
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// createIn creates an object, in a namespace where it has one.
func createIn(ctx context.Context, admin client.Client, namespace string, object *unstructured.Unstructured) error {
	mapping, err := admin.RESTMapper().RESTMapping(object.GroupVersionKind().GroupKind())
	if err != nil {
		return err
	}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace && object.GetNamespace() == "" {
		object.SetNamespace(namespace)
	}
	if strings.HasSuffix(object.GetKind(), "RoleBinding") {
		object.Object["subjects"].([]any)[0].(map[string]any)["namespace"] = namespace
	}
	return client.IgnoreAlreadyExists(admin.Create(ctx, object))
}

// As returns a config of the user of a token.
func (h *Host) As(token string) *rest.Config {
	config := rest.CopyConfig(h.Config)
	config.BearerToken = token
	return config
}

// Stop ends the server.
func (h *Host) Stop() { h.server.Stop() }

// CPU returns the processor time that the server has taken, without its etcd.
func (h *Host) CPU() (time.Duration, error) { return h.server.CPU() }
