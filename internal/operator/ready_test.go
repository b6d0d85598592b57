package operator

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

// ofTenants is the key of a reader for Tenants.
const ofTenants = "Tenants"

// reader fails to read ControlPlanes of some namespaces, or Tenants.
type reader map[string]error

func (reader) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("not asked for")
}

func (r reader) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	o := (&client.ListOptions{}).ApplyOptions(options)
	if o.Raw == nil || o.Raw.ResourceVersion != "0" {
		return errors.New("not from the host's cache")
	}
	switch list.(type) {
	case *v1alpha1.TenantList:
		if o.Namespace != "" {
			return errors.New("Tenants are in no namespace")
		}
		return r[ofTenants]
	case *v1alpha1.ControlPlaneList:
	default:
		return errors.New("neither of ControlPlanes nor of Tenants")
	}
	if o.Namespace == "" {
		return errors.New("of all namespaces, where the operator has no rights")
	}
	return r[o.Namespace]
}

func TestReadyWhileAllCanBeRead(t *testing.T) {
	request := httptest.NewRequest("GET", "/readyz", nil)
	if err := readable(reader{}, []string{"a", "b"})(request); err != nil {
		t.Error(err)
	}
	broken := errors.New("quantities must match the regular expression")
	err := readable(reader{"b": broken}, []string{"a", "b"})(request)
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), `namespace "b"`) {
		t.Errorf("got %v, want that namespace b cannot be read", err)
	}
	err = readable(reader{ofTenants: broken}, []string{"a"})(request)
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "the Tenants of the host cannot be read") {
		t.Errorf("got %v, want that Tenants cannot be read", err)
	}
}
