package main

import (
	"context"
	"fmt"

	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/kubeconfig"
	"github.com/tenantry/tenantry/internal/tenant"
)

// configOf returns the configuration in the file of --kubeconfig, or that of a pod if there is none.
func configOf(path string) (*rest.Config, error) {
	if path == "" {
		config, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("--kubeconfig is missing, and this is not a pod with a service account: %w", err)
		}
		return config, nil
	}
	config, err := kubeconfig.Load(path)
	if err != nil {
		return nil, fmt.Errorf("reading --kubeconfig: %w", err)
	}
	return config, nil
}

// systemConfigOf is configOf for what must be of a system user. It refuses the URL of a space.
func systemConfigOf(ctx context.Context, path string) (*rest.Config, error) {
	config, err := configOf(path)
	if err != nil {
		return nil, err
	}
	if err := kubeconfig.Find(ctx, config, tenant.System); err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	return config, nil
}
