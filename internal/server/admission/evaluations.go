package admission

import (
	"context"
	"errors"

	"k8s.io/apiserver/pkg/admission"
	mutatingpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	validatingpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/authentication/user"
)

// maxLooks is how often policies of a space look at the user of one request: validating policies some
// four times in an evaluation, mutating ones once for each mutation. Upstream evaluates a policy for each
// binding and each of its parameters, keeps every denial, and goes on when the request has ended.
const maxLooks = 4_000

var errEvaluations = errors.New("the policies of the space are evaluated too often for one request, " +
	"which is for each binding and each parameter that it selects: have fewer bindings, or select fewer parameters in them")

// boundEvaluations calls a plugin, whose policies look at most maxLooks times, and not when the
// request has ended.
func boundEvaluations(ctx context.Context, plugin string, a admission.Attributes, call func(admission.Attributes) error) (err error) {
	if plugin != validatingpolicy.PluginName && plugin != mutatingpolicy.PluginName {
		return call(a)
	}
	defer func() {
		switch r := recover().(type) {
		case nil:
		case endOfEvaluations:
			err = admission.NewForbidden(a, r)
		default:
			panic(r)
		}
	}()
	return call(&evaluated{Attributes: a, ctx: ctx})
}

// evaluated are the attributes of a request. Each evaluation looks at its user.
type evaluated struct {
	admission.Attributes
	ctx   context.Context
	count int
}

// GetNamespace implements admission.Attributes. It is asked for each binding, also of one that selects
// nothing.
func (e *evaluated) GetNamespace() string {
	e.mustGoOn()
	return e.Attributes.GetNamespace()
}

func (e *evaluated) mustGoOn() {
	if e.ctx.Err() != nil {
		panic(endOfEvaluations{errors.New("the request has ended")})
	}
}

// endOfEvaluations leaves upstream's loops, which have no other way out.
type endOfEvaluations struct{ error }

// GetUserInfo implements admission.Attributes.
func (e *evaluated) GetUserInfo() user.Info {
	if e.count++; e.count > maxLooks {
		panic(endOfEvaluations{errEvaluations})
	}
	e.mustGoOn()
	return e.Attributes.GetUserInfo()
}
