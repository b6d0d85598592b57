package admission

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/utils/lru"

	"github.com/tenantry/tenantry/internal/spaces/view"
	"github.com/tenantry/tenantry/internal/tenant"
)

// maxInstances bounds the instances of a per-space plugin. They have no state, and a
// new one takes a few allocations.
const maxInstances = 1024

// perSpacePlugin has an instance for each space that was in use recently.
type perSpacePlugin struct {
	plugin
	system    admission.Interface
	instances *lru.Cache // by tenantKey
}

// tenantKey identifies a tenant and no other of its name: an instance caches the kinds that
// the space defines.
type tenantKey struct {
	tenant tenant.Name
	uid    types.UID
}

func newPerSpacePlugin(p plugin) *perSpacePlugin {
	return &perSpacePlugin{plugin: p, instances: lru.New(maxInstances)}
}

// ValidateInitialization builds the instance of the system space, which requests the
// informers.
func (p *perSpacePlugin) ValidateInitialization() error {
	var err error
	p.system, err = p.newInstance(tenant.System)
	return err
}

func (p *perSpacePlugin) newInstance(n tenant.Name) (admission.Interface, error) {
	s := instanceConfig{
		client: p.shared.Client, dynamic: p.dynamic, informers: p.shared.views.Of(n),
		authorizer: p.authorizer, stop: p.drained, restMapper: p.restMapper,
	}
	if n != tenant.System {
		s.client = view.Client(p.shared.Client, n, nil)
		s.dynamic = nil
		s.restMapper = p.shared.spaces.restMapper(n)
	}
	return p.build(p.config, p.initializer(s))
}

func (p *perSpacePlugin) instanceOf(ctx context.Context, a admission.Attributes) (admission.Interface, error) {
	n, err := tenant.SpaceFrom(ctx)
	if err != nil {
		return nil, admission.NewForbidden(a, err)
	}
	if n == tenant.System {
		return p.system, nil
	}
	key := tenantKey{n, p.shared.TenantUID(n)}
	if cached, ok := p.instances.Get(key); ok {
		return cached.(admission.Interface), nil
	}
	instance, err := p.newInstance(n)
	if err != nil {
		return nil, err
	}
	p.instances.Add(key, instance)
	return instance, nil
}

func (p *perSpacePlugin) Handles(operation admission.Operation) bool {
	return p.system.Handles(operation)
}

func (p *perSpacePlugin) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	instance, err := p.instanceOf(ctx, a)
	if err != nil {
		return err
	}
	return mutate(ctx, instance, a, o)
}

func (p *perSpacePlugin) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	instance, err := p.instanceOf(ctx, a)
	if err != nil {
		return err
	}
	return validate(ctx, instance, a, o)
}
