package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"

	"github.com/tenantry/tenantry/internal/process/keyed"
)

// missing is what upstream says where policies have not got their parameters, and the schemas of what they change.
var missing = [...]string{"not yet synced to use for admission", "There can be a delay between when CustomResourceDefinitions are created"}

// refusals are why policies of a space have not got what they need, by what is missing.
type refusals struct{ reasons keyed.Values[string, error] }

func (r *refusals) set(what string, err error) { _ = r.reasons.Set(what, err) }

func (r *refusals) remove(what string) { _ = r.reasons.Delete(what) }

// explain adds to the error of a policy that has not got what it needs why that is so.
func (r *refusals) explain(err error) error {
	status, is := errors.AsType[*apierrors.StatusError](err)
	if !is || !strings.Contains(status.ErrStatus.Message, missing[0]) && !strings.Contains(status.ErrStatus.Message, missing[1]) {
		return err
	}
	var reasons []string
	for what, reason := range r.reasons.All() {
		reasons = append(reasons, fmt.Sprintf("; %s, are not read: %s", what, reason))
	}
	slices.Sort(reasons) // so that it is the same error as before
	status.ErrStatus.Message += strings.Join(reasons, "")
	return err
}

// explained is a plugin of a space whose errors say why policies have not got what they need.
type explained struct {
	admission.Interface
	refusals *refusals
}

// Admit implements admission.MutationInterface.
func (p explained) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	return p.refusals.explain(mutate(ctx, p.Interface, a, o))
}

// Validate implements admission.ValidationInterface.
func (p explained) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	return p.refusals.explain(validate(ctx, p.Interface, a, o))
}
