package hosttenant

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

// TestDefault checks that nobody gets the Tenants of others by a ControlPlane in another
// namespace.
func TestDefault(t *testing.T) {
	const none = ""
	for name, tc := range map[string]struct {
		byDefault Default
		there     []string
		want, err string
	}{
		"the only one":               {Default{Namespace: "own"}, []string{"own/a"}, "own/a", none},
		"another one elsewhere":      {Default{Namespace: "own"}, []string{"own/a", "team/b"}, "own/a", none},
		"the only one is elsewhere":  {Default{Namespace: "own"}, []string{"team/b"}, none, "there is no ControlPlane in namespace"},
		"two":                        {Default{Namespace: "own"}, []string{"own/a", "own/b"}, none, "there are 2 ControlPlanes"},
		"no namespace":               {Default{}, []string{"own/a"}, none, "--default-control-plane"},
		"by the flag":                {Default{ControlPlane: ref("team", "b"), Namespace: "own"}, []string{"own/a"}, "team/b", none},
		"by the flag, which decides": {Default{ControlPlane: ref("own", "b"), Namespace: "own"}, []string{"own/a", "own/b"}, "own/b", none},
	} {
		t.Run(name, func(t *testing.T) {
			var objects []client.Object
			for _, each := range tc.there {
				namespace, name, _ := strings.Cut(each, "/")
				objects = append(objects, &v1alpha1.ControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
			}
			got, err := tc.byDefault.choose(t.Context(), newHost(t, objects...))
			switch {
			case tc.err != none && (err == nil || !strings.Contains(err.Error(), tc.err)):
				t.Errorf("got error %v, want one with %q", err, tc.err)
			case tc.err == none && (err != nil || got.String() != tc.want):
				t.Errorf("got %v, %v, want %q", got, err, tc.want)
			}
		})
	}
}

func ref(namespace, name string) v1alpha1.ControlPlaneReference {
	return v1alpha1.ControlPlaneReference{Namespace: namespace, Name: name}
}

// newHost returns a client of a host with some objects.
func newHost(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	return newHostWith(t, objects...).Build()
}

func newHostWith(t *testing.T, objects ...client.Object) *fake.ClientBuilder {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1alpha1.AddToScheme, v1alpha1.AddHostToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&v1alpha1.Tenant{})
}
