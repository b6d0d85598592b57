package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/tenantry/tenantry/test/bench/process"
)

// system is a running Tenantry with two tenants.
type system struct {
	process     *process.Tenantry
	dir         string
	kubeconfigs map[string]string // files
}

func start(ctx context.Context, s settings) (*system, error) {
	dir, err := os.MkdirTemp("", "tenantry-neighbour-")
	if err != nil {
		return nil, err
	}
	port, err := process.FreePort()
	if err != nil {
		return nil, err
	}
	command := scheduled(ctx, normal, s.tenantry, append(process.UpArgs(dir, port), strings.Fields(s.args)...)...)
	running, err := process.Start(command, dir)
	if err != nil {
		return nil, err
	}
	result := &system{process: running, dir: dir, kubeconfigs: map[string]string{}}
	for _, name := range []string{quiet, busy} {
		if err := result.createTenant(ctx, name); err != nil {
			return nil, fmt.Errorf("creating tenant %q: %w", name, err)
		}
		kubeconfig, err := exec.CommandContext(ctx, s.tenantry, "kubeconfig", name, "--dir", process.StateDir(dir)).Output()
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
	client, err := kubernetes.NewForConfig(s.process.Config)
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
	s.process.End(os.Interrupt)
	os.RemoveAll(s.dir)
}

// saturate starts the busy tenant and returns when it is at work. The returned
// function ends it and says how many requests it has had answered.
func (s *system) saturate(ctx context.Context, load string, settings settings) (func() string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	process := scheduled(ctx, whenIdle, self, "-load", load, "-kubeconfig", s.kubeconfigs[busy],
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
