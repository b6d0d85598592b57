package kubecontrollers

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsscheme "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/scheme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	admissionapply "k8s.io/client-go/applyconfigurations/admissionregistration/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	admissioninformers "k8s.io/client-go/informers/admissionregistration/v1"
	"k8s.io/client-go/kubernetes/scheme"
	admissionclient "k8s.io/client-go/kubernetes/typed/admissionregistration/v1"
	admissionlisters "k8s.io/client-go/listers/admissionregistration/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/kubernetes/pkg/controller/validatingadmissionpolicystatus"
	"k8s.io/kubernetes/pkg/generated/openapi"

	"github.com/tenantry/tenantry/internal/tenant"
)

// Upstream's controller checks the types in the expressions of policies against what
// one cluster serves. Every space has its own policies and definitions. So the lister
// that the controller reads each policy by, just before it checks it, also tells the
// checker what the space of that policy serves. There is one worker, so that this
// holds until the check is done.

func newPolicyStatus(_ context.Context, e *environment) (runner, error) {
	client, err := rest.HTTPClientFor(e.unwrapped)
	if err != nil {
		return nil, fmt.Errorf("creating the transport of clients of single spaces: %w", err)
	}
	types := &spaceTypes{config: e.unwrapped, known: sync.OnceValue(knownTypes), debts: newDebts(1)}
	types.client = &http.Client{Transport: &policyTransport{next: client.Transport, types: types}, Timeout: maxPolicyTime}
	spaced := spacedPolicies{
		ValidatingAdmissionPolicyInformer: e.informers.Admissionregistration().V1().ValidatingAdmissionPolicies(),
		types:                             types,
	}
	return validatingadmissionpolicystatus.NewController(spaced,
		policyStatuses{e.client.AdmissionregistrationV1().ValidatingAdmissionPolicies(), types}, &spaced.types.checker)
}

// policyStatuses are written when the types of a policy have been checked, and its tenant pays for that.
type policyStatuses struct {
	admissionclient.ValidatingAdmissionPolicyInterface
	types *spaceTypes
}

// ApplyStatus implements admissionclient.ValidatingAdmissionPolicyInterface.
func (p policyStatuses) ApplyStatus(ctx context.Context, policy *admissionapply.ValidatingAdmissionPolicyApplyConfiguration, options metav1.ApplyOptions) (*admissionregistrationv1.ValidatingAdmissionPolicy, error) {
	p.types.charge()
	return p.ValidatingAdmissionPolicyInterface.ApplyStatus(ctx, policy, options)
}

// spacedPolicies is the informer offered to the controller.
type spacedPolicies struct {
	admissioninformers.ValidatingAdmissionPolicyInformer
	types *spaceTypes
}

func (s spacedPolicies) Lister() admissionlisters.ValidatingAdmissionPolicyLister {
	return spacedPolicyLister{s.ValidatingAdmissionPolicyInformer.Lister(), s.types}
}

type spacedPolicyLister struct {
	admissionlisters.ValidatingAdmissionPolicyLister
	types *spaceTypes
}

// Get returns the policy that is checked next. One of a space that takes long is shown with
// nothing to check, and so gets the status of one without errors. Others are tried again when
// it is their tenant's turn.
func (l spacedPolicyLister) Get(name string) (*admissionregistrationv1.ValidatingAdmissionPolicy, error) {
	policy, err := l.ValidatingAdmissionPolicyLister.Get(name)
	if err != nil || policy.Generation <= policy.Status.ObservedGeneration {
		return policy, err
	}
	l.types.space = "" // nobody pays for what is not checked
	n := tenant.Flat(name).Space()
	if n.IsSpace() {
		work := policyWork(policy)
		if work > maxPolicyWork {
			unchecked := *policy
			unchecked.Spec = admissionregistrationv1.ValidatingAdmissionPolicySpec{}
			return &unchecked, nil
		}
		if err := l.types.debts.take(n, time.Duration(work)*workTime); err != nil {
			return nil, err
		}
	}
	return policy, l.types.of(n)
}

// spaceTypes are the types of the space whose policy is being checked.
type spaceTypes struct {
	config  *rest.Config
	client  *http.Client
	known   func() *resolver.DefinitionsSchemaResolver
	checker validating.TypeChecker
	debts   *debts
	// space is the one in which a policy is being checked, if one is, and charged is the time up to which its tenant
	// has paid.
	space   tenant.Name
	charged time.Time
	// lasts ends when the policy has had its time.
	lasts context.Context
	end   context.CancelFunc
}

// policyTransport sends requests for the types of a space, which end when a policy has had its time, and charges what
// passes from one to the next: whole documents are read and decoded, and how large they are is the tenant's choice.
// What is not found any more gets no warning.
type policyTransport struct {
	next  http.RoundTripper
	types *spaceTypes
}

// RoundTrip implements http.RoundTripper.
func (t *policyTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	t.types.charge()
	defer t.types.charge()
	if t.types.space.IsSpace() {
		req = req.WithContext(t.types.lasts)
	}
	response, err := t.next.RoundTrip(req)
	if err == nil {
		response.Header.Del("Retry-After") // the client would wait for it, and others' policies for the client
	}
	return response, err
}

// charge charges the tenant for the time since it was charged last.
func (s *spaceTypes) charge() {
	now := s.debts.now()
	if s.space.IsSpace() {
		s.debts.charge(s.space, now.Sub(s.charged))
	}
	s.charged = now
}

// of has the checker look in a space. Nothing of it is kept for the next policy.
func (s *spaceTypes) of(n tenant.Name) error {
	config := rest.CopyConfig(s.config)
	if n != tenant.System {
		config.Host += n.Root()
	}
	client, err := discovery.NewDiscoveryClientForConfigAndClient(config, s.client)
	if err != nil {
		return fmt.Errorf("creating a discovery client of space %q: %w", n, err)
	}
	if s.end != nil {
		s.end()
	}
	s.lasts, s.end = context.WithTimeout(context.Background(), maxPolicyTime)
	s.space, s.charged = n, s.debts.now()
	s.checker.RestMapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client))
	s.checker.SchemaResolver = s.known().Combine(&resolver.ClientDiscoveryResolver{Discovery: client})
	return nil
}

// knownTypes are those that every space has. They take some memory, which nobody
// pays for who has no policy.
func knownTypes() *resolver.DefinitionsSchemaResolver {
	return resolver.NewDefinitionsSchemaResolver(openapi.GetOpenAPIDefinitions, scheme.Scheme, apiextensionsscheme.Scheme)
}
