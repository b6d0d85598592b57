package admission

import (
	"context"
	"errors"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	mutatingpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	validatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/validating"

	"github.com/tenantry/tenantry/internal/bounds"
	"github.com/tenantry/tenantry/internal/server/quota"
	"github.com/tenantry/tenantry/internal/spaces/view"
	"github.com/tenantry/tenantry/internal/tenant"
)

// onDemandPlugin has an instance for the system space and for each tenant's space that has
// objects of the plugin. The first request after the first object builds it, and it is
// removed with the last object.
type onDemandPlugin struct {
	*admission.Handler
	plugin
	hub    *view.Hub
	system admission.Interface
	calls  calls

	mu        sync.Mutex
	instances map[tenant.Name]*instance
}

// instance is a plugin in one space.
type instance struct {
	// plugin builds the plugin when it is called first. If that panics, it does so each time.
	plugin func() (admission.Interface, error)
	stop   context.CancelFunc
}

func newOnDemandPlugin(p plugin) *onDemandPlugin {
	return &onDemandPlugin{
		Handler:   admission.NewHandler(admission.Connect, admission.Create, admission.Delete, admission.Update),
		plugin:    p,
		instances: map[tenant.Name]*instance{},
	}
}

// ValidateInitialization builds the instance of the system space.
func (p *onDemandPlugin) ValidateInitialization() error {
	if p.drained == nil {
		return errors.New("missing the notification of the server's end")
	}
	var err error
	if p.hub, err = p.shared.hubs(p.name); err != nil {
		return err
	}
	p.hub.OnEmpty(p.remove)
	p.SetReadyFunc(p.hub.HasSynced)
	p.system, err = p.build(p.config, p.initializer(instanceConfig{
		client: p.shared.Client, dynamic: p.dynamic, informers: p.shared.views.Of(tenant.System),
		authorizer: spaceAuthorizer{p.authorizer, tenant.System}, stop: p.drained, restMapper: p.restMapper,
		services: p.services, webhookAuth: p.webhookAuth, manifests: p.manifests,
	}))
	if err != nil {
		return err
	}
	go func() {
		<-p.drained
		p.removeAll()
	}()
	return nil
}

// newInstance builds the plugin of a tenant's space, which ends with ctx. It does not get the system's configuration,
// which has credentials for the webhooks of the system space. forget has the next request build another one.
func (p *onDemandPlugin) newInstance(ctx context.Context, n tenant.Name, forget func()) (admission.Interface, error) {
	clients, err := p.shared.spaces.of(n)
	if err != nil {
		return nil, err
	}
	refusals := &refusals{}
	by := spaceReads{p.shared.reads, tenantKey{n, p.shared.TenantUID(n)}, p.shared.CacheMemory, refusals, forget}
	var schemas *knownSchemas
	if p.name == mutatingpolicy.PluginName {
		if schemas, err = withKnownSchemas(clients.discovery, newConverters(ctx, by)); err != nil {
			return nil, err
		}
		clients.discovery = schemas
	}
	built, err := p.build(nil, p.initializer(instanceConfig{
		client: view.Client(p.shared.Client, n, clients.discovery), dynamic: newParameters(clients.dynamic, by), informers: p.shared.views.Of(n),
		authorizer: spaceAuthorizer{p.authorizer, n}, stop: ctx.Done(), restMapper: clients.restMapper,
		services: view.ServicesIn{Flat: p.shared.services, Tenant: n}, webhookAuth: p.shared.Egress.ForTenant(n, p.webhookAuth),
	}))
	if err != nil {
		return nil, err
	}
	if schemas != nil {
		schemas.waitUntilRead(ctx.Done())
	}
	return explained{built, refusals}, nil
}

// instanceFor returns the instance of the request's space, or nil if the space
// has none, and the request as that instance sees it.
func (p *onDemandPlugin) instanceFor(ctx context.Context, a admission.Attributes) (admission.Interface, admission.Attributes, error) {
	n, err := tenant.SpaceFrom(ctx)
	if err != nil {
		return nil, nil, admission.NewForbidden(a, err)
	}
	if n == tenant.System {
		return p.system, a, nil
	}
	shown, err := forTenant(ctx, a)
	if err != nil || shown == nil {
		return nil, nil, err
	}
	i, err := p.instanceOf(ctx, n, a)
	return i, shown, err
}

// instanceOf returns the instance of a tenant's space, or nil if it has none or does not
// handle the request.
func (p *onDemandPlugin) instanceOf(ctx context.Context, n tenant.Name, a admission.Attributes) (admission.Interface, error) {
	if p.shared.Terminating(n) || tenant.ByPublisher(ctx) || quota.Concerns(a) {
		return nil, nil
	}
	if !p.hub.HasSynced() && !p.WaitForReady() {
		return nil, admission.NewForbidden(a, errors.New("not yet ready to handle request"))
	}
	i := p.get(n)
	if i == nil {
		return nil, nil
	}
	plugin, err := i.plugin()
	if err != nil {
		p.forget(n, i)
		return nil, fmt.Errorf("preparing %s: %w", p.name, err)
	}
	return plugin, nil
}

func (p *onDemandPlugin) get(n tenant.Name) *instance {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.hub.Has(n) {
		return nil
	}
	i, ok := p.instances[n]
	if !ok {
		ctx, stop := context.WithCancel(context.Background())
		i = &instance{stop: stop}
		i.plugin = sync.OnceValues(func() (admission.Interface, error) { return p.newInstance(ctx, n, func() { p.forget(n, i) }) })
		p.instances[n] = i
	}
	return i
}

// remove stops the instance of a space. A request that uses it may fail.
func (p *onDemandPlugin) remove(n tenant.Name) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i, ok := p.instances[n]; ok {
		delete(p.instances, n)
		i.stop()
	}
}

func (p *onDemandPlugin) removeAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for n, i := range p.instances {
		delete(p.instances, n)
		i.stop()
	}
}

// forget removes an instance that could not be built, or cannot go on, so that the next request tries again.
func (p *onDemandPlugin) forget(n tenant.Name, failed *instance) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.instances[n] == failed {
		delete(p.instances, n)
		failed.stop()
	}
}

// maxRetryAfter is after how many seconds, at most, a webhook of a space has clients try again: they wait for so long,
// some of them for years, and whoever uses a space need not trust its webhooks.
const maxRetryAfter = 30

func boundRetryAfter(err error) error {
	if status, is := errors.AsType[*apierrors.StatusError](err); is && status.ErrStatus.Details != nil {
		status.ErrStatus.Details.RetryAfterSeconds = min(status.ErrStatus.Details.RetryAfterSeconds, maxRetryAfter)
	}
	return err
}

func (p *onDemandPlugin) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	i, shown, err := p.instanceFor(ctx, a)
	if err != nil || i == nil {
		return err
	}
	if i == p.system {
		return mutate(ctx, i, shown, o)
	}
	if p.name == mutatingpolicy.PluginName && shown.GetObject() != nil {
		if err := bounds.Texts(shown.GetObject()); err != nil { // which a policy may copy into a quantity
			return admission.NewForbidden(shown, fmt.Errorf("policies of the space may use it as a quantity: %w", err))
		}
	}
	var sent runtime.Object
	if _, platform := shown.(platformAttributes); platform && shown.GetObject() != nil {
		sent = shown.GetObject().DeepCopyObject()
	}
	bounded := &boundedDefaults{ObjectInterfaces: o}
	if err := boundEvaluations(ctx, p.name, shown, func(a admission.Attributes) error { return mutate(ctx, i, a, bounded) }); bounded.err != nil {
		return admission.NewForbidden(shown, bounded.err)
	} else if err != nil {
		return boundRetryAfter(err)
	}
	n, err := tenant.SpaceFrom(ctx)
	if err != nil {
		return err
	}
	if sent != nil && p.shared.policy != nil {
		if err := p.shared.policy.CheckMutation(shown, n, sent); err != nil {
			return err
		}
	}
	return p.shared.Definition.CheckBounds(shown, n)
}

func (p *onDemandPlugin) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	i, shown, err := p.instanceFor(ctx, a)
	if err != nil || i == nil {
		return err
	}
	if i == p.system {
		return validate(ctx, i, shown, o)
	}
	if p.name == validatingwebhook.PluginName {
		n, err := tenant.SpaceFrom(ctx)
		if err != nil {
			return err
		}
		return boundRetryAfter(p.calls.bounded(ctx, n, shown, p.shared.conversionBytes(n, shown), func(ctx context.Context, a admission.Attributes) error { return validate(ctx, i, a, o) }))
	}
	return boundRetryAfter(boundEvaluations(ctx, p.name, shown, func(a admission.Attributes) error { return validate(ctx, i, a, o) }))
}
