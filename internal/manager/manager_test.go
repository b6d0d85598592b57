package manager

import (
	"context"
	"errors"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/tenantry/tenantry/internal/tenant"
)

// A server may be busy for longer than a request waits. That ends nobody.
func TestBuiltinTenantsAreTriedAgain(t *testing.T) {
	tenants := schema.GroupResource{Group: "tenantry.io", Resource: "tenants"}
	answers := []error{
		apierrors.NewForbidden(tenants, "system", errors.New("not yet ready to handle request")),
		apierrors.NewTimeoutError("", 1),
		errors.New("connection refused"),
		nil,
		apierrors.NewAlreadyExists(tenants, "acme"),
	}
	var asked []string
	c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, obj client.Object, _ ...client.CreateOption) error {
			asked = append(asked, obj.GetName())
			return answers[len(asked)-1]
		},
	}).Build()
	if err := builtinTenants(c, "acme", 1).Start(t.Context()); err != nil {
		t.Errorf("got error %v", err)
	}
	if want := []string{"system", "system", "system", "system", "acme"}; !slices.Equal(asked, want) {
		t.Errorf("created %v, want %v", asked, want)
	}
}

func TestBuiltinTenantThatCannotBe(t *testing.T) {
	c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			return apierrors.NewInvalid(schema.GroupKind{Kind: "Tenant"}, "A_B", nil)
		},
	}).Build()
	if err := builtinTenants(c, tenant.Name("A_B"), 1).Start(t.Context()); !apierrors.IsInvalid(err) {
		t.Errorf("got error %v", err)
	}
}
