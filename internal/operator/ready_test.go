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

// reader fails to read ControlPlanes of some namespaces.
type reader map[string]error

func (reader) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("not asked for")
}

func (r reader) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	if _, ok := list.(*v1alpha1.ControlPlaneList); !ok {
		return errors.New("not of ControlPlanes")
	}
	o := (&client.ListOptions{}).ApplyOptions(options)
	if o.Namespace == "" {
		return errors.New("of all namespaces, where the operator has no rights")
	}
	return r[o.Namespace]
}

func TestReadyWhileControlPlanesCanBeRead(t *testing.T) {
	request := httptest.NewRequest("GET", "/readyz", nil)
	if err := readable(reader{}, []string{"a", "b"})(request); err != nil {
		t.Error(err)
	}
	broken := errors.New("quantities must match the regular expression")
	err := readable(reader{"b": broken}, []string{"a", "b"})(request)
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), `namespace "b"`) {
		t.Errorf("got %v, want that namespace b cannot be read", err)
	}
}
