package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/etcd"
	"github.com/tenantry/tenantry/internal/pki"
	"github.com/tenantry/tenantry/test/bench/process"
)

// Tokens of the administrator and of the user who sends what is measured: in a space
// that is one of its own users.
const (
	adminToken = "bench-admin"
	userToken  = "bench-user"
	userName   = "jane"
	tenantName = "bench"
)

// server is a running API server with an etcd of its own.
type server struct {
	name    string
	config  *rest.Config
	process *exec.Cmd
	store   *etcd.Server
}

// start runs binary, with args, against a new etcd below dir.
func start(ctx context.Context, dir, name, binary string, args ...string) (*server, error) {
	dir = filepath.Join(dir, name)
	keys, err := pki.Ensure(filepath.Join(dir, "pki"))
	if err != nil {
		return nil, err
	}
	tokens := filepath.Join(dir, "tokens.csv")
	if err := os.WriteFile(tokens, []byte(adminToken+",bench,1,system:masters\n"+userToken+","+userName+",2,,,"+tenantName+"\n"), 0o600); err != nil {
		return nil, err
	}
	etcdPort, err := process.FreePort()
	if err != nil {
		return nil, err
	}
	etcdURL := "http://127.0.0.1:" + strconv.Itoa(etcdPort)
	store, err := etcd.Start(ctx, etcd.Options{Dir: filepath.Join(dir, "etcd"), ListenClientURL: etcdURL})
	if err != nil {
		return nil, err
	}
	port, err := process.FreePort()
	if err != nil {
		return nil, err
	}
	cert, key := keys.Serving()
	process := exec.CommandContext(ctx, binary, append(args,
		"--etcd-servers="+etcdURL, "--bind-address=127.0.0.1", "--secure-port="+strconv.Itoa(port),
		"--tls-cert-file="+cert, "--tls-private-key-file="+key, "--token-auth-file="+tokens,
		"--client-ca-file="+keys.ClientCAFile(), "--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+keys.ServiceAccountKey(), "--service-account-signing-key-file="+keys.ServiceAccountKey(),
		"--disable-admission-plugins=ServiceAccount")...)
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	process.Stdout, process.Stderr = log, log
	if err := process.Start(); err != nil {
		return nil, err
	}
	s := &server{name: name, process: process, store: store, config: &rest.Config{
		Host: "https://127.0.0.1:" + strconv.Itoa(port), BearerToken: adminToken, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAData: keys.ServerCA.PEM()},
	}}
	if err := s.await(ctx); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// await returns when the server is ready.
func (s *server) await(ctx context.Context) error {
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // asks for readiness only
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		response, err := client.Get(s.config.Host + "/readyz")
		if err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return fmt.Errorf("%s is not ready after a minute; see its log", s.name)
}

// cpu returns the processor time that the server has taken, without its etcd.
func (s *server) cpu() (time.Duration, error) {
	return process.CPU(s.process.Process.Pid)
}

func (s *server) stop() {
	_ = s.process.Process.Signal(os.Interrupt)
	_ = s.process.Wait()
	s.store.Stop()
}
