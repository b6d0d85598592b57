package harness

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/etcd"
	"github.com/tenantry/tenantry/internal/pki"
)

// AdminToken is the token of the administrator of an APIServer.
const AdminToken = "admin-of-harness"

// APIServer is a running API server with an etcd of its own.
type APIServer struct {
	// Config is of its administrator, without a limit of requests.
	Config *rest.Config
	Keys   *pki.PKI

	command *exec.Cmd
	store   *etcd.Server
}

// APIServerOptions say how an API server is run.
type APIServerOptions struct {
	// Dir is for keys, etcd's data and the log.
	Dir string
	// Command is a program with the flags of kube-apiserver and what else it is called with.
	Command []string
	// Tokens are lines for --token-auth-file, besides that of the administrator.
	Tokens string
	// UnsafeNoFsync is etcd.Options.UnsafeNoFsync.
	UnsafeNoFsync bool
}

// StartAPIServer runs an API server against a new etcd and returns when it is ready.
func StartAPIServer(ctx context.Context, o APIServerOptions) (_ *APIServer, err error) {
	s := &APIServer{}
	defer func() {
		if err != nil {
			s.Stop()
		}
	}()
	if s.Keys, err = pki.Ensure(filepath.Join(o.Dir, "pki")); err != nil {
		return nil, err
	}
	tokens := filepath.Join(o.Dir, "tokens.csv")
	if err := os.WriteFile(tokens, []byte(AdminToken+",admin,1,system:masters\n"+o.Tokens), 0o600); err != nil {
		return nil, err
	}
	etcdPort, err := FreePort()
	if err != nil {
		return nil, err
	}
	etcdURL := "http://127.0.0.1:" + strconv.Itoa(etcdPort)
	if s.store, err = etcd.Start(ctx, etcd.Options{
		Dir: filepath.Join(o.Dir, "etcd"), ListenClientURL: etcdURL, UnsafeNoFsync: o.UnsafeNoFsync,
	}); err != nil {
		return nil, err
	}
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	s.Config = &rest.Config{
		Host: "https://127.0.0.1:" + strconv.Itoa(port), BearerToken: AdminToken, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAData: s.Keys.ServerCA.PEM()},
	}
	cert, key := s.Keys.Serving()
	if s.command, err = Start(ctx, o.Dir, o.Command[0], append(o.Command[1:],
		"--etcd-servers="+etcdURL, "--bind-address=127.0.0.1", "--secure-port="+strconv.Itoa(port),
		"--tls-cert-file="+cert, "--tls-private-key-file="+key, "--token-auth-file="+tokens,
		"--client-ca-file="+s.Keys.ClientCA.File, "--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+s.Keys.ServiceAccountKey(), "--service-account-signing-key-file="+s.Keys.ServiceAccountKey())...); err != nil {
		return nil, err
	}
	return s, s.await(ctx)
}

// await returns when the server is ready.
func (s *APIServer) await(ctx context.Context) error {
	client, err := discovery.NewDiscoveryClientForConfig(s.Config)
	if err != nil {
		return err
	}
	return Until(ctx, 2*time.Minute, s.command.Path+" is ready, see its log", func(ctx context.Context) error {
		return client.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
}

// CPU returns the processor time that the server has taken, without its etcd.
func (s *APIServer) CPU() (time.Duration, error) { return cpu(s.command.Process.Pid) }

// Footprint returns what the server holds, without its etcd.
func (s *APIServer) Footprint(ctx context.Context) (Footprint, error) {
	return MeasureFootprint(ctx, s.Config, s.command.Process.Pid)
}

// Stop ends the server and its etcd.
func (s *APIServer) Stop() {
	if s.command != nil {
		End(s.command, os.Interrupt)
	}
	if s.store != nil {
		s.store.Stop()
	}
}

// Start runs a program, with its output in a log in dir.
func Start(ctx context.Context, dir, program string, args ...string) (*exec.Cmd, error) {
	log, err := os.Create(filepath.Join(dir, filepath.Base(program)+".log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	command := exec.CommandContext(ctx, program, args...)
	command.Stdout, command.Stderr = log, log
	return command, command.Start()
}

// End ends a program by a signal and waits for it.
func End(command *exec.Cmd, signal os.Signal) {
	_ = command.Process.Signal(signal)
	_ = command.Wait()
}
