package server

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	registryrest "k8s.io/apiserver/pkg/registry/rest"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/connect"
	"github.com/tenantry/tenantry/internal/workloads/names"
	"github.com/tenantry/tenantry/internal/workloads/translate"
)

// workloads returns what the pods of tenants are held to, nil if pods do not run.
func (o CompletedOptions) workloads(s *stores) func(tenant.Name) translate.Rules {
	if o.host == nil {
		return nil
	}
	return func(n tenant.Name) translate.Rules {
		if own := s.lookup.Workloads(n); own != nil {
			return translate.Rules{Level: translate.Level(own.PodSecurity)}
		}
		return translate.Rules{}
	}
}

// connectPods has the connections to pods go to the host cluster that runs them, if one does.
func (a *assembly) connectPods(core map[string]registryrest.Storage) error {
	if a.opts.host == nil {
		return nil
	}
	return connect.Wrap(core, connect.Config{Host: a.opts.host, HomeOf: a.homeOf}, a.authorizer)
}

// homeOf returns a namespace of a space with its UID and that of its tenant.
func (a *assembly) homeOf(_ context.Context, n tenant.Name, namespace string) (names.Namespace, error) {
	installation, err := a.namespace(tenant.Flatten(tenant.System, metav1.NamespaceSystem))
	if err != nil {
		return names.Namespace{}, fmt.Errorf("reading the id of this installation: %w", err)
	}
	found, err := a.namespace(tenant.Flatten(n, namespace))
	if err != nil {
		return names.Namespace{}, fmt.Errorf("reading the namespace %q: %w", namespace, err)
	}
	return names.Namespace{
		Installation: string(installation.UID), Tenant: n, TenantUID: a.lookup.UID(n), Name: namespace, UID: found.UID,
	}, nil
}
