package spacepolicy

import (
	"errors"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"

	"github.com/tenantry/tenantry/internal/tenant"
)

// CheckMutation refuses changes that webhooks and policies of a space have made to a request of the platform, if no
// user of the tenant may make them. sent is the object as the platform has sent it: the request is the platform's, and
// what has changed since is the tenant's.
func (p *Plugin) CheckMutation(a admission.Attributes, n tenant.Name, sent runtime.Object) error {
	if equality.Semantic.DeepEqual(sent, a.GetObject()) {
		return nil
	}
	m := mutation{ofTenant{a, n}, sent}
	for _, check := range []func() error{
		func() error { return checkFinalize(m) }, func() error { return p.checkWorkloads(m, n) }, func() error { return p.checkPlacement(m, n) },
	} {
		if err := check(); err != nil {
			// What is wrapped would stay what it is, and be an internal error to clients.
			return admission.NewForbidden(a, errors.New("by a mutating webhook or policy of the space: "+err.Error()))
		}
	}
	return nil
}

// mutation is a mutation of a request as an update of what was sent, by the tenant.
type mutation struct {
	ofTenant
	sent runtime.Object
}

// GetOperation implements admission.Attributes.
func (m mutation) GetOperation() admission.Operation { return admission.Update }

// GetOldObject implements admission.Attributes.
func (m mutation) GetOldObject() runtime.Object { return m.sent }
