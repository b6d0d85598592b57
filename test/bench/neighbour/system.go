package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// system is a running Tenantry with two tenants.
type system struct {
	process     *exec.Cmd
	dir         string
	kubeconfigs map[string]string // files
}

func start(ctx context.Context, s settings) (*system, error) {
	dir, err := os.MkdirTemp("", "tenantry-neighbour-")
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	port := listener.Addr().(*net.TCPAddr).Port
	listener.Close()
	state := filepath.Join(dir, "state")
	process := below(ctx, 5, s.tenantry, append([]string{"up", "--dir", state, "--secure-port", strconv.Itoa(port)}, strings.Fields(s.args)...)...)
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	process.Stderr = log
	output, err := process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := process.Start(); err != nil {
		return nil, err
	}
	result := &system{process: process, dir: dir, kubeconfigs: map[string]string{}}
	ready := bufio.NewScanner(output)
	if !ready.Scan() {
		return nil, fmt.Errorf("%s is not ready; see %s", s.tenantry, log.Name())
	}
	go func() { _, _ = io.Copy(io.Discard, output) }()
	for _, name := range []string{quiet, busy} {
		if err := result.createTenant(ctx, name); err != nil {
			return nil, fmt.Errorf("creating tenant %q: %w", name, err)
		}
		kubeconfig, err := exec.CommandContext(ctx, s.tenantry, "kubeconfig", name, "--dir", state).Output()
		if err != nil {
			return nil, fmt.Errorf("making credentials of tenant %q: %w", name, err)
		}
		result.kubeconfigs[name] = filepath.Join(dir, name)
		if err := os.WriteFile(result.kubeconfigs[name], kubeconfig, 0o600); err != nil {
			return nil, err
		}
	}
	return result, nil
}

// createTenant creates a tenant and waits until its administrator can work.
func (s *system) createTenant(ctx context.Context, name string) error {
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(s.dir, "state", "admin.kubeconfig"))
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	object := fmt.Appendf(nil, `{"apiVersion":"tenantry.io/v1alpha1","kind":"Tenant","metadata":{"name":%q}}`, name)
	path := "/apis/tenantry.io/v1alpha1/tenants/" + name
	rest := client.CoreV1().RESTClient()
	if err := rest.Patch(types.ApplyPatchType).AbsPath(path).Param("fieldManager", "bench").Body(object).Do(ctx).Error(); err != nil {
		return err
	}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		tenant, err := rest.Get().AbsPath(path).DoRaw(ctx)
		if err != nil {
			return err
		}
		if bytes.Contains(tenant, []byte(`"SpaceReady"`)) {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return fmt.Errorf("not ready after a minute")
}

func (s *system) stop() {
	_ = s.process.Process.Signal(os.Interrupt)
	_ = s.process.Wait()
	os.RemoveAll(s.dir)
}

// saturate starts the busy tenant and returns when it is at work. The returned
// function ends it and says how many requests it has had answered.
func (s *system) saturate(ctx context.Context, load string, settings settings) (func() string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	process := below(ctx, 15, self, "-load", load, "-kubeconfig", s.kubeconfigs[busy],
		"-workers", strconv.Itoa(settings.workers), "-objects", strconv.Itoa(settings.objects))
	process.Stderr = os.Stderr
	output, err := process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := process.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(output)
	if !lines.Scan() {
		return nil, fmt.Errorf("the busy tenant has ended: %w", process.Wait())
	}
	return func() string {
		_ = process.Process.Signal(os.Interrupt)
		rate := "?"
		if lines.Scan() {
			rate = lines.Text()
		}
		_ = process.Wait()
		return rate
	}, nil
}

// below returns a command of lower scheduling priority than this one.
func below(ctx context.Context, by int, name string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "nice", append([]string{"-n", strconv.Itoa(by), name}, args...)...)
}
