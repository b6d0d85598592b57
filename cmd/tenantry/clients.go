package main

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tenantry/tenantry/internal/kubeconfig"
	"github.com/tenantry/tenantry/internal/tenant"
)

// configOf returns the configuration in the file of --kubeconfig, or that of a pod if there is none.
func configOf(path string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if clientcmd.IsEmptyConfig(err) {
		return nil, errors.New("--kubeconfig is missing, and this is not a pod with a service account")
	}
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
