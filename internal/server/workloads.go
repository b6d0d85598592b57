package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/registry/generic"
	registryrest "k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/metrics/pkg/apis/metrics"

	"github.com/tenantry/tenantry/internal/server/flowcontrol/waiting"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/clusterip"
	"github.com/tenantry/tenantry/internal/workloads/connect"
	"github.com/tenantry/tenantry/internal/workloads/names"
	"github.com/tenantry/tenantry/internal/workloads/translate"
)

// workloads returns what the pods, Services and Ingresses of tenants are held to, nil if pods do not run.
func (o CompletedOptions) workloads(s *stores) func(tenant.Name) translate.Rules {
	if o.host == nil {
		return nil
	}
	return func(n tenant.Name) translate.Rules {
		return translate.RulesOf(s.lookup.Workloads(n), s.lookup.Quota(n))
	}
}

// useHost has the connections to pods go to the host cluster that runs them, if one does, and Services have its
// addresses. What pods use is known then, too.
func (a *assembly) useHost(core map[string]registryrest.Storage) error {
	if a.opts.host == nil {
		return nil
	}
	var err error
	home := homeOf(a.base, a.stores)
	if a.podMetrics, err = connect.Wrap(core, connect.Config{Host: a.opts.host, HomeOf: home, GoesOn: waiting.GoesOn}, a.authorizer); err != nil {
		return err
	}
	return clusterip.Wrap(core, clusterip.Config{
		Host: a.opts.host, HomeOf: home, Rules: a.opts.workloads(a.stores), Want: a.wantHostNamespace,
	})
}

// metricsGroup serves metrics.k8s.io where pods run. It comes after the core group.
type metricsGroup struct{ *assembly }

// GroupName implements controlplaneapiserver.RESTStorageProvider.
func (metricsGroup) GroupName() string { return metrics.GroupName }

// NewRESTStorage implements controlplaneapiserver.RESTStorageProvider.
func (g metricsGroup) NewRESTStorage(serverstorage.APIResourceConfigSource, generic.RESTOptionsGetter) (genericapiserver.APIGroupInfo, error) {
	if g.podMetrics == nil {
		return genericapiserver.APIGroupInfo{}, errors.New("the metrics of pods come after the pods")
	}
	return g.podMetrics.Group(), nil
}

// isBuiltin reports whether an API group is built in and served in spaces.
func (o CompletedOptions) isBuiltin(group string) bool {
	return legacyscheme.Scheme.IsGroupRegistered(group) || o.host != nil && group == metrics.GroupName
}

// wantHostNamespace has the syncer make the host's namespace for one of a space, by a note on that: the syncer alone
// has the right to.
func (a *assembly) wantHostNamespace(ctx context.Context, n tenant.Name, namespace string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"annotations": map[string]string{names.WantedAnnotation: time.Now().UTC().Format(time.RFC3339Nano)},
	}})
	if err != nil {
		return err
	}
	name := tenant.Flatten(n, namespace).String()
	if _, err := a.flattened.CoreV1().Namespaces().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("asking for the namespace on the host: %w", err)
	}
	return nil
}

// homeOf returns what reads a namespace of a space with its UID and that of its tenant.
func homeOf(b *base, s *stores) func(context.Context, tenant.Name, string) (names.Namespace, error) {
	return func(_ context.Context, n tenant.Name, namespace string) (names.Namespace, error) {
		installation, err := b.namespace(tenant.Flatten(tenant.System, metav1.NamespaceSystem))
		if err != nil {
			return names.Namespace{}, fmt.Errorf("reading the id of this installation: %w", err)
		}
		found, err := b.namespace(tenant.Flatten(n, namespace))
		if err != nil {
			return names.Namespace{}, fmt.Errorf("reading the namespace %q: %w", namespace, err)
		}
		return names.Namespace{
			Installation: string(installation.UID), Tenant: n, TenantUID: s.lookup.UID(n), Name: namespace, UID: found.UID,
			Salt: names.SaltOf(found.Annotations),
		}, nil
	}
}
