package authorization

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	authzconfig "k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	authorizationcel "k8s.io/apiserver/pkg/authorization/cel"
	authorizationmetrics "k8s.io/apiserver/pkg/authorization/metrics"
	"k8s.io/apiserver/pkg/authorization/union"
	"k8s.io/apiserver/pkg/util/filesystem"
	"k8s.io/client-go/informers"
	"k8s.io/klog/v2"
	kubeauthorizer "k8s.io/kubernetes/pkg/kubeapiserver/authorizer"
	"k8s.io/kubernetes/pkg/kubeapiserver/authorizer/modes"

	"github.com/tenantry/tenantry/internal/server/authentication/identity"
	"github.com/tenantry/tenantry/internal/tenant"
)

// reservedExtraKeys are the keys that only the server may send to webhooks, which may still
// read the former ones.
var reservedExtraKeys = []string{
	tenant.UserExtraKey, tenant.SpaceExtraKey, tenant.TenantUIDExtraKey, tenant.SpaceUIDExtraKey,
	tenant.Former(tenant.UserExtraKey), tenant.Former(tenant.SpaceExtraKey),
	tenant.Former(tenant.TenantUIDExtraKey), tenant.Former(tenant.SpaceUIDExtraKey),
}

// privileged is upstream's name of the first authorizer in reasons.
const privileged = "kubernetes.io/system-privileged-group"

// reloadInterval is how often --authorization-config is read again when no change was
// notified. It is upstream's.
const reloadInterval = time.Minute

// ModesConfig configures the authorizers inside the boundary.
type ModesConfig struct {
	// Upstream is the configuration by the flags or --authorization-config.
	Upstream *kubeauthorizer.Config
	// RBAC decides in every space.
	RBAC Rights
	// Views are the informers of the flattened view.
	Views informers.SharedInformerFactory
	// ServerID is for webhooks' metrics.
	ServerID string
	// TenantUID returns the UID of a tenant, empty if there is none.
	TenantUID func(ctx context.Context, n tenant.Name) (types.UID, error)
}

// Modes are the configured authorizers in their order (--authorization-mode,
// --authorization-config). They decide inside the boundary, in the space of the
// context, the system space included.
type Modes struct {
	config   ModesConfig
	node     Rights
	abac     *ABAC
	compiler authorizationcel.Compiler
	required sets.Set[authzconfig.AuthorizerType]
	current  atomic.Pointer[chain]

	reloading sync.Mutex
	loaded    *authzconfig.AuthorizationConfiguration
}

type chain struct {
	authorizer.UnconditionalAuthorizer
	authorizer.RuleResolver
	order []authzconfig.AuthorizerType
}

// unconditional returns a without upstream's methods for conditional decisions. No
// authorizer here may have these methods by embedding another: they would bypass its own
// decision.
func unconditional(a authorizer.UnconditionalAuthorizer) authorizer.Authorizer {
	return authorizer.AuthorizerFunc(a.Authorize)
}

// NewModes returns the configured authorizers and reloads --authorization-config,
// if there is one, until ctx ends.
func NewModes(ctx context.Context, config ModesConfig) (*Modes, error) {
	m := &Modes{
		config: config, compiler: authorizationcel.NewDefaultCompiler(),
		required: sets.New[authzconfig.AuthorizerType](), loaded: config.Upstream.AuthorizationConfiguration,
	}
	for _, mode := range m.loaded.Authorizers {
		switch mode.Type {
		case authzconfig.AuthorizerType(modes.ModeNode):
			m.node = newNodeAuthorizer(config.Views)
		case authzconfig.AuthorizerType(modes.ModeABAC):
			var err error
			if m.abac, err = newABAC(config.Upstream.PolicyFile); err != nil {
				return nil, err
			}
		}
		if mode.Type != authzconfig.TypeWebhook {
			m.required.Insert(mode.Type)
		}
	}
	first, err := m.build(ctx, m.loaded)
	if err != nil {
		return nil, err
	}
	m.current.Store(first)
	if file := config.Upstream.ReloadFile; file != "" {
		go filesystem.WatchUntil(ctx, reloadInterval, file, func() { m.reload(ctx) }, func(err error) {
			klog.ErrorS(err, "Watching the authorization configuration", "file", file)
		})
	}
	return m, nil
}

// Authorize implements authorizer.UnconditionalAuthorizer.
func (m *Modes) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	return m.current.Load().Authorize(ctx, a)
}

// RulesFor implements authorizer.RuleResolver.
func (m *Modes) RulesFor(ctx context.Context, u user.Info, namespace string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	return m.current.Load().RulesFor(ctx, u, namespace)
}

// ABAC returns the policies of the file, nil without that mode.
func (m *Modes) ABAC() *ABAC { return m.abac }

// reload reads the configuration again. An invalid one is logged, and the last valid
// one stays.
func (m *Modes) reload(ctx context.Context) {
	m.reloading.Lock()
	defer m.reloading.Unlock()
	file := m.config.Upstream.ReloadFile
	data, err := os.ReadFile(file)
	if err != nil {
		klog.ErrorS(err, "Reading the authorization configuration; the last one stays", "file", file)
		return
	}
	config, err := kubeauthorizer.LoadAndValidateData(data, m.compiler, m.required)
	if err != nil {
		klog.ErrorS(err, "The authorization configuration is not valid; the last one stays", "file", file)
		return
	}
	if reflect.DeepEqual(config, m.loaded) {
		return
	}
	next, err := m.build(ctx, config)
	if err != nil {
		klog.ErrorS(err, "Applying the authorization configuration; the last one stays", "file", file)
		return
	}
	m.loaded = config
	m.current.Store(next)
	klog.InfoS("Authorization configuration loaded", "file", file)
}

func (m *Modes) build(ctx context.Context, config *authzconfig.AuthorizationConfiguration) (*chain, error) {
	authorizers := []union.NamedAuthorizer{{AuthorizerName: privileged, Authorizer: unconditional(masters{})}}
	var resolvers []authorizer.RuleResolver
	var order []authzconfig.AuthorizerType
	for _, mode := range config.Authorizers {
		next, err := m.rightsOf(ctx, mode)
		if err != nil {
			return nil, fmt.Errorf("creating the authorizer %q: %w", mode.Name, err)
		}
		authorizers = append(authorizers, union.NamedAuthorizer{
			AuthorizerName: mode.Name,
			Authorizer:     authorizationmetrics.InstrumentedAuthorizer(string(mode.Type), mode.Name, unconditional(next)),
		})
		resolvers, order = append(resolvers, next), append(order, mode.Type)
	}
	if len(resolvers) == 0 {
		return nil, errors.New("there must be an authorization mode")
	}
	all, err := union.New(authorizers...)
	if err != nil {
		return nil, err
	}
	return &chain{all, union.NewRuleResolvers(resolvers...), order}, nil
}

func (m *Modes) rightsOf(ctx context.Context, mode authzconfig.AuthorizerConfiguration) (Rights, error) {
	if mode.Type != authzconfig.TypeWebhook && !m.required.Has(mode.Type) {
		return nil, fmt.Errorf("mode %s was not there when the server started; restart it", mode.Type)
	}
	switch string(mode.Type) {
	case modes.ModeNode:
		return m.node, nil
	case modes.ModeABAC:
		return m.abac, nil
	case modes.ModeRBAC:
		return m.config.RBAC, nil
	case modes.ModeAlwaysAllow:
		return authorizerfactory.NewAlwaysAllowAuthorizer(), nil
	case modes.ModeAlwaysDeny:
		return authorizerfactory.NewAlwaysDenyAuthorizer(), nil
	case modes.ModeWebhook:
		return m.webhook(ctx, mode)
	default:
		return nil, fmt.Errorf("unknown mode %q", mode.Type)
	}
}

// webhook returns upstream's authorizer of one webhook.
func (m *Modes) webhook(ctx context.Context, mode authzconfig.AuthorizerConfiguration) (Rights, error) {
	alone := kubeauthorizer.Config{
		WebhookRetryBackoff:        m.config.Upstream.WebhookRetryBackoff,
		CustomDial:                 m.config.Upstream.CustomDial,
		AuthorizationConfiguration: &authzconfig.AuthorizationConfiguration{Authorizers: []authzconfig.AuthorizerConfiguration{mode}},
	}
	a, resolver, err := alone.New(ctx, m.config.ServerID)
	if err != nil {
		return nil, err
	}
	return webhook{chain: chain{UnconditionalAuthorizer: a, RuleResolver: resolver}, tenantUID: m.config.TenantUID}, nil
}

// webhook tells upstream's authorizer the user's tenant and the space of the request, by
// name and UID. All are part of the keys of upstream's cache, so cached answers are not
// used for later tenants of the names.
type webhook struct {
	chain     // upstream's
	tenantUID func(ctx context.Context, n tenant.Name) (types.UID, error)
}

// Authorize implements authorizer.UnconditionalAuthorizer.
func (w webhook) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	userTenant, err := tenant.UserTenant(ctx)
	if err != nil {
		return authorizer.DecisionNoOpinion, "", err
	}
	in, err := tenant.ScopeFrom(ctx)
	if err != nil {
		return authorizer.DecisionNoOpinion, "", err
	}
	if a.GetUser().GetName() == user.Anonymous {
		userTenant = "" // without tenant, for health checks of the server
	}
	located := identity.Of(a.GetUser(), "")
	located.Extra = withoutReserved(located.Extra)
	if userTenant != "" {
		located.Extra[tenant.UserExtraKey] = []string{string(userTenant)}
	}
	located.Extra[tenant.SpaceExtraKey] = []string{string(in)}
	space, _ := in.Tenant()
	for key, n := range map[string]tenant.Name{tenant.TenantUIDExtraKey: userTenant, tenant.SpaceUIDExtraKey: space} {
		if !n.IsSpace() {
			continue
		}
		uid, err := w.tenantUID(ctx, n)
		if err != nil {
			return authorizer.DecisionNoOpinion, "", fmt.Errorf("looking for tenant %q: %w", n, err)
		}
		located.Extra[key] = []string{string(uid)}
	}
	return w.chain.Authorize(ctx, userAttributes{a, located})
}

// withoutReserved returns a copy of a user's extra without the keys by which webhooks
// learn of tenants. Users in reviews may have keys in any case, and webhooks may
// ignore the case.
func withoutReserved(extra map[string][]string) map[string][]string {
	result := make(map[string][]string, len(extra)+len(reservedExtraKeys))
	for key, values := range extra {
		if !slices.ContainsFunc(reservedExtraKeys, func(reserved string) bool { return strings.EqualFold(key, reserved) }) {
			result[key] = values
		}
	}
	return result
}

// userAttributes are the attributes of a request with another user.
type userAttributes struct {
	authorizer.Attributes
	user user.Info
}

// GetUser returns the user.
func (a userAttributes) GetUser() user.Info { return a.user }

// masters lets the system tenant's privileged group do everything, as upstream does before
// any other authorizer. In a tenant, the group has no rights.
type masters struct{}

// Authorize implements authorizer.UnconditionalAuthorizer.
func (masters) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	userTenant, err := tenant.UserTenant(ctx)
	if err == nil && userTenant == tenant.System && isMaster(a.GetUser()) {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}
