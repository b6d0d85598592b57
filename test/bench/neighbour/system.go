package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/test/harness"
)

// system is a running Tenantry with two tenants.
type system struct {
	process     *harness.Tenantry
	kubeconfigs map[string]string // files
}

func start(ctx context.Context, at harness.Installation, s settings) (*system, error) {
	process, err := at.Start(scheduled(ctx, normal, at.Binary, append(at.UpArgs(), strings.Fields(s.args)...)...))
	if err != nil {
		return nil, err
	}
	result := &system{process: process, kubeconfigs: map[string]string{}}
	for _, name := range []string{quiet, busy} {
		if _, err := harness.NewSpace(ctx, process.Config, name, v1alpha1.TenantSpec{}); err != nil {
			return nil, err
		}
		if result.kubeconfigs[name], err = at.WriteKubeconfig(ctx, name); err != nil {
			return nil, err
		}
	}
	return result, nil
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
